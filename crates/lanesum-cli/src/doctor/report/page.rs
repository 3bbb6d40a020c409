//! What the page of `--report` says of this machine.

use lanesum_plan::{AlgorithmName, Engine, Gpus, PeerVerdict};

use super::{Decision, Report, Way, counted};
use crate::doctor::findings::{Remark, Seen, Verdict};
use crate::engines::STAND_IN;
use crate::page::{self, Leaf, Note, Page, Pair, Reach, Size, Tone, Tree};

/// The page of a report, and of what was seen.
pub fn of<'a>(report: &'a Report, seen: &Seen) -> Page<'a> {
    let gpus = seen.first().and_then(|first| first.topology.gpus.as_ref());
    let ranks = counted(report.ranks, "rank", "ranks");
    // GPUs may be there and of no use.
    let on_gpus = report.decisions.first().map(|decision| decision.engine) == Some(Engine::Cuda);
    let unknown = report.unknown.iter().map(|unknown| Note {
        what: unknown.what.to_owned(),
        remedy: Some(unknown.how.to_owned()),
    });
    let build = if cfg!(debug_assertions) {
        " It is an unoptimised build: what it measured is slow."
    } else {
        ""
    };
    Page {
        title: format!("lanesum doctor: {}", report.headline()),
        heading: "What sums run on this machine".to_owned(),
        tone: match report.verdict {
            Verdict::Fine => Tone::Good,
            Verdict::Remarks => Tone::Remarks,
            Verdict::Mend => Tone::Bad,
        },
        sentence: format!("lanesum doctor tried {ranks}: {}", report.headline()),
        warning: report.stand_in.then_some(STAND_IN),
        origin: format!("Seen by lanesum {}.{build}", report.version),
        remarks: report.remarks.iter().map(remark).collect(),
        machine: report.rows(),
        details: details(report),
        tree: tree(report, seen, gpus),
        ways: ways(report, gpus),
        pairs: report.pairs.iter().map(pair).collect(),
        ranks: report.ranks,
        chart: match on_gpus {
            true => "bf16 in memory of GPUs; predicted".to_owned(),
            false => "bf16 in the host's memory; predicted, and measured here: the slowest rank's median".to_owned(),
        },
        sizes: report.decisions.iter().map(size).collect(),
        choice: choice(report, seen),
        gates: &report.gates,
        notes: vec![("What could not be read", unknown.collect())],
        glossary: glossary(on_gpus, gpus.is_some()),
    }
}

/// The tables of what the GPUs' management library shows, and of what ranks see.
fn details(report: &Report) -> String {
    let mut text = String::new();
    // A string takes all that is written to it.
    report.nvml.write(&mut text).unwrap_or_default();
    if let Some(visible) = &report.visible {
        visible.write(&mut text).unwrap_or_default();
    }
    text
}

fn remark(remark: &Remark) -> Note {
    let title = match remark.verdict {
        Verdict::Mend => "to mend: ",
        Verdict::Remarks | Verdict::Fine => "",
    };
    Note {
        what: format!("{title}{}", remark.what),
        remedy: Some(remark.remedy.clone()),
    }
}

/// Of the GPUs, or of the CPUs where none takes part.
fn tree(report: &Report, seen: &Seen, gpus: Option<&Gpus>) -> Tree {
    let mut leaves: Vec<Leaf> = Vec::new();
    if let Some(gpus) = gpus {
        for (rank, gpu) in gpus.ranks.iter().enumerate() {
            leaves.push(Leaf {
                name: format!("rank {rank}: {}", gpu.name),
                note: gpu.pci_bus_id.clone(),
                link: gpus.links.pcie.get(rank).copied().flatten(),
                slot: gpu.slot.clone(),
            });
        }
    } else {
        let known = seen.first().map(|first| first.topology.ranks.as_slice());
        for rank in 0..report.ranks {
            let cpus = known.and_then(|known| known.get(rank)).map(|host| host.cpus);
            let cpus = cpus.filter(|cpus| !cpus.is_empty());
            let note = cpus.map_or_else(
                || "CPUs not known".to_owned(),
                |cpus| format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" }),
            );
            leaves.push(Leaf {
                name: format!("rank {rank}"),
                note,
                link: None,
                slot: None,
            });
        }
    }
    let nodes = seen.host.numa_nodes.map_or_else(
        || "NUMA nodes not known".to_owned(),
        |nodes| counted(nodes as usize, "NUMA node", "NUMA nodes"),
    );
    let fabric = gpus.and_then(Gpus::fabric);
    let groups = fabric.as_ref().map(lanesum_plan::Fabric::groups);
    Tree::of(&leaves, groups, &nodes, &lanesum_probe::pci_link)
}

