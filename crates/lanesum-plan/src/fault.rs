//! Why a call failed after it had started, with the ranks to blame: the same words whatever engine ran it.

use std::time::Duration;

use thiserror::Error;

use crate::{Call, Rank};

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
    /// Two calls of one communicator ran on a rank's GPU at the same time.
    #[error(
        "rank {rank} ran two calls of one communicator at once (two replays, or a replay beside an eager call on another stream)"
    )]
    Overlap {
        /// The rank.
        rank: Rank,
    },
    /// The driver gave up on a rank's GPU: nothing runs there any more in this process.
    #[error("the GPU of rank {rank} failed: {code}")]
    Device {
        /// The rank.
        rank: Rank,
        /// What the driver says.
        code: String,
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
            FaultKind::Departed { rank }
            | FaultKind::Panicked { rank }
            | FaultKind::Corrupt { rank }
            | FaultKind::Overlap { rank }
            | FaultKind::Device { rank, .. } => vec![*rank],
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
                 and kind of buffers; graphs are captured, and replayed, in the same order"
            }
            FaultKind::Departed { .. } => "close the communicator only after every rank has made its last call",
            FaultKind::Panicked { .. } => "look at the panic message of that rank first",
            FaultKind::Corrupt { .. } => {
                "check that all ranks run the same build, and that none writes past its memory"
            }
            FaultKind::Overlap { .. } => {
                "order replays and eager calls of one communicator by one stream or by events, or give what must run at \
                 the same time a communicator of its own: `channel()`"
            }
            FaultKind::Device { .. } => {
                "look at the driver's messages (dmesg, Xid) and at kernels that ran before in that process; a process \
                 gets its GPU back only by starting anew"
            }
        }
    }
}
