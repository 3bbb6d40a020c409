//! The whole suite, with ranks as threads and as processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use common::harness;
use lanesum_conformance::processes::{self, Program, serve_rank};
use lanesum_conformance::{Budget, Case, Failure, Options, Outcome, Summary, cases, threads};

/// The argument that makes this binary a rank.
const RANK: &str = "--serve-rank";

fn main() -> ExitCode {
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
        threads_pass_every_case,
        processes_pass_every_case,
        a_quick_look_is_quick,
        a_case_runs_again_from_its_json,
        a_rank_that_crashes_is_reported,
        a_rank_that_hangs_is_reported,
    ])
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

fn threads_pass_every_case() {
    let list = cases(Budget::Full);
    judge(threads::run(&list, &Options::default(), &mut complain), list.len());
}

fn processes_pass_every_case() {
    let list = cases(Budget::Full);
    let program = Program::this(RANK).unwrap();
    judge(
        processes::run(&program, &list, &Options::default(), &mut complain),
        list.len(),
    );
}

fn a_quick_look_is_quick() {
    let list = cases(Budget::Quick);
    let start = Instant::now();
    judge(threads::run(&list, &Options::default(), &mut complain), list.len());
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

fn a_case_runs_again_from_its_json() {
    let case = cases(Budget::Quick)
        .into_iter()
        .find(|case| case.setting.world.get() == 3)
        .unwrap();
    let again = Case::from_json(&case.to_json().unwrap()).unwrap();
    judge(threads::run(&[again], &Options::default(), &mut complain), 1);
}

/// Runs a few cases of one communicator with another program in the place of the ranks.
fn run_with(path: &str, arguments: &[&str]) -> (Summary, Vec<Outcome>) {
    let list: Vec<Case> = cases(Budget::Quick)
        .into_iter()
        .filter(|case| case.setting.world.get() == 2)
        .take(2)
        .collect();
    let arguments = arguments.iter().map(Into::into).collect();
    let program = Program {
        path: PathBuf::from(path),
        arguments,
    };
    let options = Options {
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    let mut outcomes = Vec::new();
    let summary = processes::run(&program, &list, &options, &mut |outcome| outcomes.push(outcome.clone()));
    assert_eq!(summary.failed, 2);
    (summary, outcomes)
}

fn a_rank_that_crashes_is_reported() {
    let (_, outcomes) = run_with("/bin/sh", &["-c", "read job; kill -9 $$"]);
    let crashed = |(_, failure): &(usize, Failure)| matches!(failure, Failure::Crashed { .. });
    assert!(
        outcomes.iter().all(|outcome| outcome.failures.iter().any(crashed)),
        "{outcomes:?}"
    );
    let (_, outcomes) = run_with("/nonexistent", &[]);
    let text = outcomes[0].to_string();
    assert!(
        text.contains("no process for rank 0") && text.contains("again, seed"),
        "{text}"
    );
}

fn a_rank_that_hangs_is_reported() {
    let start = Instant::now();
    let (_, outcomes) = run_with("/bin/sh", &["-c", "exec sleep 1000"]);
    let hung = |(_, failure): &(usize, Failure)| matches!(failure, Failure::Hung { .. });
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.failures.iter().filter(|failure| hung(failure)).count() == 2)
    );
    assert!(start.elapsed() < Duration::from_secs(20));
}
