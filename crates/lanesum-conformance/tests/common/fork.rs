//! `fork`, for tests only: the library never forks, but its callers do.
#![allow(unsafe_code, reason = "only fork itself makes a forked child")]

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

unsafe extern "C" {
    /// POSIX: the id of the child in the parent, 0 in the child, negative on failure.
    fn fork() -> i32;
    /// POSIX: ends the process without running anything registered for its end.
    fn _exit(status: i32) -> !;
}

/// A forked child and the byte it gave.
pub struct Forked {
    /// Its process id.
    pub pid: i32,
    /// What its closure returned.
    pub verdict: u8,
}

/// Forks. The child runs `attempt`, passes its result to the parent, runs `after` and exits; the parent gets the result.
pub fn forked(attempt: impl FnOnce() -> u8, after: impl FnOnce()) -> Forked {
    let (mut reader, mut writer): (PipeReader, PipeWriter) = pipe().unwrap();
    // SAFETY: the child's only thread goes on with what glibc allows after a fork (memory allocation among it), touches no
    // lock that another thread of the parent may hold, and ends in `_exit`.
    let pid = unsafe { fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        let verdict = attempt();
        let written = writer.write_all(&[verdict]);
        after();
        // SAFETY: ends the child; nothing of it is needed any more.
        unsafe { _exit(i32::from(written.is_err())) }
    }
    drop(writer);
    let mut verdict = [u8::MAX];
    reader
        .read_exact(&mut verdict)
        .expect("the forked child ended without a verdict");
    Forked {
        pid,
        verdict: verdict[0],
    }
}
