//! What algorithms that lanesum does not have would take on a fabric, and what NCCL would: each is played over the links.
//!
//! With `S` bytes a rank, `W` ranks, and islands of `m` ranks each; every phase ends when its busiest link has carried its part, after the
//! longest hop between those that take part; of a ring, after a mean one a step.
//!
//! | method | phases | waits beside hops |
//! |---|---|---|
//! | `one_shot_push` | S stored by each for each other, in frames | |
//! | `two_shot_push` | S/W for each other, in frames; as much of sums | |
//! | `one_shot_pull` | a flag; S loaded from each other | a read's round trip |
//! | `two_shot_pull` | a flag, S/W loaded from each other; the same of sums | two round trips |
//! | `two_shot_staged` | as `two_shot_push` in raw bytes, but one stream out and one in at a time: W-1 rounds each way | a fence a phase |
//! | `island_two_shot` | S/m for each other of the island; f32 sums between owners of the same part, island by island; S/m of sums in the island; in frames | |
//! | `copy_engine` | S/W copied to each other; as much of sums | copies and kernels that start |
//! | `nccl` | 2 (W-1) steps round a ring, S/W each: 8-byte words that are half flag, or raw with a longer step, whichever ends first | its own start |
//!
//! Frames are 4/3 of the payload. Where peer access is refused, NCCL goes through the host's memory: each step up one link and down
//! another.
//!
//! Figures that are not of the fabric: a fence of 1 us (measured on GPUs, one release flag a block against words that carry their tag); a read's
//! round trip of 1.4 hops (0.7 to 1.6 us are published); copies start in 2.5 us, an assumption; NCCL starts in 8 us and its raw steps take
//! 4 us longer (two numbers that meet what is published of 2, 4 and 8 GPUs; `cargo xtask model-check` shows how well).

use crate::closed::closed_words;
use crate::cost::{DEVICE_ADD_US, FRAMED, HOST_HOP_US, HOST_RANK_STORE_US};
use crate::fabric::{Mover, Transfer};
use crate::{Bytes, Estimate, Fabric, Rank, Relation};

/// Between raw bytes and the flag that tells of them.
const FENCE_US: f64 = 1.0;
/// A read's round trip, in hops.
const ROUND_TRIP_HOPS: f64 = 1.4;
/// Until copies of a phase flow.
const COPY_START_US: f64 = 2.5;
/// Bytes on the link for a byte of payload in NCCL's words.
const NCCL_WORDS: f64 = 2.0;

closed_words! {
    /// An all-reduce of GPUs by its data path, whether lanesum has it or not.
    pub enum Method ("method") {
        /// Every rank stores its input for all others, and sums all.
        OneShotPush = 0 => "one_shot_push",
        /// Every rank stores shards for their owners, which store sums for all.
        TwoShotPush = 1 => "two_shot_push",
        /// Every rank loads all inputs from where they are.
        OneShotPull = 2 => "one_shot_pull",
        /// Every rank loads its shard of all inputs, and then all sums.
        TwoShotPull = 3 => "two_shot_pull",
        /// Two shots that store for one other rank at a time.
        TwoShotStaged = 4 => "two_shot_staged",
        /// Two shots within islands, and sums between them.
        IslandTwoShot = 5 => "island_two_shot",
        /// Two shots whose bytes are moved by copy engines.
        CopyEngine = 6 => "copy_engine",
        /// The ring of NVIDIA's library.
        Nccl = 7 => "nccl",
    }
}

impl Method {
    /// The methods that a plan can't take: algorithms that are not built, and the delegate.
    pub const BEYOND: [Method; 6] = [
        Method::OneShotPull,
        Method::TwoShotPull,
        Method::TwoShotStaged,
        Method::IslandTwoShot,
        Method::CopyEngine,
        Method::Nccl,
    ];
}

/// A message, and how it is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message {
    /// The bytes a rank.
    pub bytes: Bytes,
    /// Bytes on a link for each of a payload that carries its own tags.
    pub framed: f64,
    /// Bytes of a sum that isn't rounded yet, for each of payload: 2 for types of 16 bits, which are summed in f32.
    pub partial: f64,
    /// To launch one kernel.
    pub launch_us: f64,
}

impl Message {
    /// What lanesum's own frames would carry, launched eagerly.
    pub(crate) fn of(request: &crate::Request) -> Message {
        Message {
            bytes: request.bytes(),
            framed: FRAMED,
            partial: 4.0 / request.dtype.size() as f64,
            launch_us: crate::cost::LAUNCH_US,
        }
    }
}

/// What an implementation spends beside what links and hops take, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habits {
    /// Until its kernels begin to move bytes, and from their end, beside a launch.
    pub start_us: f64,
    /// How much longer a step of a ring takes in raw bytes than in words that are half flag.
    pub raw_step_us: f64,
}

