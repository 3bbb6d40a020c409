//! Errors of the library as statuses.

use lanesum::{ErrorClass, PlanError, Rank};

use crate::refusal::Refusal;
use crate::status::Status;

/// Why a call did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// What the caller gave can't be used.
    Refused(Refusal),
    /// The library's own error.
    Library(lanesum::Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<lanesum::Error> for Failure {
    fn from(error: lanesum::Error) -> Self {
        Self::Library(error)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Library(error.into())
    }
}

impl Failure {
    /// The status, and the word by which programs tell its cases apart.
    pub fn name(&self) -> (Status, &'static str) {
        match self {
            Self::Refused(refusal) => refusal.name(),
            Self::Library(error) => (status(error.class()), error.kind()),
        }
    }

    /// What went wrong.
    pub fn cause(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.to_string(),
            Self::Library(error) => error.to_string(),
        }
    }

    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => Some(refusal.hint().to_owned()),
            Self::Library(error) => error.hint(),
        }
    }

    /// The ranks that it names, ascending.
    pub fn ranks(&self) -> Vec<u32> {
        match self {
            Self::Refused(_) => Vec::new(),
            Self::Library(error) => error.failed_ranks().into_iter().map(number).collect(),
        }
    }
}

/// A rank as C's number; there are 16 at most.
pub fn number(rank: Rank) -> u32 {
    rank.index() as u32
}

const fn status(class: ErrorClass) -> Status {
    match class {
        ErrorClass::Environment => Status::Environment,
        ErrorClass::Rendezvous => Status::Rendezvous,
        ErrorClass::Plan => Status::Plan,
        ErrorClass::Segment => Status::Segment,
        ErrorClass::Resource => Status::Resource,
        ErrorClass::Cuda => Status::Cuda,
        ErrorClass::PeerDevice => Status::PeerDevice,
        ErrorClass::Fault => Status::Fault,
        ErrorClass::RankLost => Status::RankLost,
        ErrorClass::Late => Status::Late,
        ErrorClass::Mismatch => Status::Mismatch,
        ErrorClass::Poisoned => Status::Poisoned,
        ErrorClass::Refused => Status::Refused,
        ErrorClass::Forked => Status::Forked,
        ErrorClass::Buffer => Status::Buffer,
        ErrorClass::Device => Status::Device,
    }
}
