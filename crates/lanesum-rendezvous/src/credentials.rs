//! Who is at the other end of a socket.
//!
//! The one place of this crate with `unsafe`. The kernel reports process id 0 for a peer in another PID namespace (two
//! containers that share the socket's directory), while `rustix::net::UCred` holds the id as a value that is never
//! zero: its safe wrapper would then build an invalid value. So the option is read here into plain integers.
use std::os::fd::{AsRawFd, BorrowedFd};

/// User and process of the peer as this process sees them; `pid` is None where it has no number here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: u32,
    pub(crate) pid: Option<rustix::process::Pid>,
}

/// Of a connected socket: the process that connected, or that called listen, at that time.
#[allow(unsafe_code)]
pub(crate) fn of_peer(socket: BorrowedFd<'_>) -> std::io::Result<Credentials> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let size = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    let mut length = size;
    // SAFETY: `socket` is borrowed, so it is open for the whole call; `found` and `length` are live, writable and of
    // the types that SO_PEERCRED fills, and `length` states the size of `found`, beyond which the kernel never writes.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if code != 0 {
        return Err(std::io::Error::last_os_error());
    }
    if length != size {
        return Err(std::io::Error::from_raw_os_error(libc::EPROTO));
    }
    Ok(Credentials {
        user: found.uid,
        pid: rustix::process::Pid::from_raw(found.pid),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn tells_user_and_process_of_the_peer() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let found = of_peer(one.as_fd()).unwrap();
        assert_eq!(found.user, rustix::process::geteuid().as_raw());
        assert_eq!(found.pid, Some(rustix::process::getpid()));
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(of_peer(file.as_fd()).is_err());
    }
}
