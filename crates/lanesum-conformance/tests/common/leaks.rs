//! What this process holds of the driver.
#![allow(unsafe_code, reason = "asks the driver itself")]

use std::ffi::{c_int, c_uint};

pub fn library() -> libloading::Library {
    // SAFETY: the library is loaded already, by the library under test.
    unsafe { libloading::Library::new("libcuda.so.1") }.unwrap()
}

/// Allocations, bytes, streams and events, pinned allocations; the stand-in counts them.
pub fn stand_in() -> [u64; 4] {
    let library = library();
    let mut counts = [0; 4];
    // SAFETY: that is the function's signature.
    let count = unsafe { library.get::<unsafe extern "C" fn(*mut u64) -> c_int>(b"lanesumStandInLeaks\0") }.unwrap();
    // SAFETY: it writes four numbers.
    assert_eq!(unsafe { count(counts.as_mut_ptr()) }, 0);
    counts
}

/// Makes a device's primary context this thread's, and keeps it until the process ends.
pub fn make_current(ordinal: usize) {
    let library = library();
    let (device, mut context) = (c_int::try_from(ordinal).unwrap(), std::ptr::null_mut());
    // SAFETY: that is the function's signature.
    let init = unsafe { library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0") };
    // SAFETY: it may be called again at any time.
    assert_eq!(unsafe { init.unwrap()(0) }, 0);
    // SAFETY: that is the function's signature.
    let retain =
        unsafe { library.get::<unsafe extern "C" fn(*mut *mut (), c_int) -> c_int>(b"cuDevicePrimaryCtxRetain\0") };
    // SAFETY: as above.
    let set = unsafe { library.get::<unsafe extern "C" fn(*mut ()) -> c_int>(b"cuCtxSetCurrent\0") };
    // SAFETY: `context` outlives the call; the driver refuses a device that does not exist.
    assert_eq!(unsafe { retain.unwrap()(&mut context, device) }, 0);
    // SAFETY: the context was retained just now.
    assert_eq!(unsafe { set.unwrap()(context) }, 0);
}

/// Bytes that are free on the first device, whoever took the others.
pub fn free_device_memory() -> u64 {
    make_current(0);
    let library = library();
    let (mut free, mut total) = (0_usize, 0_usize);
    // SAFETY: that is the function's signature.
    let info = unsafe { library.get::<unsafe extern "C" fn(*mut usize, *mut usize) -> c_int>(b"cuMemGetInfo_v2\0") };
    // SAFETY: both outlive the call.
    assert_eq!(unsafe { info.unwrap()(&mut free, &mut total) }, 0);
    free as u64
}
