//! The list of cases.

use lanesum_plan::{
    Buffers, Bytes, DEVICE_WORLD_MAX, Dtype, Elements, Engine, Label, Operation, PathChoice, WorldSize,
};

use crate::case::{Case, Choice, Launch, Origin, Placement, Setting, Simd};
use crate::pattern::Pattern;
use crate::space::{Length, Space};

/// What the whole list is drawn from: the same list everywhere.
const SEED: u64 = 0x1A2E_5011;

/// Some calls before each number of bits that an epoch is ever cut to, or counted in.
const WRAPS: [u64; 4] = [(1 << 16) - 3, (1 << 32) - 3, (1 << 63) - 3, u64::MAX - 2];

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// For a look at a machine: well under a minute on two cores.
    Quick,
    /// For the tests: everything.
    Full,
}

/// The cases of a budget at all its world sizes.
#[must_use]
pub fn cases(budget: Budget) -> Vec<Case> {
    let worlds: &[usize] = match budget {
        Budget::Quick => &[1, 2, 3, 5, 8],
        Budget::Full => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
    };
    let worlds: Vec<WorldSize> = worlds.iter().filter_map(|ranks| WorldSize::new(*ranks).ok()).collect();
    cases_at(budget, &worlds)
}

/// The cases of a budget at these world sizes only.
#[must_use]
pub fn cases_at(budget: Budget, worlds: &[WorldSize]) -> Vec<Case> {
    let mut list = space(budget, worlds).pairwise(SEED);
    match budget {
        Budget::Quick => {
            list.extend(wraps(&[2], &WRAPS));
            list.extend(long(64 * MIB, &[(2, Dtype::F32, Choice::Auto)]));
        }
        Budget::Full => {
            list.extend(wraps(&[2, 3], &WRAPS));
            list.extend(kernels());
            list.extend(short());
            list.extend(long(64 * MIB, &LONG));
        }
    }
    list.retain(|case| worlds.contains(&case.setting.world));
    list
}

/// The paths between GPUs that are tested where nobody asks for one: that which the machine gives, and the other that any should have.
pub const PATHS: [PathChoice; 2] = [PathChoice::Auto, PathChoice::HostStaged];

/// The same list for the CUDA engine, at these world sizes and along these paths: what is a matter of the processor falls away,
/// buffers are on the GPU, calls are made one by one and in graphs, and wraps of the tags and of their sweep come in.
#[must_use]
pub fn device_cases_at(budget: Budget, worlds: &[WorldSize], paths: &[PathChoice]) -> Vec<Case> {
    let worlds: Vec<WorldSize> = worlds
        .iter()
        .copied()
        .filter(|world| world.get() <= DEVICE_WORLD_MAX)
        .collect();
    let space = space(budget, &worlds);
    let first_epochs = space.first_epochs.iter().copied().chain([Some(SWEEP)]);
    let mut list = Space {
        engine: Engine::Cuda,
        choices: vec![Choice::Auto, Choice::OneShotPush, Choice::TwoShotPush],
        simd: vec![Simd::Best],
        first_epochs: first_epochs.collect(),
        paths: paths.to_vec(),
        buffers: vec![Buffers::Device],
        lengths: device_lengths(),
        launches: vec![Launch::Eager, Launch::Replayed, Launch::Mixed],
        ..space
    }
    .pairwise(SEED);
    let host = match budget {
        Budget::Quick => wraps(&[2], &BOUNDARIES),
        Budget::Full => [
            wraps(&[2, 3], &BOUNDARIES),
            kernels(),
            short(),
            long(4 * MIB, &LONG[..2]),
        ]
        .concat(),
    };
    for case in host.into_iter().filter(|case| case.setting.simd == Simd::Best) {
        for device in on_device(case, paths) {
            if worlds.contains(&device.setting.world) && !list.contains(&device) {
                list.push(device);
            }
        }
    }
    let known = |case: &Case| worlds.contains(&case.setting.world);
    for path in paths {
        list.extend(in_chunks(budget, *path).into_iter().filter(known));
    }
    // Stable: what else belongs to a setting stays together.
    list.sort_by_key(|case| {
        let path = paths.iter().position(|path| *path == case.setting.path);
        (case.setting.world, case.setting.choice == Choice::TwoShotPush, path)
    });
    list
}

