//! Transfers played over the links of a fabric.
//!
//! All transfers of a phase run at once and share each link they cross fairly, so the phase ends when the busiest link has carried its
//! part: bytes that cross it one way, by the rate at which it carries what moves them.

use super::{Busiest, BusiestLink, Group};
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
    pub(super) wires: Vec<Wire>,
    pub(super) groups: Vec<Group>,
}

impl Network {
    /// How two ranks' GPUs lie to each other; `None` for a rank itself.
    pub(super) fn relation(&self, one: Rank, other: Rank) -> Option<Relation> {
        *self.relations.get(one.index())?.get(other.index())?
    }

    /// The microseconds that these transfers take together, latencies apart.
    pub(super) fn play_us(&self, mover: Mover, transfers: &[Transfer]) -> f64 {
        let loads = self.wires.iter().flat_map(|wire| {
            [Way::Out, Way::In].map(|way| {
                self.carried(wire, way, mover, transfers)
                    .map_or(0.0, |load| load.pair_us)
            })
        });
        loads.fold(0.0, f64::max)
    }

    /// The link that ends last when kernels of all store a byte to all; of equals the first, which is the smaller one.
    pub(super) fn last_of_all(&self) -> Option<Busiest> {
        let pairs = self
            .world
            .ranks()
            .flat_map(|from| self.world.ranks().map(move |to| (from, to)));
        let all: Vec<Transfer> = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| Transfer { from, to, bytes: 1.0 })
            .collect();
        let loads = self.wires.iter();
        loads
            .filter_map(|wire| self.carried(wire, Way::Out, Mover::Store, &all))
            .reduce(|most, next| if next.pair_us > most.pair_us { next } else { most })
    }

    /// What of the transfers crosses a link this way, if anything does, and the time it takes there.
    fn carried(&self, wire: &Wire, way: Way, mover: Mover, transfers: &[Transfer]) -> Option<Busiest> {
        let crossed = |transfer: &Transfer| wire.crossed(self, transfer.from, transfer.to);
        let crossing: Vec<&Transfer> = transfers
            .iter()
            .filter(|transfer| crossed(transfer) == Some(way))
            .collect();
        if crossing.is_empty() {
            return None;
        }
        // Who stores for one and is stored for by another has two peers at once.
        let mut far = transfers.iter().filter_map(|transfer| match crossed(transfer)? {
            Way::Out => Some(transfer.to),
            Way::In => Some(transfer.from),
        });
        let first = far.next();
        let several = far.any(|rank| Some(rank) != first);
        let rate = match mover {
            Mover::Store => wire.rates.store[usize::from(several)] / self.collapse(wire, way, &crossing),
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

    /// By how much a link is slower for stores that leave GPUs which share it, some of them to several other root ports at once.
    fn collapse(&self, wire: &Wire, way: Way, crossing: &[&Transfer]) -> f64 {
        let shared = match (&wire.link, way) {
            (BusiestLink::Uplink(ranks), Way::Out) => ranks.len() > 1,
            (
                BusiestLink::Uplink(_)
                | BusiestLink::Gpu(_)
                | BusiestLink::Nodes(_)
                | BusiestLink::Nvlink(..)
                | BusiestLink::Pair(..)
                | BusiestLink::NvlinkSwitch(_),
                Way::Out | Way::In,
            ) => false,
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
        if shared && crossing.iter().any(|transfer| scatters(transfer.from)) {
            COLLAPSE
        } else {
            1.0
        }
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
