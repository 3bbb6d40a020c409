//! Any bytes, as a file or a terminal brings them.
#![no_main]

use lanesum_fuzz::judge;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| judge(bytes));
