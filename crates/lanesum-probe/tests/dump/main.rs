//! Dumps as the field produces them, and as nobody should.
// A helper outside a #[test] function may give up like the test that calls it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod affinities;
mod bridges;
mod mutations;
mod refusals;
mod render;
mod sound;
mod tables;
