//! Communicators with GPUs from their birth to their end: nothing is left behind, receipts outlive them, several live side by
//! side, streams are ordered, children and pinned trees work as on the host, raw calls are checked.
//!
//! Each rank is a process that plays a scene of `common/life_scenes.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use common::life_scenes::{self as scenes, Place};
use common::{driver, harness, raw_calls};
use lanesum_standin::{Config, StandIn};

/// The argument that makes this binary a rank; scene, rank, world and name follow.
const RANK: &str = "--rank";

/// After this long something hangs. The longest scene takes minutes where ranks take turns on a real GPU.
const HARD_LIMIT: Duration = Duration::from_secs(400);

type Scene = (&'static str, fn(&Place));

macro_rules! scenes {
    ($($module:ident::$scene:ident),+ $(,)?) => {
        &[$((stringify!($scene), $module::$scene as fn(&Place))),+]
    };
}

const SCENES: &[Scene] = scenes![
    scenes::create_and_destroy,
    scenes::create_and_destroy_with_ipc,
    scenes::unfinished_set_ups,
    scenes::receipts_outlive,
    scenes::failed_receipts_outlive,
    scenes::several_at_once,
    scenes::alternating_streams_are_ordered,
    scenes::threads_take_turns,
    scenes::channel_and_split,
    scenes::pinned_trees,
    scenes::foreign_devices_are_refused,
    raw_calls::at_odd_addresses,
    raw_calls::refusals,
];

fn main() -> ExitCode {
    if let Some(code) = driver::ready() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, scene, rank, world, name] = arguments.as_slice()
        && first == RANK
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
        let place = Place {
            rank: rank.parse().unwrap(),
            world: world.parse().unwrap(),
            name: name.clone(),
        };
        let (_, play) = SCENES.iter().find(|(name, _)| name == scene).unwrap();
        play(&place);
        return ExitCode::SUCCESS;
    }
    harness::main(harness::tests![
        communicators_leave_nothing_behind,
        memory_shared_by_ipc_stays_no_longer_than_needed,
        unfinished_set_ups_leave_nothing_behind,
        receipts_outlive_their_communicator,
        several_communicators_work_side_by_side,
        alternating_streams_are_ordered,
        communicators_move_between_threads,
        channels_and_splits_have_the_same_device,
        pinned_trees_give_the_oracles_bits,
        raw_calls_take_any_address_and_refuse_the_impossible,
        foreign_devices_are_refused,
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

fn play(scene: &str, world: usize) {
    play_on(scene, world, None);
}

/// Plays a scene with ranks as processes, on a machine of its own where one is given.
fn play_on(scene: &str, world: usize, machine: Option<&StandIn>) {
    let start = Instant::now();
    let name = format!("life-{}-{scene}-{world}", std::process::id());
    let rank = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([RANK, scene, &rank.to_string(), &world.to_string(), &name]);
        if let Some(machine) = machine {
            machine.apply(&mut command);
        }
        command.spawn().unwrap()
    };
    let mut ranks = Ranks((0..world).map(rank).collect());
    for (rank, child) in ranks.0.iter_mut().enumerate() {
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < HARD_LIMIT, "{scene}: rank {rank} hangs");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success(), "{scene} of {world}: rank {rank}: {status}");
    }
}

fn communicators_leave_nothing_behind() {
    play("create_and_destroy", 2);
    if !driver::is_real() {
        play("create_and_destroy", 3);
    }
}

fn memory_shared_by_ipc_stays_no_longer_than_needed() {
    if driver::is_real() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lanesum-life-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let machine = Config::new().without_vmm().write(&folder).unwrap();
    play_on("create_and_destroy_with_ipc", 2, Some(&machine));
    play_on("create_and_destroy_with_ipc", 3, Some(&machine));
    std::fs::remove_dir_all(&folder).unwrap();
}

fn unfinished_set_ups_leave_nothing_behind() {
    play("unfinished_set_ups", 2);
}

fn receipts_outlive_their_communicator() {
    play("receipts_outlive", 2);
    play("failed_receipts_outlive", 2);
}

fn several_communicators_work_side_by_side() {
    play("several_at_once", 2);
    play("several_at_once", 3);
}

fn alternating_streams_are_ordered() {
    play("alternating_streams_are_ordered", 2);
    play("alternating_streams_are_ordered", 4);
}

fn communicators_move_between_threads() {
    play("threads_take_turns", 2);
}

fn channels_and_splits_have_the_same_device() {
    play("channel_and_split", 4);
}

fn pinned_trees_give_the_oracles_bits() {
    for world in 3..=6 {
        play("pinned_trees", world);
    }
}

fn raw_calls_take_any_address_and_refuse_the_impossible() {
    play("at_odd_addresses", 2);
    play("at_odd_addresses", 3);
    play("refusals", 2);
}

fn foreign_devices_are_refused() {
    play("foreign_devices_are_refused", 2);
}
