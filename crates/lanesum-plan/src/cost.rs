//! What a call is predicted to take, from bytes and hops that are written down.
//!
//! With `S` bytes a rank and `W` ranks, one rank
//!
//! | algorithm | copies | transfers | adds | waits | reads |
//! |---|---|---|---|---|---|
//! | `alone` | | | S | | |
//! | `header_only` | | | | 1 | |
//! | `one_shot_pull` | (W-1) S to mailboxes | (W-1) S | W S | 1: inputs are there | 1 |
//! | `one_shot_pull`, in place | | (W-1) S, and S taken back | W S | 2: entered, all have read | 1 |
//! | `two_shot_pull` | (W-1)/W S of inputs, as much of sums | 2 (W-1)/W S | S | 2: inputs are there, sums are there | 2 |
//! | `alone`, device | | | S | | |
//! | `header_only`, device | | | | 1 hop | |
//! | `one_shot_push`, device | | 4/3 (W-1) S pushed | W S | 1 hop | |
//! | `two_shot_push`, device | | 4/3 (W-1)/W S of inputs and as much of sums pushed | S, and 2 (W-1)/W S of sums passed on | 2 hops | |
//!
//! What is pushed goes out in frames: 16 bytes for each 12 of payload. Through host memory, and between two GPUs, long messages go
//! out as raw bytes in chunks: S to the only peer, or (W-1)/W S of inputs and S/W of results, which an owner writes once; and down
//! come S, or 2 (W-1)/W S.
//!
//! Each wait ends a flag's way after the last peer arrived, and the first line read after it takes as long again. A
//! message longer than a chunk waits and starts reading once more for each further chunk, in proportion. Time grows with
//! `S` in at most two straight pieces, so where two algorithms cross can be searched exactly.
//!
//! **A transfer** moves a line from the cache of the core that wrote it to that of the one that reads it. Mailboxes change
//! hands in such a way that this is all that ever happens to their lines. A buffer that is read in place is written again
//! by its owner, who must first take each line back, and another wait says when it may. One shot in place spares W - 1
//! copies for that, but where these are more, two shots are faster than both: it is for who insists on one shot.
//!
//! **More ranks than cores.** Work is then divided over the cores, and a wait hands the core on until all the ranks that
//! share it have run: each of `c` ranks may give way to `c - 1` others. Where the cores are not known, the model counts one
//! for each rank, and `explain` says that it does.
//!
//! **Where the constants come from.** Two ranks pinned to two cores of a Zen 4 virtual machine (flag round trip 100 ns) take
//! 0.2 us for 1 KiB of f32 and 13 us for 256 KiB, in one shot and in two (docs/performance.md); a byte copied within a
//! core's caches, transferred and added then costs some 10, 22 and 8 ps. Between cores far apart (500 ns) everything takes
//! one and a half times to twice as long, which moves crossings little because both sides of each grow alike. A hand-over of
//! 1.5 us is what 3, 4 and 8 ranks on two cores show; 20 ns for each further line polled are an assumption. Lengths beyond
//! the caches are slower than predicted, again for all. A choice made by this model is never wrong, only slower: all
//! algorithms give the same bits.
//!
//! **GPUs.** A call is one kernel: 2 us to launch it eagerly, an assumption; in a graph it is less, for both algorithms
//! alike. A hop between GPUs under different roots of a socket takes 1.0 to 1.1 us; on Gen5 x16 kernels store 45 GB/s to one
//! other GPU, and 25 when all ranks write to all: the limits of physics that lanesum plans with, not measured by it. Adding at 1 TB/s is an
//! assumption that hardly counts beside the link. Between two ranks both algorithms push and take up as much, and one shot
//! has a hop less, so two shots begin to pay at three. Chunks save a quarter of the bytes; until the first of them has been written,
//! fenced, told and found, which counts as 4 us, an assumption, frames would have moved 180 KB. On Gen5 x16 they are ahead from 527 KiB on.
//!
//! **Through host memory** a rank pushes as many bytes up its own link as it loads down from there, at the same time, and a hop
//! is half of the flag round trip of 4.6 us that was measured on Gen5 x16. There the copy engines moved 55 GB/s one way and 50 both ways, and frames of
//! two ranks on one link 30 GB/s in each direction (13.4 us for 128 KiB, 26 for 256), and of one rank on its own link 25 (9.7 for 128 KiB). Ranks that share a GPU share its link. How much the
//! host's memory carries is not counted. Chunks are pushed and taken up at once, which brings 36.5 GB/s of payload each way where frames
//! bring 22, but the first of them must be written, told and found before anything flows: together that is 26 us for 256 KiB of two ranks
//! on one link and 71 for 1 MiB, 191 and 420 us for 1 MiB of four and eight, and 47 for 1 MiB of two with a link each.
//!
//! **Ranks that all share one GPU** use no link: what they push stays in its caches and memory. [`Link::OneGpu`] has a hop, which grows
//! with the ranks that poll beside one another, and a rate of its own, so that the crossings are those measured on an H200
//! (benches/records/gpu-crossings-*-h200.json: between 128 and 160 KiB for four ranks, between 80 and 96 for eight), and
//! tests on one GPU get the algorithm that is the faster there. It says nothing of a machine
//! with a GPU for each rank, and decides nothing there; where only some ranks share one, links as they are assumed decide. Ranks that share
//! a GPU also share its time, so predictions do not hold there, and `explain` says so.

