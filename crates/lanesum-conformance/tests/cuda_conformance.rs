//! The whole suite on the CUDA engine, with ranks as processes and as threads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::ExitCode;
use std::time::Duration;

use common::{driver, harness};
use lanesum_conformance::processes::{self, Program, serve_rank};
use lanesum_conformance::{Budget, Case, Options, Outcome, Summary, device_cases_at, threads};
use lanesum_plan::WorldSize;

/// The argument that makes this binary a rank.
const RANK: &str = "--serve-rank";

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
    harness::main(harness::tests![
        processes_pass_every_case_up_to_four_ranks,
        processes_pass_a_sample_above,
        threads_pass_a_sample,
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
    as_processes(&device_cases_at(Budget::Full, &worlds(1..=4)));
}

fn processes_pass_a_sample_above() {
    as_processes(&device_cases_at(Budget::Quick, &worlds(5..=8)));
}

fn threads_pass_a_sample() {
    let list = device_cases_at(Budget::Quick, &worlds([2, 3]));
    judge(threads::run(&list, &options(), &mut complain), list.len());
}