impl Habits {
    /// Those of nobody: what lanesum's own algorithms would do.
    pub const NONE: Habits = Habits {
        start_us: 0.0,
        raw_step_us: 0.0,
    };

    /// NCCL's.
    pub const NCCL: Habits = Habits {
        start_us: 8.0,
        raw_step_us: 4.0,
    };

    /// Those that a method's forecast counts with.
    #[must_use]
    pub const fn of(method: Method) -> Habits {
        match method {
            Method::OneShotPush
            | Method::TwoShotPush
            | Method::OneShotPull
            | Method::TwoShotPull
            | Method::TwoShotStaged
            | Method::IslandTwoShot
            | Method::CopyEngine => Habits::NONE,
            Method::Nccl => Habits::NCCL,
        }
    }
}

/// The parts of a call so far.
struct Tally<'a> {
    fabric: &'a Fabric,
    estimate: Estimate,
}

impl Tally<'_> {
    /// A phase: the longest hop of these ranks, then the transfers.
    fn phase(&mut self, ranks: &[Rank], mover: Mover, transfers: &[Transfer]) {
        self.estimate.waits_us += self.fabric.hop_us(ranks);
        self.estimate.moves_us += self.fabric.play_us(mover, transfers);
    }
}

impl Fabric {
    /// What one call by a method would take; `None` where these ranks have no use for it.
    #[must_use]
    pub fn estimate(&self, method: Method, message: &Message) -> Option<Estimate> {
        self.estimate_with(method, message, Habits::of(method))
    }

    /// The same by an implementation with these habits.
    #[must_use]
    pub fn estimate_with(&self, method: Method, message: &Message, habits: Habits) -> Option<Estimate> {
        let ranks: Vec<Rank> = self.world().ranks().collect();
        let world = ranks.len() as f64;
        let size = message.bytes.get() as f64;
        let shard = size / world;
        let mut tally = Tally {
            fabric: self,
            estimate: Estimate {
                launch_us: message.launch_us + habits.start_us,
                sums_us: DEVICE_ADD_US * size * (1.0 + 2.0 * (world - 1.0) / world),
                ..Estimate::default()
            },
        };
        match method {
            Method::OneShotPush => {
                tally.estimate.sums_us = DEVICE_ADD_US * size * world;
                tally.phase(&ranks, Mover::Store, &all_to_all(&ranks, size * message.framed));
            }
            Method::TwoShotPush => {
                for _ in 0..2 {
                    tally.phase(&ranks, Mover::Store, &all_to_all(&ranks, shard * message.framed));
                }
            }
            Method::OneShotPull => {
                tally.estimate.sums_us = DEVICE_ADD_US * size * world;
                tally.estimate.waits_us += ROUND_TRIP_HOPS * self.hop_us(&ranks);
                tally.phase(&ranks, Mover::Load, &all_to_all(&ranks, size));
            }
            Method::TwoShotPull => {
                for _ in 0..2 {
                    tally.estimate.waits_us += ROUND_TRIP_HOPS * self.hop_us(&ranks);
                    tally.phase(&ranks, Mover::Load, &all_to_all(&ranks, shard));
                }
            }
            Method::TwoShotStaged => {
                for _ in 0..2 {
                    tally.estimate.waits_us += FENCE_US + self.hop_us(&ranks);
                    for round in 1..ranks.len() {
                        let turned = turned(&ranks, round, shard);
                        tally.estimate.moves_us += self.play_us(Mover::Store, &turned);
                    }
                }
            }
            Method::IslandTwoShot => self.islands_apart(&mut tally, message)?,
            Method::CopyEngine => {
                // A kernel of its own enters, adds and leaves.
                tally.estimate.launch_us += 2.0 * message.launch_us;
                for _ in 0..2 {
                    tally.estimate.waits_us += COPY_START_US;
                    tally.phase(&ranks, Mover::Copy, &all_to_all(&ranks, shard));
                }
            }
            Method::Nccl => {
                let ring = self.ring();
                let transfers = |bytes| turned(&ring, 1, bytes);
                let steps = 2.0 * (world - 1.0);
                let words_us = steps * self.play_us(Mover::Store, &transfers(shard * NCCL_WORDS));
                let raw_us = steps * self.play_us(Mover::Store, &transfers(shard));
                let hops = ring.iter().zip(ring.iter().cycle().skip(1));
                let round_us: f64 = hops.map(|(from, to)| self.hop_us(&[*from, *to])).sum();
                tally.ring(steps * round_us / world, [words_us, raw_us], steps * habits.raw_step_us);
            }
        }
        Some(tally.estimate)
    }

