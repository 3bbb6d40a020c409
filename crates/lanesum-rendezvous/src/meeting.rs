//! What a rank sees of a meeting: join, share, agree, finish.
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::client::Client;
use crate::desk::serve;
use crate::error::{Refusal, RendezvousError};
use crate::exchange::Parcel;
use crate::process::{self, ProcessId};
use crate::server::Server;
use crate::visit::visit;
use crate::watch::Peers;

/// Who comes to which meeting.
#[derive(Debug, Clone)]
pub struct Join {
    /// Name of the job; any string that is the same on all ranks and that no other job of this user has.
    pub name: String,
    /// This rank, from 0.
    pub rank: usize,
    /// Number of ranks.
    pub world: usize,
    /// Longest wait for the arrival of all ranks, and again for each later step.
    pub deadline: Duration,
    /// Settings that must be the same on all ranks: key and value.
    pub terms: Vec<(String, String)>,
    /// What this rank tells all others. About 60,000 bytes at most, terms included.
    pub facts: Vec<u8>,
    /// Where the sockets are; None for `$XDG_RUNTIME_DIR/lanesum`, or `/tmp/lanesum-<uid>` without that. It is made
    /// if need be, and must belong to this user and be closed to others.
    pub directory: Option<PathBuf>,
}

/// Asked at least every 50 ms: what makes this meeting pointless, if anything does.
pub(crate) type Cancel<'a> = &'a dyn Fn() -> Option<Refusal>;

/// What every rank knows of all when they have met.
#[derive(Debug)]
pub(crate) struct Roster {
    pub(crate) token: u64,
    pub(crate) facts: Vec<Vec<u8>>,
    pub(crate) processes: Vec<ProcessId>,
}

/// All ranks have arrived, and agree on name, version, world size and terms.
///
/// After an error, and in a forked child, every further step is an error. Dropped before [`Meeting::finish`], it fails
/// the meeting for all ranks.
#[derive(Debug)]
pub struct Meeting {
    rank: usize,
    roster: Roster,
    side: Side,
}

#[derive(Debug)]
enum Side {
    /// The only rank.
    Alone,
    /// Rank 0.
    Serving(Server),
    /// Another rank.
    Visiting(Client),
    /// A step failed.
    Over,
}

/// Waits until all ranks have arrived.
///
/// `cancel` is asked at least every 50 ms; where it names a reason (that a rank of a parent communicator has ended, say), the
/// meeting fails on all ranks, with that. A world of one touches no socket.
///
/// # Errors
/// See [`RendezvousError`]; what concerns all ranks is told to all of them.
pub fn meet(join: &Join, cancel: &dyn Fn() -> Option<Refusal>) -> Result<Meeting, RendezvousError> {
    let Join { rank, world, .. } = *join;
    if rank >= world {
        return Err(Refusal::OutsideWorld { rank, world }.into());
    }
    let (roster, side) = if world == 1 {
        let roster = Roster {
            token: process::random(),
            facts: vec![join.facts.clone()],
            processes: vec![ProcessId::own()],
        };
        (roster, Side::Alone)
    } else if rank == 0 {
        let (server, roster) = serve(join, cancel)?;
        (roster, Side::Serving(server))
    } else {
        let (client, roster) = visit(join, cancel)?;
        (roster, Side::Visiting(client))
    };
    Ok(Meeting { rank, roster, side })
}

impl Meeting {
    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn world(&self) -> usize {
        self.roster.facts.len()
    }

    /// What each rank told, by rank; the same bytes on all ranks.
    pub fn facts(&self) -> &[Vec<u8>] {
        &self.roster.facts
    }

    /// A random number that rank 0 chose; the same on all ranks.
    pub fn token(&self) -> u64 {
        self.roster.token
    }

    /// Whether that rank is a thread of this process.
    pub fn same_process(&self, rank: usize) -> bool {
        self.roster.processes.get(rank) == Some(&ProcessId::own())
    }

