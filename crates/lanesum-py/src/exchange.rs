//! DLPack's C exchange API: a table of functions by which a library shows a tensor without any object made for it.
//!
//! The layouts are those of the public specification (dlpack.h, version 1.3). What is shown lives until this thread gives the GIL back to
//! the library's own code, so it is only looked at before. Only tensors of the very class that has the table are asked: a subclass may mean
//! something else by its memory.
#![expect(unsafe_code, reason = "calls functions of other libraries")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;

use crate::dlpack::{self, MAJOR, View};

/// What the capsule with the table is called.
const NAME: &CStr = c"dlpack_exchange_api";

/// The table, of version 1.
#[repr(C)]
struct Table {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocator: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    tensor_from_object: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut dlpack::Tensor) -> c_int>,
    current_work_stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

const _: () = assert!(size_of::<Table>() == 56 && offset_of!(Table, previous) == 8);
const _: () = assert!(offset_of!(Table, tensor_from_object) == 40 && offset_of!(Table, current_work_stream) == 48);

/// The functions of a library whose tensors can be asked so.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    tensor: unsafe extern "C" fn(*mut ffi::PyObject, *mut dlpack::Tensor) -> c_int,
    stream: unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int,
}

impl Exchange {
    /// Those of a class, if it has them.
    pub fn of(class: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(capsule) = class.getattr_opt(intern!(class.py(), "__dlpack_c_exchange_api__"))? else {
            return Ok(None);
        };
        let Some(table) = dlpack::pointer(&capsule, NAME) else {
            return Ok(None);
        };
        let table = table.cast::<Table>();
        // SAFETY: a capsule of this name holds a table, whose head is the same in all versions and which lives as long as the process.
        let major = unsafe { (*table).major };
        if major != MAJOR {
            return Ok(None);
        }
        // SAFETY: as before, and this version has these fields.
        let table = unsafe { &*table };
        let both = table.tensor_from_object.zip(table.current_work_stream);
        Ok(both.map(|(tensor, stream)| Self { tensor, stream }))
    }

    /// Reads a tensor of the class itself; none where the library will not show it, for reasons that it is asked for in other ways.
    /// `look` gets what is shown, which the library may change when it runs next.
    pub fn view<T>(&self, object: &Bound<'_, PyAny>, look: impl FnOnce(&View<'_>) -> Option<T>) -> Option<T> {
        let mut shown = MaybeUninit::<dlpack::Tensor>::zeroed();
        // SAFETY: the object is of the class that has the table, as the caller has found, and the GIL is held; the function writes the
        // structure.
        let code = unsafe { (self.tensor)(object.as_ptr(), shown.as_mut_ptr()) };
        if code != 0 {
            drop(PyErr::take(object.py()));
            return None;
        }
        // SAFETY: it was zeroed, which is a value of all of its fields, and then written.
        let shown = unsafe { shown.assume_init_ref() };
        look(&dlpack::read(shown, false).ok()?)
    }

    /// The stream on which the library enqueues now.
    pub fn stream(&self, py: Python<'_>, device: dlpack::Device) -> PyResult<usize> {
        let mut stream = null_mut();
        // SAFETY: the GIL is held, and the function writes one handle.
        let code = unsafe { (self.stream)(device.kind, device.ordinal, &raw mut stream) };
        match code {
            0 => Ok(stream.expose_provenance()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}