    /// What NCCL would take through the host's memory, each rank by a link that carries so many thousandths of Gen5 x16.
    #[must_use]
    pub fn estimate_staged_nccl(&self, message: &Message, permille: u32) -> Estimate {
        let world = self.world().get() as f64;
        let size = message.bytes.get() as f64;
        let mut tally = Tally {
            fabric: self,
            estimate: Estimate {
                launch_us: message.launch_us + Habits::NCCL.start_us,
                sums_us: DEVICE_ADD_US * size * 2.0,
                ..Estimate::default()
            },
        };
        let steps = 2.0 * (world - 1.0);
        // Ranks behind one switch share its link.
        let byte_us = HOST_RANK_STORE_US * 1000.0 / f64::from(permille.max(1)) * self.crowd() as f64;
        let bytes_us = steps * size / world * byte_us;
        let raw_steps_us = steps * Habits::NCCL.raw_step_us;
        tally.ring(steps * HOST_HOP_US, [bytes_us * NCCL_WORDS, bytes_us], raw_steps_us);
        tally.estimate
    }

    /// In islands, between them, and in islands again. Parts between islands of different sizes overlap as their places in the message do.
    fn islands_apart(&self, tally: &mut Tally<'_>, message: &Message) -> Option<()> {
        let islands = self.islands();
        if islands.len() < 2 || islands.iter().all(|island| island.len() < 2) {
            return None;
        }
        let size = message.bytes.get() as f64;
        let within: Vec<Transfer> = islands
            .iter()
            .flat_map(|island| all_to_all(island, size / island.len() as f64 * message.framed))
            .collect();
        let in_island_us = islands.iter().map(|island| self.hop_us(island)).fold(0.0, f64::max);
        let all: Vec<Rank> = self.world().ranks().collect();
        tally.estimate.waits_us += 2.0 * in_island_us + self.hop_us(&all);
        tally.estimate.moves_us += 2.0 * self.play_us(Mover::Store, &within);
        // To one other island at a time, which spares links that are shared.
        for places in 1..islands.len() {
            let parts = islands.iter().zip(islands.iter().cycle().skip(places));
            let between: Vec<Transfer> = parts
                .flat_map(|(one, other)| parts_between(one, other, size * message.partial * message.framed))
                .collect();
            tally.estimate.moves_us += self.play_us(Mover::Store, &between);
        }
        Some(())
    }

    /// The ranks in such an order that each is followed by the nearest that is left.
    fn ring(&self) -> Vec<Rank> {
        let mut left: Vec<Rank> = self.world().ranks().collect();
        let mut ring: Vec<Rank> = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let nearest = match ring.last() {
                None => 0,
                Some(last) => {
                    // Of NVLinks the most, and then the nearest.
                    let far = |place: &usize| match self.relation(*last, left[*place]) {
                        Some(Relation::Nvlink(bonds)) => (None, u8::MAX - bonds),
                        other => (Some(other.unwrap_or(Relation::Phb)), 0),
                    };
                    (0..left.len()).min_by_key(far).unwrap_or(0)
                }
            };
            ring.push(left.remove(nearest));
        }
        ring
    }
}

impl Tally<'_> {
    /// A ring whose steps move words, or raw bytes, whichever ends first.
    fn ring(&mut self, hops_us: f64, [words_us, raw_us]: [f64; 2], raw_steps_us: f64) {
        let in_words = words_us <= raw_us + raw_steps_us;
        self.estimate.waits_us += hops_us + if in_words { 0.0 } else { raw_steps_us };
        self.estimate.moves_us += if in_words { words_us } else { raw_us };
    }
}

/// From each rank of an island to those of another that own some of the same places, of so many bytes.
fn parts_between(one: &[Rank], other: &[Rank], bytes: f64) -> Vec<Transfer> {
    let mut parts = Vec::new();
    for (from_place, from) in one.iter().enumerate() {
        for (to_place, to) in other.iter().enumerate() {
            let start = (from_place as f64 / one.len() as f64).max(to_place as f64 / other.len() as f64);
            let end = ((from_place + 1) as f64 / one.len() as f64).min((to_place + 1) as f64 / other.len() as f64);
            if end > start {
                parts.push(Transfer {
                    from: *from,
                    to: *to,
                    bytes: (end - start) * bytes,
                });
            }
        }
    }
    parts
}

fn all_to_all(ranks: &[Rank], bytes: f64) -> Vec<Transfer> {
    let pairs = ranks.iter().flat_map(|from| ranks.iter().map(move |to| (*from, *to)));
    pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| Transfer { from, to, bytes })
        .collect()
}

/// From each to the one that stands so many places on.
fn turned(ranks: &[Rank], places: usize, bytes: f64) -> Vec<Transfer> {
    let next = ranks.iter().cycle().skip(places);
    ranks
        .iter()
        .zip(next)
        .map(|(from, to)| Transfer {
            from: *from,
            to: *to,
            bytes,
        })
        .collect()
}
