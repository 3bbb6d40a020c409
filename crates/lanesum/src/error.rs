//! What can go wrong, with the ranks to blame and what to do.

use lanesum_cuda::CudaError;
use lanesum_plan::{Fault, PlanError, Rank};
use lanesum_rendezvous::RendezvousError;
use lanesum_segment::SegmentError;
use thiserror::Error;

use crate::environment::EnvironmentError;
pub use crate::refusals::Refused;

/// Any failure of the library. [`Error::hint`] says what to do, [`Error::failed_ranks`] whom it names.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The environment does not say who this rank is.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The ranks did not find each other, or did not agree.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// No plan can be made of what was asked for.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The shared memory could not be set up.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The call failed after it had started; the output holds NaN, the communicator is poisoned.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// An earlier call failed; the output holds NaN. On a stream that is being captured: [`Refused::Poisoned`].
    #[error("the communicator is poisoned by an earlier fault: {first}")]
    Poisoned {
        /// That fault.
        first: Box<Fault>,
    },
    /// The call was refused; nothing happened.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// This rank's GPU can't be used.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A peer's GPU can't be used.
    #[error("rank {rank} could not attach its GPU: {reason}")]
    PeerDevice {
        /// The peer.
        rank: Rank,
        /// Its error.
        reason: String,
    },
    /// A thread could not be started or another service of the system was refused.
    #[error("{what} was refused: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// The ranks that the error names, ascending; none if it is about this rank alone.
    pub fn failed_ranks(&self) -> Vec<Rank> {
        match self {
            Self::Fault(fault) => fault.ranks(),
            Self::Poisoned { first } => first.ranks(),
            Self::Rendezvous(error) => error
                .ranks()
                .into_iter()
                .filter_map(|rank| Rank::new(rank).ok())
                .collect(),
            Self::PeerDevice { rank, .. } => vec![*rank],
            Self::Environment(_) | Self::Plan(_) | Self::Segment(_) | Self::Cuda(_) | Self::System { .. } => Vec::new(),
            Self::Refused(refused) => refused.ranks(),
        }
    }

    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Environment(error) => error.hint().map(str::to_owned),
            Self::Rendezvous(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::Segment(error) => error.hint().map(str::to_owned),
            Self::Fault(fault) => Some(fault.hint().to_owned()),
            Self::Poisoned { first } => Some(format!("make a new communicator; first {}", first.hint())),
            Self::Cuda(error) => Some(error.hint()),
            Self::PeerDevice { .. } => Some("see that rank's own error, which says what to do".to_owned()),
            Self::Refused(refused) => Some(refused.hint().to_owned()),
            Self::System { .. } => Some("check the limits of processes and threads (ulimit -u)".to_owned()),
        }
    }
}
