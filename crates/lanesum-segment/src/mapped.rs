//! Host memory that one rank's own device reads and writes across the bus: the twin of `Mapped` in `kernels/layout.cuh`.
//!
//! No other process sees it. It lies in memory that the driver has pinned, so it is described here, where atomics are named,
//! and made in the room of the device.

use crate::record::{Phase, Record, RecordKind};
use crate::sync::{AtomicU64, Ordering};
use crate::{RankSet, layout};

/// A device's first fault.
#[repr(C)]
#[derive(Debug)]
struct DeviceRecord {
    state: AtomicU64,
    kind: AtomicU64,
    by: AtomicU64,
    ranks: AtomicU64,
    epoch: AtomicU64,
    waited_us: AtomicU64,
    phase: AtomicU64,
    ours: [AtomicU64; 4],
    theirs: [AtomicU64; 4],
    call: [AtomicU64; 4],
    ticket: AtomicU64,
}

/// What host and device of one rank tell each other.
#[repr(C)]
#[derive(Debug)]
pub struct Mapped {
    echo: AtomicU64,
    spoilt: AtomicU64,
    ignored: [AtomicU64; 6],
    lost: AtomicU64,
    deadline_ns: AtomicU64,
    ignored2: [AtomicU64; 6],
    record: DeviceRecord,
    ignored3: [AtomicU64; 12],
}

/// A fault that the device told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFault {
    /// What happened.
    pub record: Record,
    /// Number of the call in which this rank noticed it, from 1.
    pub ticket: u64,
    /// That call in words.
    pub call: [u64; 4],
}

const FILLED: u64 = 1;

impl Mapped {
    /// The last call that lane 0 has finished: the low half of its number below that of its epoch.
    #[inline]
    pub fn echo(&self) -> u64 {
        // Relaxed: one word that says all; what the call wrote is ordered by the stream.
        self.echo.load(Ordering::Relaxed)
    }

    /// Tells the device that ranks' processes have ended.
    pub fn note_lost(&self, rank: usize) {
        // Relaxed: nothing is published with it; the device, who reads it, polls its peers' words once more.
        self.lost.fetch_or(RankSet::only(rank).bits(), Ordering::Relaxed);
    }

    /// Sets the longest that a wait on the device may last.
    pub fn set_deadline_ns(&self, deadline: u64) {
        // Relaxed: a number that stands for itself.
        self.deadline_ns.store(deadline, Ordering::Relaxed);
    }

    /// The longest that a wait on the device may last.
    pub fn deadline_ns(&self) -> u64 {
        // Relaxed: only the host writes it.
        self.deadline_ns.load(Ordering::Relaxed)
    }

    /// The first call, by its number from 1, whose output got NaN; `None` if there is none.
    pub fn spoilt(&self) -> Option<u64> {
        // Relaxed: asked when the call is known to have ended, which orders what it wrote.
        core::num::NonZeroU64::new(self.spoilt.load(Ordering::Relaxed)).map(core::num::NonZeroU64::get)
    }

    /// Whether the device has told of a fault.
    #[inline]
    pub fn has_failed(&self) -> bool {
        // Pairs with the release store of the device's `write_record`.
        self.record.state.load(Ordering::Acquire) == FILLED
    }

    /// The device's first fault.
    pub fn fault(&self) -> Option<DeviceFault> {
        self.has_failed().then(|| self.record.copy())
    }
}

impl DeviceRecord {
    /// Words that no kernel of this build writes are read as the nearest meaning.
    #[cold]
    fn copy(&self) -> DeviceFault {
        // Relaxed: the acquire in `has_failed` has ordered them.
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let words = |words: &[AtomicU64; 4]| core::array::from_fn(|index| word(&words[index]));
        let phase = match word(&self.phase) {
            1 => Phase::Result,
            3 => Phase::Data,
            _ => Phase::Header,
        };
        DeviceFault {
            record: Record {
                kind: RecordKind::from_code(word(&self.kind)),
                by: word(&self.by) as usize % layout::WORLD_MAX,
                ranks: RankSet::from_bits(word(&self.ranks)),
                epoch: word(&self.epoch),
                waited_us: word(&self.waited_us),
                phase,
                ours: words(&self.ours),
                theirs: words(&self.theirs),
            },
            ticket: word(&self.ticket),
            call: words(&self.call),
        }
    }
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Mapped>() == 384 && size_of::<DeviceRecord>() == 160);
    assert!(offset_of!(Mapped, spoilt) == 8 && offset_of!(Mapped, lost) == 64 && offset_of!(Mapped, deadline_ns) == 72);
    assert!(offset_of!(Mapped, record) == 128 && offset_of!(DeviceRecord, ours) == 56);
    assert!(offset_of!(DeviceRecord, ticket) == 152);
};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// As a kernel leaves it: waits for headers, for owners' sums, and for inputs.
    #[test]
    fn what_was_waited_for_is_read_as_the_device_wrote_it() {
        for (code, phase) in [(0, Phase::Header), (1, Phase::Result), (3, Phase::Data)] {
            let word = |value| AtomicU64::new(value);
            let words = || core::array::from_fn(|_| AtomicU64::new(0));
            let record = DeviceRecord {
                state: word(FILLED),
                kind: word(2),
                by: word(1),
                ranks: word(0b101),
                epoch: word(9),
                waited_us: word(7),
                phase: word(code),
                ours: words(),
                theirs: words(),
                call: words(),
                ticket: word(4),
            };
            let fault = record.copy();
            assert_eq!(fault.record.phase, phase);
            assert_eq!((fault.record.kind, fault.ticket), (RecordKind::Late, 4));
        }
    }
}
