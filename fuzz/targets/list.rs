//! `nvidia-smi -L`, behind its first line.
#![no_main]

use lanesum_fuzz::judge_behind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| judge_behind("GPU 0: NVIDIA L4 (UUID: GPU-0)\n", bytes));
