//! The gates' answers for a request, in words.

use crate::gates::{self, Answer, Finding, Gate, Way};
use crate::words::counted;
use crate::{Buffers, Elements, Engine, Gpus, Link, PeerVerdict, Plan, Refusal, Request};

impl Plan {
    pub(super) fn findings(&self, request: &Request) -> Vec<Finding> {
        let mut findings = vec![self.peers_finding()];
        if gates::company(self.world()).is_ok() {
            findings.push(payload_finding(request));
        }
        match request.buffers.engine() {
            Engine::Host => findings.extend(self.host_findings(request)),
            Engine::Cuda => {
                if gates::company(self.world()).is_ok() {
                    findings.push(self.same_host_finding());
                }
                findings.extend(self.device_findings(request));
            }
        }
        findings
    }

    fn host_findings(&self, request: &Request) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Ok(peers) = gates::company(self.world()) {
            let mailbox = self.limits().mailbox(self.world());
            let fits = |gate, what: &str, chunk: Elements| {
                let evidence = format!("{what}{chunk} elements fit mailboxes of {mailbox}");
                finding(gate, Answer::Yes, evidence)
            };
            findings.extend(
                gates::one_shot_fit(self.limits(), request.dtype, peers)
                    .map(|fit| fits(Gate::OneShotFit, "", fit.chunk())),
            );
            findings.extend(
                gates::two_shot_fit(self.limits(), request.dtype, peers)
                    .map(|fit| fits(Gate::TwoShotFit, "shards of ", fit.chunk())),
            );
            findings.push(self.in_place_finding(request.buffers));
        }
        findings.push(self.cores_finding());
        findings
    }

    fn device_findings(&self, request: &Request) -> Vec<Finding> {
        let mut findings = vec![match self.fit() {
            Ok(fit) => finding(
                Gate::DeviceFit,
                Answer::Yes,
                format!(
                    "{} of {} each, {} a block",
                    counted(u64::from(fit.lanes()), "lane"),
                    counted(u64::from(fit.capacity()), "frame"),
                    counted(u64::from(fit.threads()), "thread")
                ),
            ),
            Err(refusal) => finding(Gate::DeviceFit, Answer::No, refusal.to_string()),
        }];
        let Some(gpus) = &self.topology().gpus else {
            return findings;
        };
        if gates::company(self.world()).is_ok() {
            findings.push(self.way_finding(Gate::PeerAccess, Way::Peer));
            findings.push(self.way_finding(Gate::HostStaging, Way::HostStaged));
        }
        findings.push(own_device_finding(gpus, self.model().link()));
        if gates::company(self.world()).is_ok() {
            if !gpus.shared() {
                findings.push(links_finding(gpus));
            }
            findings.extend(self.surroundings(gpus, request));
        }
        findings
    }

    fn way_finding(&self, gate: Gate, way: Way) -> Finding {
        let world = self.world().get() as u64;
        match gates::proven_along(way, self.topology().gpus.as_ref(), self.world()) {
            Ok(_) => {
                let pairs = counted(world * (world - 1), "ordered pair");
                if self
                    .topology()
                    .gpus
                    .as_ref()
                    .is_some_and(|gpus| gates::supposed(way, gpus))
                {
                    let verdicts = self.topology().gpus.iter().flat_map(|gpus| gpus.peers.iter().flatten());
                    let granted = verdicts.filter(|verdict| **verdict == PeerVerdict::Granted).count();
                    let claim = match (way, granted) {
                        (Way::Peer, 1..) => format!("; the driver grants access for {granted}"),
                        (Way::Peer | Way::HostStaged, _) => String::new(),
                    };
                    return finding(
                        gate,
                        Answer::Unknown,
                        format!("supposed for {pairs} of ranks{claim}: nobody has tried"),
                    );
                }
                finding(gate, Answer::Yes, format!("proven for {pairs} of ranks"))
            }
            Err(refusal @ (Refusal::PeerUnproven { .. } | Refusal::HostUnproven { .. })) => {
                finding(gate, Answer::Unknown, refusal.to_string())
            }
            Err(refusal) => finding(gate, Answer::No, refusal.to_string()),
        }
    }

    fn peers_finding(&self) -> Finding {
        match gates::company(self.world()) {
            Ok(peers) => finding(Gate::Peers, Answer::Yes, counted(peers.world().get() as u64, "rank")),
            Err(_) => finding(Gate::Peers, Answer::No, "1 rank".to_owned()),
        }
    }

    fn in_place_finding(&self, buffers: Buffers) -> Finding {
        let in_place = gates::in_place(buffers, self.policy());
        let (answer, evidence) = match buffers {
            Buffers::Shared if in_place => (Answer::Yes, "one shot reads shared buffers where they are"),
            Buffers::Shared => (
                Answer::No,
                "shared buffers are copied to mailboxes, which is faster here than to read them where they are",
            ),
            Buffers::Private => (Answer::No, "private buffers are copied to mailboxes"),
            Buffers::Device => (Answer::No, "buffers of GPUs are not read by the host"),
        };
        finding(Gate::InPlace, answer, evidence.to_owned())
    }

    fn cores_finding(&self) -> Finding {
        let world = self.world();
        match self.model().cores() {
            None => finding(
                Gate::Cores,
                Answer::Unknown,
                "not observed; predicted as if each rank had one".to_owned(),
            ),
            Some(cores) if cores >= world.get() => finding(
                Gate::Cores,
                Answer::Yes,
                format!(
                    "{} may run on {}",
                    counted(world.get() as u64, "rank"),
                    counted(cores as u64, "processor")
                ),
            ),
            Some(cores) => finding(
                Gate::Cores,
                Answer::No,
                format!(
                    "{world} ranks share {}; work is divided and waits hand cores over",
                    counted(cores as u64, "processor")
                ),
            ),
        }
    }
}

