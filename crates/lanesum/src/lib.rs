//! lanesum sums a tensor over the ranks of one host: a receipt or an error, the same bits on every rank,
//! and no wait without an end.
//!
//! ```
//! use lanesum::{AllReduce, Communicator};
//!
//! // One rank of a world of one; with `Communicator::from_env()` the launcher says who is who.
//! let communicator = Communicator::builder(0, 1, "doc").join()?;
//! let mut gradients = vec![1.0f32, 2.0, 3.0];
//! let issued = communicator.all_reduce(AllReduce::in_place(&mut gradients))?;
//! assert_eq!(issued.receipt().map(|receipt| receipt.bytes().get()), Some(12));
//! communicator.close()?;
//! # Ok::<(), lanesum::Error>(())
//! ```
#![deny(unsafe_code)]

mod attach;
#[doc(hidden)]
pub mod bench;
mod buffers;
mod builder;
mod class;
mod communicator;
mod counters;
mod dispatch;
mod element;
mod engines;
pub mod environment;
mod error;
mod issued;
mod refusals;
mod setup;
mod shared;
mod split;

pub use buffers::AllReduce;
pub use builder::Builder;
pub use class::ErrorClass;
pub use communicator::{Communicator, RawCall, RawMemory};
pub use counters::Counters;
pub use element::Element;
pub use engines::EngineChoice;
pub use environment::EnvironmentError;
pub use error::{Error, Refused};
pub use half::{bf16, f16};
pub use issued::{Captured, Completed, Issued, Receipt};
pub use lanesum_cuda::CudaError;
pub use lanesum_host::{Fault, FaultKind};
pub use lanesum_plan::{
    Algorithm, AlgorithmChoice, AlgorithmName, Buffers, Bytes, Call, CallIdentity, Dtype, Elements, Engine,
    Explanation, Label, Operation, Path, PathChoice, Plan, PlanError, Policy, Preference, Rank, ReductionTree, Request,
    Topology, WORLD_MAX, WorldSize,
};
pub use lanesum_rendezvous::RendezvousError;
pub use lanesum_segment::SegmentError;
pub use shared::SharedBuffer;

/// GPUs, streams, graphs and device memory, for programs that bring no framework of their own.
pub mod cuda {
    pub use lanesum_cuda::{
        Capture, CaptureTrouble, Device, DeviceBuffer, DeviceCounters, DeviceSlice, DeviceSliceMut, DriverFacts, Event,
        Graph, RawStream, Stream, device_count, driver,
    };
}

/// The README's example runs as a test; its links would lead nowhere here.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
