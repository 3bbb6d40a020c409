//! Joining: from numbers, from the environment, and from a communicator.

use std::ffi::c_char;

use lanesum::Builder;

use crate::boundary::{Place, answer, lent, text};
use crate::communicator::Communicator;
use crate::error::Error;
use crate::failure::Failure;
use crate::options::Options;
use crate::status::Status;
use crate::version;

/// Joins with options, of which there may be none.
///
/// # Safety
/// As the head of `boundary` says.
unsafe fn join(builder: Builder, options: *const Options) -> Result<Communicator, Failure> {
    let builder = match options.is_null() {
        true => builder,
        // SAFETY: passed on from the caller.
        false => unsafe { lent(options, "options") }?.apply(builder),
    };
    Ok(Communicator::of(builder.join()?))
}

/// Joins as rank `rank` (from 0) of `world` (1 to 16) ranks: those that give the same `name` meet, and no other job may use it. `abi` is
/// `LANESUM_ABI_VERSION`. `options` may be NULL. Waits for the other ranks, until the set-up deadline at the latest.
///
/// On success `*communicator` is the caller's, to be ended with `lanesum_free`; else it is NULL.
///
/// Fails with `LANESUM_STATUS_RENDEZVOUS`, `LANESUM_STATUS_PLAN`, `LANESUM_STATUS_SEGMENT`, `LANESUM_STATUS_CUDA`,
/// `LANESUM_STATUS_PEER_DEVICE`, `LANESUM_STATUS_RESOURCE`, `LANESUM_STATUS_REFUSED`, `LANESUM_STATUS_ABI` or `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_join(
    abi: u32,
    rank: u32,
    world: u32,
    name: *const c_char,
    options: *const Options,
    communicator: *mut *mut Communicator,
    error: *mut *mut Error,
) -> Status {
    let who = || {
        // SAFETY: by the head of lanesum.h.
        let name = unsafe { text(name, "name") }?;
        Ok(Builder::new(rank as usize, world as usize, name))
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { joined(abi, who, options, communicator, error) }
}

/// Joins the ranks that a launcher started, who are told by their environment (docs/environment.md): those of torchrun, Open MPI, MPICH,
/// Intel MPI and `lanesum launch`. The rest is as with `lanesum_join`. The environment must not be changed meanwhile.
///
/// Fails as `lanesum_join`, and with `LANESUM_STATUS_ENVIRONMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_join_from_env(
    abi: u32,
    options: *const Options,
    communicator: *mut *mut Communicator,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the head of lanesum.h.
    unsafe { joined(abi, || Ok(Builder::from_env()?), options, communicator, error) }
}

/// Joins as whoever `who` says.
///
/// # Safety
/// As the head of lanesum.h has it.
unsafe fn joined(
    abi: u32,
    who: impl FnOnce() -> Result<Builder, Failure>,
    options: *const Options,
    communicator: *mut *mut Communicator,
    error: *mut *mut Error,
) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { Place::of_handle(communicator, "communicator") }?;
        version::fits(abi)?;
        // SAFETY: by the head of lanesum.h.
        place.hand_over(unsafe { join(who()?, options) }?);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}

/// Makes a communicator of each group of ranks that give the same colour, ordered by `key`, then rank. All ranks call it. `color` is NULL
/// for ranks that take no part: they get NULL in `*part`, and `LANESUM_STATUS_OK`. Where making the group fails, this communicator remains
/// usable.
///
/// On success `*part` is NULL or the caller's, to be ended with `lanesum_free`; else it is NULL.
///
/// Fails as `lanesum_all_reduce` and `lanesum_join`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_split(
    communicator: *const Communicator,
    color: *const u32,
    key: u32,
    part: *mut *mut Communicator,
    error: *mut *mut Error,
) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { Place::of_handle(part, "part") }?;
        let color = match color.is_null() {
            true => None,
            // SAFETY: by the head of lanesum.h.
            false => Some(*unsafe { lent(color, "color") }?),
        };
        if let Some(part) = communicator.with(|communicator| communicator.split(color, key))? {
            place.hand_over(Communicator::of(part));
        }
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}

/// Makes a second communicator of the same ranks, with calls and memory of its own, to overlap with this one: on other threads, on other
/// streams, or in graphs that run beside this one's. All ranks call it.
///
/// On success `*channel` is the caller's, to be ended with `lanesum_free`; else it is NULL.
///
/// Fails as `lanesum_split`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_channel(
    communicator: *const Communicator,
    channel: *mut *mut Communicator,
    error: *mut *mut Error,
) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { Place::of_handle(channel, "channel") }?;
        place.hand_over(Communicator::of(communicator.with(lanesum::Communicator::channel)?));
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}
