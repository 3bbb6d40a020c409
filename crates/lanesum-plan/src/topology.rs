//! What was observed of the host and of the ranks on it. Observing is another room's work; here it is only described,
//! so that all ranks can plan from the same bytes. Unknown is `None`, never a guess.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Gpus, NcclWishes, PlanError, WorldSize};

/// Where the ranks run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Topology {
    /// One description a rank, by rank.
    pub ranks: Vec<RankHost>,
    /// The host that all ranks are on.
    pub host: HostFacts,
    /// The GPUs, if every rank has attached one.
    #[serde(default)]
    pub gpus: Option<Gpus>,
}

impl Topology {
    /// Checks that this many ranks are described.
    pub(crate) fn check(&self, world: WorldSize) -> Result<(), PlanError> {
        let described = |topology| PlanError::TopologyWorld {
            topology,
            world: world.get(),
        };
        if self.ranks.len() != world.get() {
            return Err(described(self.ranks.len()));
        }
        match &self.gpus {
            Some(gpus) if !gpus.describe(world.get()) => Err(described(gpus.ranks.len().min(gpus.peers.len()))),
            Some(_) | None => Ok(()),
        }
    }

    /// The number of processors that the ranks may use together; `None` if no rank knows its own.
    #[must_use]
    pub fn cores(&self) -> Option<usize> {
        let all = self
            .ranks
            .iter()
            .fold(CpuSet::default(), |all, rank| all.union(&rank.cpus));
        (!all.is_empty()).then(|| all.len())
    }
}

/// Where one rank runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RankHost {
    /// The processors that the rank may run on; empty if unknown, as a rank that runs has at least one.
    pub cpus: CpuSet,
    /// What its environment tells NCCL of peer access.
    #[serde(default)]
    pub nccl: NcclWishes,
}

/// Facts about the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// The processor's name for itself. For people: nothing is decided by it.
    pub cpu_model: Option<String>,
    /// How many NUMA nodes there are.
    pub numa_nodes: Option<u32>,
    /// The size of a page.
    pub page: Option<Bytes>,
    /// The most memory that the ranks' control group may use.
    pub memory_limit: Option<Bytes>,
    /// Whether the ranks run in a container.
    pub container: Option<bool>,
    /// Whether this is a virtual machine.
    #[serde(default)]
    pub virtualised: Option<bool>,
    /// Whether this is Windows' subsystem for Linux.
    #[serde(default)]
    pub wsl: Option<bool>,
    /// Whether an IOMMU is in use, as far as the system sees it.
    #[serde(default)]
    pub iommu: Option<bool>,
}

const WORDS: usize = 16;

/// A set of processors, numbered from 0 to 1023. As text and JSON it is a list of ranges: `0-3,8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet {
    words: [u64; WORDS],
}

impl CpuSet {
    /// The number of processors that a set can tell apart.
    pub const CAPACITY: usize = WORDS * 64;

    /// Whether the processor is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// The processors that are in either set.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        let mut both = *self;
        for (mine, theirs) in both.words.iter_mut().zip(other.words) {
            *mine |= theirs;
        }
        both
    }

    /// The number of processors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The processors in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::CAPACITY).filter(|cpu| self.contains(*cpu))
    }

    /// Adds a processor; false if its number is too large to be held.
    fn insert(&mut self, cpu: usize) -> bool {
        match self.words.get_mut(cpu / 64) {
            Some(word) => {
                *word |= 1 << (cpu % 64);
                true
            }
            None => false,
        }
    }
}

/// Processors from [`CpuSet::CAPACITY`] on are left out: the set then understates what a rank may use.
impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        for cpu in cpus.into_iter().filter(|cpu| *cpu < CpuSet::CAPACITY) {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                Some(_) | None => ranges.push((cpu, cpu)),
            }
        }
        let texts: Vec<String> = ranges
            .into_iter()
            .map(|(first, last)| {
                if first == last {
                    first.to_string()
                } else {
                    format!("{first}-{last}")
                }
            })
            .collect();
        f.pad(&texts.join(","))
    }
}

/// Strict: no blanks, no descending ranges, no number from [`CpuSet::CAPACITY`] on.
impl FromStr for CpuSet {
    type Err = PlanError;

    fn from_str(list: &str) -> Result<CpuSet, PlanError> {
        let mut set = CpuSet::default();
        if list.is_empty() {
            return Ok(set);
        }
        let fault = || PlanError::CpuList {
            list: list.chars().take(100).collect(),
        };
        let number = |text: &str| -> Result<usize, PlanError> {
            let plain = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse()
                .ok()
                .filter(|cpu| plain && *cpu < CpuSet::CAPACITY)
                .ok_or_else(fault)
        };
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if first > last || !(first..=last).all(|cpu| set.insert(cpu)) {
                return Err(fault());
            }
        }
        Ok(set)
    }
}

impl TryFrom<String> for CpuSet {
    type Error = PlanError;

    fn try_from(list: String) -> Result<CpuSet, PlanError> {
        list.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}
