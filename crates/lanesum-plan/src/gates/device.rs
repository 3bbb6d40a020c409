//! Gates of the GPUs: may a communicator's kernels run there, and do writes between any two of them arrive?

use crate::gpus::{Gpus, PeerVerdict};
use crate::{AlgorithmName, Bytes, Limits, Path, PathChoice, Rank, Refusal, Topology, WorldSize, unwished};

/// The most ranks that the kernels serve.
pub const DEVICE_WORLD_MAX: usize = 8;
/// The most lanes of a communicator. More would leave a lane of a verify step's message with little to do.
const LANES_MAX: u64 = 32;
/// The most threads of a block, by the number of ranks: kernels of many ranks need more registers.
const THREADS_MAX: [u32; DEVICE_WORLD_MAX] = [768, 768, 768, 768, 512, 512, 512, 512];
/// The threads that a GPU runs in lockstep; shares and blocks are multiples of it.
pub(crate) const WARP: u32 = 32;
/// The fewest frames that a lane must be able to move, and the unit of its capacity: two halves of whole warps.
const CAPACITY_MIN: u32 = 64;
/// The most: a region of 32 lanes stays within what 32 bits address.
const CAPACITY_MAX: u64 = 1 << 21;
/// The bytes of payload in a frame; 4 more are its tags.
pub(crate) const FRAME: u64 = 12;
/// The bytes that chunks are counted in.
pub(crate) const QUAD: u64 = 16;
/// The bytes of a chunk: long enough that its count costs little, short enough that the first is soon there.
const CHUNK: u64 = 8 << 10;
/// The most chunks of a shard that a lane moves in one exchange: kernels count each.
const CHUNKS_MAX: u64 = 32;
/// Chunks that a lane's writers may be ahead of what it has finished: more let one direction of the link run dry.
const WINDOW: u32 = 4;
/// The lanes that move chunks over one link, of all ranks that share it: fewer do not fill it, and more only begin later.
const BULK_LANES: u32 = 32;
/// The threads of a block that moves chunks: a warp for headers, for posting and for each word that is watched, and twelve that move.
const BULK_THREADS: [u32; 2] = [15 * WARP, 16 * WARP];
/// The fewest warps that have all roles.
const ROLES: u32 = 8;
/// Areas for chunks take so many times the staging in each half of an inbox, whatever the number of ranks.
const BULK: u64 = 4;

/// Evidence: every rank has a GPU, the kernels serve this world, and so many lanes of it are resident together on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFit {
    lanes: u32,
    capacity: u32,
    threads: u32,
    world: WorldSize,
    crowd: u32,
    host_crowd: u32,
    /// Chunks of a shard for all lanes together; 0 where blocks are too small for them.
    bulk: u64,
}

/// How often bytes travel: straight to all, or to who sums them and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shots {
    One = 0,
    Two = 1,
}

impl Shots {
    /// The algorithm of GPUs.
    pub(crate) const fn push(self) -> AlgorithmName {
        match self {
            Shots::One => AlgorithmName::OneShotPush,
            Shots::Two => AlgorithmName::TwoShotPush,
        }
    }
}

/// How long messages are cut where a call moves chunks of raw bytes instead of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// The most lanes that a call takes, and of which an inbox has areas.
    pub lanes: u32,
    /// The 16-byte quads of a shard that a lane moves in one exchange; a multiple of `chunk`. In one shot the shard is the message.
    pub quads: u32,
    /// The quads of a chunk.
    pub chunk: u32,
    /// The chunks that a lane's writers may be ahead of what it has finished.
    pub window: u32,
    /// The threads of a block.
    pub threads: u32,
}

impl DeviceFit {
    /// The number of lanes, 1 to 32. A lane is one block of threads on every rank.
    #[must_use]
    #[inline]
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The frames that a lane moves from each source in one exchange of one shot, 12 bytes of payload each; a multiple of
    /// 64. One exchange of two shots moves up to half as many for each rank of the world.
    #[must_use]
    #[inline]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The most threads of a block; a multiple of 32, at least 64 on any GPU.
    #[must_use]
    #[inline]
    pub const fn threads(&self) -> u32 {
        self.threads
    }

