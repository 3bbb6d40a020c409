//! The directory of the sockets: made with mode 0700, and used only while it belongs to this user and nobody else may
//! enter it, since whoever can write there could answer in rank 0's place.
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RawMode};
use rustix::io::Errno;

use crate::error::{DirectoryProblem, RendezvousError};

/// Makes (if need be) and checks the directory; gives its canonical path.
pub(crate) fn prepare(chosen: Option<&Path>) -> Result<PathBuf, RendezvousError> {
    let path = match chosen {
        Some(path) => path.to_path_buf(),
        None => standard(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)),
    };
    match make_and_check(&path) {
        Ok(canonical) => Ok(canonical),
        Err(problem) => Err(RendezvousError::Directory { path, problem }),
    }
}

/// `$XDG_RUNTIME_DIR/lanesum` where that variable names a directory of this user (`sudo` leaves the one of another
/// user behind, containers name one that does not exist), else `/tmp/lanesum-<uid>`.
fn standard(runtime: Option<PathBuf>) -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    runtime
        .filter(|path| path.is_absolute())
        .filter(|path| path.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user))
        .map_or_else(
            || PathBuf::from(format!("/tmp/lanesum-{user}")),
            |path| path.join("lanesum"),
        )
}

fn make_and_check(path: &Path) -> Result<PathBuf, DirectoryProblem> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(DirectoryProblem::Unusable(errno.into())),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(DirectoryProblem::NotADirectory),
        Err(errno) => return Err(DirectoryProblem::Unusable(errno.into())),
    };
    let found = rustix::fs::fstat(&directory).map_err(|errno| DirectoryProblem::Unusable(errno.into()))?;
    check(found.st_uid, found.st_mode, rustix::process::geteuid().as_raw())?;
    path.canonicalize().map_err(DirectoryProblem::Unusable)
}

fn check(owner: u32, mode: RawMode, user: u32) -> Result<(), DirectoryProblem> {
    if owner != user {
        return Err(DirectoryProblem::OtherOwner { owner, user });
    }
    if mode & 0o077 != 0 {
        return Err(DirectoryProblem::TooOpen { mode: mode & 0o7777 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn is_made_with_mode_0700() {
        let base = tempfile::tempdir().unwrap();
        let made = prepare(Some(&base.path().join("new"))).unwrap();
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        assert_eq!(prepare(Some(&made)).unwrap(), made);
    }

    #[test]
    fn a_looser_mode_is_refused_with_the_remedy() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = prepare(Some(base.path())).unwrap_err();
        assert!(error.to_string().contains("mode 0755"), "{error}");
        assert!(error.hint().unwrap().starts_with("chmod 700 /"), "{error:?}");
    }

    #[test]
    fn another_owner_is_refused() {
        let problem = check(1000, 0o40700, 1001).unwrap_err();
        assert_eq!(problem.to_string(), "belongs to user 1000, not to this user (1001)");
    }

    #[test]
    fn files_and_links_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, "").unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        for path in [file, link] {
            let error = prepare(Some(&path)).unwrap_err();
            assert!(
                matches!(
                    error,
                    RendezvousError::Directory {
                        problem: DirectoryProblem::NotADirectory,
                        ..
                    }
                ),
                "{error}"
            );
        }
        let error = prepare(Some(&base.path().join("no/such/parent"))).unwrap_err();
        assert!(
            matches!(
                error,
                RendezvousError::Directory {
                    problem: DirectoryProblem::Unusable(_),
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_runtime_directory_that_is_not_ours_is_passed_over() {
        let user = rustix::process::geteuid().as_raw();
        let fallback = PathBuf::from(format!("/tmp/lanesum-{user}"));
        assert_eq!(standard(None), fallback);
        assert_eq!(standard(Some(PathBuf::from("relative"))), fallback);
        assert_eq!(standard(Some(PathBuf::from("/no/such/directory"))), fallback);
        let base = tempfile::tempdir().unwrap();
        assert_eq!(standard(Some(base.path().to_path_buf())), base.path().join("lanesum"));
    }
}
