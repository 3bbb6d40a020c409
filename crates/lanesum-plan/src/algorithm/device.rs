//! The algorithms of GPUs, and how a message is cut for them.
//!
//! A message is a row of packets of 4 bytes; lanes share it out, and each moves its share in exchanges of at most its
//! capacity. A short message takes few lanes: each has a header of its own to post and to await.

use crate::gates::{DeviceFit, PACKET, Payload, Peers, Proven, Single, WARP};
use crate::{Dtype, Elements};

/// The fewest packets for which a further lane is taken.
const SHARE_MIN: u64 = 256;

/// How a call is launched: the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks, one a lane; at least 1 and at most the communicator's lanes.
    pub blocks: u32,
    /// The packets of each lane but the last, which may have fewer; a multiple of 32, at least 32.
    pub share: u64,
    /// Threads of a block, a multiple of 32.
    pub threads: u32,
}

/// A message and the lanes that it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    packets: u64,
    fit: DeviceFit,
}

impl Work {
    #[inline]
    const fn new(elements: Elements, dtype: Dtype, fit: DeviceFit) -> Work {
        // By elements, as bytes may be more than 64 bits can count.
        let packets = elements.get().div_ceil(PACKET / dtype.size() as u64);
        Work { packets, fit }
    }

    #[inline]
    const fn grid(&self) -> Grid {
        let most = self.fit.lanes() as u64;
        let lanes = match self.packets / SHARE_MIN {
            0 => 1,
            lanes if lanes > most => most,
            lanes => lanes,
        };
        // Lengths near the end of 64 bits, which no memory holds, get one share.
        let share = match self.packets.div_ceil(lanes).checked_next_multiple_of(WARP as u64) {
            Some(0) => WARP as u64,
            Some(share) => share,
            None => u64::MAX,
        };
        // Rounded-up shares may leave the last lanes nothing.
        let blocks = match self.packets.div_ceil(share) {
            0 => 1,
            blocks => blocks as u32,
        };
        Grid {
            blocks,
            share,
            threads: self.fit.threads(),
        }
    }

    /// How many exchanges lane 0 makes, which has at least as much to do as any other.
    const fn exchanges(&self) -> u64 {
        let share = self.grid().share;
        let first = if self.packets < share { self.packets } else { share };
        match first.div_ceil(self.fit.capacity() as u64) {
            0 => 1,
            exchanges => exchanges,
        }
    }
}

macro_rules! launched {
    ($($algorithm:ident),+) => { $(
        impl $algorithm {
            /// How the call is launched.
            #[must_use]
            #[inline]
            pub const fn grid(&self) -> Grid {
                self.work.grid()
            }

            /// The lanes of the communicator, of which the call takes as many as its grid has blocks.
            #[must_use]
            #[inline]
            pub const fn lanes(&self) -> u32 {
                self.work.fit.lanes()
            }

            /// The packets that a lane moves in one exchange.
            #[must_use]
            #[inline]
            pub const fn capacity(&self) -> u32 {
                self.work.fit.capacity()
            }
        }
    )+ };
}

launched!(DeviceAlone, DeviceHeaderOnly, OneShotPush);

/// The only rank keeps its values. Evidence: the world has one rank, and it has a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceAlone {
    _single: Single,
    work: Work,
}

impl DeviceAlone {
    #[inline]
    pub(crate) const fn new(single: Single, (elements, dtype): (Elements, Dtype), fit: DeviceFit) -> DeviceAlone {
        DeviceAlone {
            _single: single,
            work: Work::new(elements, dtype, fit),
        }
    }
}

/// GPUs compare headers. Evidence: there are peers with GPUs, and what any of them writes arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceHeaderOnly {
    _peers: Peers,
    _proven: Proven,
    work: Work,
}

impl DeviceHeaderOnly {
    #[inline]
    pub(crate) const fn new(peers: Peers, proven: Proven, fit: DeviceFit) -> DeviceHeaderOnly {
        DeviceHeaderOnly {
            _peers: peers,
            _proven: proven,
            work: Work { packets: 0, fit },
        }
    }
}

/// Every GPU writes its input to all others and sums what it gets. Evidence: there are peers with GPUs and a payload, and
/// what any of them writes arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneShotPush {
    _peers: Peers,
    _proven: Proven,
    work: Work,
}

impl OneShotPush {
    #[inline]
    pub(crate) const fn new(
        (peers, proven): (Peers, Proven),
        (payload, dtype): (Payload, Dtype),
        fit: DeviceFit,
    ) -> OneShotPush {
        OneShotPush {
            _peers: peers,
            _proven: proven,
            work: Work::new(Elements::new(payload.elements()), dtype, fit),
        }
    }

    /// How many exchanges lane 0 makes; at least one, and at least as many as any other lane.
    #[must_use]
    #[inline]
    pub const fn exchanges(&self) -> u64 {
        self.work.exchanges()
    }
}
