//! Many calls on GPU memory, eager and in graphs, enqueued without waiting, and epochs that come to the places where tags and
//! counters wrap, and where halves of the inboxes are swept.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::ffi::OsStr;
use std::num::NonZeroU32;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use common::device_soak::{Task, soak};
use common::{driver, harness, paths};
use lanesum_conformance::Choice;
use lanesum_plan::PathChoice;

/// The argument that makes this binary a rank; what is to be done follows.
const RANK: &str = "--soak";

fn main() -> ExitCode {
    if let Some(code) = driver::ready() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rank, world, name, choice, path, first_epoch, calls, seconds] = arguments.as_slice()
        && first == RANK
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
        let task = Task {
            rank: rank.parse().unwrap(),
            world: world.parse().unwrap(),
            name: name.clone(),
            choice: serde_json::from_str(choice).unwrap(),
            path: path.parse().unwrap(),
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
        a_number_of_calls_that_is_none_is_refused,
        halves_are_swept,
        tags_wrap,
        headers_wrap,
        epochs_wrap,
        more_ranks_than_cores,
        many_calls_through_host_memory,
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

/// So many calls; the stand-in makes fewer where that time ends before.
fn calls(choice: Choice, world: usize, first_epoch: u64, calls: usize, seconds: u64) {
    let start = Instant::now();
    let path = paths::chosen();
    let name = format!(
        "device-soak-{}-{choice:?}-{path}-{world}-{first_epoch}",
        std::process::id()
    );
    let rank = |rank: usize| {
        let numbers = [
            rank.to_string(),
            world.to_string(),
            name.clone(),
            serde_json::to_string(&choice).unwrap(),
            path.to_string(),
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

const CHOICES: [Choice; 2] = [Choice::OneShotPush, Choice::TwoShotPush];

/// How many calls `many_calls_of_two_ranks` makes on one communicator, if it is set.
const CALLS: &str = "LANESUM_SOAK_CALLS";

/// What the variable says, or the usual number.
fn number_of_calls(value: Option<&OsStr>) -> Result<usize, String> {
    let Some(value) = value else {
        return Ok(of(16_000, 1_000_000));
    };
    let number = value.to_str().and_then(|value| value.parse::<NonZeroU32>().ok());
    let number = number.ok_or_else(|| format!("{CALLS} is {value:?}, and not a number from 1 to {}", u32::MAX))?;
    Ok(number.get() as usize)
}

/// One communicator's run with each algorithm.
fn many_calls_of_two_ranks() {
    let number = number_of_calls(std::env::var_os(CALLS).as_deref()).unwrap_or_else(|why| panic!("{why}"));
    // A GPU takes some 20 us for a call and its judging.
    let seconds = of(10, 60 + number * 180 / 1_000_000);
    for choice in CHOICES {
        calls(choice, 2, 1, number, seconds as u64);
    }
}

fn a_number_of_calls_that_is_none_is_refused() {
    assert_eq!(number_of_calls(Some("2500000".as_ref())), Ok(2_500_000));
    for value in ["", "0", "-1", "many", "1e6", "4294967296"] {
        let why = number_of_calls(Some(value.as_ref())).unwrap_err();
        assert_eq!(
            why,
            format!("{CALLS} is {value:?}, and not a number from 1 to 4294967295")
        );
    }
}

fn across(boundary: u64) {
    for (choice, world) in [(CHOICES[0], 2), (CHOICES[1], 3), (Choice::Auto, 3)] {
        // The first lane comes to it within the first stretch, those that only longer calls use later.
        calls(choice, world, boundary.wrapping_sub(40), of(700, 5000), 60);
    }
}

/// Every 2^14 epochs.
fn halves_are_swept() {
    across(1 << 14);
    across(3 << 14);
}

/// The 16 bits in packets.
fn tags_wrap() {
    across(1 << 16);
}

/// The 32 bits in headers.
fn headers_wrap() {
    across(1 << 32);
}

/// The 60 bits of a lane.
fn epochs_wrap() {
    across(0);
}

fn more_ranks_than_cores() {
    for (choice, world) in [(CHOICES[1], 4), (CHOICES[0], 8), (CHOICES[1], 8)] {
        calls(choice, world, (1 << 16) - 20, of(256, 20_000), 60);
    }
}

/// What differs on this path is where things lie and not what is done with epochs, so one boundary of each kind is enough.
fn many_calls_through_host_memory() {
    paths::along(PathChoice::HostStaged, || {
        for choice in CHOICES {
            calls(choice, 2, 1, of(3000, 100_000), of(5, 60) as u64);
        }
        for (choice, boundary) in [(CHOICES[1], 1 << 14), (CHOICES[0], 1 << 16), (Choice::Auto, 1 << 32)] {
            calls(choice, 3, u64::wrapping_sub(boundary, 40), of(500, 5000), 60);
        }
    });
}
