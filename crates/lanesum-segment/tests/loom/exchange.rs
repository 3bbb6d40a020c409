//! A rank of a small job under loom: the exchanges of the host engine in miniature, with the real protocol
//! of the crate and payload in loom's cells, which report every pair of accesses that nothing orders.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lanesum_segment::{
    Announcement, Epoch, Geometry, Lost, Member, Pace, Phase, Record, RecordKind, Segment, Tally, Trouble, Turns,
    WaitContext,
};
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::thread;

/// Polls for ever: no wait looks at anything but lines.
pub const SPIN: Pace = Pace {
    spins: u32::MAX,
    yields: 0,
};
/// Looks for trouble at each poll.
pub const WARY: Pace = Pace {
    spins: 0,
    yields: u32::MAX,
};
/// Sleeps at each poll.
pub const DROWSY: Pace = Pace { spins: 0, yields: 0 };

/// Bytes that a word stands for: a line, one of the first blocks, so that each has a turn of its own.
const BLOCK: usize = 64;
/// Bytes of a mailbox.
const MAILBOX: u64 = 4 * BLOCK as u64;

/// Words of memory that one rank writes and others read.
struct Cells(Vec<UnsafeCell<u64>>);

// SAFETY: loom fails the test at the first pair of accesses that is not ordered.
unsafe impl Sync for Cells {}
// SAFETY: a cell holds a plain number.
unsafe impl Send for Cells {}

impl Cells {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn write(&self, index: usize, value: u64) {
        self.0[index].with_mut(|word| {
            // SAFETY: the pointer is valid; loom has just checked that nothing runs beside this write.
            unsafe { *word = value }
        });
    }

    fn read(&self, index: usize) -> u64 {
        self.0[index].with(|word| {
            // SAFETY: the pointer is valid; loom has just checked that no write runs beside this read.
            unsafe { *word }
        })
    }
}

/// What the ranks share. A mailbox has a word for each shard, an arena two buffers of a word for each shard.
pub struct Job {
    pub segment: Arc<Segment>,
    world: usize,
    /// From each rank to each, its own too, which nobody uses.
    mailboxes: Vec<Vec<Cells>>,
    arenas: Vec<[Cells; 2]>,
    /// A word of a shared buffer of rank 0 which that rank overwrites although a peer may read it.
    pub exposed: AtomicU64,
    /// What the watchers have seen.
    pub lost: Lost,
}

impl Job {
    fn new(world: usize, first_epoch: u64) -> Self {
        let geometry = Geometry::new(world, MAILBOX, 4096, first_epoch, 0).unwrap();
        let pairs = |words: usize| {
            (0..world)
                .map(|_| [Cells::new(words), Cells::new(words)])
                .collect::<Vec<_>>()
        };
        Self {
            segment: Arc::new(Segment::for_loom(geometry)),
            world,
            mailboxes: (0..world)
                .map(|_| (0..world).map(|_| Cells::new(world)).collect())
                .collect(),
            arenas: pairs(world),
            exposed: AtomicU64::new(0),
            lost: Lost::default(),
        }
    }
}

/// One rank: a thread of the model.
pub struct Rank {
    pub job: Arc<Job>,
    pub member: Member,
    pub index: usize,
    pub epoch: Epoch,
    turns: Turns,
    pace: Pace,
    tally: Tally,
}

/// Every interleaving, with any number of forced switches.
pub const ALL: usize = usize::MAX;

/// Checks `ranks` (one function a rank) against each other, with at most `preemptions` forced switches:
/// the switches that waits make are free.
pub fn model(first_epoch: u64, preemptions: usize, pace: Pace, ranks: &'static [fn(&mut Rank)]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or((preemptions != ALL).then_some(preemptions));
    // A mutant that nothing has shown by then passes, and so fails the test that runs it.
    builder.max_duration = std::env::var_os("LANESUM_MUTANT").map(|_| Duration::from_secs(60));
    let executions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executions);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        let job = Arc::new(Job::new(ranks.len(), first_epoch));
        let join = |index: usize| Rank {
            member: Member::new(Arc::clone(&job.segment), index).unwrap(),
            job: Arc::clone(&job),
            index,
            epoch: Epoch::new(first_epoch),
            turns: Turns::default(),
            pace,
            tally: Tally::default(),
        };
        let mut first = join(0);
        let others: Vec<_> = (1..ranks.len())
            .map(|index| {
                let mut rank = join(index);
                thread::spawn(move || ranks[index](&mut rank))
            })
            .collect();
        ranks[0](&mut first);
        for other in others {
            other.join().unwrap();
        }
    });
    eprintln!("{} executions", executions.load(Ordering::Relaxed));
}

