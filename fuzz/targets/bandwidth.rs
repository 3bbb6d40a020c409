//! What p2pBandwidthLatencyTest prints, behind its title.
#![no_main]

use lanesum_fuzz::judge_behind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| judge_behind("[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n", bytes));