/// An epoch at which half of an inbox is swept, and some calls before. Tags of 16 bits wrap at the first of [`WRAPS`].
const SWEEP: u64 = (1 << 14) - 3;

/// Where something happens to the epochs of a GPU.
const BOUNDARIES: [u64; 5] = [SWEEP, WRAPS[0], WRAPS[1], WRAPS[2], WRAPS[3]];

/// Lengths around frames of 6 elements of 16 bits or 3 of 32, around the frames of a warp, and around exchanges.
fn device_lengths() -> Vec<Length> {
    let exactly = [0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 191, 192, 193, 1345, 4099];
    let exchanges = [(1, 1, 0), (1, 1, 1), (1, 2, 5), (2, 1, -1), (2, 1, 1), (2, 3, 5)];
    let exchanges = exchanges.map(|(shots, times, more)| Length::Exchanges { shots, times, more });
    exactly.map(Length::Exactly).into_iter().chain(exchanges).collect()
}

/// A case of the host with each algorithm of the GPU, and every other one in graphs: they must give the same bits. What begins at an
/// epoch of its own goes along each path; of other cases, the algorithms take turns on them.
fn on_device(mut case: Case, paths: &[PathChoice]) -> Vec<Case> {
    case.setting.engine = Engine::Cuda;
    case.buffers = Buffers::Device;
    let mut list = Vec::new();
    for (choice, other) in [(Choice::OneShotPush, 0), (Choice::TwoShotPush, 1)] {
        case.setting.choice = choice;
        case.launch = match (case.elements.get() + other) % 2 {
            0 => Launch::Eager,
            _ => Launch::Replayed,
        };
        // Numbered so that either path has both kinds of launch.
        let turn = case.seed.wrapping_add(case.elements.get() / 2 + other) as usize;
        for (place, path) in paths.iter().enumerate() {
            if case.setting.first_epoch.is_some() || turn % paths.len() == place {
                case.setting.path = *path;
                list.push(case);
            }
        }
    }
    list
}

/// Messages that move in chunks, through host memory or, of two ranks with a GPU each, straight into it: each dtype with each operation,
/// lengths around chunks, shards and exchanges, at all alignments, with epochs that wrap. Some have little staging, which makes many
/// exchanges of the same length.
fn in_chunks(budget: Budget, path: PathChoice) -> Vec<Case> {
    // With little staging, chunks between two GPUs are ahead from more than half a MiB on.
    let (ranks, times): (&[usize], _) = match (path, budget) {
        (PathChoice::Auto | PathChoice::Peer, _) => (&[2], 2),
        (PathChoice::HostStaged, Budget::Quick) => (&[2, 5], 1),
        (PathChoice::HostStaged, Budget::Full) => (&[2, 3, 4], 1),
    };
    let kinds = Dtype::ALL
        .into_iter()
        .flat_map(|dtype| Operation::ALL.map(|operation| (dtype, operation)));
    let mut list = Vec::new();
    for (turn, (&ranks, (dtype, operation))) in ranks
        .iter()
        .flat_map(|ranks| kinds.clone().map(move |kind| (ranks, kind)))
        .enumerate()
    {
        let Some(mut case) = plain(ranks) else { continue };
        let elements = times * CHUNKED[turn % CHUNKED.len()] / dtype.size() as u64 + turn as u64 % 3;
        case.setting = Setting {
            engine: Engine::Cuda,
            path,
            staging: Bytes::new(if turn % 2 == 0 || ranks > 4 { MIB } else { 128 * KIB }),
            first_epoch: (turn % 4 == 1).then(|| BOUNDARIES[turn / 4 % BOUNDARIES.len()]),
            ..case.setting
        };
        list.push(Case {
            dtype,
            operation,
            elements: Elements::new(elements),
            misalignment: Bytes::new([0, 2, 0, 1, 0, 8][turn % 6] * dtype.size() as u64),
            placement: if turn % 2 == 0 {
                Placement::InPlace
            } else {
                Placement::OutOfPlace
            },
            buffers: Buffers::Device,
            pattern: Pattern::ALL[turn % Pattern::ALL.len()],
            launch: [Launch::Eager, Launch::Replayed, Launch::Mixed][turn / 2 % 3],
            calls: 4,
            ..case
        });
    }
    list
}

