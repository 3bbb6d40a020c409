//! What the library tells of itself, as text.

use std::ffi::{CString, c_char};
use std::time::Duration;

use lanesum::{Counters, Explanation, Rank};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::boundary::{Place, answer, lent};
use crate::calls::Call;
use crate::communicator::Communicator;
use crate::error::{Error, c_text};
use crate::failure::Failure;
use crate::status::Status;

/// Hands over a report on a communicator.
///
/// # Safety
/// As the head of `boundary` says.
unsafe fn told(
    communicator: *const Communicator,
    text: *mut *mut c_char,
    error: *mut *mut Error,
    report: impl FnOnce(&lanesum::Communicator) -> Result<String, Failure>,
) -> Status {
    let work = || {
        // SAFETY: passed on from the caller.
        let place = unsafe { Place::of_handle(text, "text") }?;
        // SAFETY: passed on from the caller.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        place.put(c_text(communicator.with(report)?).into_raw());
        Ok(())
    };
    // SAFETY: passed on from the caller.
    unsafe { answer(error, work) }
}

/// The library's own JSON of a report.
fn written(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|source| {
        let what = "writing a report";
        let source = source.into();
        lanesum::Error::System { what, source }.into()
    })
}

/// Tells people the decision for a call, with all that was refused and why. Of the call only dtype, operation, memory, elements and label
/// count; its memory is not touched.
///
/// On success `*text` is the caller's, who ends it with `lanesum_string_free`; else it is NULL.
///
/// Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY`, `LANESUM_STATUS_BUFFER`, `LANESUM_STATUS_DTYPE` or
/// `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_explain(
    communicator: *const Communicator,
    call: *const Call,
    text: *mut *mut c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the head of lanesum.h.
    unsafe {
        explained(communicator, call, text, error, |explanation| {
            Ok(explanation.to_string())
        })
    }
}

/// The decision for a call, worded.
///
/// # Safety
/// As the head of lanesum.h has it.
unsafe fn explained(
    communicator: *const Communicator,
    call: *const Call,
    text: *mut *mut c_char,
    error: *mut *mut Error,
    word: impl FnOnce(&Explanation) -> Result<String, Failure>,
) -> Status {
    let report = |communicator: &lanesum::Communicator| {
        // SAFETY: by the head of lanesum.h.
        let request = unsafe { Call::request(call) }?;
        word(&communicator.explain(&request))
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { told(communicator, text, error, report) }
}

/// As `lanesum_explain`, for programs: JSON.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_explain_json(
    communicator: *const Communicator,
    call: *const Call,
    text: *mut *mut c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the head of lanesum.h.
    unsafe { explained(communicator, call, text, error, written) }
}

/// Tells what ran so far and how long each peer was waited for, in seconds, by rank: JSON with `calls`, `chunks`, `bytes`, `by_algorithm`,
/// `waited`, `naps` and `device`, which is null without a GPU. With a GPU it asks that, which takes some microseconds.
///
/// On success `*text` is the caller's, who ends it with `lanesum_string_free`; else it is NULL.
///
/// Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_counters_json(
    communicator: *const Communicator,
    text: *mut *mut c_char,
    error: *mut *mut Error,
) -> Status {
    let report = |communicator: &lanesum::Communicator| written(&counted(&communicator.counters()));
    // SAFETY: by the head of lanesum.h.
    unsafe { told(communicator, text, error, report) }
}

fn counted(counters: &Counters) -> Value {
    let ran = counters.by_algorithm.iter().filter(|(_, calls)| *calls > 0);
    let ran: Map<String, Value> = ran
        .map(|(name, calls)| (name.name().to_owned(), json!(calls)))
        .collect();
    let device = counters.device.as_ref().map(|device| {
        json!({
            "calls": device.calls,
            "exchanges": device.exchanges,
            "waited": waited(&device.waited),
        })
    });
    json!({
        "calls": counters.calls,
        "chunks": counters.chunks,
        "bytes": counters.bytes,
        "by_algorithm": ran,
        "waited": waited(&counters.waited),
        "naps": counters.naps,
        "device": device,
    })
}

fn waited(times: &[(Rank, Duration)]) -> Map<String, Value> {
    let by_rank = |(rank, time): &(Rank, Duration)| (rank.to_string(), json!(time.as_secs_f64()));
    times.iter().map(by_rank).collect()
}

/// Tells how the communicator was made: JSON with `rank`, `world`, `device` and `without_device` (why there is no GPU although the engine is
/// `auto`), `tree`, `isa`, `memory` (bytes of host memory that the ranks share, of all together), `device_memory` (bytes of GPU memory that
/// this rank has taken for itself), `setup_time` (seconds), `plan_digest` and `topology`.
///
/// On success `*text` is the caller's, who ends it with `lanesum_string_free`; else it is NULL.
///
/// Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_describe_json(
    communicator: *const Communicator,
    text: *mut *mut c_char,
    error: *mut *mut Error,
) -> Status {
    let report = |communicator: &lanesum::Communicator| written(&described(communicator));
    // SAFETY: by the head of lanesum.h.
    unsafe { told(communicator, text, error, report) }
}

fn described(communicator: &lanesum::Communicator) -> Value {
    json!({
        "rank": communicator.rank(),
        "world": communicator.world(),
        "device": communicator.device().map(lanesum::cuda::Device::ordinal),
        "without_device": communicator.without_device(),
        "tree": communicator.tree().to_string(),
        "isa": communicator.isa(),
        "memory": communicator.memory().get(),
        "device_memory": communicator.device_memory().get(),
        "setup_time": communicator.setup_time().as_secs_f64(),
        "plan_digest": communicator.plan().digest(),
        "topology": communicator.topology(),
    })
}

/// Ends a text that a function handed over. NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: not NULL, so it is a text that `told` handed over and nobody has ended, by the head of lanesum.h.
        drop(unsafe { CString::from_raw(text) });
    }
}
