//! One rank's communicator, as a handle of C.

use std::sync::{Mutex, TryLockError};

use lanesum::Refused;

use crate::boundary::{Place, answer, discard, lent};
use crate::error::{Error, hand_over};
use crate::failure::{Failure, number};
use crate::refusal::Refusal;
use crate::status::Status;

/// One rank's end of a group of ranks that reduce together. It is the caller's, who leaves the group with `lanesum_close` and ends the
/// handle with `lanesum_free`.
///
/// One thread at a time calls, in an order that is the same on all ranks; which thread it is does not matter. One that comes while another
/// is in a call gets `LANESUM_STATUS_BUSY`, and nothing happens. For a second order there is `lanesum_channel`.
///
/// After a fault the communicator is spent: outputs hold NaN, and further calls return `LANESUM_STATUS_POISONED`. Peers learn of it by
/// themselves. Make a new one, by fewer ranks where some are lost.
#[derive(Debug)]
pub struct Communicator {
    /// None once it is closed. Locked while a call runs; who finds it locked is refused.
    inner: Mutex<Option<lanesum::Communicator>>,
    rank: u32,
    world: u32,
    device: Option<u32>,
    /// The process that joined.
    process: u32,
}

impl Communicator {
    /// The handle of a communicator.
    pub fn of(communicator: lanesum::Communicator) -> Self {
        let device = communicator.device().map(lanesum::cuda::Device::ordinal);
        Self {
            rank: number(communicator.rank()),
            // There are 16 at most.
            world: communicator.world().get() as u32,
            device: device.and_then(|ordinal| u32::try_from(ordinal).ok()),
            inner: Mutex::new(Some(communicator)),
            process: std::process::id(),
        }
    }

    /// The process that joined, which is that of every call that goes well.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Does something with the communicator, as its only caller.
    pub fn with<T, E: Into<Failure>>(
        &self,
        work: impl FnOnce(&lanesum::Communicator) -> Result<T, E>,
    ) -> Result<T, Failure> {
        self.locked(|communicator| {
            let communicator = communicator.as_ref().ok_or(Refusal::Closed)?;
            work(communicator).map_err(E::into)
        })
    }

    /// As [`Communicator::with`], for what the library itself does not refuse in a forked child.
    fn with_own<T, E: Into<Failure>>(
        &self,
        work: impl FnOnce(&lanesum::Communicator) -> Result<T, E>,
    ) -> Result<T, Failure> {
        match self.process == std::process::id() {
            true => self.with(work),
            false => Err(Failure::Library(Refused::Forked.into())),
        }
    }

    fn locked<T>(
        &self,
        work: impl FnOnce(&mut Option<lanesum::Communicator>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.inner.try_lock() {
            Ok(mut communicator) => work(&mut communicator),
            Err(TryLockError::Poisoned(poisoned)) => work(&mut poisoned.into_inner()),
            // A child that was forked during a call: nobody is there who would unlock it.
            Err(TryLockError::WouldBlock) if self.process != std::process::id() => {
                Err(Failure::Library(Refused::Forked.into()))
            }
            Err(TryLockError::WouldBlock) => Err(Refusal::Busy.into()),
        }
    }
}

/// Leaves the communicator: peers that still call are told that this rank is gone, so close after every rank's last call. On a GPU it waits
/// for the communicator's calls there. Whatever is returned but `LANESUM_STATUS_BUSY`, the communicator is closed; doing so again has
/// no effect.
///
/// Fails with `LANESUM_STATUS_POISONED` if a call had failed before, with `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY` or
/// `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_close(communicator: *const Communicator, error: *mut *mut Error) -> Status {
    let close = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        communicator.locked(|communicator| match communicator.take() {
            Some(communicator) => Ok(communicator.close()?),
            None => Ok(()),
        })
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, close) }
}

/// Ends the handle, and leaves the communicator if it is not closed. NULL has no effect. No other thread may be in a call of it; receipts
/// of its calls stay the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_free(communicator: *mut Communicator) {
    // SAFETY: by the head of lanesum.h.
    unsafe { discard(communicator) };
}

/// Tells this rank, from 0. Any thread may ask, also of a closed communicator.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_rank(
    communicator: *const Communicator,
    rank: *mut u32,
    error: *mut *mut Error,
) -> Status {
    let tell = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        unsafe { Place::of(rank, "rank") }?.put(communicator.rank);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, tell) }
}

/// Tells the number of ranks, 1 to 16. Any thread may ask, also of a closed communicator.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_world(
    communicator: *const Communicator,
    world: *mut u32,
    error: *mut *mut Error,
) -> Status {
    let tell = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        unsafe { Place::of(world, "world") }?.put(communicator.world);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, tell) }
}

/// Tells whether GPU memory is reduced, and if so writes the number of this rank's GPU to `device`, counted as by
/// `lanesum_options_set_device`; else that stays as it is. Any thread may ask, also of a closed communicator.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_device(
    communicator: *const Communicator,
    has_device: *mut bool,
    device: *mut u32,
    error: *mut *mut Error,
) -> Status {
    let tell = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        let has_device = unsafe { Place::of(has_device, "has_device") }?;
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { Place::of(device, "device") }?;
        has_device.put(communicator.device.is_some());
        if let Some(device) = communicator.device {
            place.put(device);
        }
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, tell) }
}

/// Tells how many ranks' processes are known to have ended by now, and writes the first `capacity` of them, ascending, to `ranks`, which
/// may be NULL; 16 are room enough. To make a new communicator among the ranks that are left, wait until the list stays the same for a
/// moment, and number the others anew.
///
/// Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_lost_ranks(
    communicator: *const Communicator,
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut Error,
) -> Status {
    let tell = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        let count = unsafe { Place::of(count, "count") }?;
        let lost = communicator.with_own(|communicator| Ok::<_, Failure>(communicator.lost_ranks()))?;
        let lost: Vec<u32> = lost.into_iter().map(number).collect();
        // SAFETY: NULL or room for so many, by the comment above.
        unsafe { hand_over(&lost, ranks, capacity) };
        count.put(lost.len());
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, tell) }
}

/// Tells the longest that one wait of a call may last, milliseconds.
///
/// Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_deadline_ms(
    communicator: *const Communicator,
    ms: *mut u64,
    error: *mut *mut Error,
) -> Status {
    let tell = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { Place::of(ms, "ms") }?;
        let deadline = communicator.with(|communicator| Ok::<_, Failure>(communicator.deadline()))?;
        place.put(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, tell) }
}

/// Changes the deadline of this rank's calls to come, and of those that are on a stream or in a graph, milliseconds.
///
/// Fails with `LANESUM_STATUS_REFUSED` outside 1 ms to 24 days, with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_FORKED`,
/// `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_set_deadline_ms(
    communicator: *const Communicator,
    ms: u64,
    error: *mut *mut Error,
) -> Status {
    let set = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        let deadline = std::time::Duration::from_millis(ms);
        communicator.with_own(|communicator| communicator.set_deadline(deadline))
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, set) }
}
