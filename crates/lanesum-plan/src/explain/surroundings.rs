//! What stands around the GPUs and may keep them from each other's memory: answers that explain a proof, or warn before one.

use super::findings::finding;
use crate::gates::{self, Answer, Finding, Gate};
use crate::words::counted;
use crate::{
    AlgorithmChoice, CopyRates, Gpus, HostFacts, Links, Message, Method, NcclWishes, P2pLevel, PathChoice, PeerVerdict,
    Plan, Policy, Rank, RankGpu, Request, WorldSize, unwished,
};

/// The most peers whose memory a GPU maps.
const MAPPED_MAX: usize = 8;
/// A link that carries less than this part of the fastest holds it up.
const EVEN: f64 = 0.5;
/// What copies reach on Gen5 x16.
const COPY_GB_PER_S: f64 = 53.0;

impl Plan {
    /// What may stand between GPUs that have peers.
    pub(super) fn surroundings(&self, gpus: &Gpus, request: &Request) -> Vec<Finding> {
        let host = &self.topology().host;
        let mut findings = vec![
            self.mappings_finding(gpus),
            self.nccl_finding(),
            iommu_finding(host, gpus),
            acs_finding(&gpus.links),
            bare_metal_finding(host),
            wsl_finding(host),
            mig_finding(gpus),
            display_finding(gpus),
        ];
        if !gpus.shared() {
            findings.push(slots_finding(&gpus.links, self.world()));
            findings.push(self.rate_finding(gpus));
            findings.push(self.stores_finding(gpus, request));
        }
        findings.push(policy_finding(self.policy()));
        findings
    }

    /// Ranks meet through sockets of one host, which pass descriptors of its memory.
    pub(super) fn same_host_finding(&self) -> Finding {
        let ranks = counted(self.world().get() as u64, "rank");
        finding(
            Gate::SameHost,
            Answer::Yes,
            format!("{ranks}, which meet on one host or not at all"),
        )
    }

    fn mappings_finding(&self, gpus: &Gpus) -> Finding {
        let peers = self.world().get().saturating_sub(1);
        let smallest = gpus.ranks.iter().filter_map(|gpu| gpu.bar1).min();
        let window = smallest.map_or_else(String::new, |bar1| {
            format!(", through windows (BAR1) of {bar1} at least")
        });
        let own = counted(peers as u64, "peer") + " each";
        match peers {
            0..=MAPPED_MAX => finding(
                Gate::Mappings,
                Answer::Yes,
                format!("{own}, of at most {MAPPED_MAX}{window}"),
            ),
            _ => finding(
                Gate::Mappings,
                Answer::No,
                format!("{own}, and a GPU maps memory of at most {MAPPED_MAX}"),
            ),
        }
    }

    fn nccl_finding(&self) -> Finding {
        let unset = NcclWishes::default();
        let told = self.topology().ranks.iter().find(|rank| rank.nccl != unset);
        let settings = told.map_or(&unset, |rank| &rank.nccl);
        if let Some(refusal) = unwished(self.topology(), self.world(), self.policy().path) {
            return finding(Gate::NcclWishes, Answer::No, refusal.to_string());
        }
        let path = self.policy().path;
        if told.is_some() && path != PathChoice::Auto {
            let evidence = format!("{settings}, and the policy names path {path}, which counts");
            return finding(Gate::NcclWishes, Answer::Yes, evidence);
        }
        let labels = self.topology().gpus.as_ref().and_then(Gpus::fabric).is_some();
        if let Some(strange) = &settings.strange {
            return finding(
                Gate::NcclWishes,
                Answer::Unknown,
                format!("{strange} is not understood, and passed over"),
            );
        }
        if settings.level.is_some_and(P2pLevel::asks_how_far) && !labels {
            let evidence = format!("{settings}, and how all of the GPUs lie to each other is not known");
            return finding(Gate::NcclWishes, Answer::Unknown, evidence);
        }
        finding(Gate::NcclWishes, Answer::Yes, settings.to_string())
    }

