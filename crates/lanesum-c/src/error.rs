//! Why a call did not succeed, as an object that the caller owns.

use std::ffi::{CString, c_char};
use std::ptr;

use crate::boundary::{discard, part};
use crate::failure::Failure;
use crate::status::Status;

/// Why a call did not succeed: whom it names, and what to do. It is the caller's, who ends it with `lanesum_error_free`. Any thread may
/// read it, and its texts live as long as it does.
#[derive(Debug)]
pub struct Error {
    status: Status,
    kind: CString,
    cause: CString,
    hint: Option<CString>,
    message: CString,
    ranks: Vec<u32>,
}

impl Error {
    /// What is told of a failure.
    pub fn of(failure: &Failure) -> Self {
        let (status, kind) = failure.name();
        let (cause, hint) = (failure.cause(), failure.hint());
        let message = match &hint {
            Some(hint) => format!("{cause}; hint: {hint}"),
            None => cause.clone(),
        };
        Self {
            status,
            kind: c_text(kind.to_owned()),
            cause: c_text(cause),
            hint: hint.map(c_text),
            message: c_text(message),
            ranks: failure.ranks(),
        }
    }
}

/// Text for C, which can't have a NUL inside.
pub fn c_text(text: String) -> CString {
    let mut bytes = text.into_bytes();
    bytes.retain(|&byte| byte != 0);
    CString::new(bytes).unwrap_or_default()
}

/// The status that the call returned; `LANESUM_STATUS_OK` of NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_error_status(error: *const Error) -> Status {
    // SAFETY: NULL or a live error, by the head of lanesum.h.
    unsafe { part(error) }.map_or(Status::Ok, |error| error.status)
}

/// What went wrong and, after `hint:`, what to do; empty of NULL. The error's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_error_message(error: *const Error) -> *const c_char {
    // SAFETY: NULL or a live error, by the head of lanesum.h.
    unsafe { part(error) }.map_or(c"", |error| &error.message).as_ptr()
}

/// What went wrong, without the hint; empty of NULL. The error's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_error_cause(error: *const Error) -> *const c_char {
    // SAFETY: NULL or a live error, by the head of lanesum.h.
    unsafe { part(error) }.map_or(c"", |error| &error.cause).as_ptr()
}

/// What to do about it; NULL where nothing can be done, and of NULL. The error's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_error_hint(error: *const Error) -> *const c_char {
    // SAFETY: NULL or a live error, by the head of lanesum.h.
    let hint = unsafe { part(error) }.and_then(|error| error.hint.as_ref());
    hint.map_or(ptr::null(), |hint| hint.as_ptr())
}

/// A word that tells the cases of a status apart, for programs, as `died` and `departed` of `LANESUM_STATUS_RANK_LOST`; empty of NULL.
/// The library's, which lives as long as that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_error_kind(error: *const Error) -> *const c_char {
    // SAFETY: NULL or a live error, by the head of lanesum.h.
    unsafe { part(error) }.map_or(c"", |error| &error.kind).as_ptr()
}

/// How many ranks the error names: 0 if it is about this rank alone, and of NULL. The first `capacity` of them, ascending, are written to
/// `ranks`, which may be NULL; 16 are room enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_error_ranks(error: *const Error, ranks: *mut u32, capacity: usize) -> usize {
    // SAFETY: NULL or a live error, by the head of lanesum.h.
    let named = unsafe { part(error) }.map_or(&[][..], |error| &error.ranks);
    // SAFETY: `ranks` is NULL or has room for `capacity`, by the comment above.
    unsafe { hand_over(named, ranks, capacity) };
    named.len()
}

/// Writes as many ranks as there is room for.
///
/// # Safety
/// `target` is NULL or valid for writing `capacity` numbers.
pub unsafe fn hand_over(ranks: &[u32], target: *mut u32, capacity: usize) {
    if !target.is_null() {
        let bytes = size_of::<u32>() * ranks.len().min(capacity);
        // SAFETY: the caller vouches for the target, and no more than its capacity is written, as bytes, which need no alignment; a list
        // of the library's own is not in the caller's memory.
        unsafe { ptr::copy_nonoverlapping(ranks.as_ptr().cast::<u8>(), target.cast::<u8>(), bytes) };
    }
}

/// Ends an error. NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_error_free(error: *mut Error) {
    // SAFETY: NULL, or an error that a call handed over and nobody has ended, by the head of lanesum.h.
    unsafe { discard(error) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_nul_inside_loses_that_alone() {
        assert_eq!(c_text("a\0b".into()).as_c_str(), c"ab");
    }
}
