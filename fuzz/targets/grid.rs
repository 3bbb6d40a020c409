//! A matrix of `nvidia-smi topo`, -m or -p2p, from its second line on.
#![no_main]

use lanesum_fuzz::judge_behind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| judge_behind("\tGPU0\tGPU1\tGPU2\n", bytes));
