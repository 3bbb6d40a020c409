//! A million calls with changing sizes, dtypes, operations, algorithms, buffers and labels, and more ranks than cores.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use common::harness;
use common::soak::soak;

/// The argument that makes this binary a rank; rank, world, name and calls follow.
const RANK: &str = "--soak";

/// How long each test may go on making calls.
const TIME: Duration = Duration::from_secs(45);

/// After this long something hangs.
const HARD_LIMIT: Duration = Duration::from_secs(150);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rank, world, name, calls] = arguments.as_slice()
        && first == RANK
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
        return match soak(
            rank.parse().unwrap(),
            world.parse().unwrap(),
            name,
            calls.parse().unwrap(),
            TIME,
        ) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    harness::main(harness::tests![
        a_million_calls_of_two_threads,
        a_million_calls_of_two_processes,
        more_threads_than_cores,
        more_processes_than_cores,
    ])
}

fn a_million_calls_of_two_threads() {
    in_threads(2, 1_000_000);
}

fn a_million_calls_of_two_processes() {
    in_processes(2, 1_000_000);
}

fn more_threads_than_cores() {
    in_threads(8, 4000);
    in_threads(16, 1000);
}

fn more_processes_than_cores() {
    in_processes(8, 4000);
    in_processes(16, 1000);
}

fn name(carrier: &str, world: usize) -> String {
    format!("soak-{}-{carrier}-{world}", std::process::id())
}

fn in_threads(world: usize, calls: u32) {
    let name = name("threads", world);
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let name = &name;
        let ranks: Vec<_> = (0..world)
            .map(|rank| scope.spawn(move || soak(rank, world, name, calls, TIME)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

/// Kills its processes when a test fails.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn in_processes(world: usize, calls: u32) {
    let start = Instant::now();
    let rank = |rank: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                RANK,
                &rank.to_string(),
                &world.to_string(),
                &name("processes", world),
                &calls.to_string(),
            ])
            .spawn()
            .unwrap()
    };
    let mut ranks = Ranks((0..world).map(rank).collect());
    for child in &mut ranks.0 {
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < HARD_LIMIT, "a rank hangs");
            thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success(), "{status}");
    }
}
