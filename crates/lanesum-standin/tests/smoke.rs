//! The stand-in on its own: a C++ program that uses it as any program uses the driver, with the images that lanesum ships.
#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]
mod common;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use common::{Ended, compile, here, run};
use lanesum_standin::{Config, Lie, directory};
use lzma_rust2::LzmaReader;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(60);

const LIES: [(Lie, &str); 4] = [
    (Lie::Drop, "drop"),
    (Lie::Mirror, "mirror"),
    (Lie::Delay, "delay"),
    (Lie::Tear, "tear"),
];

/// A compiled program, with the folder that it lies in.
type Program = OnceLock<(TempDir, PathBuf)>;

/// Compiles a program at its first use.
fn compiled(program: &'static Program, source: &str) -> &'static Path {
    let (_folder, program) = program.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let include = here().join("csrc/machine");
        let library = directory();
        compile(
            source,
            &program,
            &[
                "-O1",
                "-I",
                include.to_str().unwrap(),
                "-L",
                library.to_str().unwrap(),
                "-l:libcuda.so.1",
                "-ldl",
            ],
        );
        (folder, program)
    });
    program
}

/// A shipped image, as it comes out of its compression.
fn image(name: &str) -> Vec<u8> {
    let path = here().join(format!("../lanesum-cuda/kernels/{name}.lzma"));
    let file = fs::File::open(path).unwrap();
    let mut image = Vec::new();
    let mut reader = LzmaReader::new_mem_limit(file, u32::MAX, None).unwrap();
    reader.read_to_end(&mut image).unwrap();
    image
}

fn smoke(config: &Config, case: &str, with: &str, argument: &str) -> Ended {
    static SMOKE: Program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let stand_in = config.write(folder.path()).unwrap();
    let path = folder.path().join("image");
    fs::write(&path, image(with)).unwrap();
    let mut command = Command::new(compiled(&SMOKE, "tests/programs/smoke.cpp"));
    stand_in.apply(command.arg(case).arg(path).arg(argument));
    run(&mut command, DEADLINE)
}

