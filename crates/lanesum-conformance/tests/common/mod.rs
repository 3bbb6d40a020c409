//! What the tests that run themselves again as ranks have in common.
#![allow(dead_code, reason = "no test uses all of it")]

pub mod clock;
pub mod crew;
pub mod device_calls;
pub mod device_kills;
pub mod device_mismatches;
pub mod device_scenes;
pub mod device_soak;
pub mod device_songs;
pub mod driver;
pub mod fork;
pub mod graph_faults;
pub mod graph_scenes;
pub mod graphs;
pub mod harness;
pub mod joiner;
pub mod leaks;
pub mod life_scenes;
pub mod paths;
pub mod puppet;
pub mod raw_calls;
pub mod scenes;
pub mod soak;
pub mod stage;
pub mod twins;