    /// Stores that share a link and are scattered were seen to collapse on some boxes: the plan does not count with it, and says what it would mean.
    fn stores_finding(&self, gpus: &Gpus, request: &Request) -> Finding {
        let Some(fabric) = gpus.fabric() else {
            let evidence = "how all of the GPUs lie to each other is not known".to_owned();
            return finding(Gate::GatheredStores, Answer::Unknown, evidence);
        };
        let Some(ranks) = fabric.scattering() else {
            let evidence = "no shared link leads to several other root ports".to_owned();
            return finding(Gate::GatheredStores, Answer::Yes, evidence);
        };
        let words: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let collapsed = fabric.estimate(Method::TwoShotPush, &Message::of(request));
        let us = collapsed.map_or(0.0, |estimate| estimate.total_us());
        let evidence = format!(
            "ranks {} share a link and store for several other root ports at once, which fell from 37 to 2.7 GB/s on some boxes: then \
             two_shot_push takes {us:.1} us",
            words.join(", ")
        );
        finding(Gate::GatheredStores, Answer::No, evidence)
    }

    fn rate_finding(&self, gpus: &Gpus) -> Finding {
        let known = gpus.links.copies.iter().flatten().flatten();
        let comparable = |rates: &&CopyRates| rates.peer.and(rates.staged).is_some() || rates.latency_ns.is_some();
        let compared = known.filter(comparable).count();
        match gates::slower(gpus, self.world()) {
            Some(refusal) => finding(Gate::PeerRate, Answer::No, refusal.to_string()),
            None if compared == 0 => finding(Gate::PeerRate, Answer::Unknown, "not measured".to_owned()),
            None => {
                let pairs = counted(compared as u64, "ordered pair");
                finding(Gate::PeerRate, Answer::Yes, format!("measured for {pairs}"))
            }
        }
    }
}

fn iommu_finding(host: &HostFacts, gpus: &Gpus) -> Finding {
    let arrived = gpus
        .peers
        .iter()
        .flatten()
        .any(|verdict| *verdict == PeerVerdict::Proven);
    match host.iommu {
        None => finding(Gate::IommuOff, Answer::Unknown, "not observed".to_owned()),
        Some(false) => finding(Gate::IommuOff, Answer::Yes, "the system uses none".to_owned()),
        Some(true) => {
            let counts = if arrived {
                "; writes of peers arrive all the same"
            } else {
                ""
            };
            let evidence = format!("the system uses one, which may redirect what peers write{counts}");
            finding(Gate::IommuOff, Answer::No, evidence)
        }
    }
}

fn acs_finding(links: &Links) -> Finding {
    let told = || {
        links.redirects.iter().enumerate().flat_map(|(one, row)| {
            row.iter()
                .enumerate()
                .filter(move |(other, _)| one != *other)
                .map(move |(other, told)| (one, other, *told))
        })
    };
    if let Some((one, other, _)) = told().find(|(_, _, told)| *told == Some(true)) {
        let evidence = format!("a bridge between the GPUs of ranks {one} and {other} sends requests up to the root");
        return finding(Gate::AcsOff, Answer::No, evidence);
    }
    if told().next().is_some() && told().all(|(_, _, told)| told == Some(false)) {
        return finding(Gate::AcsOff, Answer::Yes, "no bridge between them redirects".to_owned());
    }
    let evidence = "not observed: root can read it (lspci -vvv)";
    finding(Gate::AcsOff, Answer::Unknown, evidence.to_owned())
}

fn bare_metal_finding(host: &HostFacts) -> Finding {
    let (answer, evidence) = match host.virtualised {
        None => (Answer::Unknown, "not observed"),
        Some(false) => (Answer::Yes, "no hypervisor tells of itself"),
        Some(true) => (
            Answer::No,
            "a virtual machine: its labels may hide switches, and its windows to GPUs may not reach peers",
        ),
    };
    finding(Gate::BareMetal, answer, evidence.to_owned())
}

fn wsl_finding(host: &HostFacts) -> Finding {
    let (answer, evidence) = match host.wsl {
        None => (Answer::Unknown, "not observed"),
        Some(false) => (Answer::Yes, "the kernel is Linux's own"),
        Some(true) => (Answer::No, "Windows' subsystem for Linux"),
    };
    finding(Gate::NotWsl, answer, evidence.to_owned())
}

