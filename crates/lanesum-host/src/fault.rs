//! Why an exchange failed: from what a wait met, or a peer's record says, to the words of [`Fault`].

use std::time::Duration;

use lanesum_plan::{Call, Fault, FaultKind, Rank};
use lanesum_segment::{Phase, RankSet, Record, RecordKind, Trouble};

/// What was waited for, as [`FaultKind::Late`] says it.
#[must_use]
pub const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Header => "to enter the call",
        Phase::Result => "with its share of the sum",
        Phase::Closing => "with reading the shared buffers",
        Phase::Data => "with its input",
    }
}

/// Where a fault happened, to make its text and its record from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) own: Rank,
    pub(crate) call: Call,
    pub(crate) epoch: u64,
    pub(crate) phase: Phase,
}

/// The record for the peers and the fault for the caller. `their_words` reads a peer's descriptor.
pub(crate) fn report(scene: &Scene, trouble: &Trouble, their_words: impl FnOnce(usize) -> [u64; 4]) -> (Record, Fault) {
    let ours = scene.call.to_words();
    let own = |kind, ranks| Record {
        kind,
        by: scene.own.index(),
        ranks,
        epoch: scene.epoch,
        waited_us: 0,
        phase: scene.phase,
        ours,
        theirs: [0; 4],
    };
    let record = match trouble {
        // Passed on as it is, so that every rank names the one that noticed.
        Trouble::Reported { record, .. } => **record,
        Trouble::Mismatch { peer } => Record {
            theirs: their_words(*peer),
            ..own(RecordKind::Mismatch, RankSet::only(*peer))
        },
        Trouble::Late { late, waited } => Record {
            waited_us: u64::try_from(waited.as_micros()).unwrap_or(u64::MAX),
            ..own(RecordKind::Late, *late)
        },
        Trouble::Died { dead } => own(RecordKind::Died, *dead),
        Trouble::Departed { peer } => own(RecordKind::Departed, RankSet::only(*peer)),
        Trouble::Corrupt { peer } => own(RecordKind::Corrupt, RankSet::only(*peer)),
    };
    let noticed_by = known(record.by, scene.own);
    let fault = Fault {
        kind: told(&record, noticed_by),
        noticed_by,
        ours: scene.call,
        epoch: record.epoch,
    };
    (record, fault)
}

/// A rank from a peer's memory: one that is out of range counts as `or`.
fn known(rank: usize, or: Rank) -> Rank {
    Rank::new(rank).unwrap_or(or)
}

/// What a record says that rank `by` wrote. Records may come from a hostile peer: every content has a meaning.
#[must_use]
pub fn told(record: &Record, by: Rank) -> FaultKind {
    let rank = record.ranks.iter().next().map_or(by, |rank| known(rank, by));
    let ranks = || record.ranks.iter().map(|rank| known(rank, by)).collect();
    match record.kind {
        RecordKind::Died => FaultKind::Died { ranks: ranks() },
        RecordKind::Departed => FaultKind::Departed { rank },
        RecordKind::Corrupt => FaultKind::Corrupt { rank },
        RecordKind::Panicked => FaultKind::Panicked { rank },
        RecordKind::Overlap => FaultKind::Overlap { rank },
        // The driver's words stay with the rank that heard them.
        RecordKind::Device => FaultKind::Device {
            rank,
            code: "see that rank's own error".to_owned(),
        },
        RecordKind::Late => FaultKind::Late {
            ranks: ranks(),
            waited: Duration::from_micros(record.waited_us),
            phase: phase_name(record.phase),
        },
        RecordKind::Mismatch => match (Call::from_words(record.theirs), Call::from_words(record.ours)) {
            (Some(called), Some(against_called)) => FaultKind::Mismatch {
                rank,
                called,
                against: by,
                against_called,
            },
            (None, _) => FaultKind::Corrupt { rank },
            (Some(_), None) => FaultKind::Corrupt { rank: by },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanesum_plan::{AlgorithmName, Buffers, CallIdentity, Dtype, Elements, Operation, Request};

    fn call(elements: u64) -> Call {
        let (operation, dtype, buffers) = (Operation::Sum, Dtype::Bf16, Buffers::Private);
        Call::AllReduce {
            request: Request {
                operation,
                dtype,
                elements: Elements::new(elements),
                buffers,
                label: None,
            },
            algorithm: AlgorithmName::OneShotPull,
            identity: CallIdentity::Eager { ordinal: 5 },
        }
    }

    /// Rank 3 reads at rank 1 what rank 2 had noticed about rank 0: the calls stay those of ranks 0 and 2.
    #[test]
    fn a_record_that_is_passed_on_keeps_who_noticed_and_what_was_called() {
        let scene = |own: usize, elements| Scene {
            own: Rank::new(own).unwrap(),
            call: call(elements),
            epoch: 9,
            phase: Phase::Header,
        };
        let (noticed, _) = report(&scene(2, 20), &Trouble::Mismatch { peer: 0 }, |_| call(7).to_words());
        let reported = |by, record| Trouble::Reported {
            by,
            record: Box::new(record),
        };
        let (passed_on, _) = report(&scene(1, 20), &reported(2, noticed), |_| [0; 4]);
        let (record, fault) = report(&scene(3, 30), &reported(1, passed_on), |_| [0; 4]);
        assert_eq!(record, noticed);
        assert_eq!((fault.noticed_by.index(), fault.ours), (2, call(30)));
        let FaultKind::Mismatch {
            rank,
            called,
            against,
            against_called,
        } = fault.kind
        else {
            panic!("expected a mismatch, got {fault}")
        };
        assert_eq!((rank.index(), called), (0, call(7)));
        assert_eq!((against.index(), against_called), (2, call(20)));
    }

    #[test]
    fn every_phase_has_words_of_its_own() {
        let phases = [Phase::Header, Phase::Result, Phase::Closing, Phase::Data];
        let mut names = phases.map(phase_name).to_vec();
        names.dedup();
        assert_eq!(names.len(), phases.len());
        let record = Record {
            kind: RecordKind::Late,
            by: 1,
            ranks: RankSet::only(2),
            epoch: 9,
            waited_us: 1_500,
            phase: Phase::Data,
            ours: [0; 4],
            theirs: [0; 4],
        };
        let rank = |index| Rank::new(index).unwrap();
        let late = FaultKind::Late {
            ranks: vec![rank(2)],
            waited: Duration::from_micros(1_500),
            phase: "with its input",
        };
        assert_eq!(told(&record, rank(1)), late);
    }

    #[test]
    fn two_calls_at_once_are_blamed_on_the_rank_that_ran_them() {
        let record = Record {
            kind: RecordKind::Overlap,
            by: 1,
            ranks: RankSet::only(3),
            epoch: 9,
            waited_us: 0,
            phase: Phase::Header,
            ours: [0; 4],
            theirs: [0; 4],
        };
        let rank = |index| Rank::new(index).unwrap();
        let overlap = |index| FaultKind::Overlap { rank: rank(index) };
        assert_eq!(told(&record, rank(1)), overlap(3));
        // One that names nobody means who wrote it.
        let anonymous = Record {
            ranks: RankSet::default(),
            ..record
        };
        assert_eq!(told(&anonymous, rank(1)), overlap(1));
    }
}
