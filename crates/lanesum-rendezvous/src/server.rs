//! Rank 0's side once ranks are seated: it passes things on, and tells all of them why the meeting failed, if it does.
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::claim::Claim;
use crate::deadline::{Deadline, poll_for};
use crate::error::{Refusal, RendezvousError, system};
use crate::guests::Guests;
use crate::link::{LONGEST, Link, Received, SendFailure};
use crate::meeting::{Join, Roster};
use crate::messages::{Hex, Message};
use crate::process::{self, ProcessId};

/// How often those who are here are told who is not.
pub(crate) const NEWS: Duration = Duration::from_millis(50);
/// How long telling a failure may take for one rank: its buffer is full only where it does not read.
const PARTING: Duration = Duration::from_millis(5);

/// One rank other than 0 that has arrived.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) rank: usize,
    pub(crate) process: ProcessId,
    pub(crate) link: Link,
    /// None for a rank in rank 0's own process.
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) facts: Vec<u8>,
}

/// Rank 0 during the meeting.
#[derive(Debug)]
pub(crate) struct Server {
    /// Held until the end.
    pub(crate) claim: Option<Claim>,
    /// In order of rank once all have arrived.
    pub(crate) seats: Vec<Seat>,
    pub(crate) span: Duration,
    own: ProcessId,
    /// Whom the others were last told to be absent.
    told: Vec<usize>,
}

impl Server {
    pub(crate) fn new(span: Duration, own: ProcessId) -> Self {
        Self {
            claim: None,
            seats: Vec::new(),
            span,
            own,
            told: Vec::new(),
        }
    }

