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
//! | of a GPU to several, or to one and from another | 25 | the same |
//! | of a GPU, by loads of kernels | 35 | published of 2, 4 and 8 GPUs (decision 19) |
//! | of a GPU, by copy engines | 53 | 53 to 56, as above |
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
mod traffic;

use survey::Survey;
use traffic::Network;
pub(crate) use traffic::{Mover, Transfer};

/// From a GPU to one other, and to several while all send to all: bytes a microsecond that kernels store on Gen5 x16.
const PAIR: f64 = 45_000.0;
const GPU: f64 = 25_000.0;
/// The same that kernels load, and that copy engines move.
const LOAD: f64 = 35_000.0;
const COPY: f64 = 53_000.0;

/// What is known of the links between the ranks' GPUs; nothing, by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Links {
    /// How the GPUs of two ranks lie to each other; `None` where it isn't known, for a rank itself, and for two on one GPU. Empty if
    /// nothing is known.
    pub relations: Vec<Vec<Option<Relation>>>,
    /// The link of each rank's GPU, at most. Empty if nothing is known.
    pub pcie: Vec<Option<PcieLink>>,
    /// What copies from each rank's GPU to each other were measured to reach, alone. Empty if nothing was measured.
    #[serde(default)]
    pub copies: Vec<Vec<Option<CopyRates>>>,
    /// Whether switches send requests between two ranks' GPUs up to the root (ACS). Empty if nothing is known.
    #[serde(default)]
    pub redirects: Vec<Vec<Option<bool>>>,
}

/// Measured rates of copies from one GPU to another, nothing else running, in millions of bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRates {
    /// With peer access.
    pub peer: Option<u32>,
    /// Without, so through the host's memory.
    pub staged: Option<u32>,
    /// How much longer a word takes with peer access than within one GPU, in nanoseconds.
    #[serde(default)]
    pub latency_ns: Option<u32>,
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
            copies: vec![],
            redirects: gpus
                .iter()
                .map(|one| {
                    gpus.iter()
                        .map(|other| one.slot.as_ref()?.redirects(other.slot.as_ref()?))
                        .collect()
                })
                .collect(),
        }
    }

    /// How two ranks' GPUs lie to each other, if it is known.
    #[must_use]
    pub fn relation(&self, one: Rank, other: Rank) -> Option<Relation> {
        *self.relations.get(one.index())?.get(other.index())?
    }

    /// What copies between two ranks' GPUs were measured to reach, if they were.
    #[must_use]
    pub fn copies(&self, from: Rank, to: Rank) -> Option<CopyRates> {
        *self.copies.get(from.index())?.get(to.index())?
    }

    /// What a rank's link carries between GPUs, of what Gen5 x16 does: what copies with peer access reached, or else what it can by its kind.
    pub(crate) fn share(&self, rank: Rank) -> f64 {
        self.reached(rank, |rates| rates.peer)
            .unwrap_or_else(|| self.own_share(rank))
    }

    /// The same to the host's memory: what it can by its kind, or what copies through the host reached where that isn't known.
    fn host_share(&self, rank: Rank) -> f64 {
        if self.pcie.get(rank.index()).copied().flatten().is_some() {
            return self.own_share(rank);
        }
        self.reached(rank, |rates| rates.staged)
            .unwrap_or_else(|| self.own_share(rank))
    }

    fn own_share(&self, rank: Rank) -> f64 {
        let known = self.pcie.get(rank.index()).copied().flatten();
        known.unwrap_or(PcieLink::ASSUMED).share()
    }

    /// The best rate of a rank's copies, of what Gen5 x16 reaches, to or from GPUs that it has no NVLinks to.
    fn reached(&self, rank: Rank, rate: impl Fn(CopyRates) -> Option<u32>) -> Option<f64> {
        let others = (0..self.copies.len()).filter_map(|other| Rank::new(other).ok());
        let best = others
            .filter(|other| !matches!(self.relation(rank, *other), Some(Relation::Nvlink(_))))
            .flat_map(|other| [self.copies(rank, other), self.copies(other, rank)])
            .filter_map(|rates| rate(rates?))
            .max()?;
        Some(f64::from(best.max(1)) / COPY)
    }

    /// What the slowest of the ranks' links carries between GPUs, in thousandths of Gen5 x16.
    pub(crate) fn slowest(&self, world: WorldSize) -> u32 {
        permille(world.ranks().map(|rank| self.share(rank)))
    }

    /// The same to the host's memory.
    pub(crate) fn slowest_to_host(&self, world: WorldSize) -> u32 {
        permille(world.ranks().map(|rank| self.host_share(rank)))
    }

    /// Whether it describes this many ranks, or none.
    pub(crate) fn describe(&self, ranks: usize) -> bool {
        let square = self.relations.len() == ranks && self.relations.iter().all(|row| row.len() == ranks);
        let measured = self.copies.len() == ranks && self.copies.iter().all(|row| row.len() == ranks);
        let told = self.redirects.len() == ranks && self.redirects.iter().all(|row| row.len() == ranks);
        (self.relations.is_empty() || square)
            && (self.redirects.is_empty() || told)
            && (self.pcie.is_empty() || self.pcie.len() == ranks)
            && (self.copies.is_empty() || measured)
    }
}