/// What a rank puts into a word in an epoch: no two are alike.
fn word(rank: usize, epoch: Epoch, shard: usize) -> u64 {
    epoch.get().wrapping_mul(1_000) ^ (rank as u64 * 100 + shard as u64)
}

impl Rank {
    pub fn context(&self) -> WaitContext<'_> {
        WaitContext {
            deadline: Duration::from_secs(86_400),
            pace: self.pace,
            lost: &self.job.lost,
            tally: &self.tally,
        }
    }

    /// The places of the first words of what this rank writes for a peer, or reads of what the peer wrote.
    fn places(&self, peer: usize, words: usize, incoming: bool) -> Vec<(&Cells, usize)> {
        let mut places = Vec::new();
        for run in self.turns.runs(words * BLOCK) {
            let (from, to) = match incoming {
                true => run.incoming(self.index, peer),
                false => run.outgoing(self.index, peer),
            };
            let words = run.bytes.start / BLOCK..run.bytes.end / BLOCK;
            places.extend(words.map(|word| (&self.job.mailboxes[from][to], word)));
        }
        places
    }

    fn outgoing(&self, peer: usize, words: usize) -> Vec<(&Cells, usize)> {
        self.places(peer, words, false)
    }

    fn incoming(&self, peer: usize, words: usize) -> Vec<(&Cells, usize)> {
        self.places(peer, words, true)
    }

    fn pass(&mut self, words: usize) {
        self.turns = self.turns.passed(words * BLOCK);
    }

    fn sum(&self, shard: usize) -> u64 {
        (0..self.job.world).fold(0, |sum, rank| sum.wrapping_add(word(rank, self.epoch, shard)))
    }

    /// The digest is that of the algorithm alone, as in the chunks of one streamed call.
    pub fn announce(&self, digest: u32, offset: u64) {
        let descriptor = [self.epoch.get(), self.index as u64, digest.into(), 7];
        let announcement = Announcement {
            digest,
            descriptor,
            offset,
        };
        self.member.announce(self.epoch, &announcement);
    }

    pub fn headers(&self, digest: u32) -> Result<(), Trouble> {
        self.member.await_headers(self.epoch, digest, || self.context())
    }

    fn check_announcements(&self, digest: u32) {
        for peer in self.member.peers().iter() {
            let seen = self.member.announcement(peer, self.epoch);
            assert_eq!(seen.digest, digest);
            assert_eq!(seen.descriptor, [self.epoch.get(), peer as u64, digest.into(), 7]);
        }
    }

    pub fn finish(&mut self) {
        self.epoch = self.epoch.next();
    }

    /// A call with a digest of its own, as calls that carry their ordinal have.
    pub fn numbered_header(&mut self) {
        let digest = self.epoch.get() as u32;
        self.announce(digest, 0);
        self.headers(digest).unwrap();
        self.check_announcements(digest);
        self.finish();
    }

    /// Checks that the peer's line holds the header of two epochs before, or this one's, and never any
    /// other: the reason why no tag can come round.
    pub fn look_ahead(&self) {
        let digest = self.epoch.get() as u32;
        let since = self.epoch.get().wrapping_sub(self.job.segment.geometry().first_epoch());
        let before = if since < 2 { 0 } else { digest.wrapping_sub(2) };
        for peer in self.member.peers().iter() {
            let seen = self.member.announcement(peer, self.epoch).digest;
            assert!(
                seen == before || seen == digest,
                "{seen} is neither {before} nor {digest}"
            );
        }
    }

    /// A call without payload: a barrier, or a sum of nothing.
    pub fn try_header_only(&mut self) -> Result<(), Trouble> {
        self.announce(1, 0);
        self.headers(1)?;
        self.check_announcements(1);
        self.finish();
        Ok(())
    }

    pub fn header_only(&mut self) {
        self.try_header_only().unwrap();
    }

    /// Every rank reads all that every peer wrote for it, and they change places.
    fn one_shot_of(&mut self, words: usize) {
        let peers: Vec<usize> = self.member.peers().iter().collect();
        for &peer in &peers {
            for (shard, (mailbox, place)) in self.outgoing(peer, words).into_iter().enumerate() {
                mailbox.write(place, word(self.index, self.epoch, shard));
            }
        }
        self.announce(2, 0);
        self.headers(2).unwrap();
        for &peer in &peers {
            for (shard, (mailbox, place)) in self.incoming(peer, words).into_iter().enumerate() {
                assert_eq!(mailbox.read(place), word(peer, self.epoch, shard));
            }
        }
        self.pass(words);
        self.finish();
    }

    pub fn one_shot(&mut self) {
        self.one_shot_of(self.job.world);
    }

    /// Leaves the other words of the mailboxes with the turns that they had.
    pub fn short_one_shot(&mut self) {
        self.one_shot_of(1);
    }

    /// Every owner sums its shard and answers where the inputs were; they keep their places.
    pub fn try_two_shot(&mut self) -> Result<(), Trouble> {
        let peers: Vec<usize> = self.member.peers().iter().collect();
        for &peer in &peers {
            let (mailbox, place) = self.outgoing(peer, 1)[0];
            mailbox.write(place, word(self.index, self.epoch, peer));
        }
        self.announce(3, 0);
        self.headers(3)?;
        let mut sum = word(self.index, self.epoch, self.index);
        for &peer in &peers {
            let (mailbox, place) = self.incoming(peer, 1)[0];
            sum = sum.wrapping_add(mailbox.read(place));
        }
        for &peer in &peers {
            let (mailbox, place) = self.incoming(peer, 1)[0];
            mailbox.write(place, sum);
        }
        self.member.post_result(self.epoch);
        self.member.await_results(self.epoch, || self.context())?;
        for &owner in &peers {
            let (mailbox, place) = self.outgoing(owner, 1)[0];
            assert_eq!(mailbox.read(place), self.sum(owner));
        }
        self.turns = self.turns.answered(BLOCK);
        self.finish();
        Ok(())
    }

    pub fn two_shot(&mut self) {
        self.try_two_shot().unwrap();
    }

    /// Which of its two shared buffers a rank gives to this call. Ranks differ, so that a wrong offset
    /// shows.
    fn buffer(&self) -> usize {
        self.index & 1
    }

    fn fill_shared(&self) {
        for shard in 0..self.job.world {
            self.job.arenas[self.index][self.buffer()].write(shard, word(self.index, self.epoch, shard));
        }
    }

    fn shared(&self, rank: usize, shard: usize) -> u64 {
        let buffer = match rank == self.index {
            true => self.buffer(),
            false => self.member.announcement(rank, self.epoch).offset as usize,
        };
        let value = self.job.arenas[rank][buffer].read(shard);
        assert_eq!(value, word(rank, self.epoch, shard));
        value
    }

    /// Buffers are read in place, and overwritten as soon as the call has returned. The sum waits where this rank may
    /// write, and nobody else reads.
    pub fn shared_one_shot(&mut self) {
        self.fill_shared();
        self.announce(4, self.buffer() as u64);
        self.headers(4).unwrap();
        let mut sum = 0u64;
        for rank in 0..self.job.world {
            for shard in 0..self.job.world {
                sum = sum.wrapping_add(self.shared(rank, shard));
            }
        }
        let first = self.member.peers().iter().next().unwrap();
        let (scratch, place) = self.outgoing(first, 1)[0];
        scratch.write(place, sum);
        self.member.confirm_reads().unwrap();
        self.member.post_closing(self.epoch);
        self.member.await_closings(self.epoch, || self.context()).unwrap();
        assert_eq!(scratch.read(place), sum);
        self.overwrite_shared();
        self.finish();
    }

    /// What the caller does with its buffer after a call.
    fn overwrite_shared(&self) {
        for shard in 0..self.job.world {
            self.job.arenas[self.index][self.buffer()].write(shard, u64::MAX);
        }
    }
}

/// A record with something in every field.
pub fn record() -> Record {
    Record {
        kind: RecordKind::Mismatch,
        by: 0,
        ranks: lanesum_segment::RankSet::only(1),
        epoch: 11,
        waited_us: 12,
        phase: Phase::Closing,
        ours: [13, 14, 15, 16],
        theirs: [17, 18, 19, 20],
    }
}
