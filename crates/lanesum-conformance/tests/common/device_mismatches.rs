//! Ranks that make different calls on GPU memory: every rank names both sides and what each called.

use lanesum_plan::{Buffers, Call, Dtype, Operation};

use super::crew::Crew;
use super::device_calls::DeviceCalls;
use super::device_scenes::{CHOICES, LONG, varied, work};
use super::puppet::{Command, Shape, Told};

/// How often each scene is played, in each world.
const ROUNDS: usize = 4;

fn is_call_of(call: &Call, shape: &Shape) -> bool {
    match call {
        Call::AllReduce { request, .. } => {
            let called = Shape {
                dtype: request.dtype,
                operation: request.operation,
                elements: request.elements.get() as usize,
                shared: false,
                label: request.label.map(|label| label.get()),
            };
            request.buffers == Buffers::Device && *shape == called
        }
        Call::Barrier { .. } | Call::Split { .. } | Call::Channel { .. } => false,
    }
}

/// One rank makes other calls than its peers, all of them enqueued before the first is waited for.
fn mismatch(usual: impl Fn(usize) -> Shape, odd: impl Fn(usize) -> Shape) {
    for world in [2, 3] {
        let mut crew = Crew::start(world);
        for round in 0..ROUNDS {
            play(&mut crew, round, usual(round), odd(round));
        }
    }
}

fn play(crew: &mut Crew, round: usize, usual: Shape, odd: Shape) {
    let deviator = round % crew.world();
    let calls = 1 + 2 * (round % 2);
    crew.join_device(LONG, CHOICES[round % 2]);
    crew.agree(&Command::Device(DeviceCalls::one(varied(round))));
    for (rank, puppet) in crew.puppets.iter_mut().enumerate() {
        let shape = if rank == deviator { odd } else { usual };
        puppet.tell(&Command::Device(DeviceCalls::burst(shape, calls)));
    }
    for rank in 0..crew.world() {
        let (_, failed) = crew.hear_failure(rank);
        let Told::Mismatch { sides } = &failed.told else {
            panic!("world {}, round {round}, rank {rank}: {}", crew.world(), failed.message)
        };
        let side = |strayed: bool| sides.iter().find(|(rank, _)| (*rank == deviator) == strayed);
        let strayed = side(true).expect("the deviator is named");
        let stayed = side(false).expect("a peer is named");
        assert!(is_call_of(&strayed.1, &odd), "{}", failed.message);
        assert!(is_call_of(&stayed.1, &usual), "{}", failed.message);
        let mut named = [deviator, stayed.0];
        named.sort_unstable();
        assert_eq!(failed.failed_ranks, named);
        crew.is_poisoned(rank, &failed, &work(round));
    }
}

pub fn other_sizes_name_both_sides() {
    mismatch(varied, |round| {
        let usual = varied(round);
        // One element less, more lanes, or nothing at all.
        let elements = [usual.elements - 1, 0, usual.elements + 20_000, 0][round % 4];
        Shape { elements, ..usual }
    });
}

pub fn nothing_against_something_names_both_sides() {
    mismatch(
        |round| Shape {
            elements: 0,
            ..varied(round)
        },
        varied,
    );
}

pub fn other_dtypes_name_both_sides() {
    let with = |round, add| Shape {
        dtype: Dtype::ALL[(round + add) % 3],
        ..varied(round)
    };
    mismatch(|round| with(round, 0), |round| with(round, 1));
}

pub fn other_operations_name_both_sides() {
    let with = |round, add| Shape {
        operation: Operation::ALL[(round + add) % 3],
        ..varied(round)
    };
    mismatch(|round| with(round, 0), |round| with(round, 2));
}

pub fn other_labels_name_both_sides() {
    let with = |round, label| Shape { label, ..varied(round) };
    mismatch(
        |round| with(round, Some(7)),
        |round| with(round, [None, Some(1 << 40)][round % 2]),
    );
}

/// Two ranks differ, learn it, and leave; the third, which calls only then, is told of the mismatch all the same, not of the departure.
pub fn a_mismatch_outlasts_those_who_leave() {
    let mut crew = Crew::start(3);
    for round in 0..3 {
        crew.join_device(LONG, CHOICES[round % 2]);
        let shape = varied(0);
        // Other calls of the same length have all frames that they wait for, but those of the third.
        let other = match round {
            0 => Shape {
                elements: 2 * shape.elements,
                ..shape
            },
            1 => Shape {
                label: Some(7),
                ..shape
            },
            _ => Shape {
                label: Some(8),
                ..shape
            },
        };
        let shapes = [shape, other];
        for (rank, shape) in shapes.into_iter().enumerate() {
            crew.puppets[rank].tell(&Command::Device(DeviceCalls::one(shape)));
        }
        for rank in [0, 1] {
            let (_, failed) = crew.hear_failure(rank);
            assert!(matches!(failed.told, Told::Mismatch { .. }), "{}", failed.message);
        }
        for rank in [0, 1] {
            crew.puppets[rank].tell(&Command::Leave);
            crew.puppets[rank].hear();
        }
        crew.puppets[2].tell(&Command::Device(DeviceCalls::one(shapes[0])));
        let (_, failed) = crew.hear_failure(2);
        assert!(matches!(failed.told, Told::Mismatch { .. }), "{}", failed.message);
        assert!(failed.failed_ranks.contains(&1), "{}", failed.message);
    }
}
