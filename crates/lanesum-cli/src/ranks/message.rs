//! What a rank says to the parent that started it, and the parent to the rank: a line each.

use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmName, Engine, Path};
use serde::{Deserialize, Serialize};

/// The word by which the parent lets prepared ranks meet.
pub const GO: &str = "go";

/// What a rank says; `R` is what it has found in the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Message<R> {
    /// It still prepares inputs and the results they must give.
    Preparing,
    /// It waits for [`GO`].
    Ready,
    /// It has met the others.
    Joined {
        /// The bound of every wait from now on.
        deadline_ms: u64,
    },
    /// It has done this much.
    Progress {
        /// In the units of the job.
        done: u64,
    },
    /// A part of what it finds, told at once so that it is not lost with the run.
    Part(Box<R>),
    /// It is through.
    Report(Box<R>),
    /// It gave up.
    Failed(RankFailure),
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

/// The choice of an engine as the word that it is on the command line.
pub mod engine_word {
    use super::EngineChoice;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(choice: &EngineChoice, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(choice.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<EngineChoice, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_pipe() {
        for message in [
            Message::<u8>::Preparing,
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
            assert_eq!(serde_json::from_str::<Message<u8>>(&line).expect("is read"), message);
        }
    }

    #[test]
    fn the_worst_of_two_ranks_is_taken_for_each_quantile() {
        let (a, b) = (Quantiles { p50: 1.0, p99: 9.0 }, Quantiles { p50: 2.0, p99: 3.0 });
        assert_eq!(a.worst(b), Quantiles { p50: 2.0, p99: 9.0 });
    }
}
