//! `lspci -tv`, behind its first branch.
#![no_main]

use lanesum_fuzz::judge_behind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| judge_behind("-[0000:00]-+-00.0\n", bytes));
