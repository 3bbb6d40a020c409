//! What was observed of the GPUs, one a rank, and of the ways between them.
//!
//! A driver's yes to peer access is a claim: boards exist whose writes to each other are lost. So what counts for a pair
//! of ranks is a verdict, and only the owner of the memory can give the good one, after it has read the right bytes.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Rank};

/// The GPUs of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gpus {
    /// One description a rank, by rank. Ranks may share a GPU.
    pub ranks: Vec<RankGpu>,
    /// Whether writes arrive: first by the rank that writes, then by the rank that owns the memory.
    pub peers: Vec<Vec<PeerVerdict>>,
}

impl Gpus {
    /// How many ranks use this rank's GPU, itself included; 0 for a rank that is not described.
    #[must_use]
    pub fn sharing(&self, rank: Rank) -> usize {
        let Some(own) = self.ranks.get(rank.index()) else {
            return 0;
        };
        self.ranks.iter().filter(|gpu| gpu.uuid == own.uuid).count()
    }

    /// Whether ranks share a GPU.
    #[must_use]
    pub fn shared(&self) -> bool {
        self.distinct() < self.ranks.len()
    }

    /// How many GPUs there are.
    #[must_use]
    pub fn distinct(&self) -> usize {
        let first = |(place, gpu): &(usize, &RankGpu)| self.ranks[..*place].iter().all(|other| other.uuid != gpu.uuid);
        self.ranks.iter().enumerate().filter(first).count()
    }

    /// Whether these describe so many ranks, and the way between any two of them.
    pub(crate) fn describe(&self, ranks: usize) -> bool {
        self.ranks.len() == ranks && self.peers.len() == ranks && self.peers.iter().all(|row| row.len() == ranks)
    }
}

/// The GPU of one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankGpu {
    /// What tells this GPU from all others; ranks with equal ones share it.
    pub uuid: String,
    /// Where it is plugged in.
    pub pci_bus_id: String,
    /// Its name for itself. For people: nothing is decided by it.
    pub name: String,
    /// Its compute capability, major and minor.
    pub compute: (u32, u32),
    /// How many blocks of threads it runs at once, at least.
    pub multiprocessors: u32,
    /// The most threads of a block.
    pub threads_per_block: u32,
    /// Its memory.
    pub memory: Bytes,
    /// The version of CUDA that its driver supports, such as 12040.
    pub driver: u32,
    /// Whether the driver ends kernels that run for seconds.
    pub watchdog: bool,
    /// Whether it is no GPU at all but a library that stands in for one in tests.
    pub stand_in: bool,
}

/// Whether what one rank writes to memory of another's GPU arrives there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum PeerVerdict {
    /// The memory is the rank's own; for no other pair does this stand.
    Own,
    /// The owner has read what the writer wrote.
    Proven,
    /// The driver does not let the writer map the memory.
    Refused {
        /// What it says.
        reason: String,
    },
    /// The owner has read something else than the writer wrote.
    Disproven {
        /// What it found.
        found: String,
    },
    /// Nobody has tried yet.
    Unknown,
}
