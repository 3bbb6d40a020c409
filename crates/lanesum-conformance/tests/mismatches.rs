//! Real processes that call different things: every rank gets an error that names both sides and what each called.
//!
//! Each scene is played twenty times, in processes that make a new communicator after each. A rank that doesn't answer
//! within a hard limit fails the test: nothing may hang.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::ExitCode;

use common::crew::Crew;
use common::harness;
use common::puppet::{self, Command, PUPPET, Shape, Told};
use common::scenes::{CHOICES, LONG, ROUNDS, varied, work};
use lanesum_plan::{Buffers, Call, Dtype, Operation};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(PUPPET) {
        puppet::serve();
        return ExitCode::SUCCESS;
    }
    harness::main(harness::tests![
        other_sizes_name_both_sides,
        other_dtypes_name_both_sides,
        other_operations_name_both_sides,
        other_labels_name_both_sides,
        reordered_labelled_calls_name_both_sides,
        private_and_shared_buffers_name_both_sides,
        other_collectives_name_both_sides,
    ])
}

/// Whether a call is what the command asks for.
fn is_call_of(call: &Call, command: &Command) -> bool {
    match call {
        Call::AllReduce { request, .. } => {
            let shape = Shape {
                dtype: request.dtype,
                operation: request.operation,
                elements: request.elements.get() as usize,
                shared: request.buffers == Buffers::Shared,
                label: request.label.map(|label| label.get()),
            };
            *command == Command::Reduce(shape)
        }
        Call::Barrier { .. } => *command == Command::Barrier,
        Call::Split { .. } => *command == Command::Split,
        Call::Channel { .. } => *command == Command::Channel,
    }
}

/// One rank makes other calls than its two peers. Every rank must name both sides, and what each of them called.
fn mismatch(usual: impl Fn(usize) -> Vec<Command>, odd: impl Fn(usize) -> Vec<Command>) {
    let mut crew = Crew::start(3);
    for round in 0..ROUNDS {
        let deviator = round % 3;
        crew.join(LONG, CHOICES[round % 3]);
        crew.agree(&Command::Reduce(varied(round)));
        let (usual, odd) = (usual(round), odd(round));
        for rank in 0..3 {
            for command in if rank == deviator { &odd } else { &usual } {
                crew.puppets[rank].tell(command);
            }
        }
        for rank in 0..3 {
            let (_, failed) = crew.hear_failure(rank);
            let Told::Mismatch { sides } = &failed.told else {
                panic!("{}", failed.message)
            };
            let strayed = sides
                .iter()
                .find(|(rank, _)| *rank == deviator)
                .expect("the deviator is named");
            let stayed = sides
                .iter()
                .find(|(rank, _)| *rank != deviator)
                .expect("a peer is named");
            assert!(is_call_of(&strayed.1, &odd[0]), "{}", failed.message);
            assert!(is_call_of(&stayed.1, &usual[0]), "{}", failed.message);
            assert!(failed.message.contains(&strayed.1.to_string()), "{}", failed.message);
            assert!(failed.message.contains(&stayed.1.to_string()), "{}", failed.message);
            let mut named = [deviator, stayed.0];
            named.sort_unstable();
            assert_eq!(failed.failed_ranks, named);
            for _ in 1..usual.len() {
                assert!(crew.hear_failure(rank).1.poisoned);
            }
            crew.is_poisoned(rank, &failed, &work(round));
        }
    }
}

fn other_sizes_name_both_sides() {
    mismatch(
        |round| vec![Command::Reduce(varied(round))],
        |round| {
            let usual = varied(round);
            // One element less, one chunk more, or nothing at all.
            let elements = [usual.elements - 1, usual.elements + 300_000, 0][round % 3];
            vec![Command::Reduce(Shape { elements, ..usual })]
        },
    );
}

fn other_dtypes_name_both_sides() {
    mismatch(
        |round| {
            vec![Command::Reduce(Shape {
                dtype: Dtype::ALL[round % 3],
                ..varied(round)
            })]
        },
        |round| {
            vec![Command::Reduce(Shape {
                dtype: Dtype::ALL[(round + 1) % 3],
                ..varied(round)
            })]
        },
    );
}

fn other_operations_name_both_sides() {
    mismatch(
        |round| {
            vec![Command::Reduce(Shape {
                operation: Operation::ALL[round % 3],
                ..varied(round)
            })]
        },
        |round| {
            vec![Command::Reduce(Shape {
                operation: Operation::ALL[(round + 2) % 3],
                ..varied(round)
            })]
        },
    );
}

fn other_labels_name_both_sides() {
    mismatch(
        |round| {
            vec![Command::Reduce(Shape {
                label: Some(1),
                ..varied(round)
            })]
        },
        |round| {
            let label = if round % 2 == 0 { None } else { Some(1 << 40) };
            vec![Command::Reduce(Shape { label, ..varied(round) })]
        },
    );
}

fn reordered_labelled_calls_name_both_sides() {
    let labelled = |round, label| {
        Command::Reduce(Shape {
            label: Some(label),
            ..varied(round)
        })
    };
    mismatch(
        |round| vec![labelled(round, 1), labelled(round, 2)],
        |round| vec![labelled(round, 2), labelled(round, 1)],
    );
}

fn private_and_shared_buffers_name_both_sides() {
    mismatch(
        |round| {
            vec![Command::Reduce(Shape {
                shared: round % 2 == 0,
                ..varied(round)
            })]
        },
        |round| {
            vec![Command::Reduce(Shape {
                shared: round % 2 == 1,
                ..varied(round)
            })]
        },
    );
}

fn other_collectives_name_both_sides() {
    let others = [Command::Barrier, Command::Split, Command::Channel];
    mismatch(
        |round| vec![Command::Reduce(varied(round))],
        |round| vec![others[round % 3].clone()],
    );
    // Both would make communicators, of other ranks.
    mismatch(|_| vec![Command::Channel], |round| vec![others[round % 2].clone()]);
}
