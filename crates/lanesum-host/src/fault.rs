//! Why an exchange failed, with the ranks to blame.

use std::time::Duration;

use lanesum_plan::{Call, Rank};
use lanesum_segment::{Phase, Record, RecordKind, Trouble};
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
    /// A peer's process ended.
    #[error("the process of rank {rank} ended")]
    Died {
        /// The peer.
        rank: Rank,
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
            FaultKind::Died { rank } | FaultKind::Departed { rank } | FaultKind::Corrupt { rank } => vec![*rank],
            FaultKind::Late { ranks, .. } => ranks.clone(),
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
    let fault = |kind, noticed_by| Fault {
        kind,
        noticed_by,
        ours: scene.call,
        epoch: scene.epoch,
    };
    let mut record = Record {
        kind: RecordKind::Corrupt,
        ranks: lanesum_segment::RankSet::EMPTY,
        epoch: scene.epoch,
        waited_us: 0,
        phase: scene.phase,
        ours: scene.call.to_words(),
        theirs: [0; 4],
    };
    match *trouble {
        Trouble::Reported { by, record } => {
            let noticed_by = known(by, scene.own);
            (record, fault(told(&record, noticed_by), noticed_by))
        }
        Trouble::Mismatch { peer } => {
            record.theirs = their_words(peer);
            record.kind = RecordKind::Mismatch;
            record.ranks = lanesum_segment::RankSet::only(peer);
            (record, fault(told(&record, scene.own), scene.own))
        }
        Trouble::Late { late, waited } => {
            record.kind = RecordKind::Late;
            record.ranks = late;
            record.waited_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
            (record, fault(told(&record, scene.own), scene.own))
        }
        Trouble::Died { peer } => {
            record.kind = RecordKind::Died;
            record.ranks = lanesum_segment::RankSet::only(peer);
            (record, fault(told(&record, scene.own), scene.own))
        }
        Trouble::Departed { peer } => {
            record.kind = RecordKind::Departed;
            record.ranks = lanesum_segment::RankSet::only(peer);
            (record, fault(told(&record, scene.own), scene.own))
        }
        Trouble::Corrupt { peer } => {
            record.ranks = lanesum_segment::RankSet::only(peer);
            (record, fault(told(&record, scene.own), scene.own))
        }
    }
}

/// A rank from a peer's memory: one that is out of range counts as `or`.
fn known(rank: usize, or: Rank) -> Rank {
    Rank::new(rank).unwrap_or(or)
}

/// What a record says. Records may come from a hostile peer: every content has a meaning.
fn told(record: &Record, by: Rank) -> FaultKind {
    let rank = record.ranks.iter().next().map_or(by, |rank| known(rank, by));
    match record.kind {
        RecordKind::Died => FaultKind::Died { rank },
        RecordKind::Departed => FaultKind::Departed { rank },
        RecordKind::Corrupt => FaultKind::Corrupt { rank },
        RecordKind::Late => FaultKind::Late {
            ranks: record.ranks.iter().map(|rank| known(rank, by)).collect(),
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
