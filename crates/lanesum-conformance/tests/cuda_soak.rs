//! Many calls on GPU memory, enqueued without waiting, and epochs that come to the places where tags and counters wrap.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use common::device_soak::{Task, soak};
use common::{driver, harness};

/// The argument that makes this binary a rank; what is to be done follows.
const RANK: &str = "--soak";

fn main() -> ExitCode {
    if let Some(code) = driver::ready() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rank, world, name, first_epoch, calls, seconds] = arguments.as_slice()
        && first == RANK
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
        let task = Task {
            rank: rank.parse().unwrap(),
            world: world.parse().unwrap(),
            name: name.clone(),
            first_epoch: first_epoch.parse().unwrap(),
            calls: calls.parse().unwrap(),
            time: Duration::from_secs(seconds.parse().unwrap()),
        };
        return match soak(&task) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    harness::main(harness::tests![
        many_calls_of_two_ranks,
        half_of_the_tags_wraps,
        tags_wrap,
        epochs_wrap,
        more_ranks_than_cores,
    ])
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

/// So many calls, or as many as the machine makes in that time.
fn calls(world: usize, first_epoch: u64, calls: usize, seconds: u64) {
    let start = Instant::now();
    let name = format!("device-soak-{}-{world}-{first_epoch}", std::process::id());
    let rank = |rank: usize| {
        let numbers = [
            rank.to_string(),
            world.to_string(),
            name.clone(),
            first_epoch.to_string(),
        ];
        Command::new(std::env::current_exe().unwrap())
            .arg(RANK)
            .args(numbers)
            .args([calls.to_string(), seconds.to_string()])
            .spawn()
            .unwrap()
    };
    let mut ranks = Ranks((0..world).map(rank).collect());
    for child in &mut ranks.0 {
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(seconds + 60), "a rank hangs");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success(), "{status}");
    }
}

/// What the stand-in can do in seconds, a GPU does in milliseconds.
fn of(stand_in: usize, real: usize) -> usize {
    if driver::is_real() { real } else { stand_in }
}

fn many_calls_of_two_ranks() {
    calls(2, 1, of(40_000, 1_000_000), of(10, 400) as u64);
}

fn across(boundary: u64) {
    for world in [2, 3] {
        // The first lane comes to it within the first stretch, those that only longer calls use later.
        calls(world, boundary.wrapping_sub(40), of(1500, 5000), 60);
    }
}

fn half_of_the_tags_wraps() {
    across(1 << 30);
    across(1 << 31);
}

fn tags_wrap() {
    across(1 << 32);
}

fn epochs_wrap() {
    across(0);
}

fn more_ranks_than_cores() {
    for world in [4, 8] {
        calls(world, (1 << 32) - 20, of(512, 20_000), 60);
    }
}
