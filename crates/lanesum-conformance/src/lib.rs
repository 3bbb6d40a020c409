//! The one conformance suite that judges every engine, path and algorithm.
//!
//! An all-reduce that is wrong for one size in a thousand is worse than none, and tests written beside each engine drift
//! apart. So there is one list of [`Case`]s and one judge:
//!
//! * [`cases`] gives the list: pairwise over everything a call can vary in (any two values of two factors meet in some
//!   case), and the fixed cases that past failures in the field ask for.
//! * [`run_rank`] runs one case on one rank of any communicator and judges it: every bit against the oracle, the memory
//!   around the output, the input, the receipt.
//! * [`threads::run`] and [`processes::run`] run a list with ranks as threads or as real processes and report every case
//!   as it ends. A failing case prints as one line of JSON, from which it runs again alone.
//!
//! The suite knows no engine: it sees only the façade, so an engine added later is judged by the same list.
#![deny(unsafe_code)]

mod carrier;
mod case;
mod guarded;
mod judge;
mod on_device;
mod pairwise;
mod pattern;
pub mod processes;
mod replays;
mod run;
mod sample;
mod space;
mod suite;
mod tables;
pub mod threads;
mod verdict;

pub use carrier::Options;
pub use case::{Case, CaseError, Choice, Launch, Origin, Placement, Setting, Simd};
pub use pattern::Pattern;
pub use run::run_rank;
pub use sample::Sample;
pub use suite::{Budget, PATHS, cases, cases_at, device_cases_at};
pub use tables::{PERIOD, Tables};
pub use verdict::{Carrier, Failure, Outcome, ReceiptField, Side, Summary, Verdict};
