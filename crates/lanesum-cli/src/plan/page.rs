//! What the page of `--report` says of a plan.

use super::known::Known;
use super::report::{Decision, Report};
use crate::doctor::{Alternative, counted};
use crate::page::{self, Leaf, Note, Page, Pair, Reach, Size, Tone, Tree};

/// The page of a report on these GPUs, by their places in what is known.
pub fn of<'a>(report: &'a Report, known: &Known, gpus: &[usize]) -> Page<'a> {
    let ranks = counted(report.ranks, "GPU", "GPUs");
    Page {
        title: format!("lanesum plan: {ranks}"),
        heading: format!("What an all-reduce would run on {ranks}"),
        tone: match report.decision.algorithm {
            Some(_) => Tone::Good,
            None => Tone::Bad,
        },
        sentence: report.sentence(),
        warning: None,
        origin: format!(
            "Predicted by lanesum {} under the policy {}, from {}. Nothing was measured.",
            report.version,
            report.policy,
            report.sources.join("; ")
        ),
        remarks: notes(&report.remarks),
        machine: vec![],
        details: String::new(),
        tree: Tree::of(&leaves(report, known, gpus), report.groups.as_deref(), "", &|bridge| {
            known.uplinks.get(bridge).copied()
        }),
        ways: vec![match &report.busiest {
            Some(busiest) => format!("When all send to all, what ends last is {busiest}."),
            None if report.ranks > 1 => {
                "How they lie to each other is not known of all of them; predictions are for root ports of \
                                         one socket."
                    .to_owned()
            }
            None => "There is nobody to send to.".to_owned(),
        }],
        pairs: pairs(report),
        ranks: report.ranks,
        chart: format!(
            "path {}, {}, calls are enqueued eagerly",
            report.decision.path, report.decision.dtype
        ),
        sizes: sizes(report),
        choice: report.other_path.clone().into_iter().collect(),
        gates: &report.gates,
        notes: vec![("Assumed, as nothing here tells it", notes(&report.assumes))],
        glossary: vec![
            (
                "a rank",
                "Each has one GPU and brings one message of the given length; afterwards all have the sum.",
            ),
            page::PATH_PEER,
            page::PATH_HOST,
            page::ONE_SHOT,
            page::TWO_SHOTS,
            page::IN_CHUNKS,
            (
                "predicted",
                "From links and lengths, made to choose by; nothing was measured. In the chart a ring is around what runs.",
            ),
            page::LABELS,
            page::TREE,
        ],
    }
}

fn notes(lines: &[String]) -> Vec<Note> {
    lines.iter().map(|line| Note::of(line)).collect()
}

fn leaves(report: &Report, known: &Known, gpus: &[usize]) -> Vec<Leaf> {
    let leaf = |(gpu, at): (&super::report::Gpu, &usize)| Leaf {
        name: format!("rank {}: {}", gpu.rank, gpu.gpu),
        note: gpu.model.clone().unwrap_or_default(),
        link: known.links.pcie.get(*at).copied().flatten(),
        slot: known.slots.get(*at).cloned().flatten(),
    };
    report.gpus.iter().zip(gpus).map(leaf).collect()
}

fn pairs(report: &Report) -> Vec<Pair> {
    let pair = |pair: &super::report::Pair| Pair {
        from: pair.from,
        to: pair.to,
        link: pair.link,
        peer: pair.reason.clone().map_or(Reach::Supposed, Reach::Not),
        host: Reach::Supposed,
    };
    report.pairs.iter().map(pair).collect()
}

/// The lengths of the sweep, and the one that was asked for.
fn sizes(report: &Report) -> Vec<Size<'_>> {
    let asked = Size {
        asked: true,
        ..size(&report.decision, &report.alternatives)
    };
    let others = report
        .sweep
        .iter()
        .filter(|length| length.decision.bytes != asked.bytes);
    let mut sizes: Vec<Size<'_>> = others.map(|length| size(&length.decision, &length.others)).collect();
    sizes.push(asked);
    sizes.sort_by_key(|size| size.bytes);
    sizes
}

fn size<'a>(decision: &'a Decision, others: &'a [Alternative]) -> Size<'a> {
    Size {
        bytes: decision.bytes,
        path: decision.path,
        algorithm: decision.algorithm,
        chunks: decision.chunks,
        predicted_us: decision.predicted_us,
        measured_us: None,
        checked: None,
        others,
        asked: false,
    }
}
