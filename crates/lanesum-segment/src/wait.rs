//! Waits that always end: spin, then yield, then sleep; a deadline, dead processes and peers' error
//! records are looked at in a cold path.
//!
//! All sources are polled together. A poll costs one load a pending peer; the clock is read every
//! [`CLOCK_EVERY`] polls, and everything else beyond the spin budget.
//!
//! Sleeping needs no fence on the posting side: a poster that misses a sleeper's bit costs that sleeper
//! one nap (at most [`NAP_MAX`]), never a hang, because every nap has an end. Naps grow, so that a rank
//! that waits long uses well under a hundredth of a core.

use core::cell::Cell;
use std::time::{Duration, Instant};

use crate::epoch::Epoch;
use crate::layout::{Control, WORLD_MAX};
use crate::member::Member;
use crate::mutants;
use crate::rank_set::RankSet;
use crate::record::Record;
use crate::sync::{self, AtomicU32};

const CLOCK_EVERY: u32 = 16;
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(4);

/// How long a rank spins and yields before it sleeps. A rank may choose it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Polls with a pause between them.
    pub spins: u32,
    /// Polls with a yield between them, after the spins.
    pub yields: u32,
}

impl Pace {
    /// For ranks with a core each: tens of microseconds of spinning, then yields, then sleep.
    pub const OWN_CORE: Self = Self {
        spins: 2_000,
        yields: 200,
    };
    /// For more ranks than cores: the peer that is waited for needs this core.
    pub const SHARED_CORE: Self = Self { spins: 20, yields: 200 };
}

/// Ranks whose process has ended, as the watcher thread of this process saw it.
#[derive(Debug, Default)]
pub struct Lost(AtomicU32);

impl Lost {
    /// Notes that a rank's process has ended.
    pub fn note(&self, rank: usize) {
        // Pairs with the acquire load in `ranks`: who sees the bit sees what the process posted before it
        // ended, which the kernel has ordered before the watcher's note.
        self.0.fetch_or(
            RankSet::only(rank).bits() as u32,
            mutants::release(mutants::relaxed_loss()),
        );
    }

    /// Ranks noted.
    pub fn ranks(&self) -> RankSet {
        // Pairs with the release increment in `note`.
        let bits = self.0.load(mutants::acquire(mutants::relaxed_loss_look()));
        RankSet::from_bits(u64::from(bits))
    }
}

/// How long each peer was waited for, and how often this rank slept. One caller at a time.
#[derive(Debug, Default)]
pub struct Tally {
    waited: [Cell<Duration>; WORLD_MAX],
    naps: Cell<u64>,
}

impl Tally {
    /// Time spent waiting for a peer in all.
    pub fn waited(&self, rank: usize) -> Duration {
        self.waited[rank].get()
    }

    /// Times that this rank slept.
    pub fn naps(&self) -> u64 {
        self.naps.get()
    }

    fn add(&self, rank: usize, time: Duration) {
        self.waited[rank].set(self.waited[rank].get().saturating_add(time));
    }
}

/// What a wait needs to know of its rank.
#[derive(Debug, Clone, Copy)]
pub struct WaitContext<'a> {
    /// The longest a wait may last.
    pub deadline: Duration,
    /// Spin and yield budgets.
    pub pace: Pace,
    /// Ranks whose process has ended.
    pub lost: &'a Lost,
    /// Where waiting is accounted.
    pub tally: &'a Tally,
}

/// Why a wait ended without what it waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// This peer's header is of this epoch but of another call.
    Mismatch {
        /// The peer.
        peer: usize,
    },
    /// These peers did not come before the deadline.
    Late {
        /// The peers.
        late: RankSet,
        /// Time waited.
        waited: Duration,
    },
    /// The processes of these ranks have ended, and one of them was waited for.
    Died {
        /// The ranks.
        dead: RankSet,
    },
    /// This peer has closed its communicator.
    Departed {
        /// The peer.
        peer: usize,
    },
    /// This peer announced something impossible.
    Corrupt {
        /// The peer.
        peer: usize,
    },
    /// This peer has failed and says why.
    Reported {
        /// The peer.
        by: usize,
        /// Its record.
        record: Box<Record>,
    },
}

/// What a look at one peer's line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Absent,
    Present,
    Other,
}

/// Flags are not written each epoch, so they hold all 64 bits of it: fewer would come round.
#[inline]
fn look_at_flag(flag: u64, epoch: Epoch, wrapped: bool) -> Look {
    let mask = if wrapped { 3 } else { u64::MAX };
    match (flag ^ epoch.get()) & mask == 0 {
        true => Look::Present,
        false => Look::Absent,
    }
}