    /// The ranks.
    #[must_use]
    #[inline]
    pub const fn world(&self) -> WorldSize {
        self.world
    }

    /// The most ranks that share one GPU, and its link; at least one.
    #[must_use]
    #[inline]
    pub const fn crowd(&self) -> u32 {
        self.crowd
    }

    /// How often chunks travel: of two ranks once, of more twice.
    pub(crate) const fn chunk_shots(&self) -> Shots {
        match self.world.get() {
            0..=2 => Shots::One,
            _ => Shots::Two,
        }
    }

    /// How chunks are cut, where staging suffices for two of them a lane, and there are peers. Straight into GPUs they go between two
    /// ranks with a GPU each: of more, results are read where their owner is, and nothing is polled or read in a peer's GPU.
    #[must_use]
    #[inline]
    pub const fn bulk(&self, path: Path) -> Option<Bulk> {
        let admitted = match path {
            Path::None | Path::SharedMemory => false,
            Path::Peer => self.world.get() == 2 && self.crowd == 1,
            Path::HostStaged => true,
        };
        let lanes = self.bulk_lanes(path);
        let each = self.bulk / lanes as u64;
        if each < 2 || !admitted {
            return None;
        }
        let chunks = if each < CHUNKS_MAX { each } else { CHUNKS_MAX };
        let most = BULK_THREADS[self.chunk_shots() as usize];
        Some(Bulk {
            lanes,
            quads: (chunks * (CHUNK / QUAD)) as u32,
            chunk: (CHUNK / QUAD) as u32,
            window: WINDOW,
            threads: if self.threads < most { self.threads } else { most },
        })
    }

    /// The most ranks that reach the host's memory by one link; at least one.
    pub(crate) const fn host_crowd(&self) -> u32 {
        self.host_crowd
    }

    const fn bulk_lanes(&self, path: Path) -> u32 {
        let crowd = match path {
            Path::None | Path::SharedMemory | Path::Peer => self.crowd,
            Path::HostStaged => self.host_crowd,
        };
        let most = match BULK_LANES / crowd {
            0 => 1,
            most => most,
        };
        if self.lanes < most { self.lanes } else { most }
    }

    /// The payload that all lanes together move in one exchange of one shot.
    pub(crate) const fn one_shot_exchange(&self) -> Bytes {
        Bytes::new(self.lanes as u64 * self.capacity as u64 * FRAME)
    }

    /// The payload that all lanes together move in one exchange of two shots.
    pub(crate) const fn two_shot_exchange(&self) -> Bytes {
        Bytes::new(self.lanes as u64 * self.two_shot_frames() * FRAME)
    }

    /// The payload that all lanes together move in one exchange of chunks.
    pub(crate) fn bulk_exchange(&self, path: Path) -> Option<Bytes> {
        let bulk = self.bulk(path)?;
        let shards = match self.chunk_shots() {
            Shots::One => 1,
            Shots::Two => self.world.get() as u64,
        };
        Some(Bytes::new(
            u64::from(bulk.lanes) * u64::from(bulk.quads) * QUAD * shards,
        ))
    }

    /// The frames that a lane moves in one exchange of two shots: every rank owns a shard of which each source fills half its
    /// slots, while the other half takes the sums.
    #[inline]
    pub(crate) const fn two_shot_frames(&self) -> u64 {
        self.world.get() as u64 * (self.capacity as u64 / 2)
    }
}

