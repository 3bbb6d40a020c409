//! One rank's hand on the segment: it posts to its own lines and looks at those of its peers.

use std::sync::Arc;
use std::time::Duration;

use crate::epoch::Epoch;
use crate::mutants;
use crate::rank_set::RankSet;
use crate::record::{self, Record};
use crate::segment::Segment;
use crate::sync::{Ordering, fence};
use crate::wait::Trouble;

/// What a rank announces at the start of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// Digest of the call; equal on all ranks or the exchange fails.
    pub digest: u32,
    /// The call in words, for the messages of errors.
    pub descriptor: [u64; 4],
    /// Where in this rank's arena its input starts, for calls that read shared buffers in place.
    pub offset: u64,
}

/// One rank's hand on the segment. Only the owner of a rank makes it, and uses it from one thread at a
/// time.
#[derive(Debug)]
pub struct Member {
    segment: Arc<Segment>,
    rank: usize,
    peers: RankSet,
}

impl Member {
    /// The hand of `rank`, if the segment has such a rank.
    pub fn new(segment: Arc<Segment>, rank: usize) -> Option<Self> {
        let world = segment.geometry().world();
        (rank < world).then(|| Self {
            rank,
            peers: RankSet::all(world).without(rank),
            segment,
        })
    }

    /// The segment.
    #[inline]
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// This rank.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// All other ranks.
    #[inline]
    pub fn peers(&self) -> RankSet {
        self.peers
    }

    /// Posts this rank's line of `epoch`. What the rank wrote to mailboxes before becomes visible
    /// to each peer that sees the header.
    #[inline]
    pub fn announce(&self, epoch: Epoch, announcement: &Announcement) {
        let line = &self.segment.control(self.rank).lines[epoch.parity()];
        let header = u64::from(announcement.digest) << 32 | u64::from(epoch.tag());
        if mutants::header_before_words() {
            line.header.store(header, Ordering::Release);
        }
        // Relaxed: read by peers only after they have seen the header below.
        for (slot, word) in line.descriptor.iter().zip(announcement.descriptor) {
            slot.store(word, Ordering::Relaxed);
        }
        line.offset.store(announcement.offset, Ordering::Relaxed);
        // Pairs with the acquire load in `await_headers`.
        line.header.store(header, mutants::release(mutants::relaxed_header()));
        self.ring();
    }

    /// What a peer announced for `epoch`. Meaningful once its header was seen; the words may be hostile.
    pub fn announcement(&self, peer: usize, epoch: Epoch) -> Announcement {
        let line = &self.segment.control(peer).lines[epoch.parity()];
        // Relaxed: `await_headers` has acquired the header that was stored after these.
        Announcement {
            digest: (line.header.load(Ordering::Relaxed) >> 32) as u32,
            descriptor: core::array::from_fn(|index| line.descriptor[index].load(Ordering::Relaxed)),
            offset: line.offset.load(Ordering::Relaxed),
        }
    }

    /// Says that this rank's shard of `epoch` is summed, in every peer's mailbox.
    #[inline]
    pub fn post_result(&self, epoch: Epoch) {
        let line = &self.segment.control(self.rank).lines[epoch.parity()];
        // Pairs with the acquire load in `await_results`.
        line.result
            .store(epoch.get(), mutants::release(mutants::relaxed_result()));
        self.ring();
    }

    /// Says that this rank reads no peer's memory any more in `epoch`.
    #[inline]
    pub fn post_closing(&self, epoch: Epoch) {
        let line = &self.segment.control(self.rank).lines[epoch.parity()];
        // Pairs with the acquire load in `await_closings`.
        line.closing
            .store(epoch.get(), mutants::release(mutants::relaxed_closing()));
        self.ring();
    }

    /// Tells the peers why this rank has failed. Only the first call counts. To be called before the rank
    /// writes to its shared buffers again, be it NaN: peers that have read such bytes find this record
    /// ([`Member::confirm_reads`]). It never writes to a mailbox again.
    pub fn fail(&self, record: &Record) {
        let status = &self.segment.control(self.rank).status;
        if status.word.load(Ordering::Relaxed) == record::LIVE {
            status.fail(record);
            if !mutants::unfenced_failure() {
                // Pairs with the acquire fence in `confirm_reads`: orders the status before the later writes.
                fence(Ordering::Release);
            }
            self.ring();
        }
    }

