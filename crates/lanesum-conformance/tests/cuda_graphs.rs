//! Calls in CUDA graphs: what a capture gives, replays among eager calls, captures that come to nothing, graphs that outlive their
//! communicator; and all that ranks can do wrong with graphs, which must be found and never give a wrong result.
//!
//! Each rank is a process that plays a scene of `common/graph_scenes.rs` or `common/graph_faults.rs`. Tests whose names begin with
//! `kill_` end a process while kernels run, and are not for a real GPU that is shared through CUDA MPS.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::ExitCode;

use common::stage::{self, Scene, play, play_to_the_death, scenes};
use common::{driver, graph_faults, graph_scenes, harness, paths};
use lanesum_plan::PathChoice;

const SCENES: &[Scene] = scenes![
    graph_scenes::captured_says_what_will_run,
    graph_scenes::replays_among_eager_calls,
    graph_scenes::calls_of_one_capture_on_two_streams,
    graph_scenes::an_eager_call_beside_a_capture,
    graph_scenes::captures_that_come_to_nothing,
    graph_scenes::graphs_destroyed_in_flight,
    graph_scenes::graphs_outlive,
    graph_scenes::closed_in_the_middle_of_a_capture,
    graph_scenes::channels_overlap,
    graph_scenes::counters_count_replays,
    graph_faults::a_step_without_peers_ends_within_one_deadline,
    graph_faults::a_rank_that_stops_in_a_graph_is_named,
    graph_faults::a_raised_deadline_holds_in_graphs,
    graph_faults::other_calls_in_graphs_are_named,
    graph_faults::a_reordered_replay_is_found,
    graph_faults::a_capture_more_on_one_rank_is_found,
    graph_faults::a_replay_against_an_eager_call_is_found,
    graph_faults::two_replays_at_once_are_found,
    graph_faults::replays_that_race_are_never_wrong,
    graph_faults::executables_of_one_graph_are_never_silently_wrong,
    graph_faults::a_replay_beside_an_eager_call_is_found,
    graph_faults::a_rank_that_leaves_is_named_in_graphs,
    graph_faults::a_rank_is_killed,
];

/// Tests that only play a scene, in these worlds.
macro_rules! plays {
    ($($scene:ident of $worlds:expr;)+) => { $(
        fn $scene() {
            $worlds.into_iter().for_each(|world| play(stringify!($scene), world));
        }
    )+ };
}

plays! {
    captured_says_what_will_run of [2];
    replays_among_eager_calls of [2, 3, 5];
    calls_of_one_capture_on_two_streams of [2, 3];
    an_eager_call_beside_a_capture of [2];
    captures_that_come_to_nothing of [2, 3];
    graphs_destroyed_in_flight of [2, 3];
    graphs_outlive of [2];
    closed_in_the_middle_of_a_capture of [2, 3];
    channels_overlap of [2, 3];
    counters_count_replays of [2, 3];
    a_step_without_peers_ends_within_one_deadline of [2, 3];
    a_rank_that_stops_in_a_graph_is_named of [3];
    a_raised_deadline_holds_in_graphs of [2];
    other_calls_in_graphs_are_named of [2, 3];
    a_reordered_replay_is_found of [2, 3];
    a_capture_more_on_one_rank_is_found of [2, 3];
    a_replay_against_an_eager_call_is_found of [2];
    two_replays_at_once_are_found of [2, 3];
    replays_that_race_are_never_wrong of [2];
    executables_of_one_graph_are_never_silently_wrong of [2, 3];
    a_replay_beside_an_eager_call_is_found of [2, 3];
    a_rank_that_leaves_is_named_in_graphs of [3];
}

fn main() -> ExitCode {
    if let Some(code) = driver::ready() {
        return code;
    }
    if let Some(code) = stage::part(SCENES) {
        return code;
    }
    harness::main(harness::tests![
        captured_says_what_will_run,
        replays_among_eager_calls,
        calls_of_one_capture_on_two_streams,
        an_eager_call_beside_a_capture,
        captures_that_come_to_nothing,
        graphs_destroyed_in_flight,
        graphs_outlive,
        closed_in_the_middle_of_a_capture,
        channels_overlap,
        counters_count_replays,
        a_step_without_peers_ends_within_one_deadline,
        a_rank_that_stops_in_a_graph_is_named,
        a_raised_deadline_holds_in_graphs,
        other_calls_in_graphs_are_named,
        a_reordered_replay_is_found,
        a_capture_more_on_one_rank_is_found,
        a_replay_against_an_eager_call_is_found,
        two_replays_at_once_are_found,
        replays_that_race_are_never_wrong,
        executables_of_one_graph_are_never_silently_wrong,
        a_replay_beside_an_eager_call_is_found,
        a_rank_that_leaves_is_named_in_graphs,
        kill_a_rank_whose_peers_replay,
        graphs_through_host_memory,
        kill_a_rank_whose_peers_replay_through_host_memory,
    ])
}

fn kill_a_rank_whose_peers_replay() {
    for world in [2, 3] {
        play_to_the_death("a_rank_is_killed", world);
    }
}

fn graphs_through_host_memory() {
    paths::along(PathChoice::HostStaged, || {
        captured_says_what_will_run();
        replays_among_eager_calls();
        graphs_outlive();
        channels_overlap();
        counters_count_replays();
        a_step_without_peers_ends_within_one_deadline();
        other_calls_in_graphs_are_named();
        two_replays_at_once_are_found();
    });
}

fn kill_a_rank_whose_peers_replay_through_host_memory() {
    paths::along(PathChoice::HostStaged, kill_a_rank_whose_peers_replay);
}
