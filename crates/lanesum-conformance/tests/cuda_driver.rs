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
use std::path::PathBuf;
use std::process::ExitCode;

use common::joiner::{self, JOIN, Job, REPLAYS, Told};
use common::{driver, harness};
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
        what_is_left_open_falls_back_to_host_memory,
        nine_ranks_are_refused,
        one_multiprocessor_is_enough_and_a_watchdog_does_no_harm,
        ptx_alone_is_enough,
        ipc_alone_is_enough,
        neither_way_to_share_memory_is_told,
        a_rank_alone_survives_each_call_that_fails_once,
        two_ranks_survive_each_call_of_one_that_fails_once,
        a_kernel_that_fails_is_told_on_all_ranks,
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
            calls: 4,
        }
    }

    /// A rank by itself on a machine.
    fn alone(&self, config: &Config) -> Told {
        let machine = self.write(config);
        joiner::start(&self.job(0, 1), &machine).end(&format!("{config:?}"))
    }

    /// Ranks on one machine, or each on its own.
    fn together(&self, configs: &[Config]) -> Vec<Told> {
        let machines: Vec<StandIn> = configs.iter().map(|config| self.write(config)).collect();
        let ranks: Vec<_> = (0..configs.len())
            .map(|rank| joiner::start(&self.job(rank, configs.len()), &machines[rank]))
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
    let told = Machines::new("old").alone(&Config::new().driver(11070));
    says(&told, &["11.7", "11.8"]);
    assert!(told.hint.unwrap().contains("520"));
    went_well(&Machines::new("oldest").alone(&Config::new().driver(11080)));
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
    let all = |config: Config| machines.together(&[config.clone(), config.clone(), config]);
    for told in all(Config::new().refuse(1, 2)) {
        says(&told, &["rank 1", "rank 2"]);
        assert!(!told.joined);
    }
    for lie in [Lie::Drop, Lie::Mirror, Lie::Delay, Lie::Tear] {
        for told in all(Config::new().lie(2, 0, lie)) {
            says(&told, &["rank 2", "rank 0"]);
            assert!(!told.joined, "{lie:?}: {told:?}");
        }
    }
}

fn what_is_left_open_falls_back_to_host_memory() {
    let machines = Machines::new("auto");
    let configs = [
        Config::new().devices(0),
        Config::new().prohibited(0),
        Config::new().without("cuMemMap"),
        Config::new().refuse(1, 0),
        Config::new().lie(0, 1, Lie::Drop),
        Config::new().memory(1 << 20),
        Config::new().without_vmm().without_ipc(),
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

fn neither_way_to_share_memory_is_told() {
    let config = Config::new().without_vmm().without_ipc();
    for told in Machines::new("unshared").together(&[config.clone(), config]) {
        assert!(!told.joined && told.error.is_some(), "{told:?}");
        holds_nothing(&told, "memory that can't be shared");
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
    let words = ["Free", "Release", "Destroy", "Unload", "Unmap", "Close", "PopCurrent"];
    words.iter().any(|word| symbol.contains(word))
}

/// Calls that a rank alone never makes, or whose refusal changes nothing of what it does.
fn passes_over(symbol: &str) -> bool {
    let others = [
        "cuGetErrorName",
        "cuGetErrorString",
        "cuMemImportFromShareableHandle",
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
    for symbol in symbols() {
        for (nth, code) in [(1, 999), (4, 801)] {
            let told = machines.together(&[Config::new(), Config::new().fail(symbol, nth, code)]);
            let scene = format!("{symbol} failing in call {nth} with {code}: {told:?}");
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
    for nth in 1..=4 {
        let told = machines.together(&[Config::new().launch_error(nth), Config::new()]);
        assert!(told.iter().all(|told| told.error.is_some()), "kernel {nth}: {told:?}");
        assert_eq!(told[0].joined, told[1].joined, "kernel {nth}: {told:?}");
    }
}
