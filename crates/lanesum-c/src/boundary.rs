//! The way across the boundary: pointers of C as references, outcomes as statuses, and no panic.
//!
//! Each function here that takes a pointer asks the same of its caller, which passes it on from C (the head of lanesum.h): the pointer is
//! NULL, or points to a live value of its type that nobody else writes meanwhile. What can be seen of that is checked.

use std::any::Any;
use std::ffi::{CStr, c_char};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::error::Error;
use crate::failure::Failure;
use crate::refusal::Refusal;
use crate::status::Status;

/// The largest struct that is believed; those that lack their first line say something of gigabytes.
const LARGEST: usize = 4096;

/// Does something, and tells its outcome: as a status, and as an error where the caller wants one.
///
/// # Safety
/// `error` is NULL or valid for writing.
pub unsafe fn answer(error: *mut *mut Error, work: impl FnOnce() -> Result<(), Failure>) -> Status {
    // What a panic may have left half done is a communicator, which watches over its own state, or options that the caller drops.
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(panicked(payload).into()));
    let (status, told) = match outcome {
        Ok(()) => (Status::Ok, ptr::null_mut()),
        Err(failure) if error.is_null() => (failure.name().0, ptr::null_mut()),
        Err(failure) => {
            let told = Error::of(&failure);
            (failure.name().0, Box::into_raw(Box::new(told)))
        }
    };
    if !error.is_null() {
        // SAFETY: not NULL, so the caller vouches for it; no alignment is needed.
        unsafe { error.write_unaligned(told) };
    }
    status
}

fn panicked(payload: Box<dyn Any + Send>) -> Refusal {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    // Its end could panic again.
    forget(payload);
    Refusal::Panicked {
        message: text.unwrap_or_else(|| "without words".into()),
    }
}

/// A value that the caller lends, if it is one.
///
/// # Safety
/// As the head of this module says.
pub unsafe fn part<'a, T>(pointer: *const T) -> Option<&'a T> {
    if !pointer.is_aligned() {
        return None;
    }
    // SAFETY: NULL is told apart, the alignment was checked, the caller vouches for the rest.
    unsafe { pointer.as_ref() }
}

/// A value that the caller lends.
///
/// # Safety
/// As the head of this module says.
pub unsafe fn lent<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T, Refusal> {
    checked(pointer, what)?;
    // SAFETY: not NULL and aligned, the caller vouches for the rest.
    unsafe { part(pointer) }.ok_or(Refusal::Null { what })
}

/// A value that the caller lends to be changed.
///
/// # Safety
/// As the head of this module says, and nobody else reads it meanwhile.
pub unsafe fn lent_to_write<'a, T>(pointer: *mut T, what: &'static str) -> Result<&'a mut T, Refusal> {
    checked(pointer, what)?;
    // SAFETY: not NULL and aligned, the caller vouches for the rest.
    unsafe { pointer.as_mut() }.ok_or(Refusal::Null { what })
}

fn checked<T>(pointer: *const T, what: &'static str) -> Result<(), Refusal> {
    if pointer.is_null() {
        return Err(Refusal::Null { what });
    }
    match pointer.is_aligned() {
        true => Ok(()),
        false => Err(Refusal::Misaligned { what }),
    }
}

/// Text of the caller's.
///
/// # Safety
/// As the head of this module says, of text that ends with a NUL.
pub unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a str, Refusal> {
    // SAFETY: passed on from the caller.
    unsafe { bytes(pointer, what) }?
        .to_str()
        .map_err(|_| Refusal::NotText { what })
}

