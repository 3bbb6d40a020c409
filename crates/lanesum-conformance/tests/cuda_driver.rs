//! Drivers that are missing, old, in the way, or that fail once at any call: always an error with a remedy, on every rank;
//! never a crash, a panic, a hang, or a result that is wrong.
//!
//! All on machines that the stand-in plays; a real driver can't be asked to fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use common::joiner::{self, JOIN, Job, REPLAYS, Short, Told};
use common::{driver, harness};
use lanesum_plan::{Path, PathChoice};
use lanesum_standin::{Config, Lie, StandIn};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(JOIN) {
        joiner::serve(&std::env::args().nth(2).unwrap());
        return ExitCode::SUCCESS;
    }
    if driver::is_real() {
        println!("these tests play with machines that only the stand-in has");
        return ExitCode::SUCCESS;
    }
    harness::main(harness::tests![
        without_a_library_the_error_says_what_to_install,
        a_missing_symbol_is_named,
        an_old_driver_is_told_with_both_versions,
        a_device_that_is_not_there_or_not_free_is_told,
        too_little_memory_is_told,
        a_machine_that_no_image_runs_on_is_told,
        peers_that_cannot_reach_each_other_are_named_on_all_ranks,
        peers_that_cannot_reach_each_other_stage_in_host_memory,
        host_memory_that_lies_is_refused,
        host_memory_that_cannot_be_pinned_is_told_on_all_ranks,
        what_is_left_open_falls_back_to_host_memory,
        nine_ranks_are_refused,
        one_multiprocessor_is_enough_and_a_watchdog_does_no_harm,
        calls_start_early_where_that_is_safe_and_nowhere_else,
        ptx_alone_is_enough,
        ipc_alone_is_enough,
        memory_that_no_driver_shares_is_not_needed,
        a_rank_alone_survives_each_call_that_fails_once,
        two_ranks_survive_each_call_of_one_that_fails_once,
        a_kernel_that_fails_is_told_on_all_ranks,
        a_profiler_hears_of_each_call,
    ])
}

/// A folder of its own for each machine.
struct Machines {
    folder: PathBuf,
    made: Cell<usize>,
}

