//! How a call ended, as a number of C.

use std::ffi::{CStr, c_char};

/// How a call ended. Numbers keep their meaning; new ones may be added.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It went well. Every other value comes with a message.
    Ok = 0,
    /// The environment does not say who this rank is.
    Environment = 1,
    /// The ranks did not find each other, or did not agree.
    Rendezvous = 2,
    /// There is no such word, tree or plan.
    Plan = 3,
    /// The shared memory could not be set up.
    Segment = 4,
    /// The system refused a thread or another service.
    Resource = 5,
    /// This rank's GPU can't be used.
    Cuda = 6,
    /// A peer's GPU can't be used.
    PeerDevice = 7,
    /// The call failed after it had started: the output holds NaN, and the communicator is spent.
    Fault = 8,
    /// As `LANESUM_STATUS_FAULT`, because a rank ended.
    RankLost = 9,
    /// As `LANESUM_STATUS_FAULT`, because ranks did not come before the deadline.
    Late = 10,
    /// As `LANESUM_STATUS_FAULT`, because two ranks called different things; both are named.
    Mismatch = 11,
    /// An earlier call failed: the output holds NaN (in a capture, nothing was recorded).
    Poisoned = 12,
    /// The call was refused: nothing happened, the output is untouched. So it is with all values from here on but the last two.
    Refused = 13,
    /// This process is a forked child, and the communicator its parent's.
    Forked = 14,
    /// The communicator is closed.
    Closed = 15,
    /// Another thread is in a call of the communicator.
    Busy = 16,
    /// The memory can't be reduced as it is.
    Buffer = 17,
    /// There is no such type of elements.
    Dtype = 18,
    /// The memory is on a GPU that the communicator does not reduce on.
    Device = 19,
    /// An argument is NULL, misaligned, no text, or none of the values that there are.
    Argument = 20,
    /// The program was compiled with the header of another ABI than the library's.
    Abi = 21,
    /// A fault of lanesum itself: please report it. What became of the output is not known.
    Panicked = 22,
    /// An error of the library that this ABI has no value for.
    Unknown = 23,
}

impl Status {
    /// Every value, in the order of the numbers.
    const ALL: [Self; 24] = [
        Self::Ok,
        Self::Environment,
        Self::Rendezvous,
        Self::Plan,
        Self::Segment,
        Self::Resource,
        Self::Cuda,
        Self::PeerDevice,
        Self::Fault,
        Self::RankLost,
        Self::Late,
        Self::Mismatch,
        Self::Poisoned,
        Self::Refused,
        Self::Forked,
        Self::Closed,
        Self::Busy,
        Self::Buffer,
        Self::Dtype,
        Self::Device,
        Self::Argument,
        Self::Abi,
        Self::Panicked,
        Self::Unknown,
    ];

    const fn name(self) -> &'static CStr {
        match self {
            Self::Ok => c"ok",
            Self::Environment => c"environment",
            Self::Rendezvous => c"rendezvous",
            Self::Plan => c"plan",
            Self::Segment => c"segment",
            Self::Resource => c"resource",
            Self::Cuda => c"cuda",
            Self::PeerDevice => c"peer_device",
            Self::Fault => c"fault",
            Self::RankLost => c"rank_lost",
            Self::Late => c"late",
            Self::Mismatch => c"mismatch",
            Self::Poisoned => c"poisoned",
            Self::Refused => c"refused",
            Self::Forked => c"forked",
            Self::Closed => c"closed",
            Self::Busy => c"busy",
            Self::Buffer => c"buffer",
            Self::Dtype => c"dtype",
            Self::Device => c"device",
            Self::Argument => c"argument",
            Self::Abi => c"abi",
            Self::Panicked => c"panicked",
            Self::Unknown => c"unknown",
        }
    }
}

/// The name of a `lanesum_status` in lower case, as `rank_lost`; of another number, `unknown`. The text is the library's and
/// lives as long as that. Any thread may ask.
#[unsafe(no_mangle)]
pub extern "C" fn lanesum_status_name(status: u32) -> *const c_char {
    let found = Status::ALL.into_iter().find(|&known| known as u32 == status);
    found.unwrap_or(Status::Unknown).name().as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_value_of_the_header() {
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, number);
        }
        let header = include_str!("../include/lanesum.h");
        let declared = header
            .lines()
            .filter(|line| line.trim_start().starts_with("LANESUM_STATUS_"));
        assert_eq!(declared.count(), Status::ALL.len());
    }
}
