//! What a run found, for people and for programs.

use std::fmt::Write;

use lanesum_plan::{AlgorithmName, Buffers, Bytes, Dtype, Engine, Path, PathRefusal};
use serde::Serialize;

use super::job::Job;
use super::message::{RankReport, Refused};
use super::speculation::{self, Inputs, Outcome};
use crate::engines::STAND_IN;
use crate::progress::grouped;
use crate::ranks::copy_engines;
use crate::ranks::message::{Quantiles, Ran};
use crate::ranks::supervise::Failure;
use devices::Devices;

mod devices;

/// The JSON object of a run whose ranks all reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What executed the sums.
    pub engine: Engine,
    /// How bytes reached the peers.
    pub path: Path,
    /// Which algorithm ran, by the receipts.
    pub algorithm: AlgorithmName,
    /// Whether its calls were replayed from a graph.
    pub graph: bool,
    /// The instructions that summed.
    pub isa: String,
    /// How many ranks.
    pub ranks: usize,
    /// Layers of the model.
    pub layers: u32,
    /// Tokens in the verified batch.
    pub tokens: u64,
    /// Width of the model.
    pub hidden: u64,
    /// Bytes that each rank brings to one sum.
    pub bytes: u64,
    /// The type of an element.
    pub dtype: Dtype,
    /// Where the inputs lay.
    pub buffers: Buffers,
    /// Whether each rank had a CPU to itself.
    pub pinned: bool,
    /// The order of the sums.
    pub tree: String,
    /// Timed cycles.
    pub cycles: u32,
    /// One all-reduce, on the slowest rank.
    pub all_reduce_us: Quantiles,
    /// What the GPUs' copy engines would take for the bytes of one, as a part of its median, where they go through host memory.
    pub copy_engine_share: Option<f64>,
    /// The sums of one verify step, on the slowest rank.
    pub cycle_ms: Quantiles,
    /// All-reduces of the timed cycles, each checked on every rank.
    pub reductions: u64,
    /// Whether all ranks got the same bits.
    pub bit_identical: bool,
    /// Whether every element of every rank has the oracle's bits.
    pub exact: bool,
    /// Results that have not.
    pub wrong: u64,
    /// The time to make the communicator, on the slowest rank.
    pub setup_ms: f64,
    /// The memory that the ranks share, in all.
    pub memory_bytes: u64,
    /// The GPUs, and whether something stood in for them.
    #[serde(flatten)]
    pub devices: Devices,
    /// Why the engine is not cuda, where nobody insisted on the host.
    pub not_cuda: Option<String>,
    /// What the time of one all-reduce is.
    pub timing: &'static str,
    /// The path between GPUs that the plan did not choose, and why.
    pub other_path: Option<PathRefusal>,
    /// The algorithms that the plan did not choose.
    pub refused: Vec<Refused>,
    /// The share of the measurement in which a rank was ready to run and had no CPU, on the rank with the most.
    pub queued_percent: Option<f64>,
    /// How long each rank was waited for, by all others together.
    pub waited_for_ms: Vec<f64>,
    /// What it means for speculation.
    pub speculation: Speculation,
    #[serde(skip)]
    first_wrong: Option<(usize, String)>,
}

/// Speculation in the known case and here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speculation {
    /// With the assumed cost of a sum.
    pub known: Line,
    /// With the cost of a sum measured here.
    pub here: Line,
}

/// One judgement with its grounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The inputs.
    #[serde(flatten)]
    pub inputs: Inputs,
    /// What follows.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Which inputs were measured in this run.
    pub measured: Vec<&'static str>,
    /// Which were assumed.
    pub assumed: Vec<&'static str>,
}

/// From this share of time without a CPU on, times are reported with a warning. Longer cycles suffer more than short ones,
/// so that even the comparison of a verify step with a plain one is off.
const DISTURBED: f64 = 5.0;

const STEP: [&str; 3] = ["compute_ms", "draft_ms", "accepted"];
const SUMS: [&str; 2] = ["verify_sum_us", "plain_sum_us"];

impl Line {
    fn assumed(inputs: Inputs) -> Self {
        let assumed = STEP.into_iter().chain(SUMS).collect();
        Self {
            inputs,
            outcome: speculation::judge(&inputs),
            measured: vec![],
            assumed,
        }
    }

    fn with_measured_sums(inputs: Inputs) -> Self {
        Self {
            inputs,
            outcome: speculation::judge(&inputs),
            measured: SUMS.to_vec(),
            assumed: STEP.to_vec(),
        }
    }
}

