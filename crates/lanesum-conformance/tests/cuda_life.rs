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

use std::process::ExitCode;

use common::life_scenes as scenes;
use common::stage::{self, Scene, play, play_on, scenes};
use common::{driver, harness, paths, raw_calls};
use lanesum_plan::PathChoice;
use lanesum_standin::{Config, Lie};

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
    if let Some(code) = stage::part(SCENES) {
        return code;
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
        communicators_that_stage_in_host_memory_are_no_different,
        inboxes_that_led_nowhere_are_given_back,
    ])
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
    play_on("create_and_destroy_with_ipc", 2, &machine);
    play_on("create_and_destroy_with_ipc", 3, &machine);
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

fn communicators_that_stage_in_host_memory_are_no_different() {
    paths::along(PathChoice::HostStaged, || {
        play("create_and_destroy", 2);
        if !driver::is_real() {
            play("create_and_destroy", 3);
        }
        play("unfinished_set_ups", 2);
        play("receipts_outlive", 2);
        play("failed_receipts_outlive", 2);
        play("several_at_once", 3);
        play("alternating_streams_are_ordered", 2);
        play("threads_take_turns", 2);
        play("channel_and_split", 4);
        play("pinned_trees", 5);
    });
}

/// Peer access comes to nothing each time, so every communicator makes and gives up an inbox on its GPU first.
fn inboxes_that_led_nowhere_are_given_back() {
    if driver::is_real() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lanesum-apart-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let refused = || Config::new().refuse(0, 1);
    let lying = || Config::new().lie(1, 0, Lie::Drop);
    for (machine, scene) in [
        (refused(), "create_and_destroy"),
        (lying(), "create_and_destroy"),
        (refused().without_vmm(), "create_and_destroy"),
        (lying().without_vmm(), "create_and_destroy"),
        (Config::new().without_vmm().without_ipc(), "create_and_destroy"),
        (refused(), "channel_and_split"),
    ] {
        let machine = machine.write(&folder).unwrap();
        play_on(scene, if scene == "channel_and_split" { 4 } else { 2 }, &machine);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
