//! The algorithms of GPUs, and how a message is cut for them.
//!
//! A message is a row of frames of 12 bytes; lanes share it out, and each moves its share in exchanges of bounded size. A
//! short message takes few lanes, as each has a header of its own to post and to await, and small blocks.

use crate::gates::{DeviceFit, FRAME, Payload, Peers, Proven, Single, WARP, two_shot_frames};
use crate::{Dtype, Elements, Path};

/// The fewest frames for which a further lane is taken, unless a lane moves fewer in one exchange.
const FRAMES_PER_LANE: u64 = 224;
/// The threads of a block that watch headers, beside those that move frames.
const WATCHERS: u32 = WARP;

/// The kernel that runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Every rank writes its input to all; also runs what has no peers or no payload.
    OneShotPush = 0,
    /// Every rank writes shards to their owners, and its own sum to all.
    TwoShotPush = 1,
}

/// How a call is launched: the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks, one a lane; at least 1 and at most the communicator's lanes.
    pub blocks: u32,
    /// The frames of each lane but the last, which may have fewer; a multiple of 32, at least 32.
    pub share: u64,
    /// Threads of a block, a multiple of 32 from 64 on: 32 that watch headers, and no more others than the share has frames.
    pub threads: u32,
    /// What is launched.
    pub kernel: Kernel,
}

/// A message and the lanes that it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    frames: u64,
    fit: DeviceFit,
}

impl Work {
    #[inline]
    const fn new(elements: Elements, dtype: Dtype, fit: DeviceFit) -> Work {
        // By elements, as bytes may be more than 64 bits can count.
        let frames = elements.get().div_ceil(FRAME / dtype.size() as u64);
        Work { frames, fit }
    }

    #[inline]
    const fn grid(&self, kernel: Kernel) -> Grid {
        let most = self.fit.lanes() as u64;
        let per_lane = if (self.fit.capacity() as u64) < FRAMES_PER_LANE {
            self.fit.capacity() as u64
        } else {
            FRAMES_PER_LANE
        };
        let lanes = match self.frames / per_lane {
            0 => 1,
            lanes if lanes > most => most,
            lanes => lanes,
        };
        // A third of all lengths that 64 bits count is far from where rounding up would overflow.
        let share = match self.frames.div_ceil(lanes).next_multiple_of(WARP as u64) {
            0 => WARP as u64,
            share => share,
        };
        // Rounded-up shares may leave the last lanes nothing.
        let blocks = match self.frames.div_ceil(share) {
            0 => 1,
            blocks => blocks as u32,
        };
        Grid {
            blocks,
            share,
            threads: if share + WATCHERS as u64 <= self.fit.threads() as u64 {
                share as u32 + WATCHERS
            } else {
                self.fit.threads()
            },
            kernel,
        }
    }

    /// How many exchanges of so many frames lane 0 makes, which has at least as much to do as any other.
    const fn exchanges(&self, grid: Grid, frames: u64) -> u64 {
        let first = if self.frames < grid.share {
            self.frames
        } else {
            grid.share
        };
        match first.div_ceil(frames) {
            0 => 1,
            exchanges => exchanges,
        }
    }
}

macro_rules! launched {
    ($($algorithm:ident by $kernel:ident),+) => { $(
        impl $algorithm {
            /// How the call is launched.
            #[must_use]
            #[inline]
            pub const fn grid(&self) -> Grid {
                self.work.grid(Kernel::$kernel)
            }

            /// The lanes of the communicator, of which the call takes as many as its grid has blocks.
            #[must_use]
            #[inline]
            pub const fn lanes(&self) -> u32 {
                self.work.fit.lanes()
            }

            /// [`DeviceFit::capacity`]: the frames that a lane moves from each source in one exchange of one shot.
            #[must_use]
            #[inline]
            pub const fn capacity(&self) -> u32 {
                self.work.fit.capacity()
            }
        }
    )+ };
}

launched!(
    DeviceAlone by OneShotPush,
    DeviceHeaderOnly by OneShotPush,
    OneShotPush by OneShotPush,
    TwoShotPush by TwoShotPush
);

macro_rules! crossing {
    ($($algorithm:ident),+) => { $(
        impl $algorithm {
            /// The way that bytes take, along which what any rank writes was seen to arrive.
            #[must_use]
            #[inline]
            pub const fn path(&self) -> Path {
                self.proven.path()
            }
        }
    )+ };
}

crossing!(DeviceHeaderOnly, OneShotPush, TwoShotPush);

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
    proven: Proven,
    work: Work,
}

impl DeviceHeaderOnly {
    #[inline]
    pub(crate) const fn new(peers: Peers, proven: Proven, fit: DeviceFit) -> DeviceHeaderOnly {
        DeviceHeaderOnly {
            _peers: peers,
            proven,
            work: Work { frames: 0, fit },
        }
    }
}

/// Every GPU writes its input to all others and sums what it gets. Evidence: there are peers with GPUs and a payload, and
/// what any of them writes arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneShotPush {
    _peers: Peers,
    proven: Proven,
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
            proven,
            work: Work::new(Elements::new(payload.elements()), dtype, fit),
        }
    }

    /// How many exchanges lane 0 makes; at least one, and at least as many as any other lane.
    #[must_use]
    #[inline]
    pub const fn exchanges(&self) -> u64 {
        self.work.exchanges(self.grid(), self.capacity() as u64)
    }
}

/// Every GPU writes each shard of its input to the shard's owner, sums its own and writes the sum to all. Evidence: there
/// are peers with GPUs and a payload, and what any of them writes arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoShotPush {
    peers: Peers,
    proven: Proven,
    work: Work,
}

impl TwoShotPush {
    #[inline]
    pub(crate) const fn new(
        (peers, proven): (Peers, Proven),
        (payload, dtype): (Payload, Dtype),
        fit: DeviceFit,
    ) -> TwoShotPush {
        TwoShotPush {
            peers,
            proven,
            work: Work::new(Elements::new(payload.elements()), dtype, fit),
        }
    }

    /// The most frames that a lane moves in one exchange: for each rank, the half of its slots that takes inputs.
    #[must_use]
    #[inline]
    pub const fn exchange(&self) -> u64 {
        two_shot_frames(self.capacity(), self.peers.world())
    }

    /// How many exchanges lane 0 makes; at least one, and at least as many as any other lane.
    #[must_use]
    #[inline]
    pub const fn exchanges(&self) -> u64 {
        self.work.exchanges(self.grid(), self.exchange())
    }
}