impl Report {
    /// Puts the reports of all ranks together. `None` if there are none, or if the ranks ran different things.
    pub fn of(job: &Job, ranks: &[RankReport]) -> Option<Self> {
        let (first, others) = ranks.split_first()?;
        let ran: Ran = first.ran;
        if others.iter().any(|rank| rank.ran != ran) {
            return None;
        }
        let worst = |value: &dyn Fn(&RankReport) -> Quantiles| {
            others.iter().fold(value(first), |worst, rank| worst.worst(value(rank)))
        };
        let largest = |value: &dyn Fn(&RankReport) -> f64| ranks.iter().map(value).fold(0.0, f64::max);
        let all_reduce_us = worst(&|rank| rank.all_reduce_us);
        let copy_rate = ranks.iter().filter_map(|rank| rank.copy_rate).reduce(f64::min);
        let cycle_ms = worst(&|rank| rank.cycle_ms);
        let plain_cycle_ms = worst(&|rank| rank.plain_cycle_ms);
        let wrong = ranks.iter().map(|rank| rank.wrong).sum();
        let first_wrong = ranks
            .iter()
            .enumerate()
            .find_map(|(rank, report)| Some((rank, report.first_wrong.clone()?)));
        Some(Self {
            engine: ran.engine,
            path: ran.path,
            algorithm: ran.algorithm,
            graph: job.graph && ran.engine == Engine::Cuda,
            isa: devices::isa_of(first),
            ranks: job.ranks,
            layers: job.layers,
            tokens: job.tokens,
            hidden: job.hidden,
            bytes: job.bytes(),
            dtype: job.dtype,
            buffers: match ran.engine {
                Engine::Host => job.buffers,
                Engine::Cuda => Buffers::Device,
            },
            pinned: job.pinned(),
            tree: first.tree.clone(),
            cycles: job.cycles,
            all_reduce_us,
            copy_engine_share: copy_rate
                .map(|rate| copy_engines::share((job.bytes(), job.ranks), all_reduce_us.p50, rate)),
            cycle_ms,
            reductions: first.reductions,
            bit_identical: others.iter().all(|rank| rank.digest == first.digest),
            exact: wrong == 0,
            wrong,
            setup_ms: largest(&|rank| rank.setup_ms),
            memory_bytes: ranks.iter().map(|rank| rank.memory_bytes).max().unwrap_or_default(),
            devices: Devices::of(ranks),
            not_cuda: not_cuda(job, ranks),
            timing: devices::timing(ran.engine, job.graph),
            other_path: first.other_path.clone(),
            refused: first.refused.clone(),
            queued_percent: ranks.iter().filter_map(|rank| rank.queued_percent).reduce(f64::max),
            waited_for_ms: waited_for(ranks),
            speculation: Speculation {
                known: Line::assumed(job.known()),
                here: Line::with_measured_sums(Inputs {
                    verify_sum_us: cycle_ms.p50 * 1000.0 / f64::from(job.sums()),
                    plain_sum_us: plain_cycle_ms.p50 * 1000.0 / f64::from(job.sums()),
                    ..job.known()
                }),
            },
            first_wrong,
        })
    }

    /// What is wrong with the results, if anything is.
    pub fn failure(&self, ranks: &[RankReport]) -> Option<Failure> {
        if self.exact && self.bit_identical {
            return None;
        }
        let where_first = match &self.first_wrong {
            Some((rank, difference)) => format!("; the first on rank {rank}, {difference}"),
            None => String::new(),
        };
        let wrong = ranks.iter().enumerate().filter(|(_, report)| report.wrong > 0);
        Some(Failure {
            error: format!("{} results are not the oracle's{where_first}", self.wrong),
            hint: Some("this is a bug: please report it with this output and the model of the CPU or GPU".into()),
            failed_ranks: wrong.map(|(rank, _)| rank).collect(),
            noticed_ms: None,
            notices: vec![],
        })
    }