fn goes_well(config: &Config, case: &str, with: &str, argument: &str) -> Ended {
    let ended = smoke(config, case, with, argument);
    assert!(
        ended.status.is_some_and(|status| status.success()),
        "{case} {with} {argument}: {}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "well\n");
    ended
}

fn code(config: &Config, with: &str, argument: &str) {
    goes_well(config, "code", with, argument);
}

#[test]
fn ranks_of_one_process_sum() {
    goes_well(&Config::new(), "sums", "w1.ptx", "1");
    goes_well(&Config::new(), "sums", "w2.ptx", "2");
    goes_well(&Config::new(), "sums", "w3.sm_90", "3");
    goes_well(&Config::new(), "sums", "w8.sm_90", "8");
    goes_well(&Config::new(), "halves", "w2.ptx", "");
    goes_well(&Config::new(), "numbers", "w2.ptx", "");
}

#[test]
fn processes_share_memory_in_both_ways() {
    goes_well(&Config::new(), "descriptors", "w2.ptx", "");
    goes_well(&Config::new().without_vmm(), "code", "w2.ptx", "vmm 801");
    goes_well(&Config::new(), "handles", "w2.ptx", "");
    code(&Config::new().without_ipc(), "w2.ptx", "ipc 801");
}

#[test]
fn streams_and_events_keep_their_order() {
    goes_well(&Config::new(), "events", "w2.ptx", "");
}

#[test]
fn captures_are_permitted_and_refused_as_by_the_driver() {
    static CAPTURES: Program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let stand_in = Config::new().write(folder.path()).unwrap();
    let mut command = Command::new(compiled(&CAPTURES, "tests/programs/captures.cpp"));
    let ended = run(stand_in.apply(&mut command), DEADLINE);
    assert_eq!(ended.stdout, "well\n", "{}", ended.stderr);
}

#[test]
fn graphs_are_replayed() {
    goes_well(&Config::new(), "graph", "w2.ptx", "replays");
    goes_well(&Config::new(), "graph", "w1.ptx", "forks");
    goes_well(&Config::new(), "graph", "w2.ptx", "at_once");
    goes_well(&Config::new().launch_error(2), "graph", "w1.ptx", "fails");
}

#[test]
fn graphs_live_as_long_as_anybody_needs_them() {
    goes_well(&Config::new(), "graph", "w2.ptx", "in_flight");
    goes_well(&Config::new(), "graph", "w1.ptx", "objects");
    let ended = goes_well(&Config::new(), "graph", "w1.ptx", "unloaded");
    assert!(
        ended
            .stderr
            .contains("stand-in: a graph launches a kernel of an unloaded module: one_shot_push_w1_f32_sum"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_access_outside_every_allocation_is_noticed() {
    let ended = goes_well(&Config::new(), "bounds", "w1.ptx", "");
    assert!(
        ended
            .stderr
            .contains("stand-in: access outside every allocation: one_shot_push_w1_f32_sum"),
        "{}",
        ended.stderr
    );
}

#[test]
fn lies_are_told() {
    goes_well(&Config::new(), "lie", "w2.ptx", "none");
    for (lie, name) in LIES {
        goes_well(&Config::new().lie(0, 1, lie), "lie", "w2.ptx", name);
    }
    goes_well(&Config::new().lie(0, 1, Lie::Mirror), "unheard", "w2.ptx", "");
    goes_well(&Config::new().lie(0, 1, Lie::Drop), "unheard", "w2.ptx", "");
}

#[test]
fn host_memory_is_registered() {
    goes_well(&Config::new(), "registering", "w2.ptx", "");
    let config = Config::new().fail("cuMemHostRegister_v2", 3, 2);
    goes_well(&config, "registering", "w2.ptx", "second 2");
    goes_well(&Config::new(), "registered", "w2.ptx", "none");
}

#[test]
fn lies_are_told_of_registered_memory_alone() {
    for (lie, name) in LIES {
        goes_well(&Config::new().lie_host(0, lie), "registered", "w2.ptx", name);
        // The driver's own memory of the host, and that of devices.
        goes_well(&Config::new().lie_host(0, lie), "sums", "w2.ptx", "2");
    }
    // Rank 0 lies to devices, and this is none.
    goes_well(&Config::new().lie(0, 1, Lie::Drop), "registered", "w2.ptx", "none");
}

#[test]
fn images_fit_or_not() {
    code(&Config::new(), "w2.sm_90", "module 0");
    code(&Config::new(), "w2.ptx", "module 0");
    code(&Config::new(), "w2.sm_80", "module 209");
    code(&Config::new().compute(8, 6), "w2.sm_80", "module 0");
    code(&Config::new().compute(8, 6), "w2.sm_89", "module 209");
    code(&Config::new().compute(12, 1), "w2.sm_120", "module 0");
    code(&Config::new().compute(6, 0), "w2.ptx", "module 209");
    code(&Config::new().without_cubins(), "w2.sm_90", "module 209");
    code(&Config::new().without_cubins(), "w2.ptx", "module 0");
    code(&Config::new().without_ptx(), "w2.ptx", "module 222");
}

#[test]
fn kernels_are_early_where_they_await_the_one_before() {
    let early = |config: Config, with: &str, codes: &str| {
        goes_well(&config, "early", with, codes);
    };
    early(Config::new(), "w1.sm_90", "0 0");
    early(Config::new().compute(12, 0), "w1.sm_120", "0 0");
    early(Config::new().driver(12020), "w1.sm_90", "0 801");
    early(Config::new(), "w1.ptx", "1 1");
    early(Config::new().compute(8, 9), "w1.sm_89", "801 801");
    early(Config::new().without_programmatic(), "w1.sm_90", "801 801");
}

#[test]
fn devices_are_as_configured() {
    code(&Config::new().devices(0), "w2.ptx", "cuInit 100");
    code(&Config::new().prohibited(0), "w2.ptx", "retain 46");
    code(&Config::new().memory(1 << 20), "w2.ptx", "memory 2");
    code(&Config::new().refuse(1, 0), "w2.ptx", "refused 101");
    goes_well(&Config::new().exclusive(0), "exclusive", "w2.ptx", "");
}

#[test]
fn blocks_wait_for_a_place() {
    goes_well(&Config::new().resident(2), "sums", "w2.ptx", "2");
    goes_well(&Config::new().resident(2), "resident", "w2.ptx", "");
}

#[test]
fn who_stops_among_chunks_is_blamed() {
    for how in ["inputs", "slow_writer", "results", "both", "dies", "leaves"] {
        goes_well(&Config::new(), "stalled", "w3.ptx", how);
    }
}

#[test]
fn calls_fail_on_demand() {
    let config = Config::new().fail("cuMemAlloc_v2", 3, 2).fail("cuMemAlloc_v2", 5, 999);
    code(&config, "w2.ptx", "third alloc 999");
    goes_well(&Config::new().launch_error(2), "launch_error", "w1.ptx", "");
    goes_well(&Config::new(), "forked", "w1.ptx", "");
}

#[test]
fn a_symbol_can_be_missing() {
    let without = Config::new().without("cuPointerGetAttribute");
    goes_well(&without, "missing", "w1.ptx", "cuPointerGetAttribute");
    let folder = tempfile::tempdir().unwrap();
    assert!(Config::new().without("cuNothing").write(folder.path()).is_err());
}

#[test]
fn settings_that_nobody_understands_are_told() {
    let ended = smoke(&Config::new().devices(17), "forked", "w1.ptx", "");
    assert!(
        ended
            .stderr
            .contains("stand-in: a setting that nobody understands: devices 17"),
        "{}",
        ended.stderr
    );
}
