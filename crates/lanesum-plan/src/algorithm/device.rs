//! The algorithms of GPUs, and how a message is cut for them.
//!
//! A message is a row of frames of 12 bytes; lanes share it out, and each moves its share in exchanges of bounded size. A
//! short message takes few lanes, as each has a header of its own to post and to await, and small blocks.

use crate::gates::{DeviceFit, FRAME, Payload, Peers, Proven, Single, WARP};
use crate::{Dtype, Elements, Path};

/// The most rows for which no further lane is taken, unless a lane moves fewer in one exchange: with the thread that sends and
/// awaits the header, a block of 256 threads that have one each in one shot, and of 128 in two.
const ROWS_PER_LANE: [u64; 2] = [255, 127];

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
    /// The frames of each lane but the last, which may have fewer; at least one.
    pub share: u64,
    /// Threads of a block, a multiple of 32: one that sends and awaits the header, and others that move frames.
    pub threads: u32,
    /// One exchange moves it, with at most one frame, or in two shots one of each shard, for each thread but the first.
    pub once: bool,
    /// Nanoseconds from a rank's pushes to its first poll, where polls cross a bus; else 0.
    pub pause_ns: u32,
    /// What is launched.
    pub kernel: Kernel,
}

/// A message, the lanes that it may take, and the way between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    frames: u64,
    fit: DeviceFit,
    way: Option<Proven>,
}

impl Work {
    #[inline]
    const fn new((elements, dtype): (Elements, Dtype), fit: DeviceFit, way: Option<Proven>) -> Work {
        // By elements, as bytes may be more than 64 bits can count.
        let frames = elements.get().div_ceil(FRAME / dtype.size() as u64);
        Work { frames, fit, way }
    }

    /// A thread moves rows: a frame in one shot, and a frame of each shard in two.
    #[inline]
    const fn grid(&self, kernel: Kernel) -> Grid {
        let most = self.fit.lanes() as u64;
        let (row, capacity) = match kernel {
            Kernel::OneShotPush => (1, self.fit.capacity() as u64),
            Kernel::TwoShotPush => (self.fit.world().get() as u64, self.fit.capacity() as u64 / 2),
        };
        let rows = self.frames.div_ceil(row);
        let per_lane = if capacity < ROWS_PER_LANE[kernel as usize] {
            capacity
        } else {
            ROWS_PER_LANE[kernel as usize]
        };
        let lanes = match rows.div_ceil(per_lane) {
            0 => 1,
            lanes if lanes > most => most,
            lanes => lanes,
        };
        let exact = match rows.div_ceil(lanes) {
            0 => 1,
            share => share,
        };
        // A third of all lengths that 64 bits count is far from where rounding up would overflow. Whole blocks have a row for each
        // thread but the first.
        let full = (exact + 1).next_multiple_of(WARP as u64) - 1;
        let share = if full <= capacity {
            full
        } else if exact <= capacity {
            exact
        } else {
            exact.next_multiple_of(WARP as u64)
        };
        // Rounded-up shares may leave the last lanes nothing.
        let blocks = match self.frames.div_ceil(share * row) {
            0 => 1,
            blocks => blocks as u32,
        };
        let wanted = (share + 1).next_multiple_of(WARP as u64);
        let all = wanted <= self.fit.threads() as u64;
        Grid {
            blocks,
            share: share * row,
            threads: if all { wanted as u32 } else { self.fit.threads() },
            once: all && share <= capacity,
            pause_ns: match self.way {
                Some(way) => way.pause_ns(self.pushed(kernel, share * row, blocks), self.fit.crowd()),
                None => 0,
            },
            kernel,
        }
    }

    /// The frames that a rank pushes to others before it first polls, at most.
    const fn pushed(&self, kernel: Kernel, share: u64, blocks: u32) -> u64 {
        let world = self.fit.world().get() as u64;
        // Of each lane, in its first exchange.
        let most = match kernel {
            Kernel::OneShotPush => self.fit.capacity() as u64,
            Kernel::TwoShotPush => self.fit.two_shot_frames(),
        };
        let first = if share < most { share } else { most };
        let all = first * blocks as u64;
        let frames = if all < self.frames { all } else { self.frames };
        match kernel {
            Kernel::OneShotPush => frames * (world - 1),
            Kernel::TwoShotPush => frames * (world - 1) / world,
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
            work: Work::new((elements, dtype), fit, None),
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
            work: Work {
                frames: 0,
                fit,
                way: Some(proven),
            },
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
            work: Work::new((Elements::new(payload.elements()), dtype), fit, Some(proven)),
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
    _peers: Peers,
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
            _peers: peers,
            proven,
            work: Work::new((Elements::new(payload.elements()), dtype), fit, Some(proven)),
        }
    }

    /// The most frames that a lane moves in one exchange: for each rank, the half of its slots that takes inputs.
    #[must_use]
    #[inline]
    pub const fn exchange(&self) -> u64 {
        self.work.fit.two_shot_frames()
    }

    /// How many exchanges lane 0 makes; at least one, and at least as many as any other lane.
    #[must_use]
    #[inline]
    pub const fn exchanges(&self) -> u64 {
        self.work.exchanges(self.grid(), self.exchange())
    }
}
