//! Rank 0's hold on a rendezvous name: the lock, and the socket that the others connect to.
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, fstat, lstat, open, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};

use crate::credentials;
use crate::deadline::Deadline;
use crate::error::{DirectoryProblem, RendezvousError, system};
use crate::names::Paths;
use crate::process::{ProcessId, certainly_gone};

/// Processes of an earlier job that are being killed right now may hold the name for some milliseconds.
const GRACE: Duration = Duration::from_millis(250);
const RETRY: Duration = Duration::from_millis(2);
/// More than any world: connections wait here until rank 0 accepts them.
const BACKLOG: i32 = 64;

/// The name is held while this lives; dropping it removes the socket and frees the name.
#[derive(Debug)]
pub(crate) struct Claim {
    listener: OwnedFd,
    /// Holds the name; dropped after the listener is closed.
    _lock: Lock,
}

/// The lock file, locked. Freed by its owner only: a forked child drops its copy without effect.
#[derive(Debug)]
struct Lock {
    file: OwnedFd,
    paths: Paths,
    owner: ProcessId,
}

impl Claim {
    /// Takes the name, or tells that another job has it.
    pub(crate) fn take(paths: &Paths, name: &str, most: &Deadline) -> Result<Self, RendezvousError> {
        let grace = Deadline::after(GRACE.min(most.remaining()));
        let lock = loop {
            match Lock::attempt(paths).map_err(unusable(paths, "lock the rendezvous name"))? {
                Some(lock) => break lock,
                None if served_by_the_dead(&paths.socket) => remove_both(paths),
                None if grace.passed() => {
                    return Err(RendezvousError::NameInUse {
                        name: name.to_owned(),
                        lock: paths.lock.clone(),
                    });
                }
                None => std::thread::sleep(RETRY),
            }
        };
        let listener = listen_at(&paths.socket).map_err(unusable(paths, "listen at the rendezvous socket"))?;
        sweep(paths);
        Ok(Self { listener, _lock: lock })
    }

    pub(crate) fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Takes one waiting connection, if there is one.
    pub(crate) fn accept(&self) -> Result<Option<OwnedFd>, RendezvousError> {
        match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(connection) => Ok(Some(connection)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(system("accept a rank's connection")(errno)),
        }
    }
}

impl Lock {
    /// None where somebody else holds it.
    fn attempt(paths: &Paths) -> Result<Option<Self>, Errno> {
        Self::attempt_with(paths, OFlags::CREATE)
    }

    /// None also where the file has gone meanwhile.
    fn attempt_existing(paths: &Paths) -> Result<Option<Self>, Errno> {
        match Self::attempt_with(paths, OFlags::empty()) {
            Err(Errno::NOENT) => Ok(None),
            outcome => outcome,
        }
    }

    fn attempt_with(paths: &Paths, create: OFlags) -> Result<Option<Self>, Errno> {
        loop {
            let flags = create | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = open(&paths.lock, flags, Mode::RUSR | Mode::WUSR)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            // Whoever held it may have removed the file between our open and our lock: then this locks nothing.
            let same = |there: Stat, here: Stat| (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino);
            if let (Ok(there), Ok(here)) = (lstat(&paths.lock), fstat(&file))
                && same(there, here)
            {
                return Ok(Some(Self {
                    file,
                    paths: paths.clone(),
                    owner: ProcessId::own(),
                }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.owner != ProcessId::own() {
            return;
        }
        remove_both(&self.paths);
        // Unlocked by hand, since a forked child may hold the same open file. The file is gone: a failure is harmless.
        flock(&self.file, FlockOperation::Unlock).unwrap_or_default();
    }
}

/// Socket before lock, so that whoever locks next finds no socket. A file that is missing already is as good.
fn remove_both(paths: &Paths) {
    for path in [&paths.socket, &paths.lock] {
        unlink(path).unwrap_or_default();
    }
}

/// A directory that can't be written to is the directory's problem, whatever call noticed it.
fn unusable(paths: &Paths, action: &'static str) -> impl FnOnce(Errno) -> RendezvousError {
    let path = paths.lock.parent().unwrap_or(Path::new("/")).to_path_buf();
    move |errno| match errno {
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSPC | Errno::DQUOT => RendezvousError::Directory {
            path,
            problem: DirectoryProblem::Unusable(errno.into()),
        },
        _ => system(action)(errno),
    }
}

/// Removes what jobs that were killed while they met have left in the directory: names whose lock nobody holds.
/// Whoever takes such a name meanwhile finds it locked for an instant, or its lock file replaced, and tries again.
fn sweep(own: &Paths) {
    let Some(entries) = own.lock.parent().and_then(|directory| directory.read_dir().ok()) else {
        return;
    };
    for lock in entries.flatten().map(|entry| entry.path()) {
        if lock == own.lock || lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        let socket = lock.with_extension("sock");
        // Dropping the lock removes both files.
        Lock::attempt_existing(&Paths { socket, lock }).ok();
    }
}

fn listen_at(path: &Path) -> Result<OwnedFd, Errno> {
    match unlink(path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let listener = packet_socket()?;
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn packet_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Connects to whoever listens at `path`; EAGAIN where its queue is full.
pub(crate) fn connect_to(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = packet_socket()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Whether the process that listens has ended while a forked child still holds its lock and its socket.
fn served_by_the_dead(path: &Path) -> bool {
    let server = |socket: OwnedFd| credentials::of_peer(socket.as_fd());
    match connect_to(path).map_err(io::Error::from).and_then(server) {
        Ok(found) => found.pid.is_some_and(certainly_gone),
        Err(_) => false,
    }
}
