//! The types that every room shares, and the one decision.
//!
//! An all-reduce that picks its algorithm in several places ends, in some state that nobody thought of, with none: no
//! code runs, nothing is reported, the output is garbage. So the decision lives here, alone, as pure functions over
//! values: what was observed ([`Topology`]), what the user wants ([`Policy`], [`Limits`]) and the order of combination
//! ([`ReductionTree`]) become a [`Plan`], once; the plan turns each [`Request`] into exactly one [`Algorithm`], whose
//! variants carry the evidence that they may run, or, for buffers of GPUs alone, into a [`Refusal`] that says why there is
//! none. What was refused, and why, stays available as an [`Explanation`].
//!
//! ```
//! use lanesum_plan::*;
//!
//! let world = WorldSize::new(4)?;
//! let topology = Topology { ranks: vec![RankHost::default(); 4], ..Topology::default() };
//! let tree = ReductionTree::canonical(world);
//! let plan = Plan::compile(PlanInputs {
//!     world,
//!     topology: &topology,
//!     policy: Policy::default(),
//!     limits: Limits::default(),
//!     tree: &tree,
//! })?;
//! let request = Request {
//!     operation: Operation::Sum,
//!     dtype: Dtype::Bf16,
//!     elements: Elements::new(3 * 7168),
//!     buffers: Buffers::Private,
//!     label: None,
//! };
//! assert_eq!(plan.decide(&request).map(|algorithm| algorithm.name()), Ok(AlgorithmName::TwoShotPull));
//! assert_eq!(plan.explain(&request).chosen, Some(AlgorithmName::TwoShotPull));
//! assert_eq!(plan.tree().to_string(), "(0+1)+(2+3)");
//! # Ok::<(), PlanError>(())
//! ```
//!
//! Nothing here does I/O, and nothing here panics on any input.
#![forbid(unsafe_code)]

mod algorithm;
mod call;
mod choice;
mod closed;
mod cost;
mod digest;
mod error;
mod estimate;
mod explain;
mod fabric;
mod fault;
mod forecast;
mod gates;
mod gpus;
mod nccl;
mod nvlink;
pub mod oracle;
mod plan;
mod policy;
mod refusal;
mod relation;
mod request;
mod slot;
mod topology;
mod tree;
mod words;

pub use algorithm::{
    Algorithm, AlgorithmName, Alone, DeviceAlone, DeviceHeaderOnly, Engine, Grid, HeaderOnly, Kernel, LINE,
    OneShotPull, OneShotPush, Path, TwoShotPull, TwoShotPush,
};
pub use call::{Announced, CALL_WORDS, Call, CallIdentity};
pub use choice::best_places;
pub use cost::{CostModel, Link};
pub use error::PlanError;
pub use estimate::Estimate;
pub use explain::{Alternative, Beyond, Candidate, Decision, Explanation, PathRefusal, Preference, Verdict};
pub use fabric::{Busiest, BusiestLink, CopyRates, Fabric, Group, Links, Ways};
pub use fault::{Fault, FaultKind};
pub use forecast::{Habits, Message, Method};
pub use gates::{Answer, Bulk, DEVICE_WORLD_MAX, DeviceFit, Finding, Gate, device_fit};
pub use gpus::{Gpus, PeerVerdict, RankGpu};
pub use nccl::{NcclWishes, P2pLevel, unwished};
pub use nvlink::{NvlinkEnd, Nvlinks};
pub use plan::{Plan, PlanInputs};
pub use policy::{AlgorithmChoice, Limits, PathChoice, Policy, SHARED_MAX, STAGING_MAX, STAGING_UNIT};
pub use refusal::Refusal;
pub use relation::Relation;
pub use request::Request;
pub use slot::{PcieLink, Slot};
pub use topology::{CpuSet, HostFacts, RankHost, Topology};
pub use tree::{ReductionTree, Step, TreeFault};
pub use words::{Buffers, Bytes, Dtype, Elements, Label, Operation, Rank, WORLD_MAX, WorldSize};
