//! Errors of the library as statuses, variant by variant.
//!
//! The library's enums are open to other crates, so each match needs a `_` arm. Clippy's `wildcard_enum_match_arm`, which the workspace
//! denies, lets it stand only while every variant is named beside it: a new one fails the checks until it has a name here.

use std::ffi::CStr;

use lanesum::{EnvironmentError, Fault, FaultKind, PlanError, Rank, Refused};

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
    pub fn name(&self) -> (Status, &'static CStr) {
        match self {
            Self::Refused(refusal) => refusal.name(),
            Self::Library(error) => of(error),
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

fn of(error: &lanesum::Error) -> (Status, &'static CStr) {
    use lanesum::Error;
    match error {
        Error::Environment(EnvironmentError::Off { .. }) => (Status::Environment, c"off"),
        Error::Environment(_) => (Status::Environment, c"environment"),
        Error::Rendezvous(_) => (Status::Rendezvous, c"rendezvous"),
        Error::Plan(_) => (Status::Plan, c"plan"),
        Error::Segment(_) => (Status::Segment, c"segment"),
        Error::Fault(fault) => of_fault(fault),
        Error::Poisoned { .. } => (Status::Poisoned, c"poisoned"),
        Error::Refused(refused) => of_refused(refused),
        Error::Cuda(_) => (Status::Cuda, c"cuda"),
        Error::PeerDevice { .. } => (Status::PeerDevice, c"peer_device"),
        Error::System { .. } => (Status::Resource, c"system"),
        _ => (Status::Unknown, c"unknown"),
    }
}

fn of_fault(fault: &Fault) -> (Status, &'static CStr) {
    match &fault.kind {
        FaultKind::Died { .. } => (Status::RankLost, c"died"),
        FaultKind::Departed { .. } => (Status::RankLost, c"departed"),
        FaultKind::Panicked { .. } => (Status::RankLost, c"panicked"),
        FaultKind::Late { .. } => (Status::Late, c"late"),
        FaultKind::Mismatch { .. } => (Status::Mismatch, c"mismatch"),
        FaultKind::Corrupt { .. } => (Status::Fault, c"corrupt"),
        FaultKind::Overlap { .. } => (Status::Fault, c"overlap"),
        FaultKind::Device { .. } => (Status::Fault, c"device"),
        _ => (Status::Fault, c"unknown"),
    }
}

fn of_refused(refused: &Refused) -> (Status, &'static CStr) {
    match refused {
        Refused::Lengths { .. } => (Status::Buffer, c"lengths"),
        Refused::TooMany { .. } => (Status::Buffer, c"too_many"),
        Refused::Overlap => (Status::Buffer, c"overlap"),
        Refused::Null { .. } => (Status::Buffer, c"null"),
        Refused::TooLarge { .. } => (Status::Buffer, c"too_large"),
        Refused::ForeignBuffer => (Status::Buffer, c"foreign_buffer"),
        Refused::ForeignDevice { .. } => (Status::Device, c"foreign_device"),
        Refused::ArenaFull(_) => (Status::Refused, c"arena_full"),
        Refused::Forked => (Status::Forked, c"forked"),
        Refused::Deadline { .. } => (Status::Refused, c"deadline"),
        Refused::Decision(_) => (Status::Refused, c"decision"),
        Refused::Capturing => (Status::Refused, c"capturing"),
        Refused::CaptureInvalid { .. } => (Status::Refused, c"capture_invalid"),
        Refused::Poisoned { .. } => (Status::Poisoned, c"poisoned"),
        Refused::Isa { .. } => (Status::Refused, c"isa"),
        _ => (Status::Refused, c"unknown"),
    }
}
