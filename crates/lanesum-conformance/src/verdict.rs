//! What came of a case: on one rank, on all, and in sum.

use std::fmt;
use std::time::Duration;

use lanesum_plan::Bytes;
use serde::{Deserialize, Serialize};

use crate::case::Case;

/// A case passed on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// How many calls were judged.
    pub calls: u32,
    /// How many bytes of results were compared.
    pub bytes: Bytes,
}

/// Which end of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Below its first element.
    Before,
    /// Past its last.
    After,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Before => "before the first",
            Side::After => "past the last",
        })
    }
}

/// What a receipt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptField {
    /// That there is one, for a call that is done.
    Presence,
    /// The algorithm that ran.
    Algorithm,
    /// The path that its bytes took.
    Path,
    /// The bytes of one rank's input.
    Bytes,
    /// The epoch: above that of the call before.
    Epoch,
    /// The ordinal: one above that of the call before.
    Ordinal,
    /// Number of the capture, one above that of the capture before, and number of the call within it.
    Place,
}

/// Why a case failed on one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No communicator could be had.
    #[error("no communicator: {error}")]
    Join {
        /// What the library said.
        error: String,
    },
    /// The case can't be run on this communicator or machine.
    #[error("the case can't be run: {reason}")]
    Unsuitable {
        /// Why not.
        reason: String,
    },
    /// A call returned an error.
    #[error("call {call}: {error}")]
    Call {
        /// The number of the call in the case.
        call: u32,
        /// What the library said.
        error: String,
    },
    /// A result has other bits than the oracle's.
    #[error(
        "call {call}: element {index} is {found:#010x} where {expected:#010x} is right ({wrong} elements are wrong in all; \
         the ranks brought {brought:x?})"
    )]
    Value {
        /// The number of the call in the case.
        call: u32,
        /// The first wrong element.
        index: usize,
        /// The oracle's bits.
        expected: u32,
        /// The bits found.
        found: u32,
        /// How many elements are wrong.
        wrong: u64,
        /// The bits that each rank brought for the first wrong element.
        brought: Vec<u32>,
    },
    /// Memory beside the output was written.
    #[error("call {call}: wrote {distance} elements {side} of the output")]
    Guard {
        /// The number of the call in the case.
        call: u32,
        /// Which end.
        side: Side,
        /// How far from the output.
        distance: usize,
    },
    /// An input that isn't the output was changed.
    #[error("call {call}: element {index} of the input was changed to {found:#010x}")]
    Input {
        /// The number of the call in the case.
        call: u32,
        /// The first changed element.
        index: usize,
        /// Its bits now.
        found: u32,
    },
    /// The receipt tells something else than what was asked.
    #[error("call {call}: the receipt's {field:?} is {found} where {expected} is right")]
    Receipt {
        /// The number of the call in the case.
        call: u32,
        /// What of it.
        field: ReceiptField,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The communicator could not be closed.
    #[error("closing the communicator: {error}")]
    Close {
        /// What the library said.
        error: String,
    },
    /// The rank ended without a word.
    #[error("the rank ended in the middle of the case ({status})")]
    Crashed {
        /// How it ended.
        status: String,
    },
    /// Nothing was heard of the rank for too long: something waits for ever.
    #[error("nothing was heard of the rank for {} s", after.as_secs())]
    Hung {
        /// How long was waited.
        after: Duration,
    },
}

/// What carries the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// Threads of one process.
    Threads,
    /// Processes of their own.
    Processes,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Carrier::Threads => "threads",
            Carrier::Processes => "processes",
        })
    }
}

/// What came of one case on all its ranks.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The place of the case in the list that was run.
    pub index: usize,
    /// The case.
    pub case: Case,
    /// What carried its ranks.
    pub carrier: Carrier,
    /// The ranks it failed on, and why; none if it passed.
    pub failures: Vec<(usize, Failure)>,
}

impl Outcome {
    /// Whether it passed on every rank.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// `ok` or, for a failed case, each rank's reason and the line that runs it again.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.passed() {
            return write!(f, "case {} ({}): ok", self.index, self.carrier);
        }
        writeln!(f, "case {} ({}) failed", self.index, self.carrier)?;
        for (rank, failure) in &self.failures {
            writeln!(f, "  rank {rank}: {failure}")?;
        }
        let json = self.case.to_json().unwrap_or_else(|error| error.to_string());
        write!(f, "  again, seed {}: {json}", self.case.seed)
    }
}

/// How many cases passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Cases that passed on every rank.
    pub passed: u64,
    /// Cases that failed on some rank.
    pub failed: u64,
}

impl Summary {
    /// Counts one outcome more.
    pub fn count(&mut self, outcome: &Outcome) {
        if outcome.passed() {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }
}

impl std::ops::Add for Summary {
    type Output = Summary;

    fn add(self, other: Summary) -> Summary {
        Summary {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}
