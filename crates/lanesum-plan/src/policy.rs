//! What the user may decide: the algorithm, and how much memory the ranks share.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::algorithm::LINE;
use crate::closed::closed_words;
use crate::{AlgorithmName, Bytes, PlanError, WorldSize};

/// Staging and shared memory come in multiples of this, the smallest page.
pub const STAGING_UNIT: Bytes = Bytes::new(4096);
/// The most staging of a rank.
pub const STAGING_MAX: Bytes = Bytes::new(64 << 20);
/// The largest arena of shared buffers of one rank. Offsets into a segment of [`crate::WORLD_MAX`] such arenas stay far
/// from the ends of 64 bits.
pub const SHARED_MAX: Bytes = Bytes::new(64 << 30);

/// Who chooses the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AlgorithmChoice {
    /// The plan, by its cost model.
    #[default]
    Auto,
    /// The user, for every call with a payload and peers.
    Only(AlgorithmName),
}

impl fmt::Display for AlgorithmChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlgorithmChoice::Auto => f.pad(AUTO),
            AlgorithmChoice::Only(name) => name.fmt(f),
        }
    }
}

const AUTO: &str = "auto";

/// `auto` and every algorithm's name.
const CHOICES: [&str; 1 + AlgorithmName::ALL.len()] = {
    let mut choices = [AUTO; 1 + AlgorithmName::ALL.len()];
    let mut next = 0;
    while next < AlgorithmName::ALL.len() {
        choices[next + 1] = AlgorithmName::ALL[next].name();
        next += 1;
    }
    choices
};

impl FromStr for AlgorithmChoice {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<AlgorithmChoice, PlanError> {
        if text == AUTO {
            return Ok(AlgorithmChoice::Auto);
        }
        text.parse()
            .map(AlgorithmChoice::Only)
            .map_err(|_: PlanError| PlanError::UnknownWord {
                kind: "algorithm",
                word: text.to_owned(),
                known: &CHOICES,
            })
    }
}

impl TryFrom<String> for AlgorithmChoice {
    type Error = PlanError;

    fn try_from(text: String) -> Result<AlgorithmChoice, PlanError> {
        text.parse()
    }
}

impl From<AlgorithmChoice> for String {
    fn from(choice: AlgorithmChoice) -> String {
        choice.to_string()
    }
}

closed_words! {
    /// Who chooses how bytes reach a peer's GPU.
    #[derive(Default)]
    pub enum PathChoice ("path") {
        /// The plan: peer access where it is proven for all pairs, else pinned host memory.
        #[default]
        Auto = 0 => "auto",
        /// The user: straight into the memory of its GPU, or not at all.
        Peer = 1 => "peer",
        /// The user: through pinned host memory, or not at all.
        HostStaged = 2 => "host_staged",
    }
}

/// What the user asks of the plan. All ranks must ask for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Policy {
    /// Who chooses the algorithm.
    pub algorithm: AlgorithmChoice,
    /// Who chooses the path between GPUs.
    #[serde(default)]
    pub path: PathChoice,
}

/// How much memory each rank shares. All ranks must say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// What a rank can post at once: on the host its mailboxes to all peers together, on GPUs one half of a peer's region
    /// in its inbox.
    pub staging: Bytes,
    /// The arena from which a rank's shared buffers are allocated; may be 0.
    pub shared: Bytes,
}

impl Limits {
    /// The least that ranks can do with: long messages then move in many short exchanges.
    pub const LEAST: Limits = Limits {
        staging: STAGING_UNIT,
        shared: Bytes::new(0),
    };

    /// Bytes of the mailbox from a rank of the host to each other: its part of the staging, in whole cache lines.
    #[must_use]
    pub const fn mailbox(&self, world: WorldSize) -> Bytes {
        let peers = match world.get() as u64 {
            0 | 1 => 1,
            world => world - 1,
        };
        Bytes::new(self.staging.get() / LINE / peers * LINE)
    }

    /// Checked limits.
    ///
    /// # Errors
    /// As [`Limits::check`].
    pub fn new(staging: Bytes, shared: Bytes) -> Result<Limits, PlanError> {
        let limits = Limits { staging, shared };
        limits.check()?;
        Ok(limits)
    }

    /// Checks that a segment can be laid out with these limits. The plan does so too.
    ///
    /// # Errors
    /// [`PlanError::Staging`] unless the staging is a multiple of [`STAGING_UNIT`] from [`STAGING_UNIT`] to
    /// [`STAGING_MAX`]; [`PlanError::Shared`] unless the arena is a multiple of [`STAGING_UNIT`] up to [`SHARED_MAX`].
    pub fn check(&self) -> Result<(), PlanError> {
        let whole = |bytes: Bytes| bytes.get().is_multiple_of(STAGING_UNIT.get());
        if !whole(self.staging) || self.staging < STAGING_UNIT || self.staging > STAGING_MAX {
            return Err(PlanError::Staging { staging: self.staging });
        }
        if !whole(self.shared) || self.shared > SHARED_MAX {
            return Err(PlanError::Shared { shared: self.shared });
        }
        Ok(())
    }
}

/// 1 MiB of staging and 4 MiB of shared memory: with eight ranks some 40 MiB and the control lines.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            staging: Bytes::new(1 << 20),
            shared: Bytes::new(4 << 20),
        }
    }
}
