//! The built binary, run as people and programs run it. One test binary for all of it: it links once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod bench_host;
mod common;
mod cuda;
mod doctor;
mod doctor_gpus;
mod launch;
mod plan;
mod reduce;
mod selftest;
mod snapshots;
mod verify_cycle;
