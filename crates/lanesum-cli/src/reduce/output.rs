//! The file with the sum: beside the output under a name of its own until it is whole, so that no reader ever finds half of it.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{CWD, FallocateFlags, RenameFlags};
use rustix::io::Errno;

use super::error::FileError;
use super::input::{Stamp, kind_of};
use crate::errors::CliError;
use crate::spawn::note_signals;

/// Where the sum is to be.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    folder: PathBuf,
    force: bool,
}

impl Target {
    /// Refuses an output that is among the inputs, that cannot be a file, or that exists though nobody gave it up.
    pub fn checked(path: &Path, force: bool, inputs: &[(PathBuf, Stamp)]) -> Result<Self, CliError> {
        let usage = |cause: String, hint: &str| {
            Err(CliError::Usage {
                cause,
                hint: hint.to_owned(),
            })
        };
        let shown = path.display();
        let named = path.as_os_str().as_encoded_bytes().last() != Some(&b'/');
        let (Some(folder), Some(name), true) = (path.parent(), path.file_name(), named) else {
            return usage(
                format!("the output {shown} is no name of a file"),
                "name a file, such as -o sum.safetensors",
            );
        };
        if let Ok(stamp) = Stamp::now(path)
            && let Some((input, _)) = inputs.iter().find(|(_, input)| input.place == stamp.place)
        {
            return usage(
                format!("the output {shown} is the input {}", input.display()),
                "inputs are never written to: choose another output",
            );
        }
        if let Ok(metadata) = std::fs::metadata(path)
            && !metadata.is_file()
        {
            return usage(
                format!("the output {shown} is {}", kind_of(metadata.file_type())),
                "name a file, such as -o sum.safetensors",
            );
        }
        // The longest name that Linux file systems have.
        if name.len() > 255 {
            return usage(
                format!("the output's name has {} bytes, and 255 are possible", name.len()),
                "take a shorter one",
            );
        }
        if !force && path.symlink_metadata().is_ok() {
            return usage(format!("the output {shown} exists"), "--force replaces it");
        }
        Ok(Self {
            path: path.to_owned(),
            folder: if folder.as_os_str().is_empty() {
                ".".into()
            } else {
                folder.to_owned()
            },
            force,
        })
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The file until it is whole. It is removed where that does not come to be.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    kept: bool,
}

impl Part {
    /// Makes a file of this length that begins with `head`, with room on the disk for the rest.
    ///
    /// # Errors
    /// Also where somebody asks the process to end meanwhile.
    pub fn new(target: &Target, head: &[u8], bytes: u64) -> Result<Self, CliError> {
        let asked_to_end = note_signals()?;
        let unwritten = |source: io::Error| FileError::System {
            what: "write",
            path: target.path.clone(),
            source,
        };
        let random = RandomState::new().build_hasher().finish();
        let name = format!(".lanesum-{}-{random:016x}.part", std::process::id());
        let path = target.folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(unwritten)?;
        let part = Self { path, kept: false };
        check_room(target, &file, bytes)?;
        reserve(&file, bytes, &asked_to_end).map_err(unwritten)?;
        file.write_all_at(head, 0).map_err(unwritten)?;
        match asked_to_end.load(Ordering::Relaxed) {
            0 => Ok(part),
            signal => Err(CliError::Interrupted {
                signal: signal.try_into().unwrap_or(0),
            }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name. All of it is on the disk already.
    pub fn keep(mut self, target: &Target) -> Result<(), FileError> {
        let to = &target.path;
        let flags = if target.force {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        let renamed = match rustix::fs::renameat_with(CWD, &self.path, CWD, to, flags) {
            // The file system lacks the flag: what is left is to look.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if to.symlink_metadata().is_ok() && !target.force => {
                Err(Errno::EXIST.into())
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => std::fs::rename(&self.path, to),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(()),
        };
        renamed.map_err(|source| {
            let path = to.clone();
            if source.kind() == io::ErrorKind::AlreadyExists && !target.force {
                return FileError::Appeared { path };
            }
            let what = "write";
            FileError::System { what, path, source }
        })?;
        self.kept = true;
        // The name is on the disk too, as far as the folder may be opened: the file itself is safe in any case.
        File::open(&target.folder).and_then(|folder| folder.sync_all()).ok();
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept {
            // Where it cannot be removed, the error that led here is the one to tell.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// Refuses what cannot fit before the disk is filled in the attempt.
fn check_room(target: &Target, file: &File, wanted: u64) -> Result<(), FileError> {
    // Network file systems may not tell: no blocks at all. Then the attempt shows.
    let Ok(disk) = rustix::fs::fstatvfs(file) else {
        return Ok(());
    };
    let free = disk.f_bfree.saturating_mul(disk.f_frsize);
    if disk.f_blocks == 0 || wanted <= free {
        return Ok(());
    }
    let path = target.path.clone();
    Err(FileError::NoSpace { path, wanted, free })
}

/// Takes the room on the disk now, where the file system can, so that a full disk is not found out after an hour.
fn reserve(file: &File, bytes: u64, asked_to_end: &AtomicUsize) -> io::Result<()> {
    // Who is asked to end leaves it; the caller looks at the same number.
    while asked_to_end.load(Ordering::Relaxed) == 0 {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => return file.set_len(bytes),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_taken_for_who_is_asked_to_end() {
        let file = tempfile::tempfile().expect("can be made");
        let length = || file.metadata().expect("can be read").len();
        reserve(&file, 1 << 20, &AtomicUsize::new(15)).expect("is left");
        assert_eq!(length(), 0);
        reserve(&file, 1 << 20, &AtomicUsize::new(0)).expect("is taken");
        assert_eq!(length(), 1 << 20);
    }
}
