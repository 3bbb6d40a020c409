//! How a rank joins, beyond who it is.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use lanesum::{AlgorithmChoice, Builder, Bytes, EngineChoice, PathChoice, ReductionTree};

use crate::boundary::{Place, answer, bytes, discard, lent_to_write, text};
use crate::error::Error;
use crate::failure::Failure;
use crate::status::Status;

/// How a rank joins: what is not set is the library's to choose. Opaque, so that options can be added. It is the caller's, who ends it
/// with `lanesum_options_free`, and one thread at a time uses it. Joining only reads it, so it may serve many times.
///
/// What is set is compared among the ranks when they join, but for the deadlines, the device, the instruction set and the directory.
#[derive(Debug, Default)]
pub struct Options {
    deadline: Option<Duration>,
    setup_deadline: Option<Duration>,
    engine: Option<EngineChoice>,
    device: Option<usize>,
    algorithm: Option<AlgorithmChoice>,
    path: Option<PathChoice>,
    staging: Option<Bytes>,
    shared_capacity: Option<Bytes>,
    tree: Option<ReductionTree>,
    isa: Option<String>,
    directory: Option<PathBuf>,
}

impl Options {
    /// A builder with what is set.
    pub fn apply(&self, builder: Builder) -> Builder {
        let builder = with(builder, self.deadline, Builder::deadline);
        let builder = with(builder, self.setup_deadline, Builder::setup_deadline);
        // Before the device, which leaves a choice of GPUs as it is.
        let builder = with(builder, self.engine, Builder::engine);
        let builder = with(builder, self.device, Builder::device);
        let builder = with(builder, self.algorithm, Builder::algorithm);
        let builder = with(builder, self.path, Builder::path);
        let builder = with(builder, self.staging, Builder::staging);
        let builder = with(builder, self.shared_capacity, Builder::shared_capacity);
        let builder = with(builder, self.tree.clone(), Builder::tree);
        let builder = with(builder, self.isa.clone(), |builder, isa| builder.isa(isa));
        with(builder, self.directory.clone(), |builder, directory| {
            builder.directory(directory)
        })
    }
}

fn with<T>(builder: Builder, value: Option<T>, set: impl FnOnce(Builder, T) -> Builder) -> Builder {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// Sets one of them.
///
/// # Safety
/// As the head of `boundary` says.
unsafe fn set(
    options: *mut Options,
    error: *mut *mut Error,
    work: impl FnOnce(&mut Options) -> Result<(), Failure>,
) -> Status {
    let set = || {
        // SAFETY: passed on from the caller.
        let options = unsafe { lent_to_write(options, "options") }?;
        work(options)
    };
    // SAFETY: passed on from the caller.
    unsafe { answer(error, set) }
}

/// One of a closed set of words, or a tree.
///
/// # Safety
/// As the head of `boundary` says.
unsafe fn word<T>(given: *const c_char) -> Result<T, Failure>
where
    T: std::str::FromStr<Err: Into<lanesum::PlanError>>,
{
    // SAFETY: passed on from the caller.
    let text = unsafe { text(given, "word") }?;
    text.parse()
        .map_err(|error: T::Err| lanesum::Error::Plan(error.into()).into())
}

/// Makes options of which none is set.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_new(options: *mut *mut Options, error: *mut *mut Error) -> Status {
    let make = || {
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { Place::of_handle(options, "options") }?;
        place.hand_over(Options::default());
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, make) }
}

/// Ends options. NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_free(options: *mut Options) {
    // SAFETY: by the head of lanesum.h.
    unsafe { discard(options) };
}

/// The longest that one wait of a call may last, milliseconds: 1 ms to 24 days, which joining checks (default 30 s, or what the
/// environment says).
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_deadline_ms(
    options: *mut Options,
    ms: u64,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        options.deadline = Some(Duration::from_millis(ms));
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// The longest that joining may last, milliseconds: 1 ms to 24 days, which joining checks (default: the deadline).
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_setup_deadline_ms(
    options: *mut Options,
    ms: u64,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        options.setup_deadline = Some(Duration::from_millis(ms));
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Whether GPU memory is reduced too: `host` (the default; no CUDA driver is touched), `cuda` (a GPU on every rank, or joining fails and
/// says why) or `auto` (a GPU on every rank if all have one that works together with the others').
///
/// Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if there is no such word.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_engine(
    options: *mut Options,
    engine: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        // SAFETY: by the head of lanesum.h.
        options.engine = Some(unsafe { word(engine) }?);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Takes the GPU of this number, counted from 0 among those that `CUDA_VISIBLE_DEVICES` leaves, and asks for the engine `cuda` unless the
/// engine is set to `auto`. Without it, rank r takes device r modulo their number.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_device(
    options: *mut Options,
    ordinal: u32,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        options.device = Some(ordinal as usize);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Pins the algorithm, as `two_shot_pull`; `auto` leaves it to the plan (the default).
///
/// Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if there is no such word.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_algorithm(
    options: *mut Options,
    algorithm: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        // SAFETY: by the head of lanesum.h.
        options.algorithm = Some(unsafe { word(algorithm) }?);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Pins the path between GPUs: `peer` or `host_staged`; `auto` leaves it to the plan (the default).
///
/// Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if there is no such word.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_path(
    options: *mut Options,
    path: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        // SAFETY: by the head of lanesum.h.
        options.path = Some(unsafe { word(path) }?);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Bytes that a rank can post to its peers at once (default 1 MiB), a multiple of 4096, which joining checks. Longer messages take several
/// exchanges.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_staging(
    options: *mut Options,
    bytes: u64,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        options.staging = Some(Bytes::new(bytes));
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Bytes of each rank's arena for shared buffers (default 4 MiB), a multiple of 4096, which joining checks. This ABI allocates none, but
/// peers in Rust may; 0 saves the address space.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_shared_capacity(
    options: *mut Options,
    bytes: u64,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        options.shared_capacity = Some(Bytes::new(bytes));
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Pins the order of the sum, for equal bits between machines, as `(0+1)+2` (default: the canonical tree).
///
/// Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if it is no tree.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_tree(
    options: *mut Options,
    tree: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        // SAFETY: by the head of lanesum.h.
        options.tree = Some(unsafe { word(tree) }?);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Names the instruction set to sum with, as `avx2`, which joining checks (default: the best there is). All give the same bits.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_isa(
    options: *mut Options,
    isa: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        // SAFETY: by the head of lanesum.h.
        let isa = unsafe { text(isa, "isa") }?;
        options.isa = Some(isa.to_owned());
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}

/// Where the rendezvous socket is made (default: the user's runtime directory). It must belong to the user, with mode 0700, which joining
/// checks.
///
/// Fails with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_options_set_directory(
    options: *mut Options,
    directory: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let work = |options: &mut Options| {
        // SAFETY: by the head of lanesum.h.
        let directory = unsafe { bytes(directory, "directory") }?;
        options.directory = Some(OsStr::from_bytes(directory.to_bytes()).into());
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { set(options, error, work) }
}