/// Bytes of messages of which two to five ranks move chunks.
const CHUNKED: [u64; 5] = [400 * KIB, 400 * KIB + 4, 401 * KIB + 16, 1_000_000, MIB + 8 * KIB + 20];

/// Long messages: which world, dtype and choice.
const LONG: [(usize, Dtype, Choice); 6] = [
    (2, Dtype::F32, Choice::Auto),
    (2, Dtype::F16, Choice::OneShotPull),
    (3, Dtype::Bf16, Choice::TwoShotPull),
    (3, Dtype::F32, Choice::OneShotPull),
    (8, Dtype::Bf16, Choice::Auto),
    (8, Dtype::F32, Choice::TwoShotPull),
];

fn space(budget: Budget, worlds: &[WorldSize]) -> Space {
    let whole = Space {
        engine: Engine::Host,
        worlds: worlds.to_vec(),
        choices: vec![Choice::Auto, Choice::OneShotPull, Choice::TwoShotPull],
        staging: vec![4 * KIB, 64 * KIB, MIB],
        simd: Simd::available(),
        first_epochs: std::iter::once(None).chain(WRAPS.into_iter().map(Some)).collect(),
        origins: vec![Origin::Joined, Origin::Channel, Origin::Split],
        paths: vec![PathChoice::Auto],
        dtypes: Dtype::ALL.to_vec(),
        operations: Operation::ALL.to_vec(),
        lengths: [0, 1, 3, 17, 61, 333, 2048, 4099]
            .map(Length::Exactly)
            .into_iter()
            .chain([Length::Chunk(0), Length::Chunk(1), Length::TwoChunks])
            .collect(),
        misalignments: vec![0, 1, 3, 13],
        placements: vec![Placement::InPlace, Placement::OutOfPlace],
        buffers: Buffers::HOST.to_vec(),
        patterns: Pattern::ALL.to_vec(),
        labels: vec![None, Some(Label::new(7))],
        launches: vec![Launch::Eager],
    };
    match budget {
        Budget::Full => whole,
        Budget::Quick => Space {
            staging: vec![4 * KIB, MIB],
            first_epochs: vec![None, Some(WRAPS[1])],
            ..whole
        },
    }
}

/// A plain case to vary.
fn plain(ranks: usize) -> Option<Case> {
    let setting = Setting {
        engine: Engine::Host,
        world: WorldSize::new(ranks).ok()?,
        choice: Choice::Auto,
        staging: Bytes::new(MIB),
        simd: Simd::Best,
        first_epoch: None,
        origin: Origin::Joined,
        path: PathChoice::Auto,
    };
    Some(Case {
        setting,
        dtype: Dtype::F32,
        operation: Operation::Sum,
        elements: Elements::new(1000),
        misalignment: Bytes::new(0),
        placement: Placement::InPlace,
        buffers: Buffers::Private,
        pattern: Pattern::Ordinary,
        label: None,
        calls: 3,
        launch: Launch::Eager,
        seed: SEED,
    })
}

/// Several calls of several chunks each across these epochs, with each algorithm.
fn wraps(worlds: &[usize], epochs: &[u64]) -> Vec<Case> {
    let mut list = Vec::new();
    for mut case in worlds.iter().filter_map(|ranks| plain(*ranks)) {
        case.calls = 6;
        case.setting.staging = Bytes::new(4 * KIB);
        for choice in [Choice::OneShotPull, Choice::TwoShotPull] {
            for epoch in epochs {
                case.setting.choice = choice;
                case.setting.first_epoch = Some(*epoch);
                for (length, buffers) in [
                    (Length::TwoChunks, Buffers::Private),
                    (Length::Exactly(9), Buffers::Shared),
                ] {
                    case.elements = length.elements(&case.setting, case.dtype);
                    case.buffers = buffers;
                    list.push(case);
                }
            }
        }
    }
    list
}