/// Is there a GPU for every rank, and how do lanes fit them? The staging is divided over the lanes.
///
/// Blocks of all ranks on one GPU wait for each other, so all must be resident together: ranks that share a GPU divide
/// its multiprocessors.
///
/// # Errors
/// [`Refusal::NoDevice`] without GPUs, or with fewer than ranks; [`Refusal::DeviceWorld`] above [`DEVICE_WORLD_MAX`] ranks.
pub fn device_fit(limits: Limits, gpus: Option<&Gpus>, world: WorldSize) -> Result<DeviceFit, Refusal> {
    let gpus = gpus
        .filter(|gpus| gpus.ranks.len() >= world.get())
        .ok_or(Refusal::NoDevice)?;
    if world.get() > DEVICE_WORLD_MAX {
        return Err(Refusal::DeviceWorld {
            world,
            most: DEVICE_WORLD_MAX,
        });
    }
    let blocks =
        |(rank, gpu): (Rank, &crate::RankGpu)| u64::from(gpu.multiprocessors) / gpus.sharing(rank).max(1) as u64;
    let ranks = || world.ranks().zip(&gpus.ranks);
    let frames = limits.staging.get() / FRAME;
    let lanes = ranks()
        .map(blocks)
        .fold(LANES_MAX, u64::min)
        .min(frames / u64::from(CAPACITY_MIN))
        .max(1);
    let threads = ranks()
        .map(|(_, gpu)| gpu.threads_per_block)
        .fold(THREADS_MAX[(world.get() - 1) % DEVICE_WORLD_MAX], u32::min);
    let fit = DeviceFit {
        lanes: lanes as u32,
        capacity: (frames / lanes).min(CAPACITY_MAX) as u32 / CAPACITY_MIN * CAPACITY_MIN,
        threads: (threads / WARP * WARP).max(WARP),
        world,
        crowd: gpus.crowd().max(1) as u32,
        host_crowd: gpus.host_crowd().max(1) as u32,
        bulk: 0,
    };
    // Of the stand-in's blocks, eight threads are a warp.
    let warps = |gpu: &crate::RankGpu| fit.threads / if gpu.stand_in { WARP / 4 } else { WARP };
    let has_roles = ranks().all(|(_, gpu)| warps(gpu) >= ROLES);
    let all = limits.staging.get().saturating_mul(BULK);
    Ok(DeviceFit {
        bulk: match world.get() {
            0 | 1 => 0,
            _ if !has_roles => 0,
            ranks => all / ranks as u64 / CHUNK,
        },
        ..fit
    })
}

/// Evidence: what any rank writes for another was seen to arrive, along this path; or, in a plan for a machine that isn't at hand, is
/// supposed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proven(Way);

/// The ways between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Peer,
    HostStaged,
}

impl Proven {
    #[inline]
    pub(crate) const fn path(self) -> Path {
        match self.0 {
            Way::Peer => Path::Peer,
            Way::HostStaged => Path::HostStaged,
        }
    }

    /// How long the first poll waits after a rank has pushed so many frames for others, where `crowd` ranks share a link: a poll in
    /// vain takes as much of the link as what it looks for.
    #[inline]
    pub(crate) const fn pause_ns(self, frames: u64, crowd: u32) -> u32 {
        match self.0 {
            Way::Peer => 0,
            Way::HostStaged => crate::cost::arrival_ns(frames.saturating_mul(crowd as u64)),
        }
    }
}

/// Which way do writes between any two ranks arrive, of those that the user admits? All pairs take the same one. Where peer access
/// is refused and nobody has tried the host's memory, the refusal of the first is the answer; else both are.
pub(crate) fn proven(topology: &Topology, world: WorldSize, choice: PathChoice) -> Result<Proven, Refusal> {
    let gpus = topology.gpus.as_ref();
    match choice {
        PathChoice::Peer => proven_along(Way::Peer, gpus, world),
        PathChoice::HostStaged => proven_along(Way::HostStaged, gpus, world),
        PathChoice::Auto => peer_by_choice(topology, world).or_else(|refused| {
            proven_along(Way::HostStaged, gpus, world).map_err(|other| {
                if matches!(other, Refusal::HostUnproven { .. }) {
                    return refused;
                }
                Refusal::NoWay {
                    peer: Box::new(refused),
                    host: Box::new(other),
                }
            })
        }),
    }
}

/// Is peer access what the plan takes where the choice is its own: not unwished, proven, and not slower than the host's memory?
pub(crate) fn peer_by_choice(topology: &Topology, world: WorldSize) -> Result<Proven, Refusal> {
    let gpus = topology.gpus.as_ref();
    // Of GPUs that aren't there nothing is wished.
    let unwished = gpus.and_then(|_| unwished(topology, world, PathChoice::Auto));
    match unwished.or_else(|| slower(gpus?, world)) {
        Some(refusal) => Err(refusal),
        None => proven_along(Way::Peer, gpus, world),
    }
}

