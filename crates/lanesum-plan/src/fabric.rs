//! The links between GPUs, and what they carry when all ranks send to all.
//!
//! From how any two GPUs lie to each other follows a tree: GPUs that are plugged into one switch, switches below another, those of a
//! NUMA node, and the host. What leaves such a group goes by a link that all of it shares. An all-reduce that pushes sends as many bytes
//! between any two ranks, in one phase or two, so a phase ends when the busiest link has carried its part:
//!
//! ```text
//! bytes between two ranks x max over links (ordered pairs that cross the link / bytes a microsecond that it carries)
//! ```
//!
//! which is what a fluid model of fair shares gives for such traffic, latencies apart. A label may lie (a virtual machine hides switches,
//! a switch may be partitioned), so this is right only to an order of magnitude where labels are all
//! that is known.
//!
//! | link | GB/s each way, Gen5 x16 | whence |
//! |---|---|---|
//! | of a GPU to one other, by kernels' stores | 45 | limits of physics that lanesum plans with (cost.rs) |
//! | of a GPU to several, all sending to all | 25 | the same |
//! | from a switch upwards | 45 | an assumption: as a GPU's own |
//! | between NUMA nodes | 50 | an assumption |
//! | an NVLink | 20 | an assumption |
//!
//! | way | a hop, us | whence |
//! |---|---|---|
//! | one switch, NVLink | 0.7 | 0.65 to 0.75, as above |
//! | several switches | 0.8 | an assumption |
//! | the processor | 1.0 | 1.0 to 1.1, as above |
//! | host bridges of a node | 1.1 | as above |
//! | nodes | 1.5 | an assumption |

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::counted;
use crate::{PcieLink, Rank, RankGpu, Relation, WorldSize};

mod survey;

use survey::Survey;

/// From a GPU to one other, and to several while all send to all: bytes a microsecond that kernels store on Gen5 x16.
const PAIR: f64 = 45_000.0;
const GPU: f64 = 25_000.0;

/// What is known of the links between the ranks' GPUs; nothing, by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Links {
    /// How the GPUs of two ranks lie to each other; `None` where it isn't known, for a rank itself, and for two on one GPU. Empty if
    /// nothing is known.
    pub relations: Vec<Vec<Option<Relation>>>,
    /// The link of each rank's GPU, at most. Empty if nothing is known.
    pub pcie: Vec<Option<PcieLink>>,
}

impl Links {
    /// What the slots of GPUs tell, and before them their NVLinks to each other; nothing, where neither is known.
    #[must_use]
    pub fn of_slots(gpus: &[RankGpu]) -> Links {
        let tells = |gpu: &RankGpu| gpu.slot.is_some() || gpu.nvlinks.as_ref().is_some_and(|links| !links.is_empty());
        if !gpus.iter().any(tells) {
            return Links::default();
        }
        let relation = |one: &RankGpu, other: &RankGpu| {
            if one.pci_bus_id == other.pci_bus_id {
                return None;
            }
            let by_slots = || one.slot.as_ref()?.relation(other.slot.as_ref()?);
            Relation::by_nvlinks(one, other).or_else(by_slots)
        };
        Links {
            relations: gpus
                .iter()
                .map(|one| gpus.iter().map(|other| relation(one, other)).collect())
                .collect(),
            pcie: gpus.iter().map(|gpu| gpu.slot.as_ref()?.link).collect(),
        }
    }

    /// How two ranks' GPUs lie to each other, if it is known.
    #[must_use]
    pub fn relation(&self, one: Rank, other: Rank) -> Option<Relation> {
        *self.relations.get(one.index())?.get(other.index())?
    }

    fn share(&self, rank: Rank) -> f64 {
        let known = self.pcie.get(rank.index()).copied().flatten();
        known.unwrap_or(PcieLink::ASSUMED).share()
    }

    /// What the slowest of the ranks' links carries, in thousandths of Gen5 x16.
    pub(crate) fn slowest(&self, world: WorldSize) -> u32 {
        let least = world.ranks().map(|rank| self.share(rank)).fold(f64::INFINITY, f64::min);
        ((least * 1000.0).round() as u32).max(1)
    }

    /// Whether it describes this many ranks, or none.
    pub(crate) fn describe(&self, ranks: usize) -> bool {
        let square = self.relations.len() == ranks && self.relations.iter().all(|row| row.len() == ranks);
        (self.relations.is_empty() || square) && (self.pcie.is_empty() || self.pcie.len() == ranks)
    }
}

/// The links between some ranks' GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    world: WorldSize,
    groups: Vec<Group>,
    crowd: usize,
    hop_ns: u32,
    busiest: Busiest,
}

