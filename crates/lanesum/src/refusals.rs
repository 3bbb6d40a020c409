//! Calls that are refused before anything happens: their outputs stay as they were.

use lanesum_cuda::CaptureTrouble;
use lanesum_plan::{Fault, Rank};
use thiserror::Error;

/// Why a call was refused. Nothing was sent, no epoch was used, the output is untouched.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// Input and output have different lengths.
    #[error("the input has {input} elements and the output {output}")]
    Lengths {
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// More elements were asked for than the buffers have.
    #[error("the first {asked} elements were asked for, but the buffers have {length}")]
    TooMany {
        /// Elements asked for.
        asked: usize,
        /// Elements there.
        length: usize,
    },
    /// Input and output overlap without being the same.
    #[error("input and output overlap without being the same memory")]
    Overlap,
    /// A pointer is null though elements were promised.
    #[error("a null pointer was given for {elements} elements")]
    Null {
        /// Elements promised.
        elements: u64,
    },
    /// The message is larger than memory.
    #[error("{elements} elements are more than memory can hold")]
    TooLarge {
        /// Elements asked for.
        elements: u64,
    },
    /// The shared buffer belongs to another communicator.
    #[error("the shared buffer was allocated from another communicator")]
    ForeignBuffer,
    /// The arena for shared buffers is full.
    #[error(transparent)]
    ArenaFull(#[from] lanesum_segment::ArenaFull),
    /// The caller is a forked child of the process that joined.
    #[error("this process is a forked child; the communicator belongs to its parent")]
    Forked,
    /// A deadline of zero, or one too long to be counted.
    #[error("a deadline of {ms} ms is outside 1 ms to 24 days")]
    Deadline {
        /// The deadline asked for, milliseconds.
        ms: u128,
    },
    /// No algorithm runs the call.
    #[error(transparent)]
    Decision(#[from] lanesum_plan::Refusal),
    /// The call would have to wait for a stream that is being captured while its own is not: that of the communicator's last eager
    /// call, or, on the default stream, any that this one waits for.
    #[error(
        "the call would have to wait for a stream that is being captured into a CUDA graph, and its own stream is not"
    )]
    Capturing,
    /// The capture of the stream has become invalid: what was recorded in it is lost. The communicator is as it was.
    #[error("nothing was recorded into the graph: {call} was refused: {trouble}")]
    CaptureInvalid {
        /// What was refused.
        call: &'static str,
        /// Why.
        trouble: CaptureTrouble,
    },
    /// The stream is being captured, and the communicator can't be used any more: where other calls leave NaN, nothing was recorded.
    #[error("nothing was recorded into the graph, as the communicator is poisoned by a fault: {first}")]
    Poisoned {
        /// The first fault.
        first: Box<Fault>,
    },
    /// Buffer or stream is on another GPU than the communicator's.
    #[error("the buffers or the stream are on device {found}, the communicator's GPU is device {own}")]
    ForeignDevice {
        /// Where they are.
        found: usize,
        /// Where the communicator is.
        own: usize,
    },
    /// The processor has no such instruction set.
    #[error("this processor can't run the instruction set `{asked}`; it can run {known}")]
    Isa {
        /// Name asked for.
        asked: String,
        /// Names that would do.
        known: String,
    },
}

impl Refused {
    /// The ranks that it names, ascending.
    pub(crate) fn ranks(&self) -> Vec<Rank> {
        match self {
            Self::Poisoned { first } => first.ranks(),
            Self::Lengths { .. }
            | Self::TooMany { .. }
            | Self::Overlap
            | Self::Null { .. }
            | Self::TooLarge { .. }
            | Self::ForeignBuffer
            | Self::ArenaFull(_)
            | Self::Forked
            | Self::Deadline { .. }
            | Self::Decision(_)
            | Self::Capturing
            | Self::CaptureInvalid { .. }
            | Self::ForeignDevice { .. }
            | Self::Isa { .. } => Vec::new(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Decision(refusal) => refusal.hint().unwrap_or("see `explain` for what was refused and why"),
            Self::Lengths { .. } => "give an output of the input's length",
            Self::TooMany { .. } => "ask for at most the buffers' length",
            Self::Overlap => "give the same pointer for both, or buffers that do not overlap",
            Self::Null { .. } => "give a valid pointer, or zero elements",
            Self::TooLarge { .. } => "check the count: it is in elements, not bytes",
            Self::ForeignBuffer => "allocate the buffer with `allocate_shared` of the communicator that sums it",
            Self::ArenaFull(_) => "drop shared buffers, or raise the builder's `shared_capacity` on all ranks",
            Self::Forked => "make a new communicator in the child, or start the child with spawn instead of fork",
            Self::Deadline { .. } => "give a deadline within these bounds",
            Self::Capturing => {
                "make this call before the capture begins or after it ends, make the last eager call before the capture on a \
                 stream that is not captured, or use a `channel`"
            }
            Self::CaptureInvalid { trouble, .. } => trouble.hint(),
            Self::Poisoned { .. } => "drop the capture and make a new communicator; then capture anew",
            Self::ForeignDevice { .. } => "allocate on `Communicator::device`, or join with the builder's `device`",
            Self::Isa { .. } => "name one of these, or leave the choice to lanesum",
        }
    }
}