    /// The tables for people.
    pub fn tables(&self) -> String {
        let mut text = self.head();
        let mut row = |name: &str, value: String| writeln!(text, "  {name:<12}{value}").unwrap_or_default();
        row(
            "engine",
            format!("{} ({}), {} buffers", self.engine, self.isa, self.buffers),
        );
        if let Some(reason) = &self.not_cuda {
            row("not cuda", reason.clone());
        }
        for (name, value) in self.devices.rows() {
            row(name, value);
        }
        row("path", self.path.to_string());
        if let Some(other) = &self.other_path {
            row("", format!("not {}: {}", other.path, other.reason));
        }
        row("algorithm", self.algorithm.to_string());
        // The others are for requests of another kind; nobody would expect them here.
        for refused in self.refused.iter().filter(|refused| refused.predicted_us.is_some()) {
            row("  refused", format!("{}: {}", refused.algorithm, refused.reason));
        }
        let times =
            |times: Quantiles, unit| format!("median {:>9.2} {unit}   p99 {:>9.2} {unit}", times.p50, times.p99);
        row("all-reduce", times(self.all_reduce_us, "us"));
        if self.engine == Engine::Cuda {
            row("", format!("({})", self.timing));
        }
        if let Some(share) = self.copy_engine_share {
            let percent = 100.0 * share;
            row(
                "",
                format!("the GPUs' copy engines would take {percent:.0} % of that time for the bytes"),
            );
        }
        row("cycle", times(self.cycle_ms, "ms"));
        if let Some(percent) = self.queued_percent.filter(|percent| *percent > DISTURBED) {
            row(
                "DISTURBED",
                format!("a rank waited {percent:.0} % of the time for a CPU: these times tell more of the"),
            );
            row(
                "",
                "load (other programs, or more ranks than CPUs) than of the cost of a sum".into(),
            );
        }
        row(
            "ranks",
            if self.pinned {
                "each on a CPU of its own".into()
            } else {
                "not pinned to CPUs".into()
            },
        );
        row(
            "set-up",
            format!("{:.1} ms, {} in all", self.setup_ms, Bytes::new(self.memory_bytes)),
        );
        if self.engine == Engine::Host {
            row("waited for", self.most_waited_for());
        }
        row("checked", self.checked());
        text.push_str(&self.speculation.tables());
        text
    }

    fn head(&self) -> String {
        let first = if self.devices.stand_in {
            format!("{STAND_IN}\n")
        } else {
            String::new()
        };
        format!(
            "{first}verify cycle: {} rank{}, {} layers x 2 sums of {} x {} {} ({} B), {} cycles\n\n",
            self.ranks,
            if self.ranks == 1 { "" } else { "s" },
            self.layers,
            self.tokens,
            self.hidden,
            self.dtype,
            grouped(self.bytes),
            grouped(u64::from(self.cycles)),
        )
    }

    fn checked(&self) -> String {
        let bits = match (self.exact, self.bit_identical) {
            (true, true) => "all have the oracle's bits",
            (false, true) => "all ranks got the same bits, but NOT the oracle's",
            (_, false) => "the ranks got DIFFERENT bits",
        };
        format!("{} all-reduces on every rank: {bits}", grouped(self.reductions))
    }

    fn most_waited_for(&self) -> String {
        let ranks = self.waited_for_ms.iter().enumerate();
        match ranks.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            Some((rank, waited)) if *waited > 0.0 => {
                format!("rank {rank} longest: {waited:.1} ms, by all others together")
            }
            Some(_) | None => "nobody".into(),
        }
    }
}

impl Speculation {
    fn tables(&self) -> String {
        let mut text = format!("\nspeculation, {} sums a step\n\n", self.known.inputs.sums);
        text.push_str("               verify sum   plain sum      step        plain  speculative   break-even\n");
        for (name, line) in [("known case", &self.known), ("here", &self.here)] {
            let (inputs, outcome) = (&line.inputs, &line.outcome);
            let numbers = format!(
                "  {name:<12}{:>8.1} us {:>8.1} us {:>6.1} ms {:>6} tok/s {:>6} tok/s {:>5} tokens",
                inputs.verify_sum_us,
                inputs.plain_sum_us,
                outcome.step_ms,
                quotient(outcome.plain_tokens_per_s, 1),
                quotient(outcome.tokens_per_s, 1),
                quotient(outcome.break_even_accepted, 2),
            );
            let words = format!(
                "measured here: {}; assumed: {}",
                listed(&line.measured),
                listed(&line.assumed)
            );
            text.push_str(&format!("{numbers}\n              {words}\n"));
        }
        let step = &self.known.inputs;
        text.push_str(&format!(
            "\n  assumed a step: compute {} ms, draft {} ms, {} tokens accepted\n  \
             known case: a large model over PCIe with NCCL; here: the same model with sums at this machine's speed,\n  \
             a sum being the median cycle divided by its sums\n",
            step.compute_ms, step.draft_ms, step.accepted
        ));
        text
    }
}

/// A division by nothing has no answer.
fn quotient(value: f64, digits: usize) -> String {
    if value.is_finite() {
        format!("{value:.digits$}")
    } else {
        "-".into()
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "nothing".into()
    } else {
        names.join(", ")
    }
}

/// The parent's reason, or that of the first rank that has one.
fn not_cuda(job: &Job, ranks: &[RankReport]) -> Option<String> {
    let told = || ranks.iter().find_map(|rank| rank.without_device.clone());
    job.engine.without.clone().or_else(told)
}

fn waited_for(ranks: &[RankReport]) -> Vec<f64> {
    let waited_for = |rank: usize| ranks.iter().filter_map(|report| report.waited_ms.get(rank)).sum();
    (0..ranks.len()).map(waited_for).collect()
}

#[cfg(test)]
mod tests;
