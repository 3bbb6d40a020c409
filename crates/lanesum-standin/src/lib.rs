//! A stand-in for the CUDA driver: a `libcuda.so.1` that runs the real kernels on the CPU.
//!
//! Tests start processes whose library path begins with [`directory`], so the whole CUDA engine runs without a GPU: the same
//! loading of symbols, the same images, several processes that map each other's memory, and any machine that a [`Config`] asks
//! for, from one without peer access to one whose stores get lost. It counts for behaviour and never for speed, and everything
//! that reports must say that it ran on a stand-in.
//!
//! Beside it stands a `libnvidia-ml.so.1`, which shows what an [`Nvml`] asks for: without one no GPU, and never those of the machine.
//!
//! What differs from the real driver: the NULL stream does not wait for other streams; graphs come from captures only, and
//! their nodes run one after the other; a graph launched into a capture is refused; the host can read device memory by its
//! address; a kernel that may start early starts when the one before it has ended, as the real driver may let it too; any number of blocks runs at once, unless [`Config::resident`] says otherwise.
mod config;
mod nvml;

pub use config::{Config, Lie, StandIn};
pub use nvml::{Nvml, NvmlGpu};

use std::path::Path;

/// The folder that holds `libcuda.so.1`, and the library of [`Nvml`], `libnvidia-ml.so.1`.
#[must_use]
pub fn directory() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/driver"))
}