/// Text of the caller's in any encoding, as paths are.
///
/// # Safety
/// As [`text`].
pub unsafe fn bytes<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a CStr, Refusal> {
    checked(pointer, what)?;
    // SAFETY: not NULL, and the caller vouches for the NUL at its end.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// A place where the caller wants a result. That it can be written is what making one promised.
#[derive(Debug)]
pub struct Place<T>(*mut T);

impl<T> Place<T> {
    /// The place, if it is one.
    ///
    /// # Safety
    /// As the head of this module says; it need not hold a value yet.
    pub unsafe fn of(pointer: *mut T, what: &'static str) -> Result<Self, Refusal> {
        checked(pointer, what).map(|()| Self(pointer))
    }

    /// Writes the result.
    pub fn put(&self, value: T) {
        // SAFETY: `of` has checked NULL and alignment; its caller vouched for the rest.
        unsafe { self.0.write(value) };
    }
}

impl<T> Place<*mut T> {
    /// A place for a handle, which holds NULL until there is one.
    ///
    /// # Safety
    /// As [`Place::of`].
    pub unsafe fn of_handle(pointer: *mut *mut T, what: &'static str) -> Result<Self, Refusal> {
        // SAFETY: passed on from the caller.
        let place = unsafe { Self::of(pointer, what) }?;
        place.put(ptr::null_mut());
        Ok(place)
    }

    /// Hands over a value, which is the caller's from now on.
    pub fn hand_over(&self, value: T) {
        self.put(Box::into_raw(Box::new(value)));
    }
}

/// Ends a value that was handed over.
///
/// # Safety
/// NULL, or from [`Place::hand_over`] and not ended before.
pub unsafe fn discard<T>(pointer: *mut T) {
    if checked(pointer, "").is_err() {
        return;
    }
    // SAFETY: the caller vouches that it came out of a box and is nobody else's.
    let value = unsafe { Box::from_raw(pointer) };
    // There is nobody to tell.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        forget(payload);
    }
}

/// A struct of numbers and pointers that begins with its size, as the caller's header has it.
///
/// # Safety
/// Any bytes are a value, and the first field is a `usize`.
pub unsafe trait Measured: Copy {}

/// Reads such a struct. One that is larger than this library knows is of a later header: its further fields must be 0.
///
/// # Safety
/// As the head of this module says, for as many bytes as the struct says it has.
pub unsafe fn read<T: Measured>(pointer: *const T, what: &'static str) -> Result<T, Refusal> {
    // SAFETY: passed on from the caller.
    let size = unsafe { size_of_struct(pointer, what) }?;
    let further = pointer.cast::<u8>().wrapping_add(size_of::<T>());
    // SAFETY: the struct goes on as far as it says.
    let further = unsafe { std::slice::from_raw_parts(further, size - size_of::<T>()) };
    if further.iter().any(|&byte| byte != 0) {
        return Err(Refusal::Later { what });
    }
    // SAFETY: it has at least the bytes of T, and any are a value.
    Ok(unsafe { pointer.read() })
}

/// Fills such a struct. What is of a later header becomes 0; its size stays.
///
/// # Safety
/// As [`read`]; `value` says the size of T.
pub unsafe fn fill<T: Measured>(pointer: *mut T, what: &'static str, value: T) -> Result<(), Refusal> {
    // SAFETY: passed on from the caller.
    let size = unsafe { size_of_struct(pointer, what) }?;
    let further = pointer.cast::<u8>().wrapping_add(size_of::<T>());
    // SAFETY: the struct goes on as far as it says.
    unsafe { ptr::write_bytes(further, 0, size - size_of::<T>()) };
    // SAFETY: it has at least the bytes of T.
    unsafe { pointer.write(value) };
    // SAFETY: the first field is its size.
    unsafe { pointer.cast::<usize>().write(size) };
    Ok(())
}

/// The size that a struct says it has.
///
/// # Safety
/// As [`read`].
unsafe fn size_of_struct<T: Measured>(pointer: *const T, what: &'static str) -> Result<usize, Refusal> {
    checked(pointer, what)?;
    // SAFETY: not NULL and aligned; the first field is there in every version.
    let found = unsafe { pointer.cast::<usize>().read() };
    let (least, most) = (size_of::<T>(), LARGEST);
    match (least..=most).contains(&found) {
        true => Ok(found),
        false => Err(Refusal::Size {
            what,
            found,
            least,
            most,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_status_with_its_words() {
        let mut error = ptr::null_mut();
        // SAFETY: a variable.
        let status = unsafe { answer(&raw mut error, || panic!("out of {}", "ideas")) };
        assert_eq!(status, Status::Panicked);
        // SAFETY: just handed over.
        let told = unsafe { part(error) }.map(|error| format!("{error:?}"));
        assert!(told.is_some_and(|told| told.contains("lanesum panicked: out of ideas; hint: ")));
        // SAFETY: nobody else has it.
        unsafe { discard(error) };
        // SAFETY: NULL.
        let status = unsafe { answer(ptr::null_mut(), || std::panic::panic_any(7)) };
        assert_eq!(status, Status::Panicked);
    }

    #[test]
    fn an_error_of_before_is_overwritten_where_all_goes_well() {
        let mut error = ptr::without_provenance_mut(8);
        // SAFETY: a variable.
        let status = unsafe { answer(&raw mut error, || Ok(())) };
        assert!(status == Status::Ok && error.is_null());
    }
}
