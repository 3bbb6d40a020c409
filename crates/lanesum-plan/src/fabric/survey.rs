//! From how GPUs lie to each other to the links between them.

use super::traffic::{Network, Rates, Wire};
use super::{BusiestLink, COPY, Fabric, GPU, Group, LOAD, Links, PAIR};
use crate::{Rank, Relation, WorldSize};

/// Between NUMA nodes, an NVLink, from a switch upwards: bytes a microsecond on Gen5 x16.
const NODES: f64 = 50_000.0;
const NVLINK: f64 = 20_000.0;
const UPLINK: f64 = 45_000.0;
/// Measured rates whose neighbours, in order, differ by less belong together.
const LEVEL: f64 = 1.3;
/// The NVLinks of a GPU, at most: who has more with its peers together reaches all of them through switches.
const NVLINKS_MAX: u32 = 18;

/// The links that were found so far.
pub(super) struct Survey<'a> {
    links: &'a Links,
    world: WorldSize,
    wires: Vec<Wire>,
    groups: Vec<Group>,
    crowd: usize,
}

impl<'a> Survey<'a> {
    pub(super) fn of(links: &'a Links, world: WorldSize) -> Option<Fabric> {
        let mut survey = Survey {
            links,
            world,
            wires: vec![],
            groups: vec![],
            crowd: 1,
        };
        if !survey.is_known() {
            return None;
        }
        survey.add_gpus();
        survey.add_nvlinks();
        survey.add_measured();
        survey.add_groups();
        let network = Network {
            world,
            relations: links.relations.clone(),
            latencies: links
                .copies
                .iter()
                .map(|row| row.iter().map(|rates| rates.as_ref()?.latency_ns).collect())
                .collect(),
            wires: survey.wires,
            groups: survey.groups,
        };
        Some(Fabric {
            busiest: network.last_of_all()?,
            network,
            crowd: survey.crowd,
        })
    }

    /// Whether each pair's relation is known, or what copies between them reach.
    fn is_known(&self) -> bool {
        let others = |one: Rank| self.world.ranks().filter(move |other| *other != one);
        let mut pairs = self
            .world
            .ranks()
            .flat_map(|one| others(one).map(move |other| (one, other)));
        pairs.all(|(one, other)| {
            let measured = || self.links.copies(one, other).is_some_and(|rates| rates.peer.is_some());
            self.links.relation(one, other).is_some() || measured()
        })
    }

    /// The NVLinks between two.
    fn bonds(&self, one: Rank, other: Rank) -> Option<u32> {
        match self.links.relation(one, other) {
            Some(Relation::Nvlink(bonds)) => Some(u32::from(bonds).max(1)),
            Some(Relation::Pix | Relation::Pxb | Relation::Phb | Relation::Node | Relation::Sys) | None => None,
        }
    }

    fn add(&mut self, link: BusiestLink, rates: Rates) {
        self.wires.push(Wire { link, rates });
    }

    fn add_gpus(&mut self) {
        for one in self.world.ranks() {
            let share = self.links.share(one);
            let rates = Rates {
                store: [PAIR * share, GPU * share],
                load: LOAD * share,
                copy: COPY * share,
            };
            self.add(BusiestLink::Gpu(one), rates);
        }
    }

    fn add_nvlinks(&mut self) {
        for one in self.world.ranks() {
            let joined = |other| Some((other, self.bonds(one, other)?));
            let nvlinks: Vec<(Rank, u32)> = self.world.ranks().filter_map(joined).collect();
            let all: u32 = nvlinks.iter().map(|(_, bonds)| bonds).sum();
            if all > NVLINKS_MAX {
                let own = nvlinks.iter().map(|(_, bonds)| *bonds).max().unwrap_or(1);
                self.add(BusiestLink::NvlinkSwitch(one), Rates::even(NVLINK * f64::from(own)));
                continue;
            }
            for (other, bonds) in nvlinks {
                let measured = self.links.copies(one, other).is_some_and(|rates| rates.peer.is_some());
                if !measured {
                    self.add(BusiestLink::Nvlink(one, other), Rates::even(NVLINK * f64::from(bonds)));
                }
            }
        }
    }