    /// The descriptors whose events matter in every wait.
    pub(crate) fn watched(&self) -> impl Iterator<Item = PollFd<'_>> {
        let links = self.seats.iter().map(|seat| seat.link.as_fd());
        let processes = self
            .seats
            .iter()
            .filter_map(|seat| seat.pidfd.as_ref())
            .map(AsFd::as_fd);
        links
            .chain(processes)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
    }

    /// Reads what seated ranks have sent and notices who has ended. What was sent counts before the death of its sender.
    /// `take` gives a message back, with what was expected, where it does not fit.
    pub(crate) fn look_after(
        &mut self,
        mut take: impl FnMut(usize, Message, Option<OwnedFd>) -> Result<(), (String, Message)>,
    ) -> Result<(), Refusal> {
        for seat in &mut self.seats {
            let rank = seat.rank;
            // Asked first: whatever a dead process has sent can then be received.
            let ended = process::ended(seat.pidfd.as_ref());
            match seat.link.receive() {
                Received::Packet(packet) => match serde_json::from_slice::<Message>(&packet.bytes) {
                    Ok(Message::Leave { refusal }) => return Err(refusal),
                    Ok(message) => {
                        take(rank, message, packet.descriptor).map_err(|(expected, found)| Refusal::OutOfStep {
                            rank,
                            found: found.describe(),
                            expected,
                        })?
                    }
                    Err(_) => {
                        let reason = "it sent a packet that cannot be read".to_owned();
                        return Err(Refusal::Left { rank, reason });
                    }
                },
                Received::Nothing if ended => return Err(Refusal::Died { rank }),
                Received::Nothing => {}
                Received::Closed => return Err(seat.gone()),
            }
        }
        Ok(())
    }

    /// Tells everybody whom rank 0 waits for, where that has changed. A rank that does not read misses nothing it needs.
    pub(crate) fn tell_absent(&mut self, absent: &[usize]) {
        if absent == self.told {
            return;
        }
        let news = Message::Absent { ranks: absent.to_vec() };
        for seat in &self.seats {
            seat.link
                .send(&news, None, &Deadline::after(Duration::ZERO))
                .unwrap_or_default();
        }
        self.told = absent.to_vec();
    }

    /// Takes one message from every rank. `check` judges its content.
    pub(crate) fn gather(
        &mut self,
        step: &str,
        mut check: impl FnMut(usize, Message, Option<OwnedFd>) -> Result<Option<RendezvousError>, Message>,
    ) -> Result<(), RendezvousError> {
        let deadline = Deadline::after(self.span);
        let mut pending: BTreeSet<usize> = self.seats.iter().map(|seat| seat.rank).collect();
        let mut verdict = None;
        // The others forget at each step what they were told in the one before.
        self.told.clear();
        let mut news = Deadline::after(NEWS);
        loop {
            self.look_after(|rank, message, descriptor| {
                if !pending.remove(&rank) {
                    return Err(("that it waits for the others".to_owned(), message));
                }
                let found = check(rank, message, descriptor).map_err(|message| (step.to_owned(), message))?;
                verdict = verdict.take().or(found);
                Ok(())
            })?;
            if let Some(error) = verdict {
                return Err(error);
            }
            if pending.is_empty() {
                return Ok(());
            }
            if deadline.passed() {
                let ranks = pending.into_iter().collect();
                return Err(Refusal::Late {
                    ranks,
                    step: step.to_owned(),
                    waited_ms: deadline.span_ms(),
                }
                .into());
            }
            if news.passed() {
                self.tell_absent(&pending.iter().copied().collect::<Vec<usize>>());
                news = Deadline::after(NEWS);
            }
            let mut watched: Vec<PollFd<'_>> = self.watched().collect();
            poll_for(&mut watched, deadline.slice()).map_err(system("wait for ranks"))?;
        }
    }

    fn tell(&self, seat: &Seat, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Result<(), RendezvousError> {
        let deadline = Deadline::after(self.span);
        seat.link
            .send(message, descriptor, &deadline)
            .map_err(|failure| seat.deaf(failure, &deadline))
    }

    pub(crate) fn welcome(&self, own_pidfd: &OwnedFd, join: &Join, token: u64) -> Result<(), RendezvousError> {
        let member = |rank, process, facts: &Vec<u8>| Message::Member {
            rank,
            process,
            facts: Hex(facts.clone()),
        };
        let mut members = vec![(member(0, self.own, &join.facts), self.own, Some(own_pidfd))];
        for seat in &self.seats {
            members.push((
                member(seat.rank, seat.process, &seat.facts),
                seat.process,
                seat.pidfd.as_ref(),
            ));
        }
        for seat in &self.seats {
            self.tell(seat, &Message::Welcome { token }, None)?;
            for (message, process, pidfd) in &members {
                // A rank in rank 0's process has no pidfd of its own here: rank 0's stands for both.
                let pidfd = pidfd.unwrap_or(own_pidfd);
                let needed = *process != seat.process;
                self.tell(seat, message, needed.then_some(pidfd.as_fd()))?;
            }
        }
        Ok(())
    }

    /// What rank 0 itself knows of all.
    pub(crate) fn roster(&mut self, join: &Join, token: u64) -> Roster {
        let mut roster = Roster {
            token,
            facts: vec![join.facts.clone()],
            processes: vec![self.own],
        };
        for seat in &mut self.seats {
            roster.facts.push(std::mem::take(&mut seat.facts));
            roster.processes.push(seat.process);
        }
        roster
    }

    pub(crate) fn share(&mut self, descriptor: &OwnedFd) -> Result<(), RendezvousError> {
        self.tell_all(&Message::Share, Some(descriptor.as_fd()))
    }

    fn tell_all(&self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Result<(), RendezvousError> {
        self.seats
            .iter()
            .try_for_each(|seat| self.tell(seat, message, descriptor))
    }

    pub(crate) fn agree(&mut self, what: &str, digest: u64) -> Result<(), RendezvousError> {
        let step = format!("its value of {what}");
        self.gather(&step, |rank, message, _| {
            let Message::Bring {
                what: named,
                digest: theirs,
            } = &message
            else {
                return Err(message);
            };
            if named != what {
                return Err(message);
            }
            let refusal = Refusal::Disagreement {
                rank,
                what: what.to_owned(),
                theirs: *theirs,
                ours: digest,
            };
            Ok((*theirs != digest).then(|| refusal.into()))
        })?;
        self.tell_all(&Message::Agreed, None)
    }

    /// The last barrier. The name is free before anybody passes it. Gives the pidfds, by rank.
    pub(crate) fn finish(&mut self) -> Result<Vec<Option<OwnedFd>>, RendezvousError> {
        self.gather("the end of its set-up", |_, message, _| {
            if matches!(message, Message::Finish) {
                Ok(None)
            } else {
                Err(message)
            }
        })?;
        self.dismiss_latecomers();
        self.claim = None;
        self.tell_all(&Message::Done, None)?;
        Ok(std::iter::once(None)
            .chain(self.seats.drain(..).map(|seat| seat.pidfd))
            .collect())
    }

    /// Whoever connected after the last rank had arrived is a rank too many.
    fn dismiss_latecomers(&self) {
        let Some(claim) = &self.claim else { return };
        let mut guests = Guests::new(self.own);
        let Ok(pidfd) = process::own_pidfd() else { return };
        while let Ok(Some(connection)) = claim.accept() {
            guests.greet(connection, &pidfd);
        }
        let refusal = Refusal::Complete {
            world: self.seats.len() + 1,
        };
        guests.take().iter().for_each(|link| part(link, &refusal));
    }

    /// Ends the meeting: frees the name, then tells everybody.
    pub(crate) fn fail(&mut self, error: RendezvousError) -> RendezvousError {
        self.claim = None;
        farewell(&self.seats, &error.as_refusal(0));
        self.seats.clear();
        error
    }

    /// In a forked child: closes this process's copies and says nothing to anybody.
    pub(crate) fn is_own(&self) -> bool {
        self.own == ProcessId::own()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_own() && !self.seats.is_empty() {
            self.claim = None;
            let reason = "it gave up before the end".to_owned();
            farewell(&self.seats, &Refusal::Left { rank: 0, reason });
        }
    }
}

impl Seat {
    /// Why nothing could be sent to this rank.
    pub(crate) fn deaf(&self, failure: SendFailure, deadline: &Deadline) -> RendezvousError {
        match failure {
            SendFailure::Closed => self.gone().into(),
            SendFailure::Late => Refusal::Late {
                ranks: vec![self.rank],
                step: "reading from rank 0".to_owned(),
                waited_ms: deadline.span_ms(),
            }
            .into(),
            SendFailure::TooLarge(bytes) => RendezvousError::TooLarge {
                what: "the facts of a rank",
                bytes,
                limit: LONGEST,
            },
            SendFailure::System(errno) => system("send to a rank")(errno),
        }
    }

    /// Why the connection of this rank is closed.
    pub(crate) fn gone(&self) -> Refusal {
        if process::ending(self.pidfd.as_ref()) {
            Refusal::Died { rank: self.rank }
        } else {
            let reason = "it closed its connection".to_owned();
            Refusal::Left {
                rank: self.rank,
                reason,
            }
        }
    }
}

pub(crate) fn farewell(seats: &[Seat], refusal: &Refusal) {
    for seat in seats {
        part(&seat.link, refusal);
    }
}

/// Best effort: a rank that does not hear it notices the closed connection.
pub(crate) fn part(link: &Link, refusal: &Refusal) {
    let message = Message::Refused {
        refusal: refusal.clone(),
    };
    link.send(&message, None, &Deadline::after(PARTING)).unwrap_or_default();
}