impl Member {
    /// Waits until every peer has posted the header of `epoch`, and compares the digests. `context` is asked
    /// for only where a peer is not there yet.
    ///
    /// # Errors
    /// [`Trouble`] that says why not, at the latest after the deadline.
    #[inline]
    pub fn await_headers<'c>(
        &self,
        epoch: Epoch,
        digest: u32,
        context: impl FnOnce() -> WaitContext<'c>,
    ) -> Result<(), Trouble> {
        if mutants::missing_header() {
            return Ok(());
        }
        self.await_all(context, move |control| {
            // Pairs with the release store of the header in `announce`.
            let order = mutants::acquire(mutants::relaxed_header_look());
            let header = control.lines[epoch.parity()].header.load(order);
            if header as u32 != epoch.tag() && !mutants::any_tag() {
                Look::Absent
            } else if (header >> 32) as u32 == digest {
                Look::Present
            } else {
                Look::Other
            }
        })
    }

    /// Waits until every peer has posted the result flag of `epoch`.
    ///
    /// # Errors
    /// As [`Member::await_headers`].
    #[inline]
    pub fn await_results<'c>(&self, epoch: Epoch, context: impl FnOnce() -> WaitContext<'c>) -> Result<(), Trouble> {
        if mutants::skipped_result() {
            return Ok(());
        }
        self.await_all(context, move |control| {
            // Pairs with the release store in `post_result`. Equality: a flag can't run ahead, because its
            // owner posts the next in this line only after this rank's next header but one.
            let order = mutants::acquire(mutants::relaxed_result_look());
            let flag = control.lines[epoch.parity()].result.load(order);
            look_at_flag(flag, epoch, mutants::wrapped_result())
        })
    }

    /// Waits until every peer has posted the closing flag of `epoch`.
    ///
    /// # Errors
    /// As [`Member::await_headers`].
    #[inline]
    pub fn await_closings<'c>(&self, epoch: Epoch, context: impl FnOnce() -> WaitContext<'c>) -> Result<(), Trouble> {
        if mutants::skipped_closing() {
            return Ok(());
        }
        self.await_all(context, move |control| {
            // Pairs with the release store in `post_closing`.
            let order = mutants::acquire(mutants::relaxed_closing_look());
            let flag = control.lines[epoch.parity()].closing.load(order);
            look_at_flag(flag, epoch, mutants::wrapped_closing())
        })
    }

    #[inline]
    fn await_all<'c>(
        &self,
        context: impl FnOnce() -> WaitContext<'c>,
        look: impl Fn(&Control) -> Look,
    ) -> Result<(), Trouble> {
        let mut pending = self.peers();
        self.poll(&mut pending, &look, |_| {})?;
        if pending.is_empty() {
            Ok(())
        } else {
            self.await_pending(pending, &context(), &look)
        }
    }

    /// One look at each pending peer; those that are there leave the set.
    #[inline]
    fn poll(
        &self,
        pending: &mut RankSet,
        look: &impl Fn(&Control) -> Look,
        mut arrived: impl FnMut(usize),
    ) -> Result<(), Trouble> {
        for peer in pending.iter() {
            match look(self.segment().control(peer)) {
                Look::Absent => {}
                Look::Present => {
                    *pending = pending.without(peer);
                    if mutants::run_ahead() {
                        *pending = RankSet::EMPTY;
                    }
                    arrived(peer);
                }
                Look::Other => return Err(Trouble::Mismatch { peer }),
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn await_pending(
        &self,
        mut pending: RankSet,
        context: &WaitContext<'_>,
        look: &impl Fn(&Control) -> Look,
    ) -> Result<(), Trouble> {
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        let mut nap = NAP_MIN;
        let mut polls = 0u32;
        loop {
            self.poll(&mut pending, look, |peer| context.tally.add(peer, waited))?;
            if pending.is_empty() {
                return Ok(());
            }
            polls = polls.saturating_add(1);
            if polls < context.pace.spins {
                if polls.is_multiple_of(CLOCK_EVERY) {
                    waited = start.elapsed();
                }
                sync::relax();
                continue;
            }
            waited = start.elapsed();
            if let Some(trouble) = self.trouble(pending, waited, context) {
                if mutants::hasty_trouble() {
                    return Err(trouble);
                }
                // What a peer posted before it went still counts: look once more, after its end was seen.
                self.poll(&mut pending, look, |peer| context.tally.add(peer, waited))?;
                return if pending.is_empty() { Ok(()) } else { Err(trouble) };
            }
            if polls < context.pace.spins.saturating_add(context.pace.yields) {
                sync::yield_now();
            } else {
                let left = context.deadline.saturating_sub(waited).max(NAP_MIN);
                context.tally.naps.set(context.tally.naps.get() + 1);
                self.nap(nap.min(left), || {
                    pending
                        .iter()
                        .any(|peer| look(self.segment().control(peer)) != Look::Absent)
                });
                nap = (nap * 2).min(NAP_MAX);
            }
        }
    }

    /// What is wrong, if anything: a peer's error record first (it holds the cause), then the dead, then
    /// those who left, then the deadline.
    fn trouble(&self, pending: RankSet, waited: Duration, context: &WaitContext<'_>) -> Option<Trouble> {
        if let Some((by, record)) = self.first_record() {
            return Some(Trouble::Reported { by, record });
        }
        let dead = context.lost.ranks();
        if !pending.intersection(dead).is_empty() {
            return Some(Trouble::Died { dead });
        }
        // A peer that left after its last exchange has posted its header and result; nobody else may.
        if let Some(peer) = pending.iter().find(|&peer| self.has_departed(peer)) {
            return Some(Trouble::Departed { peer });
        }
        (waited >= context.deadline).then_some(Trouble::Late { late: pending, waited })
    }
}
