//! What other languages call the errors: a class, for an exception or a status, and a word for each case of it.

use lanesum_plan::{Fault, FaultKind};

use crate::environment::EnvironmentError;
use crate::error::{Error, Refused};

/// The classes of errors, as exceptions of Python and statuses of C have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The environment does not say who this rank is.
    Environment,
    /// The ranks did not find each other, or did not agree.
    Rendezvous,
    /// There is no such word, tree or plan.
    Plan,
    /// The shared memory could not be set up.
    Segment,
    /// The system refused a thread or another service.
    Resource,
    /// This rank's GPU can't be used.
    Cuda,
    /// A peer's GPU can't be used.
    PeerDevice,
    /// The call failed after it had started: the output holds NaN, and the communicator is spent. The next three are cases of it.
    Fault,
    /// A rank ended.
    RankLost,
    /// Ranks did not come before the deadline.
    Late,
    /// Two ranks called different things.
    Mismatch,
    /// An earlier call failed.
    Poisoned,
    /// The call was refused, and nothing happened. The next three are cases of it.
    Refused,
    /// This process is a forked child, and the communicator its parent's.
    Forked,
    /// The memory can't be reduced as it is.
    Buffer,
    /// The memory is on a GPU that the communicator does not reduce on.
    Device,
}

impl Error {
    /// Its class.
    pub fn class(&self) -> ErrorClass {
        self.name().0
    }

    /// A word that tells the cases of a class apart, for programs.
    pub fn kind(&self) -> &'static str {
        self.name().1
    }

    fn name(&self) -> (ErrorClass, &'static str) {
        match self {
            Self::Environment(EnvironmentError::Off { .. }) => (ErrorClass::Environment, "off"),
            Self::Environment(_) => (ErrorClass::Environment, "environment"),
            Self::Rendezvous(_) => (ErrorClass::Rendezvous, "rendezvous"),
            Self::Plan(_) => (ErrorClass::Plan, "plan"),
            Self::Segment(_) => (ErrorClass::Segment, "segment"),
            Self::Fault(fault) => of_fault(fault),
            Self::Poisoned { .. } => (ErrorClass::Poisoned, "poisoned"),
            Self::Refused(refused) => of_refused(refused),
            Self::Cuda(_) => (ErrorClass::Cuda, "cuda"),
            Self::PeerDevice { .. } => (ErrorClass::PeerDevice, "peer_device"),
            Self::System { .. } => (ErrorClass::Resource, "system"),
        }
    }
}

/// The enum is open to other crates; clippy lets the last arm stand only while every variant is named before it.
fn of_fault(fault: &Fault) -> (ErrorClass, &'static str) {
    match &fault.kind {
        FaultKind::Died { .. } => (ErrorClass::RankLost, "died"),
        FaultKind::Departed { .. } => (ErrorClass::RankLost, "departed"),
        FaultKind::Panicked { .. } => (ErrorClass::RankLost, "panicked"),
        FaultKind::Late { .. } => (ErrorClass::Late, "late"),
        FaultKind::Mismatch { .. } => (ErrorClass::Mismatch, "mismatch"),
        FaultKind::Corrupt { .. } => (ErrorClass::Fault, "corrupt"),
        FaultKind::Overlap { .. } => (ErrorClass::Fault, "overlap"),
        FaultKind::Device { .. } => (ErrorClass::Fault, "device"),
        _ => (ErrorClass::Fault, "unknown"),
    }
}

fn of_refused(refused: &Refused) -> (ErrorClass, &'static str) {
    match refused {
        Refused::Lengths { .. } => (ErrorClass::Buffer, "lengths"),
        Refused::TooMany { .. } => (ErrorClass::Buffer, "too_many"),
        Refused::Overlap => (ErrorClass::Buffer, "overlap"),
        Refused::Null { .. } => (ErrorClass::Buffer, "null"),
        Refused::TooLarge { .. } => (ErrorClass::Buffer, "too_large"),
        Refused::ForeignBuffer => (ErrorClass::Buffer, "foreign_buffer"),
        Refused::ForeignDevice { .. } => (ErrorClass::Device, "foreign_device"),
        Refused::ArenaFull(_) => (ErrorClass::Refused, "arena_full"),
        Refused::Forked => (ErrorClass::Forked, "forked"),
        Refused::Deadline { .. } => (ErrorClass::Refused, "deadline"),
        Refused::Decision(_) => (ErrorClass::Refused, "decision"),
        Refused::Capturing => (ErrorClass::Refused, "capturing"),
        Refused::CaptureInvalid { .. } => (ErrorClass::Refused, "capture_invalid"),
        Refused::Poisoned { .. } => (ErrorClass::Poisoned, "poisoned"),
        Refused::Isa { .. } => (ErrorClass::Refused, "isa"),
    }
}
