//! What is said of a plan, to people and to programs.

use std::fmt::Write;

use lanesum_plan::{
    Bytes, Dtype, Engine, Estimate, Explanation, Fabric, Group, Path, Plan, Preference, Rank, Refusal, Relation,
    Request,
};
use serde::Serialize;

use super::asked::Asked;
use super::known::Known;
use crate::doctor::{Alternative, Gate, counted};
use crate::progress::grouped;

/// A GPU that ranks would use.
#[derive(Debug, Serialize)]
pub struct Gpu {
    pub rank: usize,
    pub gpu: String,
    pub model: Option<String>,
    pub pcie: Option<String>,
}

/// The way from one rank's GPU to another's.
#[derive(Debug, Serialize)]
pub struct Pair {
    pub from: usize,
    pub to: usize,
    /// How they lie to each other; null if it is unknown.
    pub link: Option<Relation>,
    /// `assumed`, `granted` by the driver and no more than that, or `refused`.
    pub peer: &'static str,
    pub reason: Option<String>,
}

/// What one length would run.
#[derive(Debug, Serialize)]
pub struct Decision {
    pub bytes: u64,
    pub dtype: Dtype,
    /// `cuda`, or `delegate` where another library would get the message.
    pub engine: &'static str,
    pub path: Path,
    /// None where all are refused.
    pub algorithm: Option<&'static str>,
    pub predicted_us: Option<f64>,
    /// The same by its parts.
    pub parts: Option<Estimate>,
    /// Whether long messages move in chunks there.
    pub chunks: bool,
}

/// One length of a sweep.
#[derive(Debug, Serialize)]
pub struct Length {
    #[serde(flatten)]
    pub decision: Decision,
    /// The next best, and how much longer it is predicted to take.
    pub next: Option<&'static str>,
    pub margin_us: Option<f64>,
    /// Those that are not taken.
    #[serde(skip)]
    pub others: Vec<Alternative>,
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    pub version: &'static str,
    pub sources: Vec<String>,
    pub ranks: usize,
    pub gpus: Vec<Gpu>,
    pub pairs: Vec<Pair>,
    pub islands: Vec<Vec<usize>>,
    pub gates: Vec<Gate>,
    pub policy: String,
    pub decision: Decision,
    /// Why the other path between GPUs isn't taken.
    pub other_path: Option<String>,
    pub alternatives: Vec<Alternative>,
    pub two_shots_from_bytes: Option<u64>,
    pub chunks_from_bytes: Option<u64>,
    /// From where on another library would get the message.
    pub delegate_from_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<Length>,
    pub remarks: Vec<String>,
    pub assumes: Vec<String>,
    /// What shares links, if that is known.
    #[serde(skip)]
    pub groups: Option<Vec<Group>>,
    #[serde(skip)]
    pub busiest: Option<String>,
}

impl Report {
    /// Of a plan for these GPUs, by their places in what is known.
    pub fn of(
        known: &Known,
        gpus: &[usize],
        (plan, other): (&Plan, Option<&Plan>),
        request: &Request,
        (asked, sweep): (&Asked, bool),
    ) -> Report {
        let explanation = plan.explain(request);
        // What it would take along the path that is not taken, if anything could.
        let other_us = other.and_then(|other| other.explain(request).predicted_us);
        let places = || gpus.iter().enumerate();
        let pairs = places().flat_map(|(from, one)| places().map(move |(to, other)| (from, *one, to, *other)));
        let fabric = plan.topology().gpus.as_ref().and_then(lanesum_plan::Gpus::fabric);
        let islands = fabric.as_ref().map(Fabric::islands).unwrap_or_default();
        let element = request.dtype.size() as u64;
        Report {
            version: env!("CARGO_PKG_VERSION"),
            sources: known.sources.clone(),
            ranks: gpus.len(),
            gpus: places()
                .map(|(rank, gpu)| Gpu {
                    rank,
                    gpu: known.name(*gpu),
                    model: known.facts[*gpu].model.clone(),
                    pcie: known.links.pcie[*gpu].map(|link| link.to_string()),
                })
                .collect(),
            pairs: pairs
                .filter(|(from, _, to, _)| from != to)
                .map(|(from, one, to, other)| Pair {
                    from,
                    to,
                    link: known.links.relations[one][other],
                    peer: match known.refused[one][other] {
                        Some(_) => "refused",
                        None if known.granted[one][other] => "granted",
                        None => "assumed",
                    },
                    reason: known.refused[one][other].clone(),
                })
                .collect(),
            islands: islands
                .into_iter()
                .map(|island| island.into_iter().map(Rank::index).collect())
                .collect(),
            gates: explanation.gates.iter().map(Gate::of).collect(),
            other_path: explanation.other_path.as_ref().map(|other| {
                let predicted = other_us.map_or_else(String::new, |us| format!(" (predicted {us:.2} us)"));
                format!("not by path {}{predicted}: {}", other.path, other.reason)
            }),
            policy: asked.to_string(),
            alternatives: Alternative::all_of(&explanation, asked.preference),
            two_shots_from_bytes: explanation.two_shots_from.map(|from| from.get() * element),
            chunks_from_bytes: explanation.chunks_from.map(|from| from.get() * element),
            delegate_from_bytes: plan
                .delegate_from(request, asked.preference)
                .map(|from| from.get() * element),
            decision: decision(&plan.decision(request, asked.preference)),
            sweep: match sweep {
                true => (10..=26)
                    .map(|power| {
                        length(
                            plan,
                            &super::of_bytes(request, Bytes::new(1 << power)),
                            asked.preference,
                        )
                    })
                    .collect(),
                false => vec![],
            },
            remarks: known
                .remarks
                .iter()
                .cloned()
                .chain(in_the_host(plan, request, asked))
                .collect(),
            assumes: known.assumes(gpus),
            groups: fabric.as_ref().map(|fabric| fabric.groups().to_vec()),
            busiest: fabric.as_ref().map(|fabric| fabric.busiest().to_string()),
        }
    }

