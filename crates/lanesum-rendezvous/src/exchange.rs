//! The step in which every rank gives bytes, and a descriptor if it likes, to every other.
//!
//! Rank 0 relays: the others have no connection but the one to it. It sends each rank all parcels but that rank's own, so
//! that a rank needs no second copy of its own descriptor. Parcels are long, and a rank that does not read lets its socket
//! fill up: rank 0 then tells those that wait behind it for whom it waits, so that all name the same rank.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::client::{Client, never};
use crate::deadline::Deadline;
use crate::error::{Refusal, RendezvousError};
use crate::link::SendFailure;
use crate::messages::{Hex, Message};
use crate::process;
use crate::server::{NEWS, Server};

/// The most bytes that a rank may give in one exchange.
pub const PARCEL_MAX: usize = 60_000;

/// What one rank gave in an exchange.
#[derive(Debug)]
pub struct Parcel {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its descriptor, if it gave one: the rank's own, or a duplicate that is closed on exec.
    pub descriptor: Option<OwnedFd>,
}

impl Parcel {
    pub(crate) fn check(&self) -> Result<(), RendezvousError> {
        if self.bytes.len() <= PARCEL_MAX {
            return Ok(());
        }
        Err(RendezvousError::TooLarge {
            what: "what a rank gives to the others",
            bytes: self.bytes.len(),
            limit: PARCEL_MAX,
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// What arrived, unless the kernel has dropped the descriptor on the way from rank `from`.
    fn arrived(bytes: Hex, described: bool, descriptor: Option<OwnedFd>, from: usize) -> Result<Self, RendezvousError> {
        if described && descriptor.is_none() {
            return Err(RendezvousError::DescriptorLost { from });
        }
        Ok(Self {
            bytes: bytes.0,
            descriptor: descriptor.filter(|_| described),
        })
    }
}

impl Client {
    pub(crate) fn exchange(&mut self, own: Parcel) -> Result<Vec<Parcel>, RendezvousError> {
        own.check().map_err(|error| self.leave(error))?;
        let message = Message::Give {
            bytes: Hex(own.bytes.clone()),
            described: own.descriptor.is_some(),
        };
        self.say_with(&message, own.descriptor())?;
        let mut parcels = Vec::with_capacity(self.world);
        while parcels.len() < self.rank {
            parcels.push(self.await_parcel(parcels.len())?);
        }
        parcels.push(own);
        while parcels.len() < self.world {
            parcels.push(self.await_parcel(parcels.len())?);
        }
        Ok(parcels)
    }

    fn await_parcel(&mut self, due: usize) -> Result<Parcel, RendezvousError> {
        let (message, descriptor) = self.expect("what the other ranks give", &never)?;
        let Message::Given { rank, bytes, described } = message else {
            return Err(self.out_of_step(&message, "what another rank gave"));
        };
        if rank != due {
            let reason = format!("it passed on what rank {rank} gave where that of rank {due} was due");
            return Err(self.leave(Refusal::Left { rank: 0, reason }.into()));
        }
        Parcel::arrived(bytes, described, descriptor, 0).map_err(|error| self.leave(error))
    }
}

impl Server {
    pub(crate) fn exchange(&mut self, own: Parcel) -> Result<Vec<Parcel>, RendezvousError> {
        own.check()?;
        let mut parcels = vec![own];
        parcels.extend(self.collect()?);
        let messages: Vec<Message> = parcels
            .iter()
            .enumerate()
            .map(|(rank, parcel)| Message::Given {
                rank,
                bytes: Hex(parcel.bytes.clone()),
                described: parcel.descriptor.is_some(),
            })
            .collect();
        for seat in 0..self.seats.len() {
            for (rank, (message, parcel)) in messages.iter().zip(&parcels).enumerate() {
                if rank != seat + 1 {
                    self.tell_patiently(seat, message, parcel.descriptor())?;
                }
            }
        }
        Ok(parcels)
    }

    /// What the others give, in the order of their ranks.
    fn collect(&mut self) -> Result<Vec<Parcel>, RendezvousError> {
        let mut found = Vec::with_capacity(self.seats.len());
        self.gather("what it gives to the others", |rank, message, descriptor| {
            let Message::Give { bytes, described } = message else {
                return Err(message);
            };
            match Parcel::arrived(bytes, described, descriptor, rank) {
                Ok(parcel) => found.push((rank, parcel)),
                Err(error) => return Ok(Some(error)),
            }
            Ok(None)
        })?;
        found.sort_by_key(|(rank, _)| *rank);
        Ok(found.into_iter().map(|(_, parcel)| parcel).collect())
    }

    /// Sends to a rank that may not read at once. Others are told whom they wait for; its death ends the wait.
    fn tell_patiently(
        &mut self,
        place: usize,
        message: &Message,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), RendezvousError> {
        let whole = Deadline::after(self.span);
        loop {
            let Some(seat) = self.seats.get(place) else {
                return Ok(());
            };
            let part = Deadline::after(NEWS.min(whole.remaining()));
            match seat.link.send(message, descriptor, &part) {
                Ok(()) => return Ok(()),
                Err(SendFailure::Late) if process::ended(seat.pidfd.as_ref()) => return Err(seat.gone().into()),
                Err(SendFailure::Late) if !whole.passed() => {
                    let rank = seat.rank;
                    self.tell_absent(&[rank]);
                }
                Err(failure) => return Err(seat.deaf(failure, &whole)),
            }
        }
    }
}
