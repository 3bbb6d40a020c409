//! The whole suite on the CUDA engine, with ranks as processes and as threads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::{Command, ExitCode};
use std::time::Duration;

use common::{driver, harness, paths};
use lanesum::{Communicator, EngineChoice};
use lanesum_conformance::processes::{self, Program, serve_rank};
use lanesum_conformance::{Budget, Case, Options, Outcome, PATHS, Summary, device_cases_at, threads};
use lanesum_plan::{Path, PathChoice, WorldSize};
use lanesum_standin::Config;

/// The argument that makes this binary a rank.
const RANK: &str = "--serve-rank";
/// The argument that makes it run a sample on a machine without peer access.
const APART: &str = "--apart";

fn main() -> ExitCode {
    if let Some(code) = driver::ready() {
        return code;
    }
    if std::env::args().nth(1).as_deref() == Some(RANK) {
        return match serve_rank() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    if std::env::args().nth(1).as_deref() == Some(APART) {
        apart();
        return ExitCode::SUCCESS;
    }
    harness::main(harness::tests![
        processes_pass_every_case_up_to_four_ranks,
        processes_pass_a_sample_above,
        threads_pass_a_sample,
        a_machine_without_peer_access_passes_a_sample,
    ])
}

fn options() -> Options {
    Options {
        deadline: Duration::from_secs(30),
        patience: Duration::from_secs(120),
    }
}

/// Prints each failed case with the line that runs it again.
fn complain(outcome: &Outcome) {
    if !outcome.passed() {
        eprintln!("{outcome}");
    }
}

fn judge(summary: Summary, of: usize) {
    println!("{summary}");
    assert_eq!((summary.passed, summary.failed), (of as u64, 0));
}

fn worlds(sizes: impl IntoIterator<Item = usize>) -> Vec<WorldSize> {
    sizes.into_iter().map(|ranks| WorldSize::new(ranks).unwrap()).collect()
}

fn as_processes(list: &[Case]) {
    let program = Program::this(RANK).unwrap();
    judge(processes::run(&program, list, &options(), &mut complain), list.len());
}

fn processes_pass_every_case_up_to_four_ranks() {
    as_processes(&device_cases_at(Budget::Full, &worlds(1..=4), &PATHS));
}

fn processes_pass_a_sample_above() {
    as_processes(&device_cases_at(Budget::Quick, &worlds(5..=8), &PATHS));
}

fn threads_pass_a_sample() {
    let list = device_cases_at(Budget::Quick, &worlds([2, 3]), &PATHS);
    judge(threads::run(&list, &options(), &mut complain), list.len());
}

/// Left the choice, all cases go through host memory.
fn a_machine_without_peer_access_passes_a_sample() {
    if driver::is_real() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lanesum-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let machine = Config::new()
        .refuse(0, 1)
        .refuse(1, 0)
        .refuse(1, 2)
        .refuse(2, 1)
        .refuse(0, 2)
        .refuse(2, 0);
    let machine = machine.write(&folder).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = machine.apply(command.arg(APART)).status().unwrap();
    assert!(status.success(), "{status}");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn apart() {
    let ranks = [0, 1].map(|rank| {
        std::thread::spawn(move || {
            let builder = Communicator::builder(rank, 2, format!("apart-{}", std::process::id()));
            let communicator = builder.engine(EngineChoice::Cuda).join().unwrap();
            paths::of(&communicator)
        })
    });
    for rank in ranks {
        assert_eq!(rank.join().unwrap(), Path::HostStaged);
    }
    let list = |ranks| device_cases_at(Budget::Quick, &worlds([ranks]), &[PathChoice::Auto]);
    as_processes(&list(3));
    let list = list(2);
    judge(threads::run(&list, &options(), &mut complain), list.len());
}
