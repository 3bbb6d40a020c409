//! Which library this is, and which header it fits.

use std::ffi::{CStr, c_char};

use crate::refusal::Refusal;

/// The ABI of this header. It counts up when something is changed that programs rely on, and stays when something is added.
pub const LANESUM_ABI_VERSION: u32 = 1;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// Whether a program was compiled with a header that fits.
pub fn fits(abi: u32) -> Result<(), Refusal> {
    match abi == LANESUM_ABI_VERSION {
        true => Ok(()),
        false => Err(Refusal::Abi {
            program: abi,
            library: LANESUM_ABI_VERSION,
        }),
    }
}

/// The version of the library that runs, as `1.2.3`. The text is the library's and lives as long as that. Any thread may ask.
#[unsafe(no_mangle)]
pub extern "C" fn lanesum_version() -> *const c_char {
    CStr::from_bytes_with_nul(VERSION.as_bytes())
        .unwrap_or_default()
        .as_ptr()
}

/// The ABI of the library that runs. Joining compares it with the header's `LANESUM_ABI_VERSION`; programs that open the library by
/// `dlopen` can ask before. Any thread may ask.
#[unsafe(no_mangle)]
pub extern "C" fn lanesum_abi_version() -> u32 {
    LANESUM_ABI_VERSION
}
