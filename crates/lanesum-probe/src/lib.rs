//! Observes the host once, for planning and for people; decides nothing.
//!
//! Everything is read from the kernel: the affinity mask of this thread, and files below /proc and /sys. What cannot be
//! read, or does not look as expected, stays `None`: a guess would be planned with as if it were measured. Files are
//! read up to a bound, and nothing here panics or waits, but for the GPUs' management library ([`nvml`]), which is other people's code.
#![forbid(unsafe_code)]

mod cgroup;
mod container;
pub mod dump;
pub mod nvml;
mod slot;
mod surroundings;
pub mod visible;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lanesum_plan::{Bytes, CpuSet, HostFacts};

pub use slot::{pci_link, pci_numa_node, pci_slot};

/// More than any of these files needs; of /proc/cpuinfo the first processor is enough.
const MOST: u64 = 64 * 1024;

/// The processors that this thread may run on; empty where the kernel does not tell.
#[must_use]
pub fn cpus() -> CpuSet {
    match rustix::thread::sched_getaffinity(None) {
        Ok(mask) => (0..CpuSet::CAPACITY.min(rustix::thread::CpuSet::MAX_CPU))
            .filter(|cpu| mask.is_set(*cpu))
            .collect(),
        Err(_) => CpuSet::default(),
    }
}

/// What can be known of the host.
#[must_use]
pub fn host() -> HostFacts {
    HostFacts {
        page: page(),
        ..host_below(Path::new("/"))
    }
}

/// The facts that come from files, below another root in tests.
fn host_below(root: &Path) -> HostFacts {
    let cpuinfo = read(&root.join("proc/cpuinfo")).unwrap_or_default();
    HostFacts {
        cpu_model: cpu_model(&cpuinfo),
        numa_nodes: numa_nodes(root),
        page: None,
        memory_limit: cgroup::memory_limit(root).map(Bytes::new),
        container: container::inside(root),
        virtualised: surroundings::virtualised(root, &cpuinfo),
        wsl: surroundings::wsl(root),
        iommu: surroundings::iommu(root),
    }
}

fn page() -> Option<Bytes> {
    u64::try_from(rustix::param::page_size()).ok().map(Bytes::new)
}

/// The first processor's name: `model name` on x86, `Model` on some Arm boards; most Arm kernels tell none.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    first_of(cpuinfo, "model name").or_else(|| first_of(cpuinfo, "Model"))
}

/// What /proc/cpuinfo says first of this.
fn first_of(cpuinfo: &str, key: &str) -> Option<String> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut values = fields
        .filter(|(field, _)| field.trim() == key)
        .map(|(_, value)| value.trim());
    values.find(|value| !value.is_empty()).map(str::to_owned)
}

/// How many NUMA nodes are online.
fn numa_nodes(root: &Path) -> Option<u32> {
    let text = read(&root.join("sys/devices/system/node/online"))?;
    let nodes: CpuSet = text.trim().parse().ok()?;
    u32::try_from(nodes.len()).ok().filter(|nodes| *nodes > 0)
}

/// The beginning of a file as text.
fn read(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&read_bytes(path)?).into_owned())
}

/// The beginning of a file.
fn read_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
