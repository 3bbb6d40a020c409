//! Connections that rank 0 has accepted and that have not yet shown which rank they are.
use std::os::fd::OwnedFd;

use crate::credentials;
use crate::deadline::Deadline;
use crate::error::{Refusal, RendezvousError};
use crate::link::{Link, Packet, Received};
use crate::meeting::Join;
use crate::messages::{Greeting, Hello, Opened, Opening};
use crate::process::ProcessId;
use crate::server::Seat;

/// Connections that say nothing are dropped, oldest first, beyond this many.
const MOST: usize = 64;

/// Who has connected and not yet been seated.
#[derive(Debug)]
pub(crate) struct Guests {
    waiting: Vec<Link>,
    /// Connections dropped because they spoke something else or belonged to another user.
    pub(crate) strangers: usize,
    own: ProcessId,
}

/// What a guest turned out to be.
#[derive(Debug)]
pub(crate) enum Guest {
    /// A rank of this job.
    Seated(Seat),
    /// A rank that cannot take part; all are told.
    Refused(Link, Refusal),
}

impl Guests {
    pub(crate) fn new(own: ProcessId) -> Self {
        Self {
            waiting: Vec::new(),
            strangers: 0,
            own,
        }
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        self.waiting.iter()
    }

    /// Greets a new connection of the same user.
    pub(crate) fn greet(&mut self, connection: OwnedFd, pidfd: &OwnedFd) {
        use std::os::fd::AsFd;
        let user = rustix::process::geteuid().as_raw();
        if !credentials::of_peer(connection.as_fd()).is_ok_and(|peer| peer.user == user) {
            self.strangers += 1;
            return;
        }
        let link = Link::new(connection);
        let greeting = Greeting {
            opening: Opening::of(0),
            process: self.own,
        };
        let now = Deadline::after(std::time::Duration::ZERO);
        // Its buffer is empty, so only a connection that is closed already fails here.
        if link.send(&greeting, Some(pidfd.as_fd()), &now).is_ok() {
            if self.waiting.len() >= MOST {
                self.waiting.remove(0);
                self.strangers += 1;
            }
            self.waiting.push(link);
        }
    }

    /// Reads what guests have said; `seats` are those who came before.
    pub(crate) fn read(&mut self, join: &Join, seats: &[Seat]) -> Result<Option<Guest>, RendezvousError> {
        let mut index = 0;
        while let Some(link) = self.waiting.get_mut(index) {
            match link.receive() {
                Received::Nothing => index += 1,
                // It gave up, or only looked whether somebody serves.
                Received::Closed => drop(self.waiting.remove(index)),
                Received::Packet(packet) => {
                    let link = self.waiting.remove(index);
                    match judge(link, packet, join, seats, self.own)? {
                        Some(guest) => return Ok(Some(guest)),
                        None => self.strangers += 1,
                    }
                }
            }
        }
        Ok(None)
    }

    /// Everybody who waits, to be told that the meeting failed.
    pub(crate) fn take(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.waiting)
    }
}

/// None for a stranger.
fn judge(
    link: Link,
    packet: Packet,
    join: &Join,
    seats: &[Seat],
    own: ProcessId,
) -> Result<Option<Guest>, RendezvousError> {
    match Opening::read(&packet.bytes) {
        Opened::Stranger => return Ok(None),
        Opened::OtherVersion { rank, version } => {
            let refusal = Refusal::Version {
                rank,
                theirs: version,
                ours: Opening::own_version(),
            };
            return Ok(Some(Guest::Refused(link, refusal)));
        }
        Opened::Same => {}
    }
    let Ok(hello) = serde_json::from_slice::<Hello>(&packet.bytes) else {
        return Ok(None);
    };
    let Some(rank) = hello.opening.rank else {
        return Ok(None);
    };
    if let Some(refusal) = objection(&hello, rank, join, seats) {
        return Ok(Some(Guest::Refused(link, refusal)));
    }
    if packet.lost {
        return Err(RendezvousError::DescriptorLost { from: rank });
    }
    let Some(pidfd) = packet.descriptor else {
        return Ok(None);
    };
    // Ranks in rank 0's process end together with it: keeping no pidfd of them saves descriptors.
    let pidfd = (hello.process != own).then_some(pidfd);
    Ok(Some(Guest::Seated(Seat {
        rank,
        process: hello.process,
        link,
        pidfd,
        facts: hello.facts.0,
    })))
}

/// Why a rank of the same version cannot take part.
fn objection(hello: &Hello, rank: usize, join: &Join, seats: &[Seat]) -> Option<Refusal> {
    let theirs = &hello.name;
    if *theirs != join.name {
        return Some(Refusal::Name {
            rank,
            theirs: theirs.clone(),
            ours: join.name.clone(),
        });
    }
    if hello.world != join.world {
        let (theirs, ours) = (hello.world.to_string(), join.world.to_string());
        return Some(Refusal::Terms {
            rank,
            key: "world size".to_owned(),
            theirs,
            ours,
        });
    }
    if rank >= join.world {
        return Some(Refusal::OutsideWorld {
            rank,
            world: join.world,
        });
    }
    if rank == 0 || seats.iter().any(|seat| seat.rank == rank) {
        return Some(Refusal::Duplicate { rank });
    }
    let absent = "(not set)";
    let value = |terms: &[(String, String)], key: &str| {
        let found = terms.iter().find(|(name, _)| name == key);
        found.map_or_else(|| absent.to_owned(), |(_, value)| value.clone())
    };
    let keys = join.terms.iter().chain(&hello.terms).map(|(key, _)| key);
    keys.map(|key| (key, value(&hello.terms, key), value(&join.terms, key)))
        .find(|(_, theirs, ours)| theirs != ours)
        .map(|(key, theirs, ours)| Refusal::Terms {
            rank,
            key: key.clone(),
            theirs,
            ours,
        })
}
