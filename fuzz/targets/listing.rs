//! `lspci -vvv`, behind its first device.
#![no_main]

use lanesum_fuzz::judge_behind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| judge_behind("00:00.0 Host bridge: x\n", bytes));