    /// What was measured between two, which kernels use as well as they use a link of which as much is known.
    fn add_measured(&mut self) {
        for one in self.world.ranks() {
            for other in self.world.ranks() {
                let Some(rate) = self.links.copies(one, other).and_then(|rates| rates.peer) else {
                    continue;
                };
                let rate = f64::from(rate.max(1));
                let rates = Rates {
                    store: [rate * PAIR / COPY; 2],
                    load: rate * LOAD / COPY,
                    copy: rate,
                };
                self.add(BusiestLink::Pair(one, other), rates);
            }
        }
        for ranks in self.measured_groups() {
            let pairs = ranks
                .iter()
                .flat_map(|one| ranks.iter().map(move |other| (*one, *other)));
            let within = pairs.filter_map(|(one, other)| self.links.relation(one, other)).max();
            let within = within.unwrap_or(Relation::Sys);
            if ranks.len() > 1 {
                self.groups.push(Group {
                    within,
                    measured: true,
                    ranks,
                });
            }
        }
    }

    /// Ranks that copies reach faster than others, whatever the labels say; none where rates don't part.
    fn measured_groups(&self) -> Vec<Vec<Rank>> {
        let others = |one: Rank| self.world.ranks().filter(move |other| *other != one);
        let pairs = || {
            self.world
                .ranks()
                .flat_map(|one| others(one).map(move |other| (one, other)))
        };
        let rate = |one: Rank, other: Rank| {
            let [there, back] = [(one, other), (other, one)].map(|(one, other)| self.links.copies(one, other)?.peer);
            Some(there?.min(back?))
        };
        let rates: Option<Vec<u32>> = pairs().map(|(one, other)| rate(one, other)).collect();
        let Some(mut rates) = rates else { return vec![] };
        rates.sort_unstable();
        let steps = rates
            .windows(2)
            .map(|two| (f64::from(two[1]) / f64::from(two[0].max(1)), two[1]));
        let widest = steps.max_by(|one, other| one.0.total_cmp(&other.0));
        let Some((_, least)) = widest.filter(|(ratio, _)| *ratio >= LEVEL) else {
            return vec![];
        };
        let found = self.components(|one, other| rate(one, other).is_some_and(|rate| rate >= least));
        if found.len() > 1 { found } else { vec![] }
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
            // Of what is only measured no more is known than that it is one host.
            None => self.links.relation(one, other).unwrap_or(Relation::Sys) <= within,
        }
    }

    fn add_group(&mut self, within: Relation, ranks: Vec<Rank>) {
        match within {
            Relation::Pix | Relation::Pxb if ranks.len() > 1 => {
                let fastest = ranks.iter().map(|rank| self.links.share(*rank)).fold(0.0, f64::max);
                let [kernels, copies] = self.at_least(&ranks, [UPLINK * fastest, COPY * fastest]);
                let rates = Rates {
                    store: [kernels; 2],
                    load: kernels,
                    copy: copies,
                };
                self.add(BusiestLink::Uplink(ranks.clone()), rates);
                self.crowd = self.crowd.max(ranks.len());
            }
            Relation::Node if ranks.len() < self.world.get() => {
                let [kernels, copies] = self.at_least(&ranks, [NODES, NODES]);
                let rates = Rates {
                    store: [kernels; 2],
                    load: kernels,
                    copy: copies,
                };
                self.add(BusiestLink::Nodes(ranks.clone()), rates);
            }
            Relation::Pix | Relation::Pxb | Relation::Phb | Relation::Node | Relation::Sys | Relation::Nvlink(_) => {}
        }
        self.list(within, ranks);
    }

    /// What a link above these ranks carries by kernels and by copies: as much as is assumed, and no less than what crosses it was measured to
    /// reach alone.
    fn at_least(&self, ranks: &[Rank], [kernels, copies]: [f64; 2]) -> [f64; 2] {
        let beyond = |one: &Rank| {
            let one = *one;
            let others = self.world.ranks().filter(|other| !ranks.contains(other));
            others
                .filter_map(move |other| self.links.copies(one, other)?.peer)
                .max()
        };
        let best = f64::from(ranks.iter().filter_map(beyond).max().unwrap_or(0));
        [kernels.max(best * PAIR / COPY), copies.max(best)]
    }

    /// Each group of several ranks once, by the nearest word for it.
    fn list(&mut self, within: Relation, ranks: Vec<Rank>) {
        if ranks.len() > 1 && self.groups.iter().all(|group| group.ranks != ranks) {
            self.groups.push(Group {
                within,
                measured: false,
                ranks,
            });
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
