//! What a report says of the GPUs, and of the times that mean less than they seem to.

use lanesum_plan::{Bytes, Engine, Gpus, RankGpu};
use serde::Serialize;

use super::super::message::RankReport;

/// What several ranks on one GPU show, and what they do not.
const FUNCTIONAL: &str = "ranks share a GPU: that shows that sums are right, and does not measure what they cost; no link \
                          between GPUs is crossed, ranks share one GPU's multiprocessors, and without CUDA MPS they take \
                          turns of milliseconds";
/// The same in lines of a table.
const FUNCTIONAL_LINES: [&str; 3] = [
    "ranks share a GPU: that shows that sums are right, and does not measure what they cost;",
    "no link between GPUs is crossed, ranks share one GPU's multiprocessors, and without",
    "CUDA MPS they take turns of milliseconds",
];

/// On the host a call is done when it returns.
const TIMED_EACH: &str = "each call by itself";
/// On a stream only a batch has an end that can be seen.
const TIMED_TOGETHER: &str = "eager, back to back: the device's time for a batch divided by its calls";
/// Calls of a graph are enqueued together.
const TIMED_GRAPH: &str = "replayed from a CUDA graph: the device's time for a replay divided by its calls";

/// The GPUs of a run; all empty on the host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Devices {
    /// Whether the CUDA driver was the tests' stand-in. Times mean nothing then.
    pub stand_in: bool,
    /// The GPU of each rank.
    pub devices: Vec<Placed>,
    /// GPU memory that each rank's part of the communicator took, on the rank with the most.
    pub device_memory_bytes: u64,
    /// What ranks that share a GPU do not measure; nothing where none do.
    pub functional: Option<&'static str>,
}

/// The GPU of one rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placed {
    /// The rank.
    pub rank: usize,
    /// What it takes its GPU for.
    #[serde(flatten)]
    pub gpu: RankGpu,
}

impl Devices {
    /// From the reports of all ranks.
    pub fn of(ranks: &[RankReport]) -> Self {
        let gpus = ranks
            .iter()
            .enumerate()
            .filter_map(|(rank, report)| Some((rank, report.gpu.clone()?)));
        let devices: Vec<Placed> = gpus.map(|(rank, gpu)| Placed { rank, gpu }).collect();
        let gpus = Gpus::new(devices.iter().map(|placed| placed.gpu.clone()).collect());
        Self {
            stand_in: gpus.ranks.iter().any(|gpu| gpu.stand_in),
            functional: gpus.shared().then_some(FUNCTIONAL),
            device_memory_bytes: ranks.iter().map(|rank| rank.device_memory_bytes).max().unwrap_or(0),
            devices,
        }
    }

    /// Rows of the table: a name, which may be empty, and what follows it.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        for placed in &self.devices {
            let name = if rows.is_empty() { "devices" } else { "" };
            let Placed { rank, gpu } = placed;
            rows.push((name, format!("rank {rank}: {} at {}", gpu.name, gpu.pci_bus_id)));
        }
        if !self.devices.is_empty() {
            let memory = Bytes::new(self.device_memory_bytes);
            rows.push(("", format!("{memory} of GPU memory a rank")));
        }
        if self.functional.is_some() {
            let names = ["FUNCTIONAL", "", ""];
            rows.extend(names.into_iter().zip(FUNCTIONAL_LINES.map(str::to_owned)));
        }
        rows
    }
}

/// On a GPU the kernels are of its own instructions, whatever image they were loaded from.
pub fn isa_of(rank: &RankReport) -> String {
    match &rank.gpu {
        Some(gpu) => format!("sm_{}{}", gpu.compute.0, gpu.compute.1),
        None => rank.isa.clone(),
    }
}

/// What the time of one all-reduce is.
pub fn timing(engine: Engine, graph: bool) -> &'static str {
    match (engine, graph) {
        (Engine::Host, _) => TIMED_EACH,
        (Engine::Cuda, false) => TIMED_TOGETHER,
        (Engine::Cuda, true) => TIMED_GRAPH,
    }
}