fn permille(shares: impl Iterator<Item = f64>) -> u32 {
    ((shares.fold(f64::INFINITY, f64::min) * 1000.0).round() as u32).max(1)
}

/// The links between some ranks' GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    network: Network,
    crowd: usize,
    busiest: Busiest,
}

/// Ranks whose GPUs share the link by which they reach others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The farthest of the ways within it.
    pub within: Relation,
    /// Whether measurements part it from the others, and not labels.
    pub measured: bool,
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
    /// All that lies between two GPUs, as it was measured.
    Pair(Rank, Rank),
}

impl Fabric {
    /// The links between the ranks; `None` if how some two of them lie to each other isn't known, or if there are less than two.
    #[must_use]
    pub fn of(links: &Links, world: WorldSize) -> Option<Fabric> {
        Survey::of(links, world)
    }

    /// The same, where a pair of which nothing is known counts as root ports of one socket; `None` for less than two ranks.
    #[must_use]
    pub fn assumed(links: &Links, world: WorldSize) -> Option<Fabric> {
        let all = || world.ranks();
        let relation =
            |one: Rank, other: Rank| (one != other).then(|| links.relation(one, other).unwrap_or(Relation::Phb));
        let links = Links {
            relations: all()
                .map(|one| all().map(|other| relation(one, other)).collect())
                .collect(),
            ..links.clone()
        };
        Survey::of(&links, world)
    }

    /// How two ranks' GPUs lie to each other; `None` for a rank itself.
    pub(crate) fn relation(&self, one: Rank, other: Rank) -> Option<Relation> {
        self.network.relation(one, other)
    }

    /// The first ranks that share a link over which they store for several other root ports at once, when all store for all: such stores were seen
    /// to collapse.
    #[must_use]
    pub fn scattering(&self) -> Option<&[Rank]> {
        self.network.scattering()
    }

    /// The microseconds that these transfers take together, latencies apart.
    pub(crate) fn play_us(&self, mover: Mover, transfers: &[Transfer]) -> f64 {
        self.network.play_us(mover, transfers)
    }

    /// The longest hop from one rank of these to another, in microseconds.
    pub(crate) fn hop_us(&self, ranks: &[Rank]) -> f64 {
        let pairs = ranks
            .iter()
            .flat_map(|one| ranks.iter().map(move |other| (*one, *other)));
        let apart = pairs.filter(|(one, other)| one != other);
        let longest = apart.map(|(one, other)| self.network.hop_ns(one, other)).max();
        f64::from(longest.unwrap_or(0)) / 1e3
    }

    /// The ranks.
    pub(crate) const fn world(&self) -> WorldSize {
        self.network.world
    }

    /// The groups, near ones first; one of three ranks or more may hold others.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.network.groups
    }

    /// The link that ends last.
    #[must_use]
    pub const fn busiest(&self) -> &Busiest {
        &self.busiest
    }

    /// The ranks, divided into those that are near each other: the smallest groups that reach all others by a link of their own, or that
    /// measurements part from them; and ranks that are in none. All in one where no two are nearer than the others.
    #[must_use]
    pub fn islands(&self) -> Vec<Vec<Rank>> {
        let mut islands: Vec<Vec<Rank>> = Vec::new();
        // Root ports of one host bridge share no link with each other that the others do not use.
        let parted = |group: &&Group| {
            group.measured || group.within != Relation::Phb || group.ranks.len() == self.network.world.get()
        };
        for group in self.network.groups.iter().filter(parted) {
            if group
                .ranks
                .iter()
                .all(|rank| islands.iter().all(|island| !island.contains(rank)))
            {
                islands.push(group.ranks.clone());
            }
        }
        for rank in self.network.world.ranks() {
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
        let peers = self.network.world.get().saturating_sub(1).max(1) as f64;
        let all: Vec<Rank> = self.network.world.ranks().collect();
        Ways {
            hop_ns: (self.hop_us(&all) * 1e3).round() as u32,
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
            BusiestLink::Pair(one, other) => write!(f, "the way from rank {one} to rank {other}, as it was measured"),
            BusiestLink::NvlinkSwitch(rank) => write!(f, "the NVLinks of rank {rank}'s GPU, which {pairs} {cross}"),
        }
    }
}

const fn hop_ns(farthest: Relation) -> u32 {
    match farthest {
        Relation::Nvlink(_) | Relation::Pix => 700,
        Relation::Pxb => 800,
        Relation::Phb => 1000,
        Relation::Node => 1100,
        Relation::Sys => 1500,
    }
}
