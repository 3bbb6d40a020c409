//! What was observed of the GPUs, one a rank, and of the ways between them.
//!
//! A driver's yes to peer access is a claim: boards exist whose writes to each other are lost. So what counts for a pair
//! of ranks is a verdict, and only the owner of the memory can give the good one, after it has read the right bytes.

use serde::{Deserialize, Serialize};

use crate::gates::{Way, proven_along};
use crate::{Bytes, Fabric, Links, Nvlinks, Rank, Refusal, Slot, WorldSize};

/// The GPUs of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gpus {
    /// One description a rank, by rank. Ranks may share a GPU.
    pub ranks: Vec<RankGpu>,
    /// Whether writes to memory of the owner's GPU arrive: first by the rank that writes, then by the rank that owns the memory.
    pub peers: Vec<Vec<PeerVerdict>>,
    /// The same of writes to the owner's part of pinned host memory.
    #[serde(default)]
    pub staged: Vec<Vec<PeerVerdict>>,
    /// What lies between them.
    #[serde(default)]
    pub links: Links,
}

impl Gpus {
    /// These GPUs, with what their slots and NVLinks tell of the links between them; whether bytes arrive is not known yet.
    #[must_use]
    pub fn new(ranks: Vec<RankGpu>) -> Gpus {
        let unknown = vec![vec![PeerVerdict::Unknown; ranks.len()]; ranks.len()];
        Gpus {
            peers: unknown.clone(),
            staged: unknown,
            links: Links::of_slots(&ranks),
            ranks,
        }
    }

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

    /// The most ranks that share one slot, and so one link: those on one GPU, also on different MIG instances of it.
    #[must_use]
    pub fn crowd(&self) -> usize {
        let beside = |own: &RankGpu| self.ranks.iter().filter(|gpu| gpu.pci_bus_id == own.pci_bus_id).count();
        self.ranks.iter().map(beside).max().unwrap_or(0)
    }

    /// The most ranks that reach the host's memory by one link: those that share a slot, or a switch.
    #[must_use]
    pub fn host_crowd(&self) -> usize {
        self.crowd().max(self.fabric().map_or(1, |fabric| fabric.crowd()))
    }

    /// Why peer access does not serve all pairs of ranks, if it was tried and does not.
    #[must_use]
    pub fn peer_refusal(&self) -> Option<Refusal> {
        let world = WorldSize::new(self.ranks.len()).ok()?;
        let refused = proven_along(Way::Peer, Some(self), world).err()?;
        let untried = matches!(refused, Refusal::PeerUnproven { .. });
        (!untried).then_some(refused)
    }

    /// The links between them, if they are known and every rank has a GPU of its own.
    #[must_use]
    pub fn fabric(&self) -> Option<Fabric> {
        let world = WorldSize::new(self.ranks.len()).ok()?;
        if self.shared() {
            None
        } else {
            Fabric::of(&self.links, world)
        }
    }

    /// How many GPUs there are.
    #[must_use]
    pub fn distinct(&self) -> usize {
        let first = |(place, gpu): &(usize, &RankGpu)| self.ranks[..*place].iter().all(|other| other.uuid != gpu.uuid);
        self.ranks.iter().enumerate().filter(first).count()
    }

    /// Whether these describe so many ranks, and the way between any two of them.
    pub(crate) fn describe(&self, ranks: usize) -> bool {
        let square =
            |verdicts: &[Vec<PeerVerdict>]| verdicts.len() == ranks && verdicts.iter().all(|row| row.len() == ranks);
        // What was written before there was this way says nothing of it.
        let ways = square(&self.peers) && (self.staged.is_empty() || square(&self.staged));
        self.ranks.len() == ranks && ways && self.links.describe(ranks)
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
    /// The NUMA node that its PCIe slot belongs to; `None` if unknown, or if there is only one.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// What lies above it, if that is known.
    #[serde(default)]
    pub slot: Option<Slot>,
    /// Whether it is cut into MIG instances; `None` if unknown.
    #[serde(default)]
    pub mig: Option<bool>,
    /// The window through which others reach its memory; `None` if unknown.
    #[serde(default)]
    pub bar1: Option<Bytes>,
    /// Its active NVLinks, if the management library tells of them.
    #[serde(default)]
    pub nvlinks: Option<Vec<Nvlinks>>,
    /// Whether it is no GPU at all but a library that stands in for one in tests.
    pub stand_in: bool,
}

/// Whether what one rank's GPU writes to an inbox of another rank arrives there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum PeerVerdict {
    /// The memory is the rank's own; for no other pair does this stand.
    Own,
    /// The owner has read what the writer wrote.
    Proven,
    /// The driver or the system does not let the writer map the memory.
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
    /// Nobody has tried, and a plan for a machine that isn't at hand supposes that it arrives. No rank can say so of its own: what they
    /// tell each other has no such word, and no engine maps memory for it.
    #[serde(skip_deserializing)]
    Assumed,
    /// The same, and the driver of that machine is said to grant it, which is no more than a claim.
    #[serde(skip_deserializing)]
    Granted,
}