use crate::gates::in_place;
use crate::{
    AlgorithmChoice, AlgorithmName, Buffers, Bytes, Engine, Estimate, Gpus, Path, PathChoice, Policy, Ways, WorldSize,
};

/// A line from one core to another, in microseconds.
const FLAG_US: f64 = 0.065;
/// One more peer's line to poll, in microseconds.
const POLL_US: f64 = 0.020;
/// One hand-over of a core to another rank, in microseconds.
const SWITCH_US: f64 = 1.5;
/// One byte copied within the caches of a core, in microseconds.
const COPY_US: f64 = 1.0 / 100_000.0;
/// One byte from the cache of the core that wrote it to that of the one that reads it, in microseconds.
const TRANSFER_US: f64 = 1.0 / 45_000.0;
/// One byte of input added up, in microseconds.
const ADD_US: f64 = 1.0 / 125_000.0;

/// An eager launch of a kernel, in microseconds.
pub(crate) const LAUNCH_US: f64 = 2.0;
/// Until chunks between two GPUs flow both ways, beside the hop, in microseconds.
const PCIE_CHUNKS_US: f64 = 4.0;
/// A word from one GPU to another through host memory, in microseconds.
pub(crate) const HOST_HOP_US: f64 = 2.3;
/// The same and back again, in nanoseconds.
pub(crate) const HOST_ROUND_TRIP_NS: u32 = 4600;
/// One byte that kernels store to host memory over one link, or load from it, in microseconds.
const HOST_STORE_US: f64 = 1.0 / 30_000.0;
/// The same of one rank, which alone does not fill a link with frames.
pub(crate) const HOST_RANK_STORE_US: f64 = 1.0 / 25_000.0;
/// Until chunks through host memory flow both ways, beside the hops, and more of it for each rank on the link, in microseconds.
const HOST_CHUNKS_US: [f64; 2] = [8.0, 1.25];
/// One byte of a rank that flows in chunks up to host memory, or down from it, in microseconds.
const HOST_CHUNK_US: f64 = 1.0 / 36_500.0;
/// From a store to host memory to the first poll that can find it, beside its bytes, in nanoseconds.
const HOST_ARRIVAL_NS: u64 = 300;
/// Bytes that kernels store to host memory in a nanosecond, when nothing else uses the link.
const HOST_STORE_BYTES_PER_NS: u64 = 52;
/// A word from one kernel to another on the same GPU, and more of it for each rank there, in microseconds.
const ONE_GPU_HOP_US: [f64; 2] = [0.06, 0.11];
/// One byte that a rank stores for another on the same GPU, in microseconds.
const ONE_GPU_STORE_US: f64 = 1.0 / 1_170_000.0;
/// Bytes stored for a byte of payload.
pub(crate) const FRAMED: f64 = 16.0 / 12.0;
/// One byte of input added up by a GPU, in microseconds.
pub(crate) const DEVICE_ADD_US: f64 = 1.0 / 1_000_000.0;

/// When frames that kernels store to host memory, all by the same link, can have arrived there: in nanoseconds, at most a
/// millisecond.
pub(crate) const fn arrival_ns(frames: u64) -> u32 {
    let bytes = frames.saturating_mul(16);
    let nanoseconds = HOST_ARRIVAL_NS + bytes / HOST_STORE_BYTES_PER_NS;
    if nanoseconds < 1_000_000 {
        nanoseconds as u32
    } else {
        1_000_000
    }
}

/// What lies between the ranks' GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// PCIe or NVLink, between some of them at least.
    Pcie(Ways),
    /// Nothing: all ranks share one GPU.
    OneGpu,
    /// The host's memory.
    Host {
        /// The most ranks that share one GPU, or a switch, and so its link.
        crowd: u32,
        /// What the slowest link carries, in thousandths of Gen5 x16.
        permille: u32,
    },
}

