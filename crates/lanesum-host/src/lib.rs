//! The CPU engine: ranks are processes or threads of one host and exchange through shared memory.
//!
//! An [`Engine`] is one rank's end of one communicator. Its calls take what the plan decided (an algorithm
//! that carries its evidence), exchange, and return [`Closed`], the proof that the epoch of the last chunk
//! was closed, or a [`Fault`]. After a fault the engine is poisoned: it fills outputs with NaN and returns
//! the first fault again.
//!
//! ```text
//! one_shot_pull   copy input -> own staging half; header; await headers; sum all halves -> output
//!                 shared: header; await headers; sum all inputs in place; closing; await closings
//! two_shot_pull   copy input -> own staging half; header; await headers;
//!                 sum own shard of all -> own result area; result flag; await flags; copy all results -> output
//!                 shared: the same without the first copy, inputs read in place
//! ```
//! A message longer than a chunk is a row of such exchanges, an epoch each; the halves alternate, so that a
//! rank fills the next while its peers still read the last.

mod engine;
mod fault;
mod one_shot;
pub mod reduce;
mod two_shot;

pub use engine::{Closed, Engine, Input, Operands};
pub use fault::{phase_name, told};
pub use lanesum_plan::{Fault, FaultKind};
