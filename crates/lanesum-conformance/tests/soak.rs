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

/// After this long something hangs.
const HARD_LIMIT: Duration = Duration::from_secs(150);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rank, world, name, calls] = arguments.as_slice()
        && first == RANK
    {
        return match soak(
            rank.parse().unwrap(),
            world.parse().unwrap(),
            name,
            calls.parse().unwrap(),
        ) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    harness::main(harness::tests![
        half_a_million_calls_of_two_threads,
        half_a_million_calls_of_two_processes,
        more_threads_than_cores,
        more_processes_than_cores,
    ])
}

fn half_a_million_calls_of_two_threads() {
    in_threads(2, 500_000);
}

fn half_a_million_calls_of_two_processes() {
    in_processes(2, 500_000);
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

fn say(world: usize, calls: u32, start: Instant) {
    print!(
        "[{world} ranks: {:.2} us a call] ",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    );
}

fn in_threads(world: usize, calls: u32) {
    let start = Instant::now();
    let name = name("threads", world);
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let name = &name;
        let ranks: Vec<_> = (0..world)
            .map(|rank| scope.spawn(move || soak(rank, world, name, calls)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    say(world, calls, start);
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
    say(world, calls, start);
}