impl Link {
    /// What lies between these GPUs along a path; PCIe where there are none, as nothing is pushed then.
    #[must_use]
    pub fn along(path: Path, gpus: Option<&Gpus>, world: WorldSize) -> Link {
        match (path, gpus) {
            (Path::HostStaged, gpus) => Link::Host {
                crowd: gpus.map_or(1, |gpus| gpus.host_crowd().max(1) as u32),
                permille: gpus.map_or(1000, |gpus| gpus.links.slowest_to_host(world)),
            },
            (Path::None | Path::SharedMemory | Path::Peer, Some(gpus)) if gpus.shared() && gpus.distinct() == 1 => {
                Link::OneGpu
            }
            (Path::None | Path::SharedMemory | Path::Peer, gpus) => {
                let fabric = gpus.and_then(Gpus::fabric);
                let slowest = gpus.map_or(1000, |gpus| gpus.links.slowest(world));
                Link::Pcie(fabric.map_or_else(|| Ways::assumed(world).slowed(slowest), |fabric| fabric.ways()))
            }
        }
    }

    /// The path that leads along it.
    #[must_use]
    pub const fn path(self) -> Path {
        match self {
            Link::Pcie(_) | Link::OneGpu => Path::Peer,
            Link::Host { .. } => Path::HostStaged,
        }
    }

    /// A hop, and one byte stored while all push to all, in microseconds.
    fn costs_us(self, world: WorldSize) -> (f64, f64) {
        match self {
            Link::Pcie(ways) => (ways.hop_us(), ways.byte_us()),
            Link::OneGpu => {
                let [hop_us, of_each_us] = ONE_GPU_HOP_US;
                (hop_us + of_each_us * world.get() as f64, ONE_GPU_STORE_US)
            }
            Link::Host { crowd, permille } => {
                let store_us = HOST_STORE_US * f64::from(crowd);
                (
                    HOST_HOP_US,
                    store_us.max(HOST_RANK_STORE_US) * 1000.0 / f64::from(permille.max(1)),
                )
            }
        }
    }
}

/// The cost model for one communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostModel {
    world: WorldSize,
    cores: Option<usize>,
    link: Link,
    policy: Policy,
}

/// The counts of the table above, for one byte and one chunk.
struct Counts {
    copied: f64,
    transferred: f64,
    added: f64,
    waits: f64,
    reads: f64,
}

impl CostModel {
    /// The model for so many ranks that share so many cores; `None` if that isn't known. Between their GPUs, if they have
    /// some, is PCIe.
    #[must_use]
    pub const fn new(world: WorldSize, cores: Option<usize>) -> CostModel {
        CostModel {
            world,
            cores,
            link: Link::Pcie(Ways::assumed(world)),
            policy: Policy {
                algorithm: AlgorithmChoice::Auto,
                path: PathChoice::Auto,
            },
        }
    }

    /// The same for what the user wants: who insists on one shot has shared buffers read in place.
    #[must_use]
    pub const fn under(self, policy: Policy) -> CostModel {
        CostModel { policy, ..self }
    }

    /// The same with this between the GPUs.
    #[must_use]
    pub const fn over(self, link: Link) -> CostModel {
        CostModel { link, ..self }
    }

    /// What lies between the GPUs.
    #[must_use]
    pub const fn link(&self) -> Link {
        self.link
    }

    /// The number of cores that the ranks share, if known.
    #[must_use]
    pub const fn cores(&self) -> Option<usize> {
        self.cores
    }

    /// The predicted time of one call in microseconds, for `bytes` a rank moved in chunks of `chunk` bytes; `None` if the
    /// engine of such buffers does not have the algorithm.
    #[must_use]
    pub fn predict_us(&self, algorithm: AlgorithmName, buffers: Buffers, bytes: Bytes, chunk: Bytes) -> Option<f64> {
        Some(self.estimate(algorithm, buffers, bytes, chunk)?.total_us())
    }

    /// The same, by its parts.
    #[must_use]
    pub fn estimate(&self, algorithm: AlgorithmName, buffers: Buffers, bytes: Bytes, chunk: Bytes) -> Option<Estimate> {
        let size = bytes.get() as f64;
        let chunks = (size / chunk.get().max(1) as f64).max(1.0);
        match buffers.engine() {
            Engine::Host => Some(self.on_host(&self.counts(algorithm, buffers)?, size, chunks)),
            Engine::Cuda => self.on_device(algorithm, size, chunks),
        }
    }

    fn on_host(&self, counts: &Counts, size: f64, chunks: f64) -> Estimate {
        let Counts {
            copied,
            transferred,
            added,
            waits,
            reads,
        } = counts;
        let each = size * self.crowding();
        Estimate {
            launch_us: 0.0,
            waits_us: chunks * (waits * self.wait_us() + reads * FLAG_US),
            moves_us: (copied * COPY_US + transferred * TRANSFER_US) * each,
            sums_us: added * ADD_US * each,
        }
    }

