//! Transfers played over the links of a fabric.
//!
//! All transfers of a phase run at once and share each link they cross fairly, so the phase ends when the busiest link has carried its
//! part: bytes that cross it one way, by the rate at which it carries what moves them.

use super::{Busiest, BusiestLink, Group, hop_ns};
use crate::{Rank, Relation, WorldSize};

/// Where many kernels store at once through a shared link to GPUs behind several others, it can carry so much less.
const COLLAPSE: f64 = 37.0 / 2.7;

/// What moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mover {
    /// Kernels of their owner store them.
    Store,
    /// Kernels of who wants them load them.
    Load,
    /// A copy engine.
    Copy,
}

/// Bytes from one rank's GPU to another's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) from: Rank,
    pub(crate) to: Rank,
    pub(crate) bytes: f64,
}

/// What a link carries one way, in bytes a microsecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    /// By stores, where all that crosses is between two GPUs, and where it isn't.
    pub(super) store: [f64; 2],
    pub(super) load: f64,
    pub(super) copy: f64,
}

impl Rates {
    /// The same for all.
    pub(super) const fn even(rate: f64) -> Rates {
        Rates {
            store: [rate, rate],
            load: rate,
            copy: rate,
        }
    }
}

/// A link of a fabric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wire {
    pub(super) link: BusiestLink,
    pub(super) rates: Rates,
}

impl Wire {
    /// Whether what goes from one to the other crosses it, and if so whether away from whose it is.
    fn crossed(&self, network: &Network, from: Rank, to: Rank) -> Option<Way> {
        let nvlink = matches!(network.relation(from, to), Some(Relation::Nvlink(_)));
        let leaves = |below: &[Rank]| match (below.contains(&from), below.contains(&to)) {
            (true, false) if !nvlink => Some(Way::Out),
            (false, true) if !nvlink => Some(Way::In),
            (true | false, _) => None,
        };
        match &self.link {
            BusiestLink::Gpu(rank) => leaves(&[*rank]),
            BusiestLink::Uplink(ranks) | BusiestLink::Nodes(ranks) => leaves(ranks),
            BusiestLink::Nvlink(one, other) | BusiestLink::Pair(one, other) => {
                (*one == from && *other == to).then_some(Way::Out)
            }
            BusiestLink::NvlinkSwitch(_) if !nvlink => None,
            BusiestLink::NvlinkSwitch(rank) if *rank == from => Some(Way::Out),
            BusiestLink::NvlinkSwitch(rank) if *rank == to => Some(Way::In),
            BusiestLink::NvlinkSwitch(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// The links of a fabric, and what lies below them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    pub(super) world: WorldSize,
    pub(super) relations: Vec<Vec<Option<Relation>>>,
    pub(super) latencies: Vec<Vec<Option<u32>>>,
    pub(super) wires: Vec<Wire>,
    pub(super) groups: Vec<Group>,
}

impl Network {
    /// How two ranks' GPUs lie to each other; `None` for a rank itself.
    pub(super) fn relation(&self, one: Rank, other: Rank) -> Option<Relation> {
        *self.relations.get(one.index())?.get(other.index())?
    }

    /// One hop between two ranks' GPUs, in nanoseconds: as far as they lie apart, or as long as a word was measured to take if that is
    /// longer. What is only measured counts as root ports of one socket.
    pub(super) fn hop_ns(&self, one: Rank, other: Rank) -> u32 {
        let told = hop_ns(self.relation(one, other).unwrap_or(Relation::Phb));
        let measured = |from: Rank, to: Rank| *self.latencies.get(from.index())?.get(to.index())?;
        told.max(measured(one, other).unwrap_or(0))
    }

    /// The microseconds that these transfers take together, latencies apart, where scattered stores collapse.
    pub(super) fn play_us(&self, mover: Mover, transfers: &[Transfer]) -> f64 {
        let loads = self.wires.iter().flat_map(|wire| {
            [Way::Out, Way::In].map(|way| {
                let crossing = self.crossing(wire, way, transfers);
                let carried = self.carried(wire, mover, (&crossing, transfers));
                let slower = match mover {
                    Mover::Store if way == Way::Out && self.scatters(wire, &crossing) => COLLAPSE,
                    Mover::Store | Mover::Load | Mover::Copy => 1.0,
                };
                carried.map_or(0.0, |load| load.pair_us * slower)
            })
        });
        loads.fold(0.0, f64::max)
    }

    /// The link that ends last when kernels of all store a byte to all, and none collapses; of equals the first, which is the smaller one.
    pub(super) fn last_of_all(&self) -> Option<Busiest> {
        let all = self.all_to_all();
        let loads = self.wires.iter();
        loads
            .filter_map(|wire| self.carried(wire, Mover::Store, (&self.crossing(wire, Way::Out, &all), &all)))
            .reduce(|most, next| if next.pair_us > most.pair_us { next } else { most })
    }

    /// The first ranks that share a link over which they store for several other root ports at once, when all store for all.
    pub(super) fn scattering(&self) -> Option<&[Rank]> {
        let all = self.all_to_all();
        self.wires.iter().find_map(|wire| match &wire.link {
            BusiestLink::Uplink(ranks) if self.scatters(wire, &self.crossing(wire, Way::Out, &all)) => Some(&**ranks),
            BusiestLink::Uplink(_)
            | BusiestLink::Gpu(_)
            | BusiestLink::Nodes(_)
            | BusiestLink::Nvlink(..)
            | BusiestLink::Pair(..)
            | BusiestLink::NvlinkSwitch(_) => None,
        })
    }

    /// A byte from each to each.
    fn all_to_all(&self) -> Vec<Transfer> {
        let pairs = self
            .world
            .ranks()
            .flat_map(|from| self.world.ranks().map(move |to| (from, to)));
        pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| Transfer { from, to, bytes: 1.0 })
            .collect()
    }

    /// What of the transfers crosses a link this way.
    fn crossing<'t>(&self, wire: &Wire, way: Way, transfers: &'t [Transfer]) -> Vec<&'t Transfer> {
        let crosses = |transfer: &&Transfer| wire.crossed(self, transfer.from, transfer.to) == Some(way);
        transfers.iter().filter(crosses).collect()
    }

