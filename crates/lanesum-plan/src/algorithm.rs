//! The closed set of algorithms. Each carries what makes it admissible, so an inadmissible one can't be written: fields
//! are private, and only the plan, which holds the gates' evidence, can construct one.
//!
//! ```compile_fail,E0423
//! // Nobody else has the evidence.
//! let forged = lanesum_plan::Algorithm::Alone(lanesum_plan::Alone(()));
//! ```
//! ```compile_fail,E0451
//! fn forged(plan: &lanesum_plan::Plan, peers: lanesum_plan::OneShotPull) -> lanesum_plan::OneShotPull {
//!     lanesum_plan::OneShotPull { payload: todo!(), ..peers }
//! }
//! ```
//! ```compile_fail,E0624
//! let forged = lanesum_plan::HeaderOnly::new(todo!());
//! ```
//! ```compile_fail,E0624
//! let forged = lanesum_plan::OneShotPush::new(todo!(), todo!(), todo!());
//! ```
//! ```compile_fail,E0624
//! let forged = lanesum_plan::TwoShotPush::new(todo!(), todo!(), todo!());
//! ```
//!
//! | algorithm | data path |
//! |---|---|
//! | `alone` | one rank: its input is its result |
//! | `header_only` | nothing to exchange, or a barrier: ranks only compare what they called |
//! | `one_shot_pull` | every rank reads all inputs and sums all of them |
//! | `two_shot_pull` | every rank reads all inputs of its own shard, sums it, and reads the other sums |
//! | `one_shot_push` | every rank writes its input into every peer's inbox and sums what comes into its own |
//! | `two_shot_push` | every rank writes each shard of its input into its owner's inbox, sums its own, and writes the sum to all |
//!
//! `alone` and `header_only` exist on both engines, as variants of their own: buffers of a GPU are no use to the host.
//! An inbox is memory of its owner's GPU on path `peer`, and pinned host memory on path `host_staged`.

use std::ops::Range;

use crate::closed::closed_words;
use crate::gates::{OneShotFit, Payload, Peers, Single, TwoShotFit};
use crate::{Elements, Rank};

mod device;

pub use device::{DeviceAlone, DeviceHeaderOnly, Grid, Kernel, OneShotPush, TwoShotPush};

/// The bytes of a cache line, the unit in which cores exchange data.
pub const LINE: u64 = 64;

closed_words! {
    /// The name of an algorithm without its evidence, for descriptors, counters and people.
    pub enum AlgorithmName ("algorithm") {
        /// One rank, nobody to exchange with.
        Alone = 0 => "alone",
        /// Headers alone, no payload.
        HeaderOnly = 1 => "header_only",
        /// Every rank reads everything and sums everything.
        OneShotPull = 2 => "one_shot_pull",
        /// Every rank sums one shard and reads the others.
        TwoShotPull = 3 => "two_shot_pull",
        /// Every rank writes to everybody and sums everything.
        OneShotPush = 4 => "one_shot_push",
        /// Every rank sums one shard that all write to it, and writes its sum to everybody.
        TwoShotPush = 5 => "two_shot_push",
    }
}

impl AlgorithmName {
    /// The name as text; the same as [`AlgorithmName::name`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.name()
    }

    /// The algorithms that carry a payload between ranks, of which a policy may pin one. The others are for requests of
    /// their own: one rank, no elements.
    pub fn pinnable() -> impl Iterator<Item = AlgorithmName> {
        AlgorithmName::ALL.into_iter().filter(|name| name.engine().is_some())
    }

    /// The engine that has the algorithm, if there is only one.
    #[must_use]
    pub const fn engine(self) -> Option<Engine> {
        match self {
            AlgorithmName::Alone | AlgorithmName::HeaderOnly => None,
            AlgorithmName::OneShotPull | AlgorithmName::TwoShotPull => Some(Engine::Host),
            AlgorithmName::OneShotPush | AlgorithmName::TwoShotPush => Some(Engine::Cuda),
        }
    }
}

closed_words! {
    /// How bytes reach a peer.
    pub enum Path ("path") {
        /// They don't.
        None = 0 => "none",
        /// Through memory that all ranks have mapped.
        SharedMemory = 1 => "shared_memory",
        /// Straight into the memory of its GPU.
        Peer = 2 => "peer",
        /// Through pinned host memory, which the GPUs of both read and write across the bus.
        HostStaged = 3 => "host_staged",
    }
}

closed_words! {
    /// What executes the reduction.
    pub enum Engine ("engine") {
        /// The cores of this host.
        Host = 0 => "host",
        /// NVIDIA GPUs.
        Cuda = 1 => "cuda",
    }
}

/// One decision: what will run, with the evidence that it may.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// One rank, on the host.
    Alone(Alone),
    /// No payload, on the host.
    HeaderOnly(HeaderOnly),
    /// All ranks sum all.
    OneShotPull(OneShotPull),
    /// Each rank sums a shard.
    TwoShotPull(TwoShotPull),
    /// One rank, on its GPU.
    DeviceAlone(DeviceAlone),
    /// No payload, between GPUs.
    DeviceHeaderOnly(DeviceHeaderOnly),
    /// All GPUs write to all and sum all.
    OneShotPush(OneShotPush),
    /// Each GPU sums a shard and writes the sum to all.
    TwoShotPush(TwoShotPush),
}

