//! DLPack: how array libraries show each other their memory. The one module that follows pointers of others.
//!
//! The layouts are those of the public specification (dlpack.h, versions 0.x and 1.x). A capsule is looked at and never consumed: it
//! keeps its name, so that its own destructor releases the memory when the last reference to it goes.
#![expect(unsafe_code, reason = "reads the structures of other libraries")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::{offset_of, size_of};

use pyo3::ffi;
use pyo3::prelude::*;

/// What a capsule without a version is called.
const PLAIN: &CStr = c"dltensor";
/// What one with a version is called.
const VERSIONED: &CStr = c"dltensor_versioned";
/// The version that is understood.
pub const MAJOR: u32 = 1;

/// The memory may not be written.
const READ_ONLY: u64 = 1;
/// The memory is a copy: what is written there is lost.
const COPIED: u64 = 1 << 1;

/// Where memory is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Device {
    /// `kDLCPU` and so on.
    pub kind: c_int,
    /// Number among those of its kind.
    pub ordinal: c_int,
}

/// What an element is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DataType {
    /// `kDLFloat` and so on.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Lanes of one element.
    pub lanes: u16,
}

/// A tensor, without who owns it.
#[repr(C)]
pub struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: c_int,
    dtype: DataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

const _: () = assert!(size_of::<Device>() == 8 && size_of::<DataType>() == 4);
const _: () = assert!(size_of::<Tensor>() == 48 && size_of::<Managed>() == 64 && size_of::<ManagedVersioned>() == 80);
const _: () = assert!(offset_of!(Tensor, device) == 8 && offset_of!(Tensor, ndim) == 16);
const _: () = assert!(offset_of!(Tensor, dtype) == 20 && offset_of!(Tensor, shape) == 24);
const _: () = assert!(offset_of!(Tensor, strides) == 32 && offset_of!(Tensor, byte_offset) == 40);
const _: () = assert!(offset_of!(Managed, tensor) == 0 && offset_of!(Managed, deleter) == 56);
const _: () = assert!(offset_of!(ManagedVersioned, context) == 8 && offset_of!(ManagedVersioned, deleter) == 16);
const _: () = assert!(offset_of!(ManagedVersioned, flags) == 24 && offset_of!(ManagedVersioned, tensor) == 32);

/// What a tensor says of itself, as long as its producer shows it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Address of the first element.
    pub address: usize,
    /// Length of each dimension.
    pub shape: &'a [i64],
    /// Elements from one to the next, of each dimension; none where elements lie one after the other.
    pub strides: Option<&'a [i64]>,
    /// What the elements are.
    pub dtype: DataType,
    /// Where they are.
    pub device: Device,
    /// Whether writing them has no effect, or a bad one.
    pub read_only: bool,
}

/// Reads a capsule; `Err` says what is wrong with it.
pub fn view<'a>(capsule: &'a Bound<'_, PyAny>) -> Result<View<'a>, &'static str> {
    if let Some(managed) = pointer(capsule, VERSIONED) {
        let managed = managed.cast::<ManagedVersioned>();
        // SAFETY: a capsule of this name holds the structure, whose first field never moves, until its destructor runs; the caller has a
        // reference to it.
        let major = unsafe { (*managed).major };
        if major != MAJOR {
            return Err("its DLPack version is not the one that was asked for");
        }
        // SAFETY: as before, and this version has these fields.
        let flags = unsafe { (*managed).flags };
        // SAFETY: as before.
        let tensor = unsafe { &(*managed).tensor };
        return read(tensor, flags & (READ_ONLY | COPIED) != 0);
    }
    let managed = pointer(capsule, PLAIN).ok_or("its __dlpack__ gives no capsule of a tensor")?;
    // SAFETY: a capsule of this name holds the structure until its destructor runs; the caller has a reference to it.
    let tensor = unsafe { &(*managed.cast::<Managed>()).tensor };
    read(tensor, false)
}

/// What a capsule of this name points to; none if it is no such capsule.
pub fn pointer(capsule: &Bound<'_, PyAny>, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: any object may be asked, and the name outlives the call.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: it is a valid capsule of this name, as just found.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
    (!pointer.is_null()).then_some(pointer)
}

/// What a tensor says; `Err` says what is wrong with it.
pub fn read(tensor: &Tensor, read_only: bool) -> Result<View<'_>, &'static str> {
    let shape = list(tensor, tensor.shape, tensor.ndim)?.unwrap_or_default();
    let strides = list(tensor, tensor.strides, tensor.ndim)?;
    if tensor.ndim > 0 && shape.is_empty() {
        return Err("its DLPack tensor has dimensions without lengths");
    }
    let offset = usize::try_from(tensor.byte_offset).map_err(|_| "its DLPack tensor begins beyond all memory")?;
    let address = tensor.data.addr().checked_add(offset);
    Ok(View {
        address: address.ok_or("its DLPack tensor begins beyond all memory")?,
        shape,
        strides,
        dtype: tensor.dtype,
        device: tensor.device,
        read_only,
    })
}

/// A number for each dimension; none where the producer gives none.
fn list(_of: &Tensor, start: *const i64, ndim: c_int) -> Result<Option<&[i64]>, &'static str> {
    const MOST: usize = 1024;
    let length = usize::try_from(ndim)
        .ok()
        .filter(|&length| length <= MOST)
        .ok_or("its DLPack tensor has an impossible number of dimensions")?;
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: the specification has `ndim` numbers there, which nobody writes and which live as long as the tensor, to whose borrow the
    // slice is tied.
    Ok(Some(unsafe { std::slice::from_raw_parts(start, length) }))
}