/// The pair whose way with peer access was measured to be the worst, if it is worse than the host's memory: copies at less than half the
/// rate of those through the host, or a word that takes longer than there and back again.
pub(crate) fn slower(gpus: &Gpus, world: WorldSize) -> Option<Refusal> {
    let pairs = || {
        world
            .ranks()
            .flat_map(|writer| world.ranks().map(move |owner| (writer, owner)))
    };
    let measured = || pairs().filter_map(|(writer, owner)| Some((writer, owner, gpus.links.copies(writer, owner)?)));
    let compared = measured().filter_map(|(writer, owner, rates)| Some((writer, owner, rates.peer?, rates.staged?)));
    let worst = compared.min_by_key(|(_, _, peer, staged)| u64::from(*peer) * 1000 / u64::from((*staged).max(1)));
    if let Some((writer, owner, peer, staged)) = worst
        && peer < staged / 2
    {
        return Some(Refusal::PeerSlower {
            writer,
            owner,
            peer,
            staged,
        });
    }
    let words = measured().filter_map(|(writer, owner, rates)| Some((writer, owner, rates.latency_ns?)));
    let farthest = words.max_by_key(|(_, _, latency_ns)| *latency_ns);
    let (writer, owner, latency_ns) =
        farthest.filter(|(_, _, latency_ns)| *latency_ns > crate::cost::HOST_ROUND_TRIP_NS)?;
    Some(Refusal::PeerFar {
        writer,
        owner,
        latency_ns,
    })
}

/// Do writes between any two ranks arrive this way? The first pair of which it isn't known is named, by owner within writer.
pub(crate) fn proven_along(way: Way, gpus: Option<&Gpus>, world: WorldSize) -> Result<Proven, Refusal> {
    let gpus = gpus.ok_or(Refusal::NoDevice)?;
    let pairs = || {
        let all = world
            .ranks()
            .flat_map(|writer| world.ranks().map(move |owner| (writer, owner)));
        all.filter(|(writer, owner)| writer != owner)
    };
    let verdicts = match way {
        Way::Peer => &gpus.peers,
        Way::HostStaged => &gpus.staged,
    };
    let verdict = |writer: Rank, owner: Rank| verdicts.get(writer.index()).and_then(|row| row.get(owner.index()));
    // What is known to be wrong counts before what nobody has tried because of it.
    for (writer, owner) in pairs() {
        match verdict(writer, owner) {
            Some(PeerVerdict::Refused { reason }) => {
                let cause = reason.clone();
                return Err(match way {
                    Way::Peer => Refusal::PeerAccess { writer, owner, cause },
                    Way::HostStaged => Refusal::HostAccess { writer, owner, cause },
                });
            }
            Some(PeerVerdict::Disproven { found }) => {
                let found = found.clone();
                return Err(match way {
                    Way::Peer => Refusal::PeerDisproven { writer, owner, found },
                    Way::HostStaged => Refusal::HostDisproven { writer, owner, found },
                });
            }
            Some(
                PeerVerdict::Proven
                | PeerVerdict::Assumed
                | PeerVerdict::Granted
                | PeerVerdict::Unknown
                | PeerVerdict::Own,
            )
            | None => {}
        }
    }
    for (writer, owner) in pairs() {
        match verdict(writer, owner) {
            Some(PeerVerdict::Proven | PeerVerdict::Assumed | PeerVerdict::Granted) => {}
            Some(_) | None => {
                return Err(match way {
                    Way::Peer => Refusal::PeerUnproven { writer, owner },
                    Way::HostStaged => Refusal::HostUnproven { writer, owner },
                });
            }
        }
    }
    Ok(Proven(way))
}

/// Whether some pair of ranks is only supposed to reach each other this way.
pub(crate) fn supposed(way: Way, gpus: &Gpus) -> bool {
    let verdicts = match way {
        Way::Peer => &gpus.peers,
        Way::HostStaged => &gpus.staged,
    };
    verdicts
        .iter()
        .flatten()
        .any(|verdict| matches!(verdict, PeerVerdict::Assumed | PeerVerdict::Granted))
}