/// Every dtype, operation and pattern with each instruction set: bits that differ between two of them show here.
fn kernels() -> Vec<Case> {
    let mut list = Vec::new();
    for simd in Simd::available() {
        let Some(mut case) = plain(3) else { continue };
        case.setting.simd = simd;
        case.calls = 1;
        for pattern in Pattern::ALL {
            for (dtype, operation) in Dtype::ALL
                .into_iter()
                .flat_map(|dtype| Operation::ALL.map(|op| (dtype, op)))
            {
                list.push(Case {
                    pattern,
                    dtype,
                    operation,
                    seed: case.seed + list.len() as u64,
                    ..case
                });
            }
        }
    }
    list
}

/// Every length up to past four of the widest vectors, at every misalignment in turn.
fn short() -> Vec<Case> {
    let mut list = Vec::new();
    for simd in Simd::available() {
        let Some(mut case) = plain(2) else { continue };
        case.setting.simd = simd;
        case.calls = 1;
        for dtype in Dtype::ALL {
            for elements in 0..=70 {
                let placement = if elements % 2 == 0 {
                    Placement::InPlace
                } else {
                    Placement::OutOfPlace
                };
                let misalignment = Bytes::new(elements * 5 % 16 * dtype.size() as u64);
                let elements = Elements::new(elements);
                list.push(Case {
                    dtype,
                    elements,
                    misalignment,
                    placement,
                    ..case
                });
            }
        }
    }
    list
}

