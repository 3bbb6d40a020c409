//! Which process a rank lives in, and whether that process is alive.
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::deadline::poll_for;
use crate::error::RendezvousError;

/// After a connection broke: how long a dying process may take until its pidfd tells. Its files are closed before.
const DEATH_GRACE: Duration = Duration::from_millis(100);

/// Equal for threads of one process and for nobody else: the token tells processes of different PID namespaces apart,
/// the pid a forked child from its parent, whose token it inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pid: i32,
    token: u64,
}

impl ProcessId {
    pub(crate) fn own() -> Self {
        static TOKEN: OnceLock<u64> = OnceLock::new();
        Self {
            pid: getpid().as_raw_nonzero().get(),
            token: *TOKEN.get_or_init(random),
        }
    }
}

/// 64 random bits: the standard library keys each of these hashers from the system's random numbers.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A descriptor of this process that becomes readable when it ends.
pub(crate) fn own_pidfd() -> Result<OwnedFd, RendezvousError> {
    pidfd_open(getpid(), PidfdFlags::empty()).map_err(|errno| RendezvousError::Pidfd { source: errno.into() })
}

/// Whether the process has ended, waiting up to `at_most` for that.
fn ended_within(pidfd: BorrowedFd<'_>, at_most: Duration) -> bool {
    let mut watched = [PollFd::new(&pidfd, PollFlags::IN)];
    matches!(poll_for(&mut watched, at_most), Ok(ready) if ready > 0)
}

/// Whether the process has ended by now.
pub(crate) fn ended(pidfd: Option<&OwnedFd>) -> bool {
    pidfd.is_some_and(|pidfd| ended_within(pidfd.as_fd(), Duration::ZERO))
}

/// Whether a process whose connection broke is ending (or has left, alive).
pub(crate) fn ending(pidfd: Option<&OwnedFd>) -> bool {
    pidfd.is_some_and(|pidfd| ended_within(pidfd.as_fd(), DEATH_GRACE))
}

/// Whether a process with this number has certainly ended; false wherever that cannot be told.
pub(crate) fn certainly_gone(pid: Pid) -> bool {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => ended(Some(&pidfd)),
        Err(errno) => errno == rustix::io::Errno::SRCH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_one_process() {
        let own = ProcessId::own();
        let other = std::thread::spawn(ProcessId::own).join().unwrap();
        assert_eq!(own, other);
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }

    #[test]
    fn an_ended_process_is_told_from_a_live_one() {
        assert!(!ended(Some(&own_pidfd().unwrap())));
        assert!(!ended(None));
        assert!(!certainly_gone(getpid()));
        let mut child = std::process::Command::new("/bin/sh")
            .arg("-c")
            .arg("exit 0")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        assert!(ended(Some(&pidfd)));
        assert!(certainly_gone(pid));
    }

    #[test]
    fn a_refused_pidfd_is_explained() {
        let error = RendezvousError::Pidfd {
            source: rustix::io::Errno::PERM.into(),
        };
        assert!(error.to_string().contains("pidfd_open"), "{error}");
        assert!(error.hint().unwrap().contains("seccomp"));
    }
}