impl Algorithm {
    /// The name.
    #[must_use]
    #[inline]
    pub const fn name(&self) -> AlgorithmName {
        match self {
            Algorithm::Alone(_) | Algorithm::DeviceAlone(_) => AlgorithmName::Alone,
            Algorithm::HeaderOnly(_) | Algorithm::DeviceHeaderOnly(_) => AlgorithmName::HeaderOnly,
            Algorithm::OneShotPull(_) => AlgorithmName::OneShotPull,
            Algorithm::TwoShotPull(_) => AlgorithmName::TwoShotPull,
            Algorithm::OneShotPush(_) => AlgorithmName::OneShotPush,
            Algorithm::TwoShotPush(_) => AlgorithmName::TwoShotPush,
        }
    }

    /// How bytes reach a peer.
    #[must_use]
    #[inline]
    pub const fn path(&self) -> Path {
        match self {
            Algorithm::Alone(_) | Algorithm::DeviceAlone(_) => Path::None,
            Algorithm::HeaderOnly(_) | Algorithm::OneShotPull(_) | Algorithm::TwoShotPull(_) => Path::SharedMemory,
            Algorithm::DeviceHeaderOnly(algorithm) => algorithm.path(),
            Algorithm::OneShotPush(algorithm) => algorithm.path(),
            Algorithm::TwoShotPush(algorithm) => algorithm.path(),
        }
    }

    /// What executes it.
    #[must_use]
    #[inline]
    pub const fn engine(&self) -> Engine {
        match self {
            Algorithm::Alone(_) | Algorithm::HeaderOnly(_) | Algorithm::OneShotPull(_) | Algorithm::TwoShotPull(_) => {
                Engine::Host
            }
            Algorithm::DeviceAlone(_)
            | Algorithm::DeviceHeaderOnly(_)
            | Algorithm::OneShotPush(_)
            | Algorithm::TwoShotPush(_) => Engine::Cuda,
        }
    }
}

impl Algorithm {
    /// How the call is launched on a GPU; `None` for algorithms of the host.
    #[must_use]
    #[inline]
    pub const fn grid(&self) -> Option<Grid> {
        match self {
            Algorithm::DeviceAlone(algorithm) => Some(algorithm.grid()),
            Algorithm::DeviceHeaderOnly(algorithm) => Some(algorithm.grid()),
            Algorithm::OneShotPush(algorithm) => Some(algorithm.grid()),
            Algorithm::TwoShotPush(algorithm) => Some(algorithm.grid()),
            Algorithm::Alone(_) | Algorithm::HeaderOnly(_) | Algorithm::OneShotPull(_) | Algorithm::TwoShotPull(_) => {
                None
            }
        }
    }
}

/// The only rank keeps its values. Evidence: the world has one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    _single: Single,
}

impl Alone {
    pub(crate) const fn new(single: Single) -> Alone {
        Alone { _single: single }
    }
}

/// Ranks compare headers. Evidence: there are peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderOnly {
    _peers: Peers,
}

impl HeaderOnly {
    pub(crate) const fn new(peers: Peers) -> HeaderOnly {
        HeaderOnly { _peers: peers }
    }
}

/// Every rank reads and sums everything. Evidence: there are peers and a payload, and a chunk fits a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneShotPull {
    _peers: Peers,
    payload: Payload,
    fit: OneShotFit,
}

impl OneShotPull {
    #[inline]
    pub(crate) const fn new(peers: Peers, payload: Payload, fit: OneShotFit) -> OneShotPull {
        OneShotPull {
            _peers: peers,
            payload,
            fit,
        }
    }

    /// The most elements that one epoch moves; a whole number of cache lines.
    #[must_use]
    #[inline]
    pub const fn chunk(&self) -> Elements {
        self.fit.chunk()
    }

    /// How many epochs the call takes; at least one.
    #[must_use]
    #[inline]
    pub const fn chunks(&self) -> u64 {
        self.payload.elements().div_ceil(self.fit.chunk().get())
    }

    /// Whether inputs in shared memory are read where they are; otherwise they go through mailboxes as private ones do.
    #[must_use]
    #[inline]
    pub const fn in_place(&self) -> bool {
        self.fit.is_in_place()
    }
}

/// Every rank sums one shard and reads the other sums. Evidence: there are peers and a payload, and each shard of a chunk
/// fits a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoShotPull {
    peers: Peers,
    payload: Payload,
    fit: TwoShotFit,
}

impl TwoShotPull {
    #[inline]
    pub(crate) const fn new(peers: Peers, payload: Payload, fit: TwoShotFit) -> TwoShotPull {
        TwoShotPull { peers, payload, fit }
    }

    /// The most elements that one epoch moves; a whole number of cache lines.
    #[must_use]
    #[inline]
    pub const fn chunk(&self) -> Elements {
        self.fit.chunk()
    }

    /// How many epochs the call takes; at least one.
    #[must_use]
    #[inline]
    pub const fn chunks(&self) -> u64 {
        self.payload.elements().div_ceil(self.fit.chunk().get())
    }

    /// The elements that this rank sums, of a chunk with this many. Shards follow one another in the order of the
    /// ranks and hold `ceil(lines / world)` cache lines each as long as there are any left, so the last one may be
    /// shorter, end within a line, or be empty; those before it are empty only if all after it are. The shard of a rank
    /// outside this world is empty.
    #[must_use]
    #[inline]
    pub const fn shard(&self, chunk_elements: u64, rank: Rank) -> Range<u64> {
        let world = self.peers.world().get() as u64;
        let per_line = self.fit.line_elements();
        let size = chunk_elements
            .div_ceil(per_line)
            .div_ceil(world)
            .saturating_mul(per_line);
        let start = size.saturating_mul(rank.index() as u64);
        let end = start.saturating_add(size);
        if end <= chunk_elements {
            start..end
        } else if start <= chunk_elements {
            start..chunk_elements
        } else {
            chunk_elements..chunk_elements
        }
    }
}
