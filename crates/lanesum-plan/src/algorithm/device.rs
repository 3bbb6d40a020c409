//! The algorithms of GPUs, and how a message is cut for them.
//!
//! A message is a row of frames of 12 bytes; lanes share it out, and each moves its share in exchanges of bounded size. A
//! short message takes few lanes, as each has a header of its own to post and to await, and small blocks.
//!
//! Long messages through host memory are rows of quads of 16 bytes instead, moved in chunks that carry no tags.

use crate::gates::{Bulk, DeviceFit, FRAME, Payload, Peers, Proven, QUAD, Shots, Single, WARP};
use crate::{Dtype, Elements, Path};

/// The most rows for which no further lane is taken, unless a lane moves fewer in one exchange: with the thread that sends and
/// awaits the header, a block of 256 threads that have one each in one shot, and of 128 in two.
const ROWS_PER_LANE: [u64; 2] = [255, 127];

/// The lanes that chunks are spread over first, and the quads that each must have before there are more.
const LANES_OF_CHUNKS: u64 = 16;
const QUADS_OF_MORE_LANES: u64 = 4096;

/// The kernel that runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Every rank writes its input to all; also runs what has no peers or no payload.
    OneShotPush = 0,
    /// Every rank writes shards to their owners, and its own sum to all.
    TwoShotPush = 1,
    /// As one shot for two ranks, and as two shots for more, with raw bytes in chunks, for any dtype and operation.
    Chunks = 2,
}

/// How a call is launched: the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks, one a lane; at least 1 and at most the communicator's lanes.
    pub blocks: u32,
    /// The frames of each lane but the last, which may have fewer; at least one. Quads where chunks move.
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
    /// The quads, and how they are cut, of what moves in chunks.
    chunks: Option<(u64, Bulk)>,
}

impl Work {
    #[inline]
    const fn new((elements, dtype): (Elements, Dtype), fit: DeviceFit, way: Option<Proven>) -> Work {
        // By elements, as bytes may be more than 64 bits can count.
        let frames = elements.get().div_ceil(FRAME / dtype.size() as u64);
        let chunks = None;
        Work {
            frames,
            fit,
            way,
            chunks,
        }
    }

    /// The same in chunks.
    #[inline]
    const fn in_chunks(self, (elements, dtype): (Elements, Dtype), bulk: Bulk) -> Work {
        let quads = elements.get().div_ceil(QUAD / dtype.size() as u64);
        Work {
            chunks: Some((quads, bulk)),
            ..self
        }
    }

    /// Whole chunks for each lane but the last. As many lanes as have some, up to those that fill a link; more where each has enough to
    /// make up for the later start of all.
    const fn grid_of_chunks(quads: u64, bulk: Bulk) -> Grid {
        let (chunk, most) = (bulk.chunk as u64, bulk.lanes as u64);
        let lanes = match quads / QUADS_OF_MORE_LANES {
            few if few < LANES_OF_CHUNKS => LANES_OF_CHUNKS,
            lanes => lanes,
        };
        let lanes = if lanes < most { lanes } else { most };
        let share = match quads.div_ceil(lanes).div_ceil(chunk) {
            0 => chunk,
            chunks => chunks.saturating_mul(chunk),
        };
        Grid {
            blocks: match quads.div_ceil(share) {
                0 => 1,
                blocks => blocks as u32,
            },
            share,
            threads: bulk.threads,
            once: false,
            pause_ns: 0,
            kernel: Kernel::Chunks,
        }
    }

    /// A thread moves rows: a frame in one shot, and a frame of each shard in two.
    #[inline]
    const fn grid(&self, shots: Shots) -> Grid {
        if let Some((quads, bulk)) = self.chunks {
            return Work::grid_of_chunks(quads, bulk);
        }
        let most = self.fit.lanes() as u64;
        let (row, capacity, kernel) = match shots {
            Shots::One => (1, self.fit.capacity() as u64, Kernel::OneShotPush),
            Shots::Two => (
                self.fit.world().get() as u64,
                self.fit.capacity() as u64 / 2,
                Kernel::TwoShotPush,
            ),
        };
        let rows = self.frames.div_ceil(row);
        let per_lane = if capacity < ROWS_PER_LANE[shots as usize] {
            capacity
        } else {
            ROWS_PER_LANE[shots as usize]
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
                Some(way) => way.pause_ns(self.pushed(shots, share * row, blocks), self.fit.host_crowd()),
                None => 0,
            },
            kernel,
        }
    }

    /// The frames that a rank pushes to others before it first polls, at most.
    const fn pushed(&self, shots: Shots, share: u64, blocks: u32) -> u64 {
        let world = self.fit.world().get() as u64;
        // Of each lane, in its first exchange.
        let most = match shots {
            Shots::One => self.fit.capacity() as u64,
            Shots::Two => self.fit.two_shot_frames(),
        };
        let first = if share < most { share } else { most };
        let all = first * blocks as u64;
        let frames = if all < self.frames { all } else { self.frames };
        match shots {
            Shots::One => frames * (world - 1),
            Shots::Two => frames * (world - 1) / world,
        }
    }

    /// The most that a lane moves in one exchange.
    const fn exchange(&self, shots: Shots) -> u64 {
        match (self.chunks, shots) {
            (Some((_, bulk)), Shots::One) => bulk.quads as u64,
            (Some((_, bulk)), Shots::Two) => bulk.quads as u64 * self.fit.world().get() as u64,
            (None, Shots::One) => self.fit.capacity() as u64,
            (None, Shots::Two) => self.fit.two_shot_frames(),
        }
    }

    /// How many exchanges lane 0 makes, which has at least as much to do as any other.
    const fn exchanges(&self, shots: Shots) -> u64 {
        let share = self.grid(shots).share;
        let all = match self.chunks {
            Some((quads, _)) => quads,
            None => self.frames,
        };
        let first = if all < share { all } else { share };
        match first.div_ceil(self.exchange(shots)) {
            0 => 1,
            exchanges => exchanges,
        }
    }
}

macro_rules! launched {
    ($($algorithm:ident in $shots:ident),+) => { $(
        impl $algorithm {
            /// How the call is launched.
            #[must_use]
            #[inline]
            pub const fn grid(&self) -> Grid {
                self.work.grid(Shots::$shots)
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
    DeviceAlone in One,
    DeviceHeaderOnly in One,
    OneShotPush in One,
    TwoShotPush in Two
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

macro_rules! pushing {
    ($($algorithm:ident in $shots:ident),+) => { $(
        impl $algorithm {
            /// The same in chunks.
            #[inline]
            pub(crate) const fn in_chunks(self, (payload, dtype): (Payload, Dtype), bulk: Bulk) -> $algorithm {
                let work = self.work.in_chunks((Elements::new(payload.elements()), dtype), bulk);
                $algorithm { work, ..self }
            }

            /// The most that a lane moves in one exchange: frames, in two shots for each rank the half of its slots that takes inputs; or
            /// quads where chunks move.
            #[must_use]
            #[inline]
            pub const fn exchange(&self) -> u64 {
                self.work.exchange(Shots::$shots)
            }

            /// How many exchanges lane 0 makes; at least one, and at least as many as any other lane.
            #[must_use]
            #[inline]
            pub const fn exchanges(&self) -> u64 {
                self.work.exchanges(Shots::$shots)
            }
        }
    )+ };
}

pushing!(OneShotPush in One, TwoShotPush in Two);

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
                chunks: None,
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
}