    /// The decision.
    pub fn sentence(&self) -> String {
        let Decision {
            bytes,
            dtype,
            path,
            algorithm,
            predicted_us,
            chunks,
            ..
        } = &self.decision;
        let ranks = counted(self.ranks, "rank", "ranks");
        let what = format!("{} B of {dtype} over {ranks}", grouped(*bytes));
        let Some(algorithm) = algorithm else {
            return format!("nothing may run on GPUs for {what}");
        };
        let chunks = if *chunks { ", in chunks," } else { "" };
        let us = predicted_us.unwrap_or_default();
        let parts = self
            .decision
            .parts
            .map_or_else(String::new, |parts| format!(" ({parts})"));
        format!("{algorithm} on path {path}{chunks} for {what}, predicted {us:.1} us{parts}")
    }

    /// The tables for people.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).unwrap_or_default();
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "lanesum {} plan: {}", self.version, self.sentence())?;
        writeln!(text, "\n  policy      {}", self.policy)?;
        writeln!(text, "  from        {}", self.sources.join("\n              "))?;
        for (place, gpu) in self.gpus.iter().enumerate() {
            let title = if place == 0 { "GPUs" } else { "" };
            let model = gpu
                .model
                .as_deref()
                .map(|model| format!(", {model}"))
                .unwrap_or_default();
            let link = gpu.pcie.as_deref().unwrap_or("link unknown");
            writeln!(text, "  {title:<12}rank {}: {}{model}, {link}", gpu.rank, gpu.gpu)?;
        }
        self.write_matrix(text)?;
        if let Some(other) = &self.other_path {
            writeln!(text, "\n{other}")?;
        }
        let could =
            |alternative: &&Alternative| alternative.predicted_us.is_some() || self.decision.algorithm.is_none();
        for alternative in self.alternatives.iter().filter(could) {
            writeln!(text, "not {}: {}", alternative.algorithm, alternative.refused)?;
        }
        if let Some(from) = self.two_shots_from_bytes {
            writeln!(text, "two shots from {} B on", grouped(from))?;
        }
        if let Some(from) = self.chunks_from_bytes {
            writeln!(
                text,
                "chunks of raw bytes instead of frames from {} B on",
                grouped(from)
            )?;
        }
        if let Some(from) = self.delegate_from_bytes {
            writeln!(text, "nccl from {} B on", grouped(from))?;
        }
        self.write_sweep(text)?;
        writeln!(text, "\ngates")?;
        for gate in &self.gates {
            writeln!(text, "  {:<15} {:<8} {}", gate.name, gate.verdict, gate.reason)?;
            if let Some(remedy) = gate.remedy {
                writeln!(text, "  {:<25}{remedy}", "")?;
            }
        }
        for (title, lines) in [("remarks", &self.remarks), ("assumed", &self.assumes)] {
            if !lines.is_empty() {
                writeln!(text, "\n{title}\n  {}", lines.join("\n  "))?;
            }
        }
        Ok(())
    }

    /// How ranks lie to each other; `!` where peer access is refused.
    fn write_matrix(&self, text: &mut String) -> std::fmt::Result {
        if self.ranks < 2 {
            return Ok(());
        }
        write!(text, "\n  {:>6}", "rank")?;
        for to in 0..self.ranks {
            write!(text, "{to:>6}")?;
        }
        for from in 0..self.ranks {
            write!(text, "\n  {from:>6}")?;
            for to in 0..self.ranks {
                let pair = self.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
                let cell = pair.map_or_else(
                    || "-".to_owned(),
                    |pair| {
                        let link = pair.link.map_or_else(|| "?".to_owned(), |link| link.to_string());
                        if pair.peer == "refused" {
                            format!("{link}!")
                        } else {
                            link
                        }
                    },
                );
                write!(text, "{cell:>6}")?;
            }
        }
        writeln!(text)?;
        if let Some(reason) = self.pairs.iter().find_map(|pair| pair.reason.as_ref()) {
            writeln!(text, "  ! no peer access: {reason}")?;
        }
        Ok(())
    }

    fn write_sweep(&self, text: &mut String) -> std::fmt::Result {
        if self.sweep.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "\n{:>12}  {:<12} {:<16} {:>12}  {:<16} {:>10}  each mark a doubling",
            "bytes", "path", "algorithm", "predicted us", "next", "behind by"
        )?;
        for length in &self.sweep {
            let decision = &length.decision;
            let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
            writeln!(
                text,
                "{:>12}  {:<12} {:<16} {:>12}  {:<16} {:>10}  {}{}",
                grouped(decision.bytes),
                decision.path,
                decision.algorithm.unwrap_or("refused"),
                us(decision.predicted_us),
                length.next.unwrap_or("-"),
                us(length.margin_us),
                bar(decision.predicted_us),
                if decision.chunks { "  in chunks" } else { "" }
            )?;
        }
        Ok(())
    }
}

