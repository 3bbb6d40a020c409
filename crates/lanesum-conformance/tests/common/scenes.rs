//! The calls that the scenes with faults are played with.

use std::time::Duration;

use lanesum_conformance::Choice;
use lanesum_plan::{Dtype, Operation};

use super::puppet::{Command, Shape};

/// How often each scene is played.
pub const ROUNDS: usize = 20;

/// A deadline that no scene should reach.
pub const LONG: Duration = Duration::from_secs(15);

pub const CHOICES: [Choice; 3] = [Choice::Auto, Choice::OneShotPull, Choice::TwoShotPull];

pub const PLAIN: Shape = Shape {
    dtype: Dtype::F32,
    operation: Operation::Sum,
    elements: 1000,
    shared: false,
    label: None,
};

/// A call of another kind each round, so that a fault meets every phase.
pub fn varied(round: usize) -> Shape {
    Shape {
        dtype: Dtype::ALL[round % 3],
        operation: Operation::ALL[round / 3 % 3],
        elements: [33, 5000, 300_000][round / 2 % 3],
        shared: round % 5 == 4,
        ..PLAIN
    }
}

/// What a communicator must refuse after a fault.
pub fn work(round: usize) -> [Command; 3] {
    [Command::Reduce(varied(round + 1)), Command::Barrier, Command::Split]
}