/// Ranks whose GPUs share the link by which they reach others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The farthest of the ways within it.
    pub within: Relation,
    /// By rank.
    pub ranks: Vec<Rank>,
}

/// The link that ends last when all send to all.
#[derive(Debug, Clone, PartialEq)]
pub struct Busiest {
    /// What it is.
    pub link: BusiestLink,
    /// The ordered pairs of ranks whose bytes cross it one way.
    pub pairs: u32,
    /// Microseconds that it takes for a byte between each two ranks.
    pair_us: f64,
}

/// A kind of link, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusiestLink {
    /// That of a GPU.
    Gpu(Rank),
    /// That from a switch, or a tree of them, upwards.
    Uplink(Vec<Rank>),
    /// That between NUMA nodes.
    Nodes(Vec<Rank>),
    /// The NVLinks between two GPUs.
    Nvlink(Rank, Rank),
    /// Those from a GPU to switches.
    NvlinkSwitch(Rank),
}

impl Fabric {
    /// The links between the ranks; `None` if how some two of them lie to each other isn't known, or if there are less than two.
    #[must_use]
    pub fn of(links: &Links, world: WorldSize) -> Option<Fabric> {
        Survey::of(links, world)
    }

    /// The groups, near ones first; one of three ranks or more may hold others.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The link that ends last.
    #[must_use]
    pub const fn busiest(&self) -> &Busiest {
        &self.busiest
    }

    /// The ranks, divided into those that are near each other: the smallest groups, and ranks that are in none. All in one where no two
    /// are nearer than the others.
    #[must_use]
    pub fn islands(&self) -> Vec<Vec<Rank>> {
        let mut islands: Vec<Vec<Rank>> = Vec::new();
        for group in &self.groups {
            if group
                .ranks
                .iter()
                .all(|rank| islands.iter().all(|island| !island.contains(rank)))
            {
                islands.push(group.ranks.clone());
            }
        }
        for rank in self.world.ranks() {
            if islands.iter().all(|island| !island.contains(&rank)) {
                islands.push(vec![rank]);
            }
        }
        islands.sort();
        islands
    }

    /// The most ranks that reach the host's memory by one link.
    #[must_use]
    pub const fn crowd(&self) -> usize {
        self.crowd
    }

    /// What the cost model needs.
    pub(crate) fn ways(&self) -> Ways {
        let peers = self.world.get().saturating_sub(1).max(1) as f64;
        Ways {
            hop_ns: self.hop_ns,
            byte_fs: (self.busiest.pair_us / peers * 1e9).ceil() as u32,
        }
    }
}

/// What it costs when all ranks send to all: a hop, and a byte that a rank sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ways {
    hop_ns: u32,
    byte_fs: u32,
}

impl Ways {
    /// Between GPUs of which it isn't known how they lie to each other: root ports of one socket, Gen5 x16.
    #[must_use]
    pub const fn assumed(world: WorldSize) -> Ways {
        let byte_fs = match world.get() {
            0..=2 => 1e9 / PAIR,
            _ => 1e9 / GPU,
        };
        Ways {
            hop_ns: 1000,
            byte_fs: byte_fs as u32,
        }
    }

    /// The same by links that carry so many thousandths of Gen5 x16.
    pub(crate) fn slowed(self, permille: u32) -> Ways {
        let byte_fs = u64::from(self.byte_fs) * 1000 / u64::from(permille.max(1));
        Ways {
            byte_fs: byte_fs.try_into().unwrap_or(u32::MAX),
            ..self
        }
    }

    pub(crate) fn hop_us(self) -> f64 {
        f64::from(self.hop_ns) / 1e3
    }

    pub(crate) fn byte_us(self) -> f64 {
        f64::from(self.byte_fs) / 1e9
    }
}

impl fmt::Display for Busiest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = counted(u64::from(self.pairs), "ordered pair");
        let cross = if self.pairs == 1 { "crosses" } else { "cross" };
        let all = |ranks: &[Rank]| ranks.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ");
        match &self.link {
            BusiestLink::Gpu(rank) => write!(f, "the link of rank {rank}'s GPU, which {pairs} {cross}"),
            BusiestLink::Uplink(ranks) => write!(
                f,
                "the link above the switch of ranks {}, which {pairs} {cross}",
                all(ranks)
            ),
            BusiestLink::Nodes(ranks) => write!(
                f,
                "the link from the NUMA node of ranks {}, which {pairs} {cross}",
                all(ranks)
            ),
            BusiestLink::Nvlink(one, other) => write!(f, "the NVLinks from rank {one} to rank {other}"),
            BusiestLink::NvlinkSwitch(rank) => write!(f, "the NVLinks of rank {rank}'s GPU, which {pairs} {cross}"),
        }
    }
}