    fn on_device(&self, algorithm: AlgorithmName, size: f64, chunks: f64) -> Option<Estimate> {
        let world = self.world.get() as f64;
        let peers = world - 1.0;
        let (hop_us, store_us) = self.link.costs_us(self.world);
        let (pushed, taken_up, hops) = match algorithm {
            AlgorithmName::Alone => (0.0, 1.0, 0.0),
            // Whatever the length, one word from each.
            AlgorithmName::HeaderOnly => {
                return Some(Estimate {
                    launch_us: LAUNCH_US,
                    waits_us: hop_us,
                    ..Estimate::default()
                });
            }
            AlgorithmName::OneShotPush => (peers, world, 1.0),
            AlgorithmName::TwoShotPush => (2.0 * peers / world, 1.0 + 2.0 * peers / world, 2.0),
            AlgorithmName::OneShotPull | AlgorithmName::TwoShotPull => return None,
        };
        Some(Estimate {
            launch_us: LAUNCH_US,
            waits_us: chunks * hops * hop_us,
            moves_us: size * pushed * FRAMED * store_us,
            sums_us: size * taken_up * DEVICE_ADD_US,
        })
    }

    /// The predicted time of one call that moves `bytes` a rank in chunks, `exchange` bytes at a time; `None` where none move.
    #[must_use]
    pub fn predict_chunks_us(&self, bytes: Bytes, exchange: Bytes) -> Option<f64> {
        Some(self.estimate_chunks(bytes, exchange)?.total_us())
    }

    /// The same, by its parts.
    #[must_use]
    pub fn estimate_chunks(&self, bytes: Bytes, exchange: Bytes) -> Option<Estimate> {
        let (world, size) = (self.world.get() as f64, bytes.get() as f64);
        // What comes down counts: it is as much as goes up, or more.
        let (moved, hops) = match self.world.get() {
            0 | 1 => return None,
            2 => (1.0, 1.0),
            _ => (2.0 * (world - 1.0) / world, 2.0),
        };
        let (until_they_flow_us, byte_us) = match self.link {
            Link::OneGpu => return None,
            Link::Pcie(ways) => (PCIE_CHUNKS_US, ways.byte_us()),
            Link::Host { crowd, permille } => {
                let [start, of_each] = HOST_CHUNKS_US;
                let crowd = f64::from(crowd);
                (
                    start + of_each * crowd,
                    HOST_CHUNK_US * crowd * 1000.0 / f64::from(permille.max(1)),
                )
            }
        };
        let (hop_us, _) = self.link.costs_us(self.world);
        let exchanges = (size / exchange.get().max(1) as f64).max(1.0);
        Some(Estimate {
            launch_us: LAUNCH_US,
            waits_us: until_they_flow_us + exchanges * hops * hop_us,
            moves_us: size * moved * byte_us,
            sums_us: size * DEVICE_ADD_US * world,
        })
    }

    /// The ranks that share one core, at least one, on average.
    fn crowding(&self) -> f64 {
        match self.cores {
            Some(cores) => (self.world.get() as f64 / cores.max(1) as f64).max(1.0),
            None => 1.0,
        }
    }

    /// One wait for all peers.
    fn wait_us(&self) -> f64 {
        let flags = FLAG_US + POLL_US * self.world.get().saturating_sub(2) as f64;
        let ranks_on_core = self.crowding();
        flags + SWITCH_US * ranks_on_core * (ranks_on_core - 1.0)
    }

    fn counts(&self, algorithm: AlgorithmName, buffers: Buffers) -> Option<Counts> {
        let world = self.world.get() as f64;
        let peers = world - 1.0;
        let (copied, transferred, added, waits, reads) = match algorithm {
            AlgorithmName::Alone => (0.0, 0.0, 1.0, 0.0, 0.0),
            AlgorithmName::HeaderOnly => (0.0, 0.0, 0.0, 1.0, 0.0),
            AlgorithmName::OneShotPull if in_place(buffers, self.policy) => (0.0, peers + 1.0, world, 2.0, 1.0),
            AlgorithmName::OneShotPull => (peers, peers, world, 1.0, 1.0),
            AlgorithmName::TwoShotPull => (2.0 * peers / world, 2.0 * peers / world, 1.0, 2.0, 2.0),
            AlgorithmName::OneShotPush | AlgorithmName::TwoShotPush => return None,
        };
        Some(Counts {
            copied,
            transferred,
            added,
            waits,
            reads,
        })
    }
}