    /// Tells the peers that this rank makes no more calls.
    pub fn depart(&self) {
        let status = &self.segment.control(self.rank).status;
        if status.word.load(Ordering::Relaxed) == record::LIVE {
            // Pairs with the acquire load in `has_departed`: all that was posted before is visible then.
            let order = mutants::release(mutants::relaxed_departure());
            status.word.store(record::DEPARTED, order);
            self.ring();
        }
    }

    /// A peer's error record, if it has failed.
    pub fn record(&self, peer: usize) -> Option<Box<Record>> {
        self.segment.control(peer).status.read()
    }

    /// Whether a peer has closed its communicator.
    pub fn has_departed(&self, peer: usize) -> bool {
        // Pairs with the release store in `depart`.
        let order = mutants::acquire(mutants::relaxed_departure_look());
        self.segment.control(peer).status.word.load(order) == record::DEPARTED
    }

    /// Confirms what was read of the peers' shared buffers in this exchange: none has failed. To be called
    /// after the last such read and before its outcome is posted or returned, because a rank whose call
    /// has failed takes its buffers back while late peers may still read them.
    ///
    /// # Errors
    /// [`Trouble::Reported`]: what was read may be anything.
    #[inline]
    pub fn confirm_reads(&self) -> Result<(), Trouble> {
        if mutants::unconfirmed_reads() {
            return Ok(());
        }
        if !mutants::unfenced_confirmation() {
            // Pairs with the release fence in `fail`: who read what a failed rank wrote sees its status.
            fence(Ordering::Acquire);
        }
        match self.first_record() {
            Some((by, record)) => Err(Trouble::Reported { by, record }),
            None => Ok(()),
        }
    }

    /// The lowest peer that has failed, and its record.
    #[inline]
    pub(crate) fn first_record(&self) -> Option<(usize, Box<Record>)> {
        self.peers.iter().find_map(|peer| Some((peer, self.record(peer)?)))
    }

    /// Wakes the peers that sleep. One load where nobody does.
    #[inline]
    fn ring(&self) {
        // Relaxed, and not ordered after the post: a sleeper that is missed here wakes by itself.
        let sleepers = RankSet::from_bits(self.segment.head().sleepers.bits.load(Ordering::Relaxed));
        if !sleepers.is_empty() {
            self.wake(sleepers.without(self.rank));
        }
    }

    #[cold]
    fn wake(&self, sleepers: RankSet) {
        for peer in sleepers.intersection(self.peers).iter() {
            let bell = &self.segment.control(peer).bell.word;
            // Pairs with the acquire load in `nap`: who sees the new number sees what was posted.
            bell.fetch_add(1, Ordering::Release);
            crate::segment::futex_wake(bell);
        }
    }

    /// Sleeps until a peer rings or `time` is over, unless `arrived` already.
    pub(crate) fn nap(&self, time: Duration, arrived: impl Fn() -> bool) {
        let bell = &self.segment.control(self.rank).bell.word;
        // Pairs with the release increment in `wake`.
        let number = bell.load(Ordering::Acquire);
        let sleepers = &self.segment.head().sleepers.bits;
        let bit = RankSet::only(self.rank).bits();
        sleepers.fetch_or(bit, Ordering::SeqCst);
        // Orders the bit before the last look; the poster has no such fence, so a wake may be missed and
        // `time` bounds what that costs.
        fence(Ordering::SeqCst);
        if !arrived() {
            crate::segment::futex_wait(bell, number, time);
        }
        sleepers.fetch_and(!bit, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::layout::Geometry;

    /// Naps are so short in use that a missed wake would hardly show; this one is long.
    #[test]
    fn posts_wake_sleepers() {
        let geometry = Geometry::new(2, 4096, 0, 0, 0).unwrap();
        let (segment, _fd) = Segment::create(geometry).unwrap();
        let segment = Arc::new(segment);
        let member = |rank| Member::new(Arc::clone(&segment), rank).unwrap();
        let (sleeper, poster) = (member(0), member(1));
        let long = Duration::from_secs(20);
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| sleeper.nap(long, || false));
            // From when its bit is set, the sleeper sleeps until its bell has another number.
            while segment.head().sleepers.bits.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            poster.post_result(Epoch::new(0));
        });
        assert!(start.elapsed() < long);
        assert_eq!(segment.head().sleepers.bits.load(Ordering::SeqCst), 0);
    }
}