impl Machines {
    fn new(name: &str) -> Machines {
        let folder = std::env::temp_dir().join(format!("lanesum-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Machines {
            folder,
            made: Cell::new(0),
        }
    }

    fn folder(&self) -> PathBuf {
        self.made.set(self.made.get() + 1);
        let folder = self.folder.join(self.made.get().to_string());
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn write(&self, config: &Config) -> StandIn {
        config.write(&self.folder()).unwrap()
    }

    fn job(&self, rank: usize, world: usize) -> Job {
        Job {
            rank,
            world,
            name: format!("driver-{}-{}", std::process::id(), self.made.get()),
            device: None,
            auto: false,
            path: PathChoice::Auto,
            calls: 4,
            threads: false,
            short: Short::None,
        }
    }

    /// A rank by itself on a machine.
    fn alone(&self, config: &Config) -> Told {
        let machine = self.write(config);
        joiner::start(&self.job(0, 1), &machine).end(&format!("{config:?}"))
    }

    /// Ranks on one machine, or each on its own.
    fn together(&self, configs: &[Config]) -> Vec<Told> {
        self.along(PathChoice::Auto, configs)
    }

    /// All ranks as threads of one process.
    fn threads(&self, path: PathChoice, world: usize, config: &Config) -> Told {
        let machine = self.write(config);
        let job = Job {
            path,
            threads: true,
            ..self.job(0, world)
        };
        joiner::start(&job, &machine).end(&format!("threads, {config:?}"))
    }

    /// As [`Machines::together`], with the path pinned.
    fn along(&self, path: PathChoice, configs: &[Config]) -> Vec<Told> {
        let machines: Vec<StandIn> = configs.iter().map(|config| self.write(config)).collect();
        let ranks: Vec<_> = (0..configs.len())
            .map(|rank| {
                let job = Job {
                    path,
                    ..self.job(rank, configs.len())
                };
                joiner::start(&job, &machines[rank])
            })
            .collect();
        let scene = format!("{configs:?}");
        ranks
            .into_iter()
            .enumerate()
            .map(|(rank, process)| process.end(&format!("rank {rank}, {scene}")))
            .collect()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Every function of the driver that the library uses.
fn symbols() -> Vec<&'static str> {
    let table = include_str!("../../lanesum-cuda/src/driver/mod.rs");
    let names: Vec<&str> = table
        .lines()
        .filter_map(|line| {
            line.strip_prefix("    fn cu")
                .and(line.trim().strip_prefix("fn ")?.split('(').next())
        })
        .collect();
    assert!(names.len() > 40, "{names:?}");
    names
}

fn says(told: &Told, words: &[&str]) {
    let message = told.error.as_deref().unwrap_or_default();
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} in {told:?}");
    holds_nothing(told, &format!("{words:?}"));
}

fn holds_nothing(told: &Told, scene: &str) {
    assert!(
        matches!(told.leaks, None | Some([0, 0, 0, 0])),
        "{scene} leaves something: {told:?}"
    );
}

fn went_well(told: &Told) {
    let made = (told.calls, told.replays);
    assert!(
        told.error.is_none() && told.on_device && made == (4, REPLAYS),
        "{told:?}"
    );
}

fn without_a_library_the_error_says_what_to_install() {
    let machines = Machines::new("none");
    let folder = machines.folder();
    let job = machines.job(0, 1);
    std::fs::write(folder.join("libcuda.so.1"), "no library at all").unwrap();
    let told = joiner::start_beside(&job, &folder).end("no library");
    says(&told, &["libcuda.so.1 can't be loaded"]);
    assert!(told.hint.unwrap().contains("install the NVIDIA driver"));
    let told = joiner::start_beside(&Job { auto: true, ..job }, &folder).end("no library, left open");
    assert!(told.error.is_none() && !told.on_device, "{told:?}");
    assert!(told.without.unwrap().contains("libcuda.so.1"));
}

fn a_missing_symbol_is_named() {
    let machines = Machines::new("missing");
    for symbol in symbols() {
        says(
            &machines.alone(&Config::new().without(symbol)),
            &["has no function", symbol],
        );
    }
}

fn an_old_driver_is_told_with_both_versions() {
    let told = Machines::new("old").alone(&Config::new().driver(12000));
    says(&told, &["12.0", "12.1"]);
    assert!(told.hint.unwrap().contains("530"));
    went_well(&Machines::new("oldest").alone(&Config::new().driver(12010)));
}

fn a_device_that_is_not_there_or_not_free_is_told() {
    let machines = Machines::new("devices");
    says(&machines.alone(&Config::new().devices(0)), &["no device"]);
    says(
        &machines.alone(&Config::new().prohibited(0)),
        &["device 0", "PROHIBITED"],
    );
    for ordinal in [8, usize::MAX] {
        let machine = machines.write(&Config::new());
        let job = Job {
            device: Some(ordinal),
            ..machines.job(0, 1)
        };
        says(
            &joiner::start(&job, &machine).end("too large"),
            &["this process sees 8"],
        );
    }
    // Two processes that share one device which admits one.
    let machine = machines.write(&Config::new().exclusive(0));
    let job = |rank| Job {
        device: Some(0),
        ..machines.job(rank, 2)
    };
    let both = [0, 1].map(|rank| joiner::start(&job(rank), &machine));
    let told = both.map(|process| process.end("an exclusive device"));
    assert!(told.iter().all(|told| !told.joined && told.error.is_some()), "{told:?}");
    assert!(
        told.iter().any(|told| told
            .error
            .as_deref()
            .is_some_and(|text| text.contains("EXCLUSIVE_PROCESS"))),
        "{told:?}"
    );
}

fn too_little_memory_is_told() {
    let machines = Machines::new("memory");
    for bytes in [0, 1 << 10, 1 << 20] {
        let told = machines.alone(&Config::new().memory(bytes));
        says(&told, &["found no memory for"]);
        assert!(told.hint.unwrap().contains("staging"));
    }
    let told = machines.together(&[Config::new().memory(1 << 20), Config::new()]);
    says(&told[0], &["found no memory for"]);
    says(&told[1], &["rank 0", "found no memory for"]);
}

fn a_machine_that_no_image_runs_on_is_told() {
    let machines = Machines::new("image");
    let told = machines.alone(&Config::new().without_cubins().without_ptx());
    says(&told, &["no shipped kernel image", "9.0"]);
    // Nothing but PTX is shipped for these.
    for (major, minor) in [(7, 0), (7, 5), (13, 0)] {
        went_well(&machines.alone(&Config::new().compute(major, minor)));
    }
}

fn peers_that_cannot_reach_each_other_are_named_on_all_ranks() {
    let machines = Machines::new("peers");
    let all = |config: Config| machines.along(PathChoice::Peer, &[config.clone(), config.clone(), config]);
    for told in all(Config::new().refuse(1, 2)) {
        says(&told, &["rank 1", "rank 2"]);
        assert!(!told.joined && told.hint.as_deref().is_some_and(|hint| hint.contains("host_staged")));
    }
    for lie in [Lie::Drop, Lie::Mirror, Lie::Delay, Lie::Tear] {
        for told in all(Config::new().lie(2, 0, lie)) {
            says(&told, &["rank 2", "rank 0"]);
            assert!(!told.joined, "{lie:?}: {told:?}");
        }
    }
}

/// The sums are right, and every rank can say why it is this path. What graphs have used may stay until another communicator ends;
/// that nothing stays for longer is for `cuda_life.rs`.
fn staged(told: &Told, words: &[&str]) {
    went_well(told);
    assert_eq!(told.path, Some(Path::HostStaged), "{told:?}");
    let why = told.other_path.as_deref().unwrap_or_default();
    assert!(words.iter().all(|word| why.contains(word)), "{words:?} in {told:?}");
}

/// One pair is enough: all ranks take the same path.
fn peers_that_cannot_reach_each_other_stage_in_host_memory() {
    let machines = Machines::new("staged");
    let nobody = |config: Config, devices: usize| {
        let pairs = (0..devices).flat_map(|device| (0..devices).map(move |owner| (device, owner)));
        pairs
            .filter(|(device, owner)| device != owner)
            .fold(config, |config, (device, owner)| config.refuse(device, owner))
    };
    let first = ["the GPU of rank 0 has no access to memory of rank 1's"];
    let one = ["the GPU of rank 1 has no access to memory of rank 2's"];
    for (config, words) in [
        (nobody(Config::new(), 3), first),
        (Config::new().refuse(1, 2), one),
        // The inbox that nobody could open was a plain allocation.
        (nobody(Config::new().without_vmm(), 3), first),
        (Config::new().without_vmm().refuse(1, 2), one),
    ] {
        let configs = [config.clone(), config.clone(), config.clone()];
        machines.together(&configs).iter().for_each(|told| staged(told, &words));
        // Threads have no use for IPC: what they can't do is told in other words.
        staged(&machines.threads(PathChoice::Auto, 3, &config), &[]);
    }
    for lie in [Lie::Drop, Lie::Mirror, Lie::Delay, Lie::Tear] {
        let config = Config::new().lie(2, 0, lie);
        for told in machines.together(&[config.clone(), config.clone(), config]) {
            staged(&told, &["rank 2 wrote", "rank 0's GPU did not arrive"]);
        }
    }
    // On a machine where peers reach each other nobody tries what is not needed.
    for told in machines.together(&[Config::new().lie_host(1, Lie::Drop), Config::new()]) {
        went_well(&told);
        assert_eq!(told.path, Some(Path::Peer), "{told:?}");
    }
    for told in machines.along(PathChoice::HostStaged, &[Config::new(), Config::new()]) {
        staged(&told, &["the policy asks for host_staged"]);
    }
    staged(
        &machines.threads(PathChoice::HostStaged, 2, &Config::new()),
        &["the policy"],
    );
}

fn host_memory_that_lies_is_refused() {
    let machines = Machines::new("host-lies");
    let from = |writer: usize| {
        let owner = 1 - writer;
        format!("what rank {writer}'s GPU wrote to rank {owner}'s part of pinned host memory")
    };
    for (lie, pair, found) in [
        (Lie::Drop, from(1), "0 arrived, 512 never did, 0 were wrong"),
        // Its own reads go to the copy too, so that nothing of its peer's arrives either.
        (Lie::Mirror, from(0), "0 arrived, 512 never did, 0 were wrong"),
        // Later than anybody waits.
        (Lie::Delay, from(1), "0 arrived, 512 never did, 0 were wrong"),
        (Lie::Tear, from(1), "0 arrived, 0 never did, 512 were wrong"),
    ] {
        let lying = Config::new().lie_host(1, lie);
        let apart = lying.clone().refuse(0, 1);
        for (path, config) in [(PathChoice::Auto, apart), (PathChoice::HostStaged, lying)] {
            for told in machines.along(path, &[config.clone(), config]) {
                says(&told, &[&pair, found]);
                assert!(
                    !told.joined && told.hint.is_some_and(|hint| hint.contains("dmesg")),
                    "{lie:?}"
                );
            }
        }
    }
}

fn host_memory_that_cannot_be_pinned_is_told_on_all_ranks() {
    let machines = Machines::new("unpinned");
    for (path, apart) in [(PathChoice::Auto, true), (PathChoice::HostStaged, false)] {
        for (symbol, nth, code) in [
            ("cuMemHostRegister_v2", 1, 801),
            ("cuMemHostRegister_v2", 1, 2),
            ("cuMemHostRegister_v2", 1, 712),
            // The first is of memory that the driver has allocated.
            ("cuMemHostGetDevicePointer_v2", 2, 999),
        ] {
            let usual = if apart {
                Config::new().refuse(0, 1)
            } else {
                Config::new()
            };
            // The first is of a rank's own memory: a lack of its own.
            let told = machines.along(path, &[usual.clone(), usual.clone().fail(symbol, nth, code)]);
            let name = symbol.trim_end_matches("_v2");
            says(&told[0], &["rank 1", name]);
            says(&told[1], &[name]);
            assert!(told.iter().all(|told| !told.joined), "{told:?}");
            if symbol == "cuMemHostRegister_v2" {
                let hint = told[1].hint.as_deref().unwrap_or_default();
                assert!(
                    hint.contains("memory limit of the container") && hint.contains("memory limit"),
                    "{hint}"
                );
            }
        }
        // The second is of its peer's: a refusal of the pair, on all ranks in the same words.
        let usual = if apart {
            Config::new().refuse(0, 1)
        } else {
            Config::new()
        };
        for told in machines.along(path, &[usual.clone(), usual.fail("cuMemHostRegister_v2", 2, 801)]) {
            says(
                &told,
                &[
                    "the GPU of rank 1 can't use rank 0's part of pinned host memory",
                    "cuMemHostRegister",
                ],
            );
            assert!(!told.joined && told.hint.is_some_and(|hint| hint.contains("memory limit")));
        }
    }
}

fn what_is_left_open_falls_back_to_host_memory() {
    let machines = Machines::new("auto");
    let configs = [
        Config::new().devices(0),
        Config::new().prohibited(0),
        Config::new().without("cuMemMap"),
        Config::new().refuse(1, 0).lie_host(0, Lie::Tear),
        Config::new().lie(0, 1, Lie::Drop).fail("cuMemHostRegister_v2", 2, 801),
        Config::new().refuse(1, 0).fail("cuMemHostRegister_v2", 1, 801),
        Config::new().memory(1 << 20),
    ];
    for config in configs {
        let machine = machines.write(&config);
        let job = |rank| Job {
            auto: true,
            ..machines.job(rank, 2)
        };
        for told in [0, 1]
            .map(|rank| joiner::start(&job(rank), &machine))
            .map(|process| process.end("left open"))
        {
            assert!(
                told.error.is_none() && told.joined && !told.on_device,
                "{config:?}: {told:?}"
            );
            assert!(told.without.is_some(), "{config:?}: {told:?}");
            holds_nothing(&told, &format!("{config:?}"));
        }
    }
}

fn nine_ranks_are_refused() {
    for told in Machines::new("nine").together(&vec![Config::new(); 9]) {
        says(&told, &["at most 8 ranks", "there are 9"]);
        assert!(!told.joined);
    }
}

fn one_multiprocessor_is_enough_and_a_watchdog_does_no_harm() {
    let machines = Machines::new("small");
    for config in [Config::new().multiprocessors(1), Config::new().watchdog(0).watchdog(1)] {
        machines.together(&[config.clone(), config]).iter().for_each(went_well);
    }
}

/// A machine that lets no kernel start early tells which calls ask for it.
fn calls_start_early_where_that_is_safe_and_nowhere_else() {
    let machines = Machines::new("early");
    // With room for two calls.
    let refusing = || Config::new().without_programmatic().multiprocessors(64);
    let is_early = |told: &Told| {
        let told_of = told.error.as_deref().unwrap_or_default();
        assert!(told.joined && told_of.contains("cuLaunchKernelEx"), "{told:?}");
    };
    for config in [refusing(), refusing().compute(12, 0), refusing().driver(12030)] {
        is_early(&machines.alone(&config));
    }
    for config in [
        refusing().driver(12020),
        refusing().compute(8, 9),
        refusing().compute(7, 0),
        refusing().without_cubins(),
        refusing().multiprocessors(63),
    ] {
        went_well(&machines.alone(&config));
    }
    machines.together(&[refusing(), refusing()]).iter().for_each(is_early);
    // Without that room: short calls behind one another, but not behind those of another communicator, which may have long ones.
    let short = |short| {
        let machine = machines.write(&refusing().multiprocessors(63));
        let job = Job {
            short,
            ..machines.job(0, 1)
        };
        joiner::start(&job, &machine).end(&format!("{short:?}"))
    };
    is_early(&short(Short::Own));
    went_well(&short(Short::ByTurns));
    // Ranks that share a device, which has room for two calls of each, or for one.
    let sharing = |multiprocessors| {
        let machine = machines.write(&refusing().multiprocessors(multiprocessors));
        let job = |rank| Job {
            device: Some(0),
            ..machines.job(rank, 2)
        };
        let both = [0, 1].map(|rank| joiner::start(&job(rank), &machine));
        both.map(|process| process.end("a shared device"))
    };
    sharing(128).iter().for_each(is_early);
    sharing(64).iter().for_each(went_well);
}

fn ptx_alone_is_enough() {
    let config = Config::new().without_cubins();
    Machines::new("ptx")
        .together(&[config.clone(), config.clone(), config])
        .iter()
        .for_each(went_well);
}

fn ipc_alone_is_enough() {
    let config = Config::new().without_vmm();
    Machines::new("ipc")
        .together(&[config.clone(), config.clone(), config])
        .iter()
        .for_each(went_well);
}

fn memory_that_no_driver_shares_is_not_needed() {
    let machines = Machines::new("unshared");
    let neither = Config::new().without_vmm().without_ipc();
    // One rank that can't share is enough.
    for configs in [[neither.clone(), neither.clone()], [Config::new(), neither]] {
        for told in machines.along(PathChoice::Peer, &configs) {
            says(&told, &["rank 0", "rank 1", "cuIpcGetMemHandle"]);
            assert!(!told.joined);
        }
        for told in machines.together(&configs) {
            staged(&told, &["rank 0", "rank 1", "cuIpcGetMemHandle"]);
        }
    }
    // Drivers have several words for it; a device that is lost is another matter.
    let export = |code| {
        let config = Config::new().fail("cuMemExportToShareableHandle", 1, code);
        config.fail("cuIpcGetMemHandle", 1, code)
    };
    for code in [1, 304, 400] {
        for told in machines.together(&[Config::new(), export(code)]) {
            staged(&told, &["rank 0", "rank 1", "cuIpcGetMemHandle"]);
        }
    }
    for told in machines.together(&[Config::new(), export(719)]) {
        assert!(!told.joined && told.error.is_some(), "{told:?}");
    }
    // Neither way: both reasons are told, on all ranks.
    let unpinned = Config::new()
        .without_vmm()
        .without_ipc()
        .fail("cuMemHostRegister_v2", 1, 801);
    for told in machines.together(&[unpinned.clone(), unpinned]) {
        says(&told, &["cuIpcGetMemHandle", "cuMemHostRegister"]);
        assert!(!told.joined);
    }
    // A rank alone needs none of it, whatever path it asks for.
    let unsupported = Config::new().without_vmm().without_ipc();
    let unpinned = Config::new().fail("cuMemHostRegister_v2", 1, 801);
    for (path, config) in [(PathChoice::Peer, unsupported), (PathChoice::HostStaged, unpinned)] {
        let told = machines.along(path, &[config]);
        went_well(&told[0]);
        assert_eq!(told[0].path, Some(Path::None), "{told:?}");
    }
}

/// Joining that fails leaves nothing, unless what fails is to give something back. Once a rank has joined, memory stays where it
/// can't be known that the kernels which use it have ended.
fn gave_back(told: &Told, symbol: &str, scene: &str) {
    // A context that is not current is one in which nothing can be given back.
    if !told.joined && !gives_back(symbol) && !["cuCtxPushCurrent_v2", "cuCtxGetCurrent"].contains(&symbol) {
        holds_nothing(told, scene);
    }
}

fn gives_back(symbol: &str) -> bool {
    let words = [
        "Free",
        "Release",
        "Destroy",
        "Unload",
        "Unmap",
        "Unregister",
        "Close",
        "PopCurrent",
    ];
    words.iter().any(|word| symbol.contains(word))
}

/// Calls that a rank alone never makes, or whose refusal changes nothing of what it does: what is not shared by a descriptor is by a
/// handle.
fn passes_over(symbol: &str) -> bool {
    let others = [
        "cuGetErrorName",
        "cuGetErrorString",
        "cuMemHostRegister_v2",
        "cuMemImportFromShareableHandle",
        "cuMemGetAllocationGranularity",
        "cuMemCreate",
        "cuMemAddressReserve",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemExportToShareableHandle",
        "cuIpcGetMemHandle",
        "cuIpcOpenMemHandle_v2",
    ];
    gives_back(symbol) || others.contains(&symbol)
}

fn a_rank_alone_survives_each_call_that_fails_once() {
    let machines = Machines::new("fails-alone");
    for symbol in symbols() {
        let told = machines.alone(&Config::new().fail(symbol, 1, 999));
        assert_eq!(told.error.is_none(), passes_over(symbol), "{symbol}: {told:?}");
        for (nth, code) in [(1, 801), (2, 2), (3, 700)] {
            let told = machines.alone(&Config::new().fail(symbol, nth, code));
            gave_back(&told, symbol, &format!("{symbol} failing in call {nth} with {code}"));
        }
    }
}

/// Where joining fails, it fails on both; what fails later ends the other rank's calls too.
fn two_ranks_survive_each_call_of_one_that_fails_once() {
    let machines = Machines::new("fails-together");
    let both = [(PathChoice::Auto, 1, 999), (PathChoice::Auto, 4, 801)];
    let staged = [(PathChoice::HostStaged, 1, 999), (PathChoice::HostStaged, 2, 2)];
    for symbol in symbols() {
        // What is no part of either path needs no second time.
        let of_paths = symbol.starts_with("cuMem") || symbol.contains("Stream") || symbol == "cuLaunchKernelEx";
        let scenes = both.into_iter().chain(staged.into_iter().filter(|_| of_paths));
        for (path, nth, code) in scenes {
            let told = machines.along(path, &[Config::new(), Config::new().fail(symbol, nth, code)]);
            let scene = format!("{symbol} failing in call {nth} with {code} on {path}: {told:?}");
            assert_eq!(told[0].joined, told[1].joined, "{scene}");
            assert_eq!(told[0].error.is_some(), told[1].error.is_some(), "{scene}");
            for (told, symbol) in told.iter().zip(["", symbol]) {
                gave_back(told, symbol, &scene);
            }
        }
    }
}

/// The first kernel proves the ways between the ranks, later ones are calls; at last the farewell.
fn a_kernel_that_fails_is_told_on_all_ranks() {
    let machines = Machines::new("launch");
    for path in [PathChoice::Auto, PathChoice::HostStaged] {
        for nth in 1..=4 {
            let told = machines.along(path, &[Config::new().launch_error(nth), Config::new()]);
            let scene = format!("kernel {nth}, {path}: {told:?}");
            assert!(told.iter().all(|told| told.error.is_some()), "{scene}");
            assert_eq!(told[0].joined, told[1].joined, "{scene}");
        }
    }
}

/// A library of NVIDIA's tools by one of its names, or one that lacks a function.
fn tools(folder: &std::path::Path, name: &str, options: &[&str]) {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut compile = Command::new(compiler);
    compile
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join(name))
        .args(options);
    compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/nvtx.cpp"));
    assert!(compile.status().unwrap().success(), "{compile:?}");
}

/// What the libraries in this folder hear of two ranks' calls, which go well in any case.
fn heard(machines: &Machines, folder: &std::path::Path) -> [String; 2] {
    let [(variable, driver), config] = machines.write(&Config::new()).environment();
    let path = [folder.as_os_str(), &driver].join(OsStr::new(":"));
    let files = [folder.join("heard-0"), folder.join("heard-1")];
    let ranks = [0, 1].map(|rank| {
        let file = ("NVTX_HEARD", files[rank].clone().into());
        let environment = [(variable, path.clone()), config.clone(), file];
        joiner::start_with(&machines.job(rank, 2), environment)
    });
    ranks.into_iter().for_each(|rank| went_well(&rank.end("ranges")));
    files.map(|file| std::fs::read_to_string(file).unwrap_or_default())
}

/// A range where a call is enqueued or recorded, around nothing else, and none in replays; a library that is missing or not whole is
/// as good as none.
fn a_profiler_hears_of_each_call() {
    let machines = Machines::new("ranges");
    let folder = machines.folder();
    assert_eq!(heard(&machines, &folder), ["", ""]);
    tools(&folder, "libnvtx3interop.so.1", &["-DWITHOUT_POP"]);
    assert_eq!(heard(&machines, &folder), ["", ""]);
    tools(&folder, "libnvToolsExt.so.1", &[]);
    let range = "push lanesum all_reduce one_shot_push f32 sum\npop\n";
    let calls = machines.job(0, 2).calls + 1;
    let all = [range.repeat(calls), range.repeat(calls)];
    assert_eq!(heard(&machines, &folder), all);
    let folder = machines.folder();
    tools(&folder, "libnvtx3interop.so.1", &[]);
    assert_eq!(heard(&machines, &folder), all);
}