/// What lies between GPUs of their own.
fn links_finding(gpus: &Gpus) -> Finding {
    let Some(fabric) = gpus.fabric() else {
        let evidence = "how all of the GPUs lie to each other is not known; predicted as root ports of one socket";
        return finding(Gate::Links, Answer::Unknown, evidence.to_owned());
    };
    let islands = fabric.islands();
    let island = |ranks: &Vec<crate::Rank>| ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let words = islands.iter().map(island).collect::<Vec<_>>().join(" | ");
    let evidence = format!(
        "{} of ranks: {words}; when all send to all, what ends last is {}",
        counted(islands.len() as u64, "island"),
        fabric.busiest()
    );
    finding(Gate::Links, Answer::Yes, evidence)
}

pub(super) fn finding(gate: Gate, answer: Answer, evidence: String) -> Finding {
    Finding { gate, answer, evidence }
}

fn payload_finding(request: &Request) -> Finding {
    match gates::payload(request.elements) {
        Some(_) => finding(Gate::Payload, Answer::Yes, format!("{} a rank", request.bytes())),
        None => finding(Gate::Payload, Answer::No, "zero elements".to_owned()),
    }
}

fn own_device_finding(gpus: &Gpus, link: Link) -> Finding {
    let ranks = counted(gpus.ranks.len() as u64, "rank");
    let devices = counted(gpus.distinct() as u64, "GPU");
    if gpus.shared() {
        let what = match link {
            Link::Pcie(_) => "the predicted times do not hold",
            Link::Host { .. } => "their bytes share its link, which predictions count; they do not count its time",
            Link::OneGpu => "no link is crossed: predictions are for one GPU's memory, and hold for no other machine",
        };
        finding(
            Gate::OwnDevice,
            Answer::No,
            format!("{ranks} share {devices}, so {what}"),
        )
    } else {
        finding(Gate::OwnDevice, Answer::Yes, format!("{ranks} on {devices}"))
    }
}
