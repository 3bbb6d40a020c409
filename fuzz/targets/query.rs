//! `nvidia-smi -q`, behind its title.
#![no_main]

use lanesum_fuzz::judge_behind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| judge_behind("==============NVSMI LOG==============\n", bytes));
