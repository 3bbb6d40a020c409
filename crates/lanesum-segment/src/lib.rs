//! The memory that the ranks of a communicator share: its layout, the epochs and headers that order its
//! use, error records, and waits that always end.
//!
//! This is the only room that names an atomic. It does not know what is summed: calls are a 32-bit
//! digest and four descriptor words here, payload is a pointer and a length. `docs/segment.md` has the
//! layout, `docs/memory-model.md` the argument for every ordering.
//!
//! With `--cfg loom` the control blocks are loom's atomics on the heap, and the same protocol code runs
//! under the model checker (`tests/loom.rs`).

mod arena;
mod epoch;
mod error;
mod layout;
mod mapped;
mod member;
mod mutants;
mod rank_set;
mod record;
mod sync;
mod turns;
mod wait;

#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod sealed;
#[cfg(not(loom))]
mod segment;
#[cfg(loom)]
#[path = "segment_loom.rs"]
mod segment;

pub use arena::{Allocation, Arena, ArenaFull};
pub use epoch::Epoch;
pub use error::SegmentError;
#[cfg(not(loom))]
pub use fork::ForkGuard;
pub use layout::{Geometry, LAYOUT_VERSION, WORLD_MAX};
pub use mapped::{DeviceFault, Mapped};
pub use member::{Announcement, Member};
#[cfg(loom)]
pub use mutants::MUTANTS;
pub use rank_set::RankSet;
pub use record::{Phase, Record, RecordKind};
#[cfg(not(loom))]
pub use sealed::SealedMemory;
pub use segment::Segment;
pub use turns::{Run, Turns};
pub use wait::{Lost, Pace, Tally, Trouble, WaitContext};
