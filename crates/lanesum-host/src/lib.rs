//! The CPU engine: ranks are processes or threads of one host and exchange through shared memory.
//!
//! An [`Engine`] is one rank's end of one communicator. Its calls take what the plan decided (an algorithm
//! that carries its evidence), exchange, and return [`Closed`], the proof that the epoch of the last chunk
//! was closed, or a [`Fault`]. After a fault the engine is poisoned: it fills outputs with NaN and returns
//! the first fault again.
//!
//! ```text
//! one_shot_pull   copy input -> mailbox of each peer; header; await headers; sum own input and what the peers wrote
//!                 in place: header; await headers; sum all inputs where they are; closing; await closings
//! two_shot_pull   copy each peer its shard of the input -> mailbox; header; await headers;
//!                 sum own shard, and copy it back to where each peer's part stood; result flag; await flags;
//!                 copy the others' sums -> output
//! ```
//! A message longer than a chunk is a row of such exchanges, an epoch each.
//!
//! Who has read a line of a mailbox last writes it next (`lanesum_segment::Turns`): lines move between two caches once for
//! each byte that is told, and never only to be written.

mod engine;
mod fault;
mod one_shot;
pub mod reduce;
mod two_shot;

pub use engine::{Closed, Engine, Input, Operands};
pub use fault::{phase_name, told};
pub use lanesum_plan::{Fault, FaultKind};
