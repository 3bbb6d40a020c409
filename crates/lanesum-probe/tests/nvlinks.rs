//! What a rank is told of its GPU's NVLinks, in processes that find the stand-in for NVML: whatever it does, the rank goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;
use std::time::{Duration, Instant};

use lanesum_plan::{NvlinkEnd, Nvlinks};
use lanesum_probe::nvml::own;
use lanesum_standin::{Nvml, NvmlGpu};

/// Names the GPU, in a process that a test has started.
const OF: &str = "LANESUM_TEST_NVLINKS_OF";
const GPUS: [&str; 2] = ["00007fff:C1:00.0", "00007fff:41:00.0"];

fn gpu(number: usize) -> NvmlGpu {
    NvmlGpu::new(&format!("GPU-{number}"), GPUS[number], "NVIDIA Test")
}

/// What the process of a rank is told, and that it goes on.
fn told(nvml: &Nvml, of: &str) -> Option<Vec<Nvlinks>> {
    let folder = tempfile::tempdir().unwrap();
    let (name, script) = nvml.write(folder.path()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_rank", "--nocapture"])
        .env("LD_LIBRARY_PATH", lanesum_standin::directory())
        .env(name, script)
        .env(OF, of)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("told: ")).unwrap().1;
    serde_json::from_str(line).unwrap()
}

/// The process of a rank; nothing where no test has started it.
#[test]
fn a_rank() {
    if let Ok(of) = std::env::var(OF) {
        println!(
            "told: {}",
            serde_json::to_string(&own(&of).and_then(|own| own.nvlinks)).unwrap()
        );
    }
}

#[test]
fn active_links_are_told_with_their_ends() {
    let to = |count, to| Nvlinks { to, count };
    let direct = NvlinkEnd::Gpu {
        pci_bus_id: "7fff:41:00.0".to_owned(),
    };
    let nvml = Nvml::new()
        .gpu(gpu(0).mig(false, &[]).nvlinks(3, GPUS[1]).nvlinks(1, "inactive"))
        .gpu(gpu(1).nvlinks(2, "00007fff:07:00.0"));
    // As the CUDA driver writes it.
    assert_eq!(told(&nvml, "7FFF:C1:00.0"), Some(vec![to(3, direct)]));
    assert_eq!(told(&nvml, "7fff:41:00.0"), Some(vec![to(2, NvlinkEnd::Unknown)]));
    let switched = Nvml::new().gpu(gpu(0).nvlinks(18, "00007fff:07:00.0").to_switches(18));
    assert_eq!(told(&switched, GPUS[0]), Some(vec![to(18, NvlinkEnd::Switch)]));
    let none_active = Nvml::new().gpu(gpu(0).nvlinks(4, "inactive"));
    assert_eq!(told(&none_active, GPUS[0]), Some(vec![]));
}

#[test]
fn what_is_not_told_is_none_and_soon() {
    let linked = || gpu(0).nvlinks(4, GPUS[1]);
    for nvml in [
        Nvml::new(),
        Nvml::new().init(18),
        Nvml::new().gpu(gpu(0)),
        Nvml::new().gpu(linked().refuse(15)),
        Nvml::new().gpu(linked().mig(true, &[])),
        Nvml::new().gpu(linked()).hang("nvmlInit_v2"),
        Nvml::new().gpu(linked()).hang("nvmlDeviceGetNvLinkState"),
    ] {
        let start = Instant::now();
        assert_eq!(told(&nvml, GPUS[0]), None, "{nvml:?}");
        assert!(start.elapsed() < Duration::from_secs(20), "{nvml:?}");
    }
}