/// What is to be said of the ways between ranks.
fn ways(report: &Report, gpus: Option<&Gpus>) -> Vec<String> {
    let Some(gpus) = gpus else {
        return vec!["No GPU takes part: ranks sum in memory of the host that they share.".to_owned()];
    };
    if report.ranks < 2 {
        return vec![];
    }
    vec![gpus.fabric().map_or_else(
        || {
            "How they lie to each other is not known of all of them; predictions are for root ports of one socket."
                .to_owned()
        },
        |fabric| format!("When all send to all, what ends last is {}.", fabric.busiest()),
    )]
}

fn pair(way: &Way) -> Pair {
    Pair {
        from: way.from,
        to: way.to,
        link: way.link,
        peer: reach(&way.peer),
        host: way.host_staged.as_ref().map_or(Reach::Supposed, reach),
    }
}

fn reach(verdict: &PeerVerdict) -> Reach {
    match verdict {
        PeerVerdict::Own | PeerVerdict::Proven => Reach::Proven,
        PeerVerdict::Unknown | PeerVerdict::Assumed | PeerVerdict::Granted => Reach::Supposed,
        PeerVerdict::Refused { reason } => Reach::Not(format!("refused: {reason}")),
        PeerVerdict::Disproven { found } => Reach::Not(format!("what was written does not arrive: {found}")),
    }
}

fn size(decision: &Decision) -> Size<'_> {
    Size {
        bytes: decision.bytes,
        path: decision.path,
        algorithm: decision.algorithm.map(AlgorithmName::name),
        chunks: false,
        predicted_us: decision.predicted_us,
        measured_us: decision.measured_us,
        checked: Some(decision.checked),
        others: &decision.alternatives,
        asked: false,
    }
}

fn choice(report: &Report, seen: &Seen) -> Vec<String> {
    let mut choice: Vec<String> = Vec::new();
    choice.extend(
        report
            .without_gpus
            .iter()
            .map(|reason| format!("in the host's memory, not on GPUs: {reason}")),
    );
    if let Some(other) = seen.first().and_then(|first| first.other_path.as_ref()) {
        choice.push(format!("not by path {}: {}", other.path, other.reason));
    }
    if report.gates.is_empty() {
        return choice;
    }
    let engine = report.decisions.first().map(|decision| decision.engine);
    let words = match engine {
        Some(Engine::Cuda) => "sums up to 1 MiB were made and checked; they were not timed, which `lanesum bench` does",
        Some(Engine::Host) => "a sum of each length was made, checked and timed",
        None => return choice,
    };
    choice.push(words.to_owned());
    choice
}

fn glossary(on_gpus: bool, with_gpus: bool) -> Vec<(&'static str, &'static str)> {
    let mut words = vec![(
        "a rank",
        "A process that brings one message of the given length; afterwards all have the sum.",
    )];
    if on_gpus {
        words.extend([page::PATH_PEER, page::PATH_HOST]);
    } else {
        words.push((
            "flag round trip",
            "How long a core takes to tell another something and to hear of it: about 100 ns between near cores, several \
             times as much between far ones.",
        ));
    }
    words.extend([
        page::ONE_SHOT,
        page::TWO_SHOTS,
        (
            "predicted",
            "Made to choose by, from what is known of the machine. In the chart a ring is around what runs.",
        ),
        (
            "gates",
            "What was asked before the choice, for a sum of 42 KiB; a no has its reason and, where there is one, what to do.",
        ),
    ]);
    if with_gpus {
        words.extend([page::LABELS, page::TREE]);
    }
    words
}
