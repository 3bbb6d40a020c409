//! The calls that the scenes with faults on GPU memory are played with.

use std::cell::Cell;
use std::time::Duration;

use lanesum_conformance::Choice;
use lanesum_plan::{Dtype, Operation, PathChoice};

use super::device_calls::DeviceCalls;
use super::paths;
use super::puppet::{Command, Shape};
use super::scenes::PLAIN;

/// A deadline that no scene should reach.
pub const LONG: Duration = Duration::from_secs(10);

/// By when a killed rank is noticed: far from that deadline.
pub const NOTICE: Duration = Duration::from_secs(2);

/// How often most scenes are played.
pub const ROUNDS: usize = 6;

pub const CHOICES: [Choice; 2] = [Choice::OneShotPush, Choice::TwoShotPush];

thread_local! {
    static CHUNKS: Cell<bool> = const { Cell::new(false) };
}

/// Ends it, also where a scene panics.
struct Until;

impl Drop for Until {
    fn drop(&mut self) {
        CHUNKS.set(false);
    }
}

/// Plays scenes whose varied calls are so long that they move chunks: those of two ranks in one shot, and through host memory those of
/// more in two.
pub fn in_chunks(path: PathChoice, scenes: impl FnOnce()) {
    paths::along(path, || {
        CHUNKS.set(true);
        let _until = Until;
        scenes();
    });
}

/// A call of another kind each round: of one lane, of several, and of several exchanges.
pub fn varied(round: usize) -> Shape {
    let lengths = match CHUNKS.get() {
        false => [33, 5000, 20_000],
        true => [190_001, 200_000, 700_000],
    };
    Shape {
        dtype: Dtype::ALL[round % 3],
        operation: Operation::ALL[round / 3 % 3],
        elements: lengths[round / 2 % 3],
        ..PLAIN
    }
}

/// What a communicator must refuse after a fault.
pub fn work(round: usize) -> [Command; 4] {
    [
        Command::Device(DeviceCalls::burst(varied(round + 1), 1 + round % 2)),
        Command::Reduce(varied(round + 1)),
        Command::Barrier,
        Command::Split,
    ]
}

pub fn one(shape: Shape) -> Command {
    Command::Device(DeviceCalls::one(shape))
}

pub fn endless(shape: Shape) -> Command {
    Command::Device(DeviceCalls::endless(shape))
}
