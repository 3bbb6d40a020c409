//! What the parent gives a rank to do, and what the rank finds.

use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, AlgorithmName, Buffers, Dtype, PathChoice, PathRefusal, RankGpu};
use serde::{Deserialize, Serialize};

use crate::ranks::message::{Quantiles, Ran, engine_word};

/// The work of one rank: its only argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The process that started the rank.
    pub parent: u32,
    /// Which rank.
    pub rank: usize,
    /// Of how many.
    pub world: usize,
    /// All-reduces of one cycle.
    pub sums: u32,
    /// Elements of one all-reduce of the verify step.
    pub elements: usize,
    /// Elements of one all-reduce of a plain step.
    pub plain_elements: usize,
    /// Their type.
    pub dtype: Dtype,
    /// How often the cycle is timed.
    pub cycles: u32,
    /// Where inputs lie, unless it is a GPU that sums.
    pub buffers: Buffers,
    /// Which engine to ask for.
    #[serde(with = "engine_word")]
    pub engine: EngineChoice,
    /// Whether, on a GPU, calls are replayed from a graph.
    pub graph: bool,
    /// Who chooses the algorithm.
    pub algorithm: AlgorithmChoice,
    /// Who chooses the path between GPUs.
    pub path: PathChoice,
    /// The CPU to stay on.
    pub cpu: Option<usize>,
}

/// An algorithm that the plan did not choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// Which.
    pub algorithm: AlgorithmName,
    /// Why, for people.
    pub reason: String,
    /// What it was predicted to take, where it could run at all.
    pub predicted_us: Option<f64>,
}

/// What one rank found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// What ran.
    pub ran: Ran,
    /// Bytes a microsecond that copy engines carry each way, where bytes go through host memory.
    pub copy_rate: Option<f64>,
    /// The instructions that summed.
    pub isa: String,
    /// The order of the sums.
    pub tree: String,
    /// One all-reduce of the verify step.
    pub all_reduce_us: Quantiles,
    /// All of one verify step.
    pub cycle_ms: Quantiles,
    /// All of one plain step.
    pub plain_cycle_ms: Quantiles,
    /// Timed all-reduces of verify steps; all were checked.
    pub reductions: u64,
    /// How many of all results, plain steps and the warm-up among them, are not the oracle's bits.
    pub wrong: u64,
    /// The first of them.
    pub first_wrong: Option<String>,
    /// A digest of the bits of all results, in order.
    pub digest: u64,
    /// How long it took to make the communicator.
    pub setup_ms: f64,
    /// The memory of the communicator.
    pub memory_bytes: u64,
    /// The GPU memory that this rank's part of it took.
    pub device_memory_bytes: u64,
    /// This rank's GPU, if the communicator has any.
    pub gpu: Option<RankGpu>,
    /// Why it has none, where one would have been welcome.
    pub without_device: Option<String>,
    /// The share of the measurement in which it was ready to run and had no CPU.
    pub queued_percent: Option<f64>,
    /// How long each peer was waited for in all.
    pub waited_ms: Vec<f64>,
    /// The path between GPUs that the plan did not choose, and why.
    pub other_path: Option<PathRefusal>,
    /// The algorithms that the plan did not choose.
    pub refused: Vec<Refused>,
}
