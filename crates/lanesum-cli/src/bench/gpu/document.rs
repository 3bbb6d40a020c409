//! What a record says of sums on GPUs.

use std::path::Path;

use serde_json::{Value, json};

use super::row::Found;
use crate::bench::record::{self, State};

/// Everything that was found, with what it is of.
pub fn document(found: &[Found], commit: Option<&str>, state: &State) -> Value {
    let rows: Vec<_> = found.iter().flat_map(|found| &found.rows).collect();
    let missing: Vec<_> = found.iter().flat_map(|found| &found.missing).collect();
    record::document(
        commit,
        state,
        machine(found),
        json!({"settings": settings(found), "rows": rows, "missing": missing}),
    )
}

/// Whether the pipe is there to which the driver of a process would turn.
fn mps_listens() -> bool {
    let folder = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").unwrap_or_else(|| "/tmp/nvidia-mps".into());
    Path::new(&folder).join("control").exists()
}

fn settings(found: &[Found]) -> Vec<String> {
    let mut settings = vec![
        "ranks meet before each replay, and the slowest rank of each counts".to_owned(),
        "device events around a replay that follows another one, so that all ranks begin it together".to_owned(),
        "every call of a replay has an output of its own, compared with the reference before and after the timing"
            .to_owned(),
    ];
    if found.iter().any(|found| found.gpus.shared()) {
        let mps = if mps_listens() {
            ", and a CUDA MPS daemon listens"
        } else {
            ", and no CUDA MPS daemon listens"
        };
        settings.push(format!("ranks share GPUs{mps}"));
    }
    settings
}

fn machine(found: &[Found]) -> Value {
    let mut gpus: Vec<(&str, &str)> = found
        .iter()
        .flat_map(|found| &found.gpus.ranks)
        .map(|gpu| (gpu.pci_bus_id.as_str(), gpu.name.as_str()))
        .collect();
    gpus.sort_unstable();
    gpus.dedup();
    json!({
        "driver": driver(&std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default()),
        "gpus": gpus.iter().map(|(_, name)| name).collect::<Vec<_>>(),
    })
}

/// The version in the first line of the driver's own words, such as 580.159.04.
fn driver(words: &str) -> Option<&str> {
    let version = |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    words.lines().next()?.split_whitespace().find(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_named_by_its_version() {
        let words = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder)\nGCC version: 1.2";
        assert_eq!(driver(words), Some("580.159.04"));
        assert_eq!(driver(""), None);
    }
}
