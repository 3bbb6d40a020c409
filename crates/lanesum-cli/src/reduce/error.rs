//! What can be wrong with files, each with the file, the facts and what to do.

use std::io;
use std::path::PathBuf;

use lanesum_plan::Bytes;

use super::header::HeaderFault;
use super::layout::Difference;
use crate::errors::CliError;
use crate::progress::grouped;
use crate::ranks::speech::RankError;

/// Why files cannot be summed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("cannot {what} {}: {source}", .path.display())]
    System {
        /// What was tried, in the infinitive.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// It is a folder, a pipe, a device.
    #[error("{} is {what}, and no regular file", .path.display())]
    NotAFile {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It is no safetensors file, or a broken one, or one of tensors that cannot be summed.
    #[error("{}: {fault}", .path.display())]
    Header {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        fault: HeaderFault,
    },
    /// Two files have different tensors.
    #[error("{}", .difference.told(.first, .second))]
    Differ {
        /// The first file.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
        /// The first difference.
        difference: Box<Difference>,
    },
    /// It is not what it was when the run began.
    #[error("{} was changed while it was summed", .path.display())]
    Changed {
        /// Which.
        path: PathBuf,
    },
    /// The output does not fit.
    #[error(
        "no space for {}: it takes {} bytes, and {} are free there",
        .path.display(), grouped(*.wanted), grouped(*.free)
    )]
    NoSpace {
        /// The output.
        path: PathBuf,
        /// What it takes.
        wanted: u64,
        /// What is there.
        free: u64,
    },
    /// The output has come into being since the run began.
    #[error("{} exists now, and did not when the run began", .path.display())]
    Appeared {
        /// The output.
        path: PathBuf,
    },
}

/// What to do about refusals of the system.
const REMEDIES: [(&[io::ErrorKind], &str); 4] = [
    (
        &[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded],
        "make room there, or write elsewhere",
    ),
    (
        &[io::ErrorKind::FileTooLarge],
        "look at the file system's limit and at `ulimit -f`, or write elsewhere",
    ),
    (&[io::ErrorKind::UnexpectedEof], "sum files that nobody writes to"),
    (
        &[io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied],
        "check the path and who may use it",
    ),
];

impl FileError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::System { source, .. } => {
                let known = REMEDIES.iter().find(|(kinds, _)| kinds.contains(&source.kind()));
                return known.map(|(_, remedy)| (*remedy).to_owned());
            }
            Self::NotAFile { .. } => "the files are read at many places: copy it into a regular file first".into(),
            Self::Header { fault, .. } => fault.hint().into(),
            Self::Differ { .. } => "the files need the same names, shapes and dtypes: take files of one model".into(),
            Self::Changed { .. } => "sum files that nobody writes to".into(),
            Self::NoSpace { wanted, .. } => {
                format!("make {} of room there, or write elsewhere", Bytes::new(*wanted))
            }
            Self::Appeared { .. } => "--force replaces it".into(),
        })
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        Self::Run {
            cause: error.to_string(),
            hint: error.hint(),
            reported: false,
        }
    }
}

impl From<FileError> for RankError {
    fn from(error: FileError) -> Self {
        Self::Refused {
            cause: error.to_string(),
            hint: error.hint(),
        }
    }
}

/// Text of a file's own making, for a message: quoted, escaped, and no longer than a line.
pub fn quoted(text: &str) -> String {
    clipped(&format!("{text:?}"))
}

/// At most a line of it.
pub fn clipped(text: &str) -> String {
    const LINE: usize = 160;
    match text.char_indices().nth(LINE) {
        None => text.to_owned(),
        Some((end, _)) => format!(
            "{}... ({} bytes)",
            text.get(..end).unwrap_or_default(),
            grouped(text.len() as u64)
        ),
    }
}
