//! Errors of making and opening a segment.

use rustix::io::Errno;
use thiserror::Error;

/// Why a segment could not be made, opened or mapped.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentError {
    /// The world or the sizes are outside the limits of the layout.
    #[error(
        "a segment for {world} ranks with mailboxes of {mailbox} B and {shared} B of arena can't be laid out: {reason}"
    )]
    Geometry {
        /// Ranks asked for.
        world: usize,
        /// Bytes of one mailbox asked for.
        mailbox: u64,
        /// Bytes of one arena asked for.
        shared: u64,
        /// Which limit it breaks.
        reason: &'static str,
    },
    /// A system call was refused.
    #[error("{call} was refused for a segment of {bytes} B: {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// Size of the segment, bytes.
        bytes: u64,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The process may not make files of this size; memory files count.
    #[error("the segment has {bytes} B, but this process may make files of at most {limit} B")]
    FileSize {
        /// Size of the segment, bytes.
        bytes: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// The descriptor that was received is not sealed against resizing.
    #[error("the descriptor received as segment is not sealed against shrinking and growing")]
    NotSealed,
    /// The descriptor has another size than the ranks agreed on.
    #[error("the segment received is {found} B where {expected} B were agreed on")]
    Size {
        /// Size found, bytes.
        found: u64,
        /// Size expected, bytes.
        expected: u64,
    },
    /// A field of the segment's header differs from what the ranks agreed on.
    #[error("the segment's header says {field} = {found:#x} where {expected:#x} was agreed on")]
    Header {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it should hold.
        expected: u64,
    },
}

impl SegmentError {
    /// What can be done about it, where something can.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Geometry { .. } => Some("ask for less staging or less shared memory"),
            Self::FileSize { .. } => {
                Some("raise the limit of file sizes (ulimit -f), or lower the staging and shared limits")
            }
            Self::System { errno, .. } if *errno == Errno::NOMEM => {
                Some("raise the memory limit of the container, or lower the staging and shared limits")
            }
            Self::System { errno, .. } if *errno == Errno::MFILE || *errno == Errno::NFILE => {
                Some("raise the limit of open files (ulimit -n)")
            }
            Self::System { .. } => Some("check that the sandbox allows memfd_create, fcntl seals and mmap"),
            Self::NotSealed | Self::Size { .. } | Self::Header { .. } => {
                Some("check that all ranks run the same build of lanesum")
            }
        }
    }
}
