//! A file to sum: opened, its header read and checked.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use super::error::FileError;
use super::header::{Header, PREFIX, data_begin};

/// An open file with its header.
pub struct Input {
    /// To read tensors from.
    pub file: File,
    /// What tells whether it is still the same.
    pub stamp: Stamp,
    /// The bytes before the data.
    pub head: Vec<u8>,
    /// What they say.
    pub header: Header,
}

/// Which file it is, and in what state: another one under the same name, or one that was written to, has another stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Device and inode.
    pub place: (u64, u64),
    /// Its length.
    pub bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// That of the file with this name now.
    pub fn now(path: &Path) -> Result<Self, FileError> {
        let metadata = std::fs::metadata(path).map_err(|source| unread(path, source))?;
        Ok(Self::of(&metadata))
    }
}

impl Input {
    /// Opens a regular file, and reads its header and no more.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        // Asked before opening: a pipe without a writer would keep us there.
        let metadata = std::fs::metadata(path).map_err(|source| unread(path, source))?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile {
                path: path.to_owned(),
                what: kind_of(metadata.file_type()),
            });
        }
        let opened = File::open(path).and_then(|file| Ok((Stamp::of(&file.metadata()?), file)));
        let (stamp, file) = opened.map_err(|source| unread(path, source))?;
        let head = head_of(path, &file, stamp.bytes)?;
        let header = Header::parse(&head, stamp.bytes).map_err(|fault| FileError::Header {
            path: path.to_owned(),
            fault,
        })?;
        Ok(Self {
            file,
            stamp,
            head,
            header,
        })
    }
}

/// The header with its length before it.
fn head_of(path: &Path, file: &File, bytes: u64) -> Result<Vec<u8>, FileError> {
    let mut head = vec![0; PREFIX.min(usize::try_from(bytes).unwrap_or(PREFIX))];
    read_exact(path, file, &mut head, 0)?;
    let end = data_begin(&head, bytes).map_err(|fault| FileError::Header {
        path: path.to_owned(),
        fault,
    })?;
    // Checked to be within the file and the format's limit.
    head.resize(usize::try_from(end).unwrap_or(PREFIX), 0);
    if let Some(rest) = head.get_mut(PREFIX..) {
        read_exact(path, file, rest, PREFIX as u64)?;
    }
    Ok(head)
}

/// Fills `bytes` from this place of a file.
pub fn read_exact(path: &Path, file: &File, bytes: &mut [u8], at: u64) -> Result<(), FileError> {
    file.read_exact_at(bytes, at).map_err(|source| {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            unread(
                path,
                io::Error::new(source.kind(), "it ends sooner than it did at first"),
            )
        } else {
            unread(path, source)
        }
    })
}

fn unread(path: &Path, source: io::Error) -> FileError {
    FileError::System {
        what: "read",
        path: path.to_owned(),
        source,
    }
}

/// What something is that is no regular file.
pub fn kind_of(file: FileType) -> &'static str {
    if file.is_dir() {
        "a folder"
    } else if file.is_fifo() {
        "a pipe"
    } else if file.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
