//! What can be wrong with what the caller gave, before the library is asked.

use thiserror::Error;

use crate::status::Status;

/// An argument or a handle that can't be used so. Each has a status, a cause and a remedy.
#[derive(Debug, Error)]
pub enum Refusal {
    /// No pointer.
    #[error("`{what}` is NULL")]
    Null { what: &'static str },
    /// A pointer that can't point to what it should.
    #[error("`{what}` is not aligned as its type is")]
    Misaligned { what: &'static str },
    /// Bytes that are no text.
    #[error("`{what}` is no UTF-8")]
    NotText { what: &'static str },
    /// A number that stands for nothing.
    #[error("`{what}` is {found}, and there are {known}")]
    Value {
        what: &'static str,
        found: u32,
        known: String,
    },
    /// A type of elements that there is not.
    #[error("`dtype` is {found}, and there are {known}")]
    Dtype { found: u32, known: String },
    /// A struct that is smaller than the first ABI's, or too large to be one.
    #[error("`{what}` says that it has {found} bytes; it has {least} to {most}")]
    Size {
        what: &'static str,
        found: usize,
        least: usize,
        most: usize,
    },
    /// A struct with a field of a later header, which this library can't obey.
    #[error("`{what}` sets a field that this library does not know")]
    Later { what: &'static str },
    /// A field that must be 0.
    #[error("`{what}` is not 0")]
    Reserved { what: &'static str },
    /// Another header.
    #[error("the program was compiled with the header of ABI {program}, the library has ABI {library}")]
    Abi { program: u32, library: u32 },
    /// A stream for memory of the host.
    #[error("a stream was given for memory of the host")]
    HostStream,
    /// The communicator is closed.
    #[error("the communicator is closed")]
    Closed,
    /// Another thread calls.
    #[error("another thread is in a call of this communicator")]
    Busy,
    /// Another thread waits.
    #[error("another thread waits for this call")]
    Waiting,
    /// A captured call has no end of its own.
    #[error("a call that was captured into a graph runs when the graph is launched, and has no end of its own")]
    Captured,
    /// Something in the library panicked.
    #[error("lanesum panicked: {message}")]
    Panicked { message: String },
}

impl Refusal {
    /// The status, and the word by which programs tell its cases apart.
    pub fn name(&self) -> (Status, &'static str) {
        match self {
            Self::Null { .. } => (Status::Argument, "null"),
            Self::Misaligned { .. } => (Status::Argument, "misaligned"),
            Self::NotText { .. } => (Status::Argument, "not_text"),
            Self::Value { .. } => (Status::Argument, "value"),
            Self::Dtype { .. } => (Status::Dtype, "dtype"),
            Self::Size { .. } => (Status::Argument, "size"),
            Self::Later { .. } => (Status::Argument, "later"),
            Self::Reserved { .. } => (Status::Argument, "reserved"),
            Self::Abi { .. } => (Status::Abi, "abi"),
            Self::HostStream => (Status::Buffer, "host_stream"),
            Self::Closed => (Status::Closed, "closed"),
            Self::Busy | Self::Waiting => (Status::Busy, "busy"),
            Self::Captured => (Status::Refused, "captured"),
            Self::Panicked { .. } => (Status::Panicked, "panicked"),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Null { .. } => "give a valid pointer; lanesum.h says which may be NULL",
            Self::Misaligned { .. } => "give the address of a variable of that type",
            Self::NotText { .. } => "give text in UTF-8 that ends with a NUL",
            Self::Value { .. } => "give one of the values that lanesum.h names",
            Self::Dtype { .. } => "give one of lanesum_dtype, or convert the elements",
            Self::Size { .. } => "begin with LANESUM_CALL_INIT or LANESUM_RECEIPT_INIT of lanesum.h",
            Self::Later { .. } => "leave it 0, or take a newer liblanesum",
            Self::Reserved { .. } => "begin with LANESUM_CALL_INIT of lanesum.h",
            Self::Abi { .. } => {
                "compile the program with the lanesum.h that was installed with the library, and give LANESUM_ABI_VERSION"
            }
            Self::HostStream => {
                "leave `stream` NULL: a call on memory of the host is done when it returns; or set `memory` to LANESUM_MEMORY_DEVICE"
            }
            Self::Closed => "make a new one",
            Self::Busy => {
                "let one thread call after the other, in an order that is the same on all ranks, or give each a lanesum_channel"
            }
            Self::Waiting => "let one thread wait",
            Self::Captured => "synchronize the stream that the graph was launched on, then call lanesum_check",
            Self::Panicked { .. } => "report it, with what was printed to stderr",
        }
    }
}
