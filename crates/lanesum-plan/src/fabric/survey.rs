//! From how GPUs lie to each other to the links between them.

use super::{Busiest, BusiestLink, Fabric, Group, Links};
use crate::{Rank, Relation, WorldSize};

/// Between NUMA nodes, an NVLink, from a switch upwards: bytes a microsecond on Gen5 x16.
const NODES: f64 = 50_000.0;
const NVLINK: f64 = 20_000.0;
const UPLINK: f64 = 45_000.0;
/// The NVLinks of a GPU, at most: who has more with its peers together reaches all of them through switches.
const NVLINKS_MAX: u32 = 18;

/// The links that were found so far.
pub(super) struct Survey<'a> {
    links: &'a Links,
    world: WorldSize,
    carried: Vec<Busiest>,
    groups: Vec<Group>,
    crowd: usize,
}

impl<'a> Survey<'a> {
    pub(super) fn of(links: &'a Links, world: WorldSize) -> Option<Fabric> {
        let mut survey = Survey {
            links,
            world,
            carried: vec![],
            groups: vec![],
            crowd: 1,
        };
        let hop_ns = hop_ns(survey.farthest()?);
        survey.add_gpus();
        survey.add_nvlinks();
        survey.add_groups();
        // Of equals the first, which is the smaller one.
        let busier = |most: Busiest, next: Busiest| if next.pair_us > most.pair_us { next } else { most };
        Some(Fabric {
            world,
            groups: survey.groups,
            crowd: survey.crowd,
            hop_ns,
            busiest: survey.carried.into_iter().reduce(busier)?,
        })
    }

    /// The farthest of all pairs; `None` if one isn't known, or if there is none.
    fn farthest(&self) -> Option<Relation> {
        let mut farthest = None;
        for one in self.world.ranks() {
            for other in self.world.ranks().filter(|other| *other != one) {
                farthest = farthest.max(Some(self.links.relation(one, other)?));
            }
        }
        farthest
    }

    /// The NVLinks between two.
    fn bonds(&self, one: Rank, other: Rank) -> Option<u32> {
        match self.links.relation(one, other) {
            Some(Relation::Nvlink(bonds)) => Some(u32::from(bonds).max(1)),
            Some(Relation::Pix | Relation::Pxb | Relation::Phb | Relation::Node | Relation::Sys) | None => None,
        }
    }

    /// The ordered pairs, of those by PCIe, that leave these ranks.
    fn crossing(&self, below: &[Rank]) -> usize {
        let leave = |one: &Rank| {
            let others = self.world.ranks().filter(|other| !below.contains(other));
            others.filter(|other| self.bonds(*one, *other).is_none()).count()
        };
        below.iter().map(leave).sum()
    }

    fn carry(&mut self, link: BusiestLink, pairs: usize, bytes_per_us: f64) {
        self.carried.push(Busiest {
            link,
            pairs: pairs as u32,
            pair_us: pairs as f64 / bytes_per_us,
        });
    }

    fn add_gpus(&mut self) {
        for one in self.world.ranks() {
            let crossing = self.crossing(&[one]);
            let each = if crossing == 1 { super::PAIR } else { super::GPU };
            self.carry(BusiestLink::Gpu(one), crossing, each * self.links.share(one));
        }
    }

    fn add_nvlinks(&mut self) {
        for one in self.world.ranks() {
            let joined = |other| Some((other, self.bonds(one, other)?));
            let nvlinks: Vec<(Rank, u32)> = self.world.ranks().filter_map(joined).collect();
            let all: u32 = nvlinks.iter().map(|(_, bonds)| bonds).sum();
            if all > NVLINKS_MAX {
                let own = nvlinks.iter().map(|(_, bonds)| *bonds).max().unwrap_or(1);
                self.carry(BusiestLink::NvlinkSwitch(one), nvlinks.len(), NVLINK * f64::from(own));
                continue;
            }
            for (other, bonds) in nvlinks {
                self.carry(BusiestLink::Nvlink(one, other), 1, NVLINK * f64::from(bonds));
            }
        }
    }

    fn add_groups(&mut self) {
        for ranks in self.components(|one, other| self.bonds(one, other).is_some()) {
            let pairs = ranks
                .iter()
                .flat_map(|one| ranks.iter().map(move |other| (*one, *other)));
            let least = pairs.filter_map(|(one, other)| self.bonds(one, other)).min();
            let least = least.map_or(1, |bonds| bonds.try_into().unwrap_or(u8::MAX));
            self.list(Relation::Nvlink(least), ranks);
        }
        for within in Relation::PCIE {
            for ranks in self.components(|one, other| self.near(one, other, within)) {
                self.add_group(within, ranks);
            }
        }
    }

    /// Whether two are within this. Where two with NVLinks are plugged in is not told; a node has them together.
    fn near(&self, one: Rank, other: Rank, within: Relation) -> bool {
        match self.bonds(one, other) {
            Some(_) => within > Relation::Pxb,
            None => self
                .links
                .relation(one, other)
                .is_some_and(|relation| relation <= within),
        }
    }

    fn add_group(&mut self, within: Relation, ranks: Vec<Rank>) {
        let crossing = self.crossing(&ranks);
        match within {
            Relation::Pix | Relation::Pxb if ranks.len() > 1 => {
                let fastest = ranks.iter().map(|rank| self.links.share(*rank)).fold(0.0, f64::max);
                self.carry(BusiestLink::Uplink(ranks.clone()), crossing, UPLINK * fastest);
                self.crowd = self.crowd.max(ranks.len());
            }
            Relation::Node => self.carry(BusiestLink::Nodes(ranks.clone()), crossing, NODES),
            Relation::Pix | Relation::Pxb | Relation::Phb | Relation::Sys | Relation::Nvlink(_) => {}
        }
        self.list(within, ranks);
    }

    /// Each group of several ranks once, by the nearest word for it.
    fn list(&mut self, within: Relation, ranks: Vec<Rank>) {
        if ranks.len() > 1 && self.groups.iter().all(|group| group.ranks != ranks) {
            self.groups.push(Group { within, ranks });
        }
    }

    /// What hangs together, in order; where labels contradict one another, the nearer one counts.
    fn components(&self, near: impl Fn(Rank, Rank) -> bool) -> Vec<Vec<Rank>> {
        let mut found: Vec<Vec<Rank>> = Vec::new();
        for start in self.world.ranks() {
            if found.iter().any(|component| component.contains(&start)) {
                continue;
            }
            let mut component = vec![start];
            let mut next = 0;
            while let Some(&one) = component.get(next) {
                next += 1;
                let is_new = |other: &Rank| !component.contains(other) && near(one, *other);
                let new: Vec<Rank> = self.world.ranks().filter(is_new).collect();
                component.extend(new);
            }
            component.sort_unstable();
            found.push(component);
        }
        found
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
