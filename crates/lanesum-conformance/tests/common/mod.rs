//! What the tests that run themselves again as ranks have in common.
#![allow(dead_code, reason = "no test uses all of it")]

pub mod clock;
pub mod crew;
pub mod driver;
pub mod fork;
pub mod harness;
pub mod puppet;
pub mod scenes;
pub mod soak;
