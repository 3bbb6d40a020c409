//! The CUDA engine: driver calls, mapping, kernels, launches. The only room that links CUDA, and it does so at run time.
//!
//! A rank's part of a communicator is made in steps, between which the ranks talk (the façade does that): [`Staged::new`] makes
//! state and loads kernels; [`Staged::open`] and [`Staged::map`] pass inboxes around; [`Staged::prove`] and [`Staged::judge`] make
//! sure that bytes arrive; [`Engine::new`] is what calls are made with. The kernels and their contracts are in `kernels/`.

mod bench;
mod buffer;
mod capture_trouble;
mod captures;
mod copies;
mod counters;
mod device;
mod driver;
mod engine;
mod enqueue;
mod error;
mod event;
mod graph;
mod images;
mod inbox;
mod launch;
mod layout;
mod module;
mod nvtx;
mod program;
mod proof;
mod retired;
mod shared;
mod staged;
mod stream;

#[doc(hidden)]
pub use bench::BenchKernel;
pub use buffer::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Scalar};
pub use capture_trouble::CaptureTrouble;
#[doc(hidden)]
pub use copies::Copies;
pub use counters::DeviceCounters;
pub use device::{Device, DriverFacts, device_count, driver};
pub use engine::{DeviceOperands, Engine, FarewellKind, Notifier};
pub use enqueue::{Admission, Queued, Spoilt, Unqueued};
pub use error::CudaError;
pub use event::Event;
pub use graph::{Capture, Graph};
pub use layout::INBOX_VERSION;
pub use nvtx::{Range, range};
pub use shared::{Completed, Pending, Unfinished};
pub use staged::{Opened, Staged, Way};
pub use stream::{RawStream, Stream};

#[cfg(test)]
mod images_tests;