/// Messages of many chunks.
fn long(bytes: u64, which: &[(usize, Dtype, Choice)]) -> Vec<Case> {
    let long = |(ranks, dtype, choice): &(usize, Dtype, Choice)| {
        let mut case = plain(*ranks)?;
        case.setting.choice = *choice;
        case.calls = 1;
        Some(Case {
            dtype: *dtype,
            elements: Elements::new(bytes / dtype.size() as u64),
            ..case
        })
    };
    which.iter().filter_map(long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_survives_its_json() {
        for case in cases(Budget::Quick) {
            let json = case.to_json().unwrap();
            assert!(!json.contains('\n'));
            assert_eq!(Case::from_json(&json), Ok(case));
        }
    }

    #[test]
    fn the_full_list_has_what_is_asked_for() {
        let list = cases(Budget::Full);
        let some = |which: &dyn Fn(&Case) -> bool| list.iter().any(which);
        for world in 1..=16 {
            for dtype in Dtype::ALL {
                for buffers in Buffers::HOST {
                    assert!(some(
                        &|case| case.setting.world.get() == world && case.buffers == buffers
                    ));
                    assert!(some(&|case| case.dtype == dtype && case.buffers == buffers));
                }
                assert!(some(&|case| case.setting.world.get() == world && case.dtype == dtype));
            }
            assert!(some(
                &|case| case.setting.world.get() == world && case.elements.get() == 0
            ));
        }
        for epoch in WRAPS {
            assert!(some(&|case| case.setting.first_epoch == Some(epoch) && case.calls >= 6));
        }
        assert!(some(
            &|case| case.dtype == Dtype::F16 && case.pattern == Pattern::Overflow
        ));
    }

    #[test]
    fn graphs_and_both_algorithms_meet_all_that_matters() {
        let worlds: Vec<WorldSize> = (1..=8).map(|ranks| WorldSize::new(ranks).unwrap()).collect();
        let (quick, full) = (
            device_cases_at(Budget::Quick, &worlds, &PATHS),
            device_cases_at(Budget::Full, &worlds, &PATHS),
        );
        for list in [&quick, &full] {
            for launch in [Launch::Eager, Launch::Replayed, Launch::Mixed] {
                let some = |which: &dyn Fn(&Case) -> bool| list.iter().any(|case| case.launch == launch && which(case));
                for world in &worlds {
                    assert!(some(&|case| case.setting.world == *world), "{launch:?}, {world}");
                }
                for choice in [Choice::Auto, Choice::OneShotPush, Choice::TwoShotPush] {
                    assert!(some(
                        &|case| case.setting.choice == choice && case.setting.world.get() > 1
                    ));
                }
                for elements in [0, 1, 5, 6, 7, 13, 191, 193] {
                    assert!(some(&|case| case.elements.get() == elements), "{launch:?}, {elements}");
                }
                for misaligned in [false, true] {
                    assert!(some(&|case| (case.misalignment.get() > 0) == misaligned));
                }
                assert!(launch == Launch::Eager || (some(&|case| case.calls == 3) && some(&|case| case.calls == 4)));
            }
        }
        // What one algorithm must do alone, the other must do to the same bits.
        let alike = |choice| {
            full.iter()
                .filter(move |case| case.setting.choice == choice && case.seed == SEED)
        };
        assert_eq!(alike(Choice::OneShotPush).count(), alike(Choice::TwoShotPush).count());
    }

    #[test]
    fn both_paths_meet_all_that_matters() {
        let worlds: Vec<WorldSize> = (1..=8).map(|ranks| WorldSize::new(ranks).unwrap()).collect();
        for budget in [Budget::Quick, Budget::Full] {
            let list = device_cases_at(budget, &worlds, &PATHS);
            for path in PATHS {
                let some = |which: &dyn Fn(&Case) -> bool| {
                    list.iter()
                        .any(|case| case.setting.path == path && case.setting.world.get() > 1 && which(case))
                };
                for choice in [Choice::Auto, Choice::OneShotPush, Choice::TwoShotPush] {
                    for launch in [Launch::Eager, Launch::Replayed, Launch::Mixed] {
                        let of = |case: &Case| case.setting.choice == choice && case.launch == launch;
                        assert!(some(&of), "{budget:?}, {path}: {choice:?}, {launch:?}");
                    }
                    for epoch in BOUNDARIES.into_iter().filter(|_| choice != Choice::Auto) {
                        let across = |case: &Case| {
                            case.setting.choice == choice && case.setting.first_epoch == Some(epoch) && case.calls >= 6
                        };
                        assert!(some(&across), "{budget:?}, {path}: {choice:?}, {epoch:#x}");
                    }
                    for dtype in Dtype::ALL {
                        let of = |case: &Case| case.setting.choice == choice && case.dtype == dtype;
                        assert!(some(&of), "{budget:?}, {path}: {choice:?}, {dtype}");
                    }
                }
                for origin in [Origin::Joined, Origin::Channel, Origin::Split] {
                    assert!(some(&|case| case.setting.origin == origin));
                }
                for ranks in 2..=8 {
                    assert!(some(&|case| case.setting.world.get() == ranks));
                }
            }
            // Where one path is asked for, no case has another, and none comes twice.
            let list = device_cases_at(budget, &worlds, &[PathChoice::HostStaged]);
            assert!(list.iter().all(|case| case.setting.path == PathChoice::HostStaged));
            assert!(
                list.iter()
                    .enumerate()
                    .all(|(place, case)| !list[..place].contains(case))
            );
        }
        assert!(
            cases(Budget::Full)
                .iter()
                .all(|case| case.setting.path == PathChoice::Auto)
        );
    }

    /// The plan of ranks with a GPU each takes them in chunks: of two ranks in one shot, of more in two.
    #[test]
    fn long_cases_move_in_chunks() {
        let budgets = [Budget::Quick, Budget::Full];
        for (path, budget) in PATHS.into_iter().flat_map(|path| budgets.map(|budget| (path, budget))) {
            let list = in_chunks(budget, path);
            for case in &list {
                let kernel = crate::space::kernel(case);
                assert_eq!(kernel, Some(lanesum_plan::Kernel::Chunks), "{case:?}");
            }
            for (dtype, operation) in Dtype::ALL
                .into_iter()
                .flat_map(|dtype| Operation::ALL.map(|op| (dtype, op)))
            {
                assert!(
                    list.iter()
                        .any(|case| case.dtype == dtype && case.operation == operation)
                );
            }
        }
    }

    #[test]
    fn settings_lie_side_by_side() {
        let worlds: Vec<WorldSize> = (1..=4).map(|ranks| WorldSize::new(ranks).unwrap()).collect();
        for (list, most) in [
            (cases(Budget::Full), 160),
            (device_cases_at(Budget::Full, &worlds, &PATHS), 170),
        ] {
            let groups = 1 + list
                .windows(2)
                .filter(|pair| pair[0].setting != pair[1].setting)
                .count();
            assert!(groups < most, "{groups} communicators for {} cases", list.len());
        }
    }
}
