//! Error records: how a rank tells its peers why it failed.

use crate::layout::Status;
use crate::mutants;
use crate::rank_set::RankSet;
use crate::sync::Ordering;

/// In which wait of an exchange something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for the peers to enter the call.
    Header,
    /// Waiting for the owners' sums.
    Result,
    /// Waiting until peers have read the shared buffers.
    Closing,
    /// Waiting for the peers' inputs.
    Data,
}

/// What happened, as a rank tells it to its peers. Kernels know the same numbers: `KIND_*` in `kernels/layout.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A peer's process ended.
    Died = 1,
    /// Peers did not come before the deadline.
    Late = 2,
    /// A peer called something else.
    Mismatch = 3,
    /// A peer closed its communicator.
    Departed = 4,
    /// A peer announced something impossible.
    Corrupt = 5,
    /// The reporting rank's own thread panicked.
    Panicked = 6,
    /// The driver of the reporting rank's GPU refused or failed.
    Device = 7,
    /// Two calls of one communicator ran on the reporting rank's GPU at once.
    Overlap = 8,
}

impl RecordKind {
    const ALL: [RecordKind; 8] = [
        RecordKind::Died,
        RecordKind::Late,
        RecordKind::Mismatch,
        RecordKind::Departed,
        RecordKind::Corrupt,
        RecordKind::Panicked,
        RecordKind::Device,
        RecordKind::Overlap,
    ];

    /// What a number in a record stands for. Those that nobody writes come from a rank that is corrupt.
    pub(crate) fn from_code(code: u64) -> RecordKind {
        let known = RecordKind::ALL.into_iter().find(|kind| *kind as u64 == code);
        known.unwrap_or(RecordKind::Corrupt)
    }
}

/// A rank's first fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// What happened.
    pub kind: RecordKind,
    /// The rank that noticed it; others pass its record on.
    pub by: usize,
    /// Ranks concerned.
    pub ranks: RankSet,
    /// Epoch in which it happened.
    pub epoch: u64,
    /// Microseconds waited.
    pub waited_us: u64,
    /// Where.
    pub phase: Phase,
    /// Descriptor of the reporting rank's call.
    pub ours: [u64; 4],
    /// Descriptor of the call it was compared with.
    pub theirs: [u64; 4],
}

pub(crate) const LIVE: u64 = 0;
pub(crate) const DEPARTED: u64 = 1;
pub(crate) const FAILED: u64 = 2;

impl Status {
    /// Writes the record, then the status. Called once a rank, by its owner.
    pub(crate) fn fail(&self, record: &Record) {
        let phase = match record.phase {
            Phase::Header => 0,
            Phase::Result => 1,
            Phase::Closing => 2,
            Phase::Data => 3,
        };
        self.kind.store(record.kind as u64, Ordering::Relaxed);
        self.by.store(record.by as u64, Ordering::Relaxed);
        self.ranks.store(record.ranks.bits(), Ordering::Relaxed);
        self.epoch.store(record.epoch, Ordering::Relaxed);
        self.waited.store(record.waited_us, Ordering::Relaxed);
        self.phase.store(phase, Ordering::Relaxed);
        for (slot, word) in self.ours.iter().zip(record.ours) {
            slot.store(word, Ordering::Relaxed);
        }
        for (slot, word) in self.theirs.iter().zip(record.theirs) {
            slot.store(word, Ordering::Relaxed);
        }
        // Pairs with the acquire load in `read`.
        self.word.store(FAILED, mutants::release(mutants::relaxed_record()));
    }

    /// The record, if the rank has failed. Words that no build writes are read as the nearest meaning: a
    /// hostile peer can spoil the message of an error, nothing else.
    #[inline]
    pub(crate) fn read(&self) -> Option<Box<Record>> {
        // Pairs with the release store in `fail`.
        let order = mutants::acquire(mutants::relaxed_record_look());
        (self.word.load(order) == FAILED).then(|| self.copy())
    }

    /// On the heap, so that the results of waits stay a few words.
    #[cold]
    fn copy(&self) -> Box<Record> {
        let phase = match self.phase.load(Ordering::Relaxed) {
            1 => Phase::Result,
            2 => Phase::Closing,
            3 => Phase::Data,
            _ => Phase::Header,
        };
        Box::new(Record {
            kind: RecordKind::from_code(self.kind.load(Ordering::Relaxed)),
            by: self.by.load(Ordering::Relaxed) as usize % crate::layout::WORLD_MAX,
            ranks: RankSet::from_bits(self.ranks.load(Ordering::Relaxed)),
            epoch: self.epoch.load(Ordering::Relaxed),
            waited_us: self.waited.load(Ordering::Relaxed),
            phase,
            ours: core::array::from_fn(|index| self.ours[index].load(Ordering::Relaxed)),
            theirs: core::array::from_fn(|index| self.theirs[index].load(Ordering::Relaxed)),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::RecordKind;

    #[test]
    fn every_kind_has_a_number_and_every_number_a_kind() {
        for (place, kind) in RecordKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place + 1);
            assert_eq!(RecordKind::from_code(kind as u64), kind);
        }
        for code in [0, 9, u64::MAX] {
            assert_eq!(RecordKind::from_code(code), RecordKind::Corrupt);
        }
    }
}
