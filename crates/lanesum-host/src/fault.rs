//! Why an exchange failed, with the ranks to blame.

use std::time::Duration;

use lanesum_plan::{Call, Rank};
use lanesum_segment::{Phase, RankSet, Record, RecordKind, Trouble};
use thiserror::Error;

/// A call that failed after it had started. The communicator is poisoned by it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind}; noticed by rank {noticed_by} in epoch {epoch} during {ours}")]
pub struct Fault {
    /// What went wrong, and which ranks it names.
    pub kind: FaultKind,
    /// The rank that noticed it first, as far as this rank knows.
    pub noticed_by: Rank,
    /// What this rank had called.
    pub ours: Call,
    /// The epoch that failed.
    pub epoch: u64,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// The processes of these ranks ended. More may end later: see `Communicator::lost_ranks`.
    #[error("the process of {} ended", list(.ranks))]
    Died {
        /// The ranks, as far as they were known.
        ranks: Vec<Rank>,
    },
    /// Peers did not come before the deadline.
    #[error("{} did not come within {} ms ({phase})", list(.ranks), .waited.as_millis())]
    Late {
        /// The peers.
        ranks: Vec<Rank>,
        /// Time waited for them.
        waited: Duration,
        /// What was waited for.
        phase: &'static str,
    },
    /// Two ranks called different things.
    #[error("rank {rank} called {called}, but rank {against} called {against_called}")]
    Mismatch {
        /// One rank.
        rank: Rank,
        /// What it called.
        called: Call,
        /// The rank it was compared with.
        against: Rank,
        /// What that one called.
        against_called: Call,
    },
    /// A peer closed its communicator while others still called.
    #[error("rank {rank} has closed its communicator")]
    Departed {
        /// The peer.
        rank: Rank,
    },
    /// A peer's thread panicked and took its communicator along.
    #[error("the thread of rank {rank} panicked")]
    Panicked {
        /// The peer.
        rank: Rank,
    },
    /// A peer announced something impossible.
    #[error("rank {rank} announced something that no rank of this build can announce")]
    Corrupt {
        /// The peer.
        rank: Rank,
    },
}

fn list(ranks: &[Rank]) -> String {
    let names: Vec<String> = ranks.iter().map(Rank::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, names.join(", "))
}

impl Fault {
    /// The ranks that the fault names, ascending. A mismatch names both sides.
    pub fn ranks(&self) -> Vec<Rank> {
        let mut ranks = match &self.kind {
            FaultKind::Departed { rank } | FaultKind::Panicked { rank } | FaultKind::Corrupt { rank } => vec![*rank],
            FaultKind::Died { ranks } | FaultKind::Late { ranks, .. } => ranks.clone(),
            FaultKind::Mismatch { rank, against, .. } => vec![*rank, *against],
        };
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match &self.kind {
            FaultKind::Died { .. } => {
                "look at the output and exit status of that rank; make a new communicator among the ranks that are left"
            }
            FaultKind::Late { .. } => {
                "see what that rank is doing (stopped, swapped out, in another call?); if its work is only slow, raise \
                 the deadline (LANESUM_DEADLINE_MS)"
            }
            FaultKind::Mismatch { .. } => {
                "all ranks must make the same calls in the same order: same operation, dtype, number of elements, label \
                 and kind of buffers"
            }
            FaultKind::Departed { .. } => "close the communicator only after every rank has made its last call",
            FaultKind::Panicked { .. } => "look at the panic message of that rank first",
            FaultKind::Corrupt { .. } => {
                "check that all ranks run the same build, and that none writes past its memory"
            }
        }
    }
}

const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Header => "to enter the call",
        Phase::Result => "with its share of the sum",
        Phase::Closing => "with reading the shared buffers",
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

/// What a record says. Records may come from a hostile peer: every content has a meaning.
fn told(record: &Record, by: Rank) -> FaultKind {
    let rank = record.ranks.iter().next().map_or(by, |rank| known(rank, by));
    let ranks = || record.ranks.iter().map(|rank| known(rank, by)).collect();
    match record.kind {
        RecordKind::Died => FaultKind::Died { ranks: ranks() },
        RecordKind::Departed => FaultKind::Departed { rank },
        RecordKind::Corrupt => FaultKind::Corrupt { rank },
        RecordKind::Panicked => FaultKind::Panicked { rank },
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
    use lanesum_plan::{AlgorithmName, Buffers, Dtype, Elements, Operation, Request};

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
            ordinal: 5,
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
}