    /// The time that it takes there, if anything does, of all these transfers.
    fn carried(&self, wire: &Wire, mover: Mover, (crossing, all): (&[&Transfer], &[Transfer])) -> Option<Busiest> {
        if crossing.is_empty() {
            return None;
        }
        // Who stores for one and is stored for by another has two peers at once.
        let mut far = all
            .iter()
            .filter_map(|transfer| match wire.crossed(self, transfer.from, transfer.to)? {
                Way::Out => Some(transfer.to),
                Way::In => Some(transfer.from),
            });
        let first = far.next();
        let several = far.any(|rank| Some(rank) != first);
        let rate = match mover {
            Mover::Store => wire.rates.store[usize::from(several)],
            Mover::Load => wire.rates.load,
            Mover::Copy => wire.rates.copy,
        };
        let bytes: f64 = crossing.iter().map(|transfer| transfer.bytes).sum();
        Some(Busiest {
            link: wire.link.clone(),
            pairs: crossing.len() as u32,
            pair_us: bytes / rate,
        })
    }

    /// Whether GPUs share the link, and some of them store for several other root ports at once.
    fn scatters(&self, wire: &Wire, crossing: &[&Transfer]) -> bool {
        let shared = match &wire.link {
            BusiestLink::Uplink(ranks) => ranks.len() > 1,
            BusiestLink::Gpu(_)
            | BusiestLink::Nodes(_)
            | BusiestLink::Nvlink(..)
            | BusiestLink::Pair(..)
            | BusiestLink::NvlinkSwitch(_) => false,
        };
        let scatters = |from: Rank| {
            let mut roots = crossing
                .iter()
                .filter(|transfer| transfer.from == from)
                .map(|transfer| self.root(transfer.to))
                .filter(|root| *root != self.root(from));
            let first = roots.next();
            roots.any(|root| Some(root) != first)
        };
        shared && crossing.iter().any(|transfer| scatters(transfer.from))
    }

    /// The first rank of those that are plugged in below the same root port, as far as switches tell.
    fn root(&self, rank: Rank) -> Rank {
        let switches = self.groups.iter().filter(|group| group.within <= Relation::Pxb);
        let beside =
            switches.filter(|group| !matches!(group.within, Relation::Nvlink(_)) && group.ranks.contains(&rank));
        beside
            .filter_map(|group| group.ranks.first().copied())
            .min()
            .unwrap_or(rank)
    }
}