/// That the sum is made elsewhere than where it was asked for.
fn in_the_host(plan: &Plan, request: &Request, asked: &Asked) -> Option<String> {
    let (explanation, _) = plan.decision(request, asked.preference);
    (explanation.engine == Engine::Host).then(|| {
        "kernels serve at most 8 ranks, so these sums are made by the processor in the host's memory: what copies to and from there take is \
         not predicted, nor how many cores there are"
            .to_owned()
    })
}

/// A mark for each doubling of a microsecond.
fn bar(us: Option<f64>) -> String {
    let doublings = us.map_or(0.0, |us| us.max(1.0).log2().round());
    "#".repeat(doublings as usize)
}

fn decision((explanation, decision): &(Explanation, lanesum_plan::Decision)) -> Decision {
    let request = &explanation.request;
    let blank = Decision {
        bytes: request.bytes().get(),
        dtype: request.dtype,
        engine: explanation.engine.name(),
        path: explanation.path,
        algorithm: None,
        predicted_us: None,
        parts: None,
        chunks: false,
    };
    match *decision {
        lanesum_plan::Decision::Refused => blank,
        lanesum_plan::Decision::Own {
            algorithm,
            predicted_us,
            ..
        } => Decision {
            algorithm: Some(algorithm.name()),
            predicted_us: Some(predicted_us),
            parts: explanation
                .candidates
                .iter()
                .find(|candidate| candidate.algorithm == algorithm)
                .and_then(|candidate| candidate.parts),
            chunks: explanation.chunks_from.is_some_and(|from| request.elements >= from),
            ..blank
        },
        lanesum_plan::Decision::Delegate {
            method,
            path,
            predicted_us,
        } => Decision {
            engine: DELEGATE,
            path,
            algorithm: Some(method.name()),
            predicted_us: Some(predicted_us),
            parts: explanation
                .beyond
                .iter()
                .find(|beyond| beyond.method == method)
                .and_then(|beyond| beyond.parts),
            ..blank
        },
    }
}

/// The engine of what is handed to another library.
const DELEGATE: &str = "delegate";

fn length(plan: &Plan, request: &Request, preference: Preference) -> Length {
    let decided = plan.decision(request, preference);
    let (decision, (explanation, _)) = (decision(&decided), &decided);
    let own = explanation.candidates.iter();
    let mut predicted: Vec<(&'static str, f64)> = own
        .filter_map(|candidate| Some((candidate.algorithm.name(), candidate.predicted_us?)))
        .collect();
    match preference {
        Preference::Exact => {}
        Preference::Fastest => predicted.extend(explanation.beyond.iter().filter_map(|beyond| {
            matches!(beyond.refusal, Refusal::NoDelegates { .. })
                .then_some((beyond.method.name(), beyond.predicted_us?))
        })),
    }
    let others = predicted.iter().filter(|(name, _)| Some(*name) != decision.algorithm);
    let next = others.min_by(|one, other| one.1.total_cmp(&other.1));
    Length {
        next: next.map(|(algorithm, _)| *algorithm),
        margin_us: next.and_then(|(_, us)| Some(us - decision.predicted_us?)),
        decision,
        others: Alternative::all_of(explanation, preference),
    }
}
