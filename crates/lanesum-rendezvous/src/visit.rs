//! How a rank other than 0 finds rank 0 and gets its seat: it tries until the deadline.
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::lstat;
use rustix::io::Errno;

use crate::claim::connect_to;
use crate::client::{Client, excerpt};
use crate::credentials;
use crate::deadline::{Deadline, poll_for};
use crate::directory;
use crate::error::{Refusal, RendezvousError, system};
use crate::link::{LONGEST, Link, Packet, Received, SendFailure};
use crate::meeting::{Cancel, Join, Roster};
use crate::messages::{Greeting, Hello, Hex, Opened, Opening};
use crate::names::Paths;
use crate::process::{self, ProcessId};

const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Why an attempt did not lead to a seat.
pub(crate) enum Attempt {
    /// Try again; what was found is told if the deadline passes.
    Again(&'static str),
    Failed(RendezvousError),
}

impl<E: Into<RendezvousError>> From<E> for Attempt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Finds rank 0 and waits with it until all have arrived.
pub(crate) fn visit(join: &Join, cancel: Cancel<'_>) -> Result<(Client, Roster), RendezvousError> {
    let pidfd = process::own_pidfd()?;
    let deadline = Deadline::after(join.deadline);
    let directory = directory::prepare(join.directory.as_deref())?;
    let visit = Visit {
        join,
        path: Paths::new(&directory, &join.name)?.socket,
        pidfd,
        deadline,
        cancel,
    };
    let mut pause = FIRST_PAUSE;
    loop {
        let found = match visit.attempt() {
            Ok(seated) => return Ok(seated),
            Err(Attempt::Failed(error)) => return Err(error),
            Err(Attempt::Again(found)) => found,
        };
        visit.check(found)?;
        std::thread::sleep(pause.min(deadline.remaining()));
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

/// What stays the same over all attempts.
pub(crate) struct Visit<'a> {
    join: &'a Join,
    path: PathBuf,
    pidfd: OwnedFd,
    pub(crate) deadline: Deadline,
    pub(crate) cancel: Cancel<'a>,
}

impl Visit<'_> {
    /// Whether to go on.
    fn check(&self, found: &'static str) -> Result<(), RendezvousError> {
        if let Some(refusal) = (self.cancel)() {
            return Err(refusal.into());
        }
        if self.deadline.passed() {
            return Err(RendezvousError::NotServed {
                rank: self.join.rank,
                path: self.path.clone(),
                found,
                waited: self.join.deadline,
            });
        }
        Ok(())
    }

    fn attempt(&self) -> Result<(Client, Roster), Attempt> {
        let before = identity(&self.path);
        let socket = self.connect()?;
        let mut link = Link::new(socket);
        let packet = self.await_greeting(&mut link, before)?;
        let greeting = self.read_greeting(&link, &packet)?;
        if packet.lost {
            return Err(RendezvousError::DescriptorLost { from: 0 }.into());
        }
        let own = ProcessId::own();
        let server = packet.descriptor.filter(|_| greeting.process != own);
        let mut client = Client::new(link, self.join, own, server);
        self.say_hello(&client.link)?;
        let roster = client.await_roster(self)?;
        Ok((client, roster))
    }

    fn connect(&self) -> Result<OwnedFd, Attempt> {
        let socket = connect_to(&self.path).map_err(|errno| match errno {
            Errno::NOENT => Attempt::Again("no socket is there, so rank 0 has not started to serve"),
            Errno::CONNREFUSED => Attempt::Again("a stale socket is there, but nobody listens"),
            Errno::AGAIN => Attempt::Again("its queue of connections stays full"),
            Errno::INTR => Attempt::Again("connecting was interrupted"),
            Errno::PROTOTYPE => Attempt::Again("a socket of another kind is there"),
            other => system("connect to the rendezvous socket")(other).into(),
        })?;
        let theirs = credentials::of_peer(socket.as_fd())
            .map_err(system("ask who serves the rendezvous socket"))?
            .user;
        let ours = rustix::process::geteuid().as_raw();
        if theirs != ours {
            return Err(RendezvousError::OtherUser {
                path: self.path.clone(),
                theirs,
                ours,
            }
            .into());
        }
        Ok(socket)
    }

    /// A socket that a forked child of a dead rank 0 holds open accepts connections and never answers; it is left as
    /// soon as a new rank 0 replaces it.
    fn await_greeting(&self, link: &mut Link, before: Option<Identity>) -> Result<Packet, Attempt> {
        loop {
            match link.receive() {
                Received::Packet(packet) => return Ok(packet),
                Received::Closed => return Err(Attempt::Again("rank 0 closed the connection without a word")),
                Received::Nothing => {}
            }
            self.check(
                "something listens there, but does not answer: it is stopped, or it is a forked child that still \
                        holds the socket of a rank 0 that has ended",
            )?;
            let mut readable = [PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN)];
            let ready = poll_for(&mut readable, self.deadline.slice()).map_err(system("wait for rank 0"))?;
            if ready == 0 && identity(&self.path) != before {
                return Err(Attempt::Again("the socket was replaced"));
            }
        }
    }

    fn read_greeting(&self, link: &Link, packet: &Packet) -> Result<Greeting, RendezvousError> {
        let impostor = || RendezvousError::Impostor {
            path: self.path.clone(),
            found: excerpt(&packet.bytes),
        };
        match Opening::read(&packet.bytes) {
            Opened::Same => serde_json::from_slice(&packet.bytes).map_err(|_| impostor()),
            Opened::Stranger => Err(impostor()),
            Opened::OtherVersion { version, .. } => {
                // Tells rank 0, which tells the others. Best effort: this side's error does not depend on it.
                let now = Deadline::after(Duration::ZERO);
                let rank = self.join.rank;
                link.send(&Opening::of(rank), None, &now).unwrap_or_default();
                Err(Refusal::Version {
                    rank: Some(rank),
                    theirs: Opening::own_version(),
                    ours: version,
                }
                .into())
            }
        }
    }

    fn say_hello(&self, link: &Link) -> Result<(), RendezvousError> {
        let hello = Hello {
            opening: Opening::of(self.join.rank),
            name: self.join.name.clone(),
            world: self.join.world,
            process: ProcessId::own(),
            terms: self.join.terms.clone(),
            facts: Hex(self.join.facts.clone()),
        };
        match link.send(&hello, Some(self.pidfd.as_fd()), &self.deadline) {
            // A refusal that was sent before the other end closed is read next.
            Ok(()) | Err(SendFailure::Closed | SendFailure::Late) => Ok(()),
            Err(SendFailure::TooLarge(bytes)) => Err(RendezvousError::TooLarge {
                what: "the facts and terms of a rank",
                bytes,
                limit: LONGEST,
            }),
            Err(SendFailure::System(errno)) => Err(system("send to rank 0")(errno)),
        }
    }
}

/// Tells one socket file from the next of the same name; inode numbers alone are used again.
type Identity = (u64, u64, i64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let found = lstat(path).ok()?;
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    Some((
        found.st_dev as u64,
        found.st_ino as u64,
        found.st_ctime as i64,
        found.st_ctime_nsec as u64,
    ))
}