    /// Gives every rank a descriptor of what rank 0 passes; the others pass None.
    ///
    /// # Errors
    /// Where a rank has ended or left, or where this rank may open no more files.
    pub fn share(&mut self, own: Option<OwnedFd>) -> Result<OwnedFd, RendezvousError> {
        let given = own.is_some();
        if given != (self.rank == 0) {
            return Err(self.give_up("rank 0 passes the descriptor to share, and no other rank does"));
        }
        self.step(|side| match (side, own) {
            (Side::Alone, Some(descriptor)) => Ok(descriptor),
            (Side::Serving(server), Some(descriptor)) => server.share(&descriptor).map(|()| descriptor),
            (Side::Visiting(client), None) => client.share(),
            (Side::Alone | Side::Serving(_) | Side::Visiting(_) | Side::Over, _) => Err(over()),
        })
    }

    /// Gives every rank's bytes to every rank, and a duplicate of its descriptor if it gives one. The parcels come back by
    /// rank, this rank's own with its own descriptor among them.
    ///
    /// # Errors
    /// [`RendezvousError::TooLarge`] beyond [`crate::PARCEL_MAX`] bytes; else where a rank has ended, left or is late, or where
    /// this rank or rank 0 may open no more files.
    pub fn exchange(&mut self, bytes: &[u8], descriptor: Option<OwnedFd>) -> Result<Vec<Parcel>, RendezvousError> {
        let own = Parcel {
            bytes: bytes.to_vec(),
            descriptor,
        };
        self.step(|side| match side {
            Side::Alone => own.check().map(|()| vec![own]),
            Side::Serving(server) => server.exchange(own),
            Side::Visiting(client) => client.exchange(own),
            Side::Over => Err(over()),
        })
    }

    /// Checks that all ranks bring the same `digest` of the same thing.
    ///
    /// # Errors
    /// [`Refusal::Disagreement`] on every rank names the first rank that differs from rank 0, with both values.
    pub fn agree(&mut self, what: &str, digest: u64) -> Result<(), RendezvousError> {
        self.step(|side| match side {
            Side::Alone => Ok(()),
            Side::Serving(server) => server.agree(what, digest),
            Side::Visiting(client) => client.agree(what, digest),
            Side::Over => Err(over()),
        })
    }

    /// The last barrier: when it returns, all ranks have come here and the name may be used again.
    ///
    /// # Errors
    /// Where a rank ended or left before.
    pub fn finish(mut self) -> Result<Peers, RendezvousError> {
        let pidfds = self.step(|side| match side {
            Side::Alone => Ok(vec![None]),
            Side::Serving(server) => server.finish(),
            Side::Visiting(client) => client.finish(),
            Side::Over => Err(over()),
        })?;
        Ok(Peers::new(pidfds))
    }

    /// One step; after a failure the meeting is over, and rank 0 has told everybody.
    fn step<T>(&mut self, run: impl FnOnce(&mut Side) -> Result<T, RendezvousError>) -> Result<T, RendezvousError> {
        let own = match &self.side {
            Side::Alone | Side::Over => true,
            Side::Serving(server) => server.is_own(),
            Side::Visiting(client) => client.is_own(),
        };
        if !own {
            return Err(RendezvousError::Misuse {
                why: "this process was forked from the one that joined; a forked child is no rank",
            });
        }
        run(&mut self.side).map_err(|error| self.end(error))
    }

    fn give_up(&mut self, why: &'static str) -> RendezvousError {
        self.step(|_| Err::<(), _>(RendezvousError::Misuse { why }))
            .err()
            .unwrap_or_else(over)
    }

    fn end(&mut self, error: RendezvousError) -> RendezvousError {
        match std::mem::replace(&mut self.side, Side::Over) {
            Side::Serving(mut server) => server.fail(error),
            Side::Alone | Side::Visiting(_) | Side::Over => error,
        }
    }
}

fn over() -> RendezvousError {
    RendezvousError::Misuse {
        why: "it has failed before",
    }
}
