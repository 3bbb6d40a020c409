//! What ran, and who was waited for.

use std::cell::Cell;
use std::time::Duration;

use lanesum_cuda::DeviceCounters;
use lanesum_plan::{AlgorithmName, Bytes, Rank};
use serde::Serialize;

/// What a communicator has done so far, on this rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Calls that succeeded, or were enqueued; those that were captured count in `device`, when they run.
    pub calls: u64,
    /// Exchanges closed: one a call, more for messages longer than a chunk.
    pub chunks: u64,
    /// Bytes of their messages on this rank.
    pub bytes: u64,
    /// Calls by algorithm.
    pub by_algorithm: [(AlgorithmName, u64); AlgorithmName::ALL.len()],
    /// Time that this thread spent waiting for each peer.
    pub waited: Vec<(Rank, Duration)>,
    /// Times that this rank went to sleep in a wait.
    pub naps: u64,
    /// What the GPU has counted, calls in graphs each time that they ran; read from it just now. None without a GPU, and where it
    /// can't be read any more.
    pub device: Option<DeviceCounters>,
}

/// The cells behind [`Counters`].
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    calls: [Cell<u64>; AlgorithmName::ALL.len()],
    bytes: Cell<u64>,
}

impl Ledger {
    #[inline]
    pub(crate) fn note(&self, algorithm: AlgorithmName, bytes: Bytes) {
        let calls = &self.calls[algorithm as usize % AlgorithmName::ALL.len()];
        calls.set(calls.get() + 1);
        self.bytes.set(self.bytes.get().wrapping_add(bytes.get()));
    }

    pub(crate) fn by_algorithm(&self) -> [(AlgorithmName, u64); AlgorithmName::ALL.len()] {
        AlgorithmName::ALL.map(|name| (name, self.calls[name as usize % AlgorithmName::ALL.len()].get()))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}
