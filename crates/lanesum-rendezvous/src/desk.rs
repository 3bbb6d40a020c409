//! Rank 0 before everybody is here: it admits ranks, and turns all away where one of them cannot take part.
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::claim::Claim;
use crate::deadline::{Deadline, poll_for};
use crate::directory;
use crate::error::{Refusal, RendezvousError, system};
use crate::guests::{Guest, Guests};
use crate::meeting::{Cancel, Join, Roster};
use crate::names::Paths;
use crate::process::{self, ProcessId};
use crate::server::{NEWS, Server, farewell, part};

/// After a conflict: how long rank 0 stays to tell ranks that arrive later, which would else find nobody.
const LINGER: Duration = Duration::from_secs(1);

/// Serves until all ranks have arrived.
pub(crate) fn serve(join: &Join, cancel: Cancel<'_>) -> Result<(Server, Roster), RendezvousError> {
    let own = ProcessId::own();
    let pidfd = process::own_pidfd()?;
    let deadline = Deadline::after(join.deadline);
    let directory = directory::prepare(join.directory.as_deref())?;
    let paths = Paths::new(&directory, &join.name)?;
    let claim = Claim::take(&paths, &join.name, &deadline)?;
    let server = Server::new(join.deadline, own);
    let mut desk = Desk {
        claim,
        server,
        guests: Guests::new(own),
        pidfd,
        join,
    };
    match desk.assemble(&deadline, cancel) {
        Ok(()) => desk.open(),
        Err(error) => Err(desk.turn_away(&deadline, error)),
    }
}

/// What rank 0 needs until everybody is here.
struct Desk<'a> {
    claim: Claim,
    server: Server,
    guests: Guests,
    pidfd: OwnedFd,
    join: &'a Join,
}

impl Desk<'_> {
    fn assemble(&mut self, deadline: &Deadline, cancel: Cancel<'_>) -> Result<(), RendezvousError> {
        let mut news = Deadline::after(NEWS);
        while self.server.seats.len() + 1 < self.join.world {
            if let Some(refusal) = cancel() {
                return Err(refusal.into());
            }
            if deadline.passed() {
                return Err(self.missing(deadline).into());
            }
            self.wait(deadline)?;
            self.admit()?;
            self.server
                .look_after(|_, message, _| Err(("its arrival".to_owned(), message)))?;
            if news.passed() {
                let absent = self.absent();
                self.server.tell_absent(&absent);
                news = Deadline::after(NEWS);
            }
        }
        self.server.seats.sort_by_key(|seat| seat.rank);
        Ok(())
    }

    /// Sleeps until something happens, at most one slice.
    fn wait(&self, deadline: &Deadline) -> Result<(), RendezvousError> {
        let mut watched = vec![PollFd::new(self.claim.listener(), PollFlags::IN)];
        watched.extend(
            self.guests
                .links()
                .map(|link| PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN)),
        );
        watched.extend(self.server.watched());
        poll_for(&mut watched, deadline.slice()).map_err(system("wait for ranks"))?;
        Ok(())
    }

    fn admit(&mut self) -> Result<(), RendezvousError> {
        while let Some(connection) = self.claim.accept()? {
            self.guests.greet(connection, &self.pidfd);
        }
        while let Some(guest) = self.guests.read(self.join, &self.server.seats)? {
            match guest {
                Guest::Seated(seat) => self.server.seats.push(seat),
                Guest::Refused(link, refusal) => {
                    part(&link, &refusal);
                    return Err(refusal.into());
                }
            }
        }
        Ok(())
    }

    fn absent(&self) -> Vec<usize> {
        let here = |rank: &usize| self.server.seats.iter().any(|seat| seat.rank == *rank);
        (1..self.join.world).filter(|rank| !here(rank)).collect()
    }

    fn missing(&self, deadline: &Deadline) -> Refusal {
        Refusal::Missing {
            ranks: self.absent(),
            world: self.join.world,
            waited_ms: deadline.span_ms(),
            strangers: self.guests.strangers,
        }
    }

    /// Everybody is here: hands out the roster.
    fn open(self) -> Result<(Server, Roster), RendezvousError> {
        let Self {
            claim,
            mut server,
            pidfd,
            join,
            ..
        } = self;
        server.claim = Some(claim);
        let token = process::random();
        match server.welcome(&pidfd, join, token) {
            Ok(()) => {
                let roster = server.roster(join, token);
                Ok((server, roster))
            }
            Err(error) => Err(server.fail(error)),
        }
    }

    /// Ends a meeting that did not come about: all who are here are told why, and after a conflict those who come later.
    fn turn_away(mut self, deadline: &Deadline, error: RendezvousError) -> RendezvousError {
        let refusal = error.as_refusal(0);
        let linger = match &refusal {
            conflict if conflict.is_conflict() => Deadline::after(LINGER.min(deadline.remaining())),
            _ => Deadline::after(Duration::ZERO),
        };
        if linger.passed() {
            // The name is freed before anybody hears of the failure, and tries again.
            drop(self.claim);
            farewell(&self.server.seats, &refusal);
            self.guests.take().iter().for_each(|link| part(link, &refusal));
            return error;
        }
        farewell(&self.server.seats, &refusal);
        let mut heard: BTreeSet<usize> = self.server.seats.drain(..).map(|seat| seat.rank).collect();
        heard.extend(refusal.ranks());
        while !linger.passed() && (1..self.join.world).any(|rank| !heard.contains(&rank)) {
            if self.wait(&linger).is_err() {
                break;
            }
            match self.admit_to_refuse(&refusal) {
                Some(rank) if heard.insert(rank) => {}
                Some(_) | None => {}
            }
        }
        error
    }

    /// Tells one more rank. Those that differ from rank 0 in another way hear of that instead.
    fn admit_to_refuse(&mut self, refusal: &Refusal) -> Option<usize> {
        while let Ok(Some(connection)) = self.claim.accept() {
            self.guests.greet(connection, &self.pidfd);
        }
        match self.guests.read(self.join, &[]) {
            Ok(Some(Guest::Seated(seat))) => {
                part(&seat.link, refusal);
                Some(seat.rank)
            }
            Ok(Some(Guest::Refused(link, own))) => {
                part(&link, &own);
                own.ranks().first().copied()
            }
            Ok(None) | Err(_) => None,
        }
    }
}
