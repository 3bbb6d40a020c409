//! What the parent gives a rank to do, and what the rank says about it: one line of JSON each.

use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, AlgorithmName, Buffers, Dtype, Engine, Path, RankGpu};
use serde::{Deserialize, Serialize};

/// The word by which the parent lets prepared ranks meet.
pub const GO: &str = "go";

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
    /// Who chooses the algorithm.
    pub algorithm: AlgorithmChoice,
    /// The CPU to stay on.
    pub cpu: Option<usize>,
}

/// The choice of an engine as the word that it is on the command line.
mod engine_word {
    use lanesum::EngineChoice;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(choice: &EngineChoice, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(choice.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<EngineChoice, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// What a rank says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Message {
    /// It still prepares inputs and the results they must give.
    Preparing,
    /// It waits for [`GO`].
    Ready,
    /// It has met the others.
    Joined {
        /// The bound of every wait from now on.
        deadline_ms: u64,
    },
    /// It has made this many checked reductions.
    Progress {
        /// How many.
        done: u64,
    },
    /// It is through.
    Report(Box<RankReport>),
    /// It gave up.
    Failed(RankFailure),
}

/// The middle and the tail of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half take at most this.
    pub p50: f64,
    /// 99 of 100 take at most this.
    pub p99: f64,
}

impl Quantiles {
    /// The larger of each.
    pub fn worst(self, other: Self) -> Self {
        Self {
            p50: self.p50.max(other.p50),
            p99: self.p99.max(other.p99),
        }
    }
}

/// What ran, as receipts name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// The engine.
    pub engine: Engine,
    /// The path.
    pub path: Path,
    /// The algorithm.
    pub algorithm: AlgorithmName,
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
    /// The algorithms that the plan did not choose.
    pub refused: Vec<Refused>,
}

/// Why a rank gave up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankFailure {
    /// What happened.
    pub error: String,
    /// What to do.
    pub hint: Option<String>,
    /// Whose fault it is, as far as this rank knows.
    pub failed_ranks: Vec<usize>,
    /// How long it had waited for them.
    pub waited_ms: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_pipe() {
        for message in [
            Message::Preparing,
            Message::Joined { deadline_ms: 30_000 },
            Message::Progress { done: 7 },
            Message::Failed(RankFailure {
                error: "rank 1 died".into(),
                hint: None,
                failed_ranks: vec![1],
                waited_ms: Some(0.5),
            }),
        ] {
            let line = serde_json::to_string(&message).expect("is written");
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Message>(&line).expect("is read"), message);
        }
    }

    #[test]
    fn the_worst_of_two_ranks_is_taken_for_each_quantile() {
        let (a, b) = (Quantiles { p50: 1.0, p99: 9.0 }, Quantiles { p50: 2.0, p99: 3.0 });
        assert_eq!(a.worst(b), Quantiles { p50: 2.0, p99: 9.0 });
    }
}