/// Instances of one GPU are in one slot and have ids of their own.
fn mig_finding(gpus: &Gpus) -> Finding {
    let beside = |gpu: &RankGpu| {
        let others = gpus.ranks.iter();
        let mut others = others.filter(|other| other.pci_bus_id == gpu.pci_bus_id);
        others.any(|other| other.uuid != gpu.uuid)
    };
    let found = gpus.ranks.iter().position(|gpu| gpu.mig == Some(true) || beside(gpu));
    let whole = gpus.ranks.iter().all(|gpu| gpu.mig == Some(false));
    match found {
        Some(rank) => finding(
            Gate::MigOff,
            Answer::No,
            format!("rank {rank} has an instance of the GPU {}", gpus.ranks[rank].pci_bus_id),
        ),
        None if whole => finding(Gate::MigOff, Answer::Yes, "all are whole GPUs".to_owned()),
        None => finding(Gate::MigOff, Answer::Unknown, "not observed".to_owned()),
    }
}

fn display_finding(gpus: &Gpus) -> Finding {
    let watched = gpus.ranks.iter().position(|gpu| gpu.watchdog);
    // Of GPUs that no driver has described nothing is known.
    let described = gpus.ranks.iter().all(|gpu| gpu.driver > 0);
    match watched {
        Some(rank) => finding(
            Gate::NoDisplay,
            Answer::No,
            format!("rank {rank}'s GPU drives one, and its driver ends kernels that run for seconds"),
        ),
        None if described => finding(Gate::NoDisplay, Answer::Yes, "no GPU of a rank drives one".to_owned()),
        None => finding(Gate::NoDisplay, Answer::Unknown, "not observed".to_owned()),
    }
}

fn slots_finding(links: &Links, world: WorldSize) -> Finding {
    let known = |rank: Rank| {
        let measured = world
            .ranks()
            .any(|other| links.copies(rank, other).is_some_and(|rates| rates.peer.is_some()));
        measured || links.pcie.get(rank.index()).copied().flatten().is_some()
    };
    if !world.ranks().all(known) {
        return finding(Gate::EvenSlots, Answer::Unknown, "not all links are known".to_owned());
    }
    let by_share = |one: &Rank, other: &Rank| links.share(*one).total_cmp(&links.share(*other));
    let (Some(worst), Some(best)) = (world.ranks().min_by(by_share), world.ranks().max_by(by_share)) else {
        return finding(Gate::EvenSlots, Answer::Unknown, "there are no ranks".to_owned());
    };
    let carries = |rank: Rank| {
        let kind = links.pcie.get(rank.index()).copied().flatten();
        let kind = kind.map_or_else(String::new, |link| format!(" ({link})"));
        format!("{:.1} GB/s{kind}", links.share(rank) * COPY_GB_PER_S)
    };
    if links.share(worst) < links.share(best) * EVEN {
        let evidence = format!(
            "rank {worst}'s GPU has a link for {}, rank {best}'s for {}: all wait for the slowest, which may be in a slot of the chipset's",
            carries(worst),
            carries(best)
        );
        return finding(Gate::EvenSlots, Answer::No, evidence);
    }
    let evidence = format!("links for {} at most, none for less than half of it", carries(best));
    finding(Gate::EvenSlots, Answer::Yes, evidence)
}

fn policy_finding(policy: Policy) -> Finding {
    let asked = match (policy.path, policy.algorithm) {
        (PathChoice::Auto, AlgorithmChoice::Auto) => {
            return finding(Gate::Policy, Answer::Yes, "auto".to_owned());
        }
        (path, AlgorithmChoice::Auto) => format!("path {path} is asked for"),
        (PathChoice::Auto, AlgorithmChoice::Only(algorithm)) => format!("{algorithm} is asked for"),
        (path, AlgorithmChoice::Only(algorithm)) => format!("{algorithm} on path {path} is asked for"),
    };
    finding(Gate::Policy, Answer::No, asked)
}
