//! The calls that the scenes with faults on GPU memory are played with.

use std::time::Duration;

use lanesum_conformance::Choice;
use lanesum_plan::{Dtype, Operation};

use super::device_calls::DeviceCalls;
use super::puppet::{Command, Shape};
use super::scenes::PLAIN;

/// A deadline that no scene should reach.
pub const LONG: Duration = Duration::from_secs(10);

/// By when a killed rank is noticed: far from that deadline.
pub const NOTICE: Duration = Duration::from_secs(2);

/// How often most scenes are played.
pub const ROUNDS: usize = 6;

pub const CHOICES: [Choice; 2] = [Choice::OneShotPush, Choice::TwoShotPush];

/// A call of another kind each round: of one lane, of several, and of several exchanges.
pub fn varied(round: usize) -> Shape {
    Shape {
        dtype: Dtype::ALL[round % 3],
        operation: Operation::ALL[round / 3 % 3],
        elements: [33, 5000, 20_000][round / 2 % 3],
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
