//! The side of every rank but 0 once it has a seat: it follows what rank 0 says.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::deadline::{Deadline, poll_for};
use crate::error::{Refusal, RendezvousError, system};
use crate::link::{LONGEST, Link, Packet, Received, SendFailure};
use crate::meeting::{Cancel, Join, Roster};
use crate::messages::Message;
use crate::process::{self, ProcessId};
use crate::visit::{Attempt, Visit};

/// A rank other than 0 during the meeting.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) link: Link,
    pub(crate) rank: usize,
    pub(crate) world: usize,
    span: Duration,
    own: ProcessId,
    /// Of rank 0, unless it lives in this process.
    server: Option<OwnedFd>,
    /// By rank; None for ranks in this process.
    pidfds: Vec<Option<OwnedFd>>,
    /// Whom rank 0 waited for, in this step, when it last told.
    absent: Vec<usize>,
}

/// Why a wait for rank 0 ended without a message.
enum Silence {
    Closed,
    Failed(RendezvousError),
}

impl Client {
    /// `server` is the pidfd of rank 0, unless it lives in this process.
    pub(crate) fn new(link: Link, join: &Join, own: ProcessId, server: Option<OwnedFd>) -> Self {
        let (rank, world, span) = (join.rank, join.world, join.deadline);
        Self {
            link,
            rank,
            world,
            span,
            own,
            server,
            pidfds: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// Waits for the welcome and the members. A connection closed before the welcome is tried again.
    pub(crate) fn await_roster(&mut self, visit: &Visit<'_>) -> Result<Roster, Attempt> {
        let token = match self.next(&visit.deadline, "the arrival of all ranks", visit.cancel) {
            Ok((Message::Welcome { token }, _)) => token,
            Ok((other, _)) => return Err(self.out_of_step(&other, "the welcome").into()),
            Err(Silence::Closed) if process::ending(self.server.as_ref()) => {
                return Err(Refusal::Died { rank: 0 }.into());
            }
            Err(Silence::Closed) => return Err(Attempt::Again("rank 0 closed the connection before all had arrived")),
            Err(Silence::Failed(error)) => return Err(self.leave(error).into()),
        };
        let mut roster = Roster {
            token,
            facts: Vec::new(),
            processes: Vec::new(),
        };
        while roster.facts.len() < self.world {
            self.await_member(visit, &mut roster)?;
        }
        Ok(roster)
    }

    fn await_member(&mut self, visit: &Visit<'_>, roster: &mut Roster) -> Result<(), RendezvousError> {
        let next = roster.facts.len();
        let (message, pidfd) = self.expect("the list of ranks", visit.cancel)?;
        let Message::Member { rank, process, facts } = message else {
            return Err(self.out_of_step(&message, "a member"));
        };
        let foreign = process != self.own;
        if foreign && pidfd.is_none() {
            return Err(self.leave(RendezvousError::DescriptorLost { from: 0 }));
        }
        if rank != next {
            let reason = format!("it listed rank {rank} where rank {next} was due");
            return Err(self.leave(Refusal::Left { rank: 0, reason }.into()));
        }
        roster.facts.push(facts.0);
        roster.processes.push(process);
        self.pidfds.push(pidfd.filter(|_| foreign));
        Ok(())
    }

    /// The next message of a step after the arrival.
    pub(crate) fn expect(
        &mut self,
        step: &str,
        cancel: Cancel<'_>,
    ) -> Result<(Message, Option<OwnedFd>), RendezvousError> {
        let deadline = Deadline::after(self.span);
        self.absent.clear();
        match self.next(&deadline, step, cancel) {
            Ok(found) => Ok(found),
            Err(Silence::Closed) if process::ending(self.server.as_ref()) => Err(Refusal::Died { rank: 0 }.into()),
            Err(Silence::Closed) => {
                let reason = "it closed its connection".to_owned();
                Err(Refusal::Left { rank: 0, reason }.into())
            }
            Err(Silence::Failed(error)) => Err(self.leave(error)),
        }
    }

    /// The next message. News about absent ranks is kept, a refusal is an error. What was sent counts before a death.
    fn next(
        &mut self,
        deadline: &Deadline,
        step: &str,
        cancel: Cancel<'_>,
    ) -> Result<(Message, Option<OwnedFd>), Silence> {
        let failed = |error: RendezvousError| Err(Silence::Failed(error));
        loop {
            // Asked first: whatever a dead rank 0 has sent can then be received.
            let ended = process::ended(self.server.as_ref());
            match self.link.receive() {
                Received::Packet(packet) => match self.read(packet).map_err(Silence::Failed)? {
                    (Message::Absent { ranks }, _) => {
                        self.absent = ranks;
                        continue;
                    }
                    (Message::Refused { refusal }, _) => return failed(refusal.into()),
                    found => return Ok(found),
                },
                Received::Closed => return Err(Silence::Closed),
                Received::Nothing if ended => {
                    return failed(Refusal::Died { rank: 0 }.into());
                }
                Received::Nothing => {}
            }
            if let Some(refusal) = cancel() {
                return failed(refusal.into());
            }
            if deadline.passed() {
                return failed(self.too_late(deadline, step).into());
            }
            let ends = [Some(self.link.as_fd()), self.server.as_ref().map(AsFd::as_fd)];
            let watched = ends.into_iter().flatten();
            let mut watched: Vec<_> = watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            poll_for(&mut watched, deadline.slice())
                .map_err(|errno| Silence::Failed(system("wait for rank 0")(errno)))?;
        }
    }

    fn read(&self, packet: Packet) -> Result<(Message, Option<OwnedFd>), RendezvousError> {
        if packet.lost {
            return Err(RendezvousError::DescriptorLost { from: 0 });
        }
        match serde_json::from_slice(&packet.bytes) {
            Ok(message) => Ok((message, packet.descriptor)),
            Err(_) => {
                let reason = format!("it sent a packet that cannot be read ({})", excerpt(&packet.bytes));
                Err(Refusal::Left { rank: 0, reason }.into())
            }
        }
    }

    /// Names whom rank 0 was waiting for when it last told, else rank 0 itself.
    fn too_late(&self, deadline: &Deadline, step: &str) -> Refusal {
        let waited_ms = deadline.span_ms();
        let absent: Vec<usize> = self.absent.iter().copied().filter(|rank| *rank != self.rank).collect();
        match (absent.is_empty(), self.pidfds.is_empty()) {
            (true, _) => Refusal::Late {
                ranks: vec![0],
                step: step.to_owned(),
                waited_ms,
            },
            (false, true) => Refusal::Missing {
                ranks: absent,
                world: self.world,
                waited_ms,
                strangers: 0,
            },
            (false, false) => Refusal::Late {
                ranks: absent,
                step: step.to_owned(),
                waited_ms,
            },
        }
    }

    pub(crate) fn out_of_step(&self, found: &Message, expected: &str) -> RendezvousError {
        let expected = expected.to_owned();
        self.leave(
            Refusal::OutOfStep {
                rank: 0,
                found: found.describe(),
                expected,
            }
            .into(),
        )
    }

    /// Tells rank 0 why this rank gives up. Best effort: it else notices the closed connection.
    pub(crate) fn leave(&self, error: RendezvousError) -> RendezvousError {
        let message = Message::Leave {
            refusal: error.as_refusal(self.rank),
        };
        self.link
            .send(&message, None, &Deadline::after(Duration::ZERO))
            .unwrap_or_default();
        error
    }

    fn say(&self, message: &Message) -> Result<(), RendezvousError> {
        self.say_with(message, None)
    }

    pub(crate) fn say_with(
        &self,
        message: &Message,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), RendezvousError> {
        let deadline = Deadline::after(self.span);
        match self.link.send(message, descriptor, &deadline) {
            // Why it closed is read next.
            Ok(()) | Err(SendFailure::Closed) => Ok(()),
            Err(SendFailure::Late) => Err(self.too_late(&deadline, "reading").into()),
            Err(SendFailure::TooLarge(bytes)) => Err(RendezvousError::TooLarge {
                what: "a value's name",
                bytes,
                limit: LONGEST,
            }),
            Err(SendFailure::System(errno)) => Err(system("send to rank 0")(errno)),
        }
    }

    pub(crate) fn share(&mut self) -> Result<OwnedFd, RendezvousError> {
        match self.expect("the shared descriptor", &never)? {
            (Message::Share, Some(descriptor)) => Ok(descriptor),
            (Message::Share, None) => Err(self.leave(RendezvousError::DescriptorLost { from: 0 })),
            (other, _) => Err(self.out_of_step(&other, "a shared descriptor")),
        }
    }

    pub(crate) fn agree(&mut self, what: &str, digest: u64) -> Result<(), RendezvousError> {
        self.say(&Message::Bring {
            what: what.to_owned(),
            digest,
        })?;
        match self.expect(&format!("agreement on {what}"), &never)? {
            (Message::Agreed, _) => Ok(()),
            (other, _) => Err(self.out_of_step(&other, "an agreement")),
        }
    }

    /// Gives the pidfds, by rank.
    pub(crate) fn finish(&mut self) -> Result<Vec<Option<OwnedFd>>, RendezvousError> {
        self.say(&Message::Finish)?;
        match self.expect("the end of the meeting", &never)? {
            (Message::Done, _) => Ok(std::mem::take(&mut self.pidfds)),
            (other, _) => Err(self.out_of_step(&other, "the end of the meeting")),
        }
    }

    pub(crate) fn is_own(&self) -> bool {
        self.own == ProcessId::own()
    }
}

/// Steps after the arrival are not cancelled: they end by the pidfd of rank 0, its refusal, or the deadline.
pub(crate) fn never() -> Option<Refusal> {
    None
}

/// The beginning of a packet, fit to print.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let head: Vec<u8> = bytes.iter().copied().take(32).collect();
    format!(
        "it sent {:?}{}",
        String::from_utf8_lossy(&head),
        if bytes.len() > head.len() { " ..." } else { "" }
    )
}
