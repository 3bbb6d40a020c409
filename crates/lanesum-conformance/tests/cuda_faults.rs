//! The scenes of `faults.rs` and `mismatches.rs` on GPU memory: real processes that are killed, stopped or forked, leave, or
//! call different things while their peers wait in a kernel.
//!
//! Tests whose names begin with `kill_` end processes while kernels run. A real GPU that is shared through CUDA MPS takes the
//! peers of such a process along, so there they run by themselves, without it. Deadlines are long enough for GPUs that
//! processes take turns on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use common::clock;
use common::crew::Crew;
use common::device_calls::DeviceCalls;
use common::device_kills::*;
use common::device_mismatches::*;
use common::device_scenes::{CHOICES, LONG, NOTICE, ROUNDS, endless, in_chunks, one, varied, work};
use common::puppet::{self, Command, Did, Failed, PUPPET, Told};
use common::scenes::PLAIN;
use common::{driver, harness, paths};
use lanesum_conformance::Choice;
use lanesum_plan::PathChoice;
use rustix::process::Signal;

/// A deadline that is reached.
const SHORT: Duration = Duration::from_millis(600);
/// What other work on the machine may add.
const MARGIN: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    if let Some(code) = driver::ready() {
        return code;
    }
    if std::env::args().nth(1).as_deref() == Some(PUPPET) {
        puppet::serve();
        return ExitCode::SUCCESS;
    }
    harness::main(harness::tests![
        kill_a_rank_that_peers_wait_for_in_a_kernel,
        kill_a_rank_in_its_calls,
        kill_a_rank_before_any_call,
        kill_a_rank_with_calls_of_its_peers_queued,
        kill_two_ranks_of_four,
        kill_a_rank_whose_memory_was_shared_by_ipc,
        kill_a_rank_whose_forked_child_lives_on,
        a_stopped_rank_is_named_at_the_deadline,
        a_silent_rank_is_named_by_all_that_call,
        two_silent_ranks_are_both_named,
        a_rank_that_leaves_is_named,
        a_rank_that_panics_is_named,
        a_deadline_that_is_shortened_holds_for_calls_on_the_stream,
        a_deadline_that_is_raised_holds_for_calls_on_the_stream,
        calls_behind_a_failing_one_end_with_it,
        a_barrier_against_a_device_call_ends_at_the_deadline,
        a_host_call_against_a_device_call_ends_at_the_deadline,
        a_slow_rank_does_no_harm,
        a_slow_rank_does_no_harm_to_calls_in_a_row,
        a_forked_child_can_neither_use_nor_poison,
        other_sizes_name_both_sides,
        nothing_against_something_names_both_sides,
        other_dtypes_name_both_sides,
        other_operations_name_both_sides,
        other_labels_name_both_sides,
        a_mismatch_outlasts_those_who_leave,
        kill_ranks_that_stage_in_host_memory,
        faults_through_host_memory_are_told_alike,
        mismatches_through_host_memory_name_both_sides,
        kill_ranks_that_move_chunks,
        faults_among_chunks_are_told_alike,
        faults_among_chunks_between_two_gpus_are_told_alike,
        mismatches_among_chunks_name_both_sides,
    ])
}

fn set_deadline(deadline: Duration) -> Command {
    Command::SetDeadline {
        ms: deadline.as_millis() as u64,
    }
}

/// Checks that a rank ended at the deadline, with the blame on these.
fn was_late(crew: &Crew, rank: usize, late: &[usize], since: Duration) -> Failed {
    let (at, failed) = crew.hear_failure(rank);
    let Told::Late { ranks, waited } = &failed.told else {
        panic!("rank {rank}: {}", failed.message)
    };
    assert_eq!(ranks, late, "rank {rank}: {}", failed.message);
    assert_eq!(failed.failed_ranks, late);
    assert!(*waited >= SHORT && *waited < SHORT + MARGIN, "waited {waited:?}");
    let took = at.saturating_sub(since);
    assert!(took < SHORT + MARGIN, "rank {rank} ended after {took:?}");
    failed
}

fn a_stopped_rank_is_named_at_the_deadline() {
    let mut crew = Crew::start(3);
    for round in 0..ROUNDS {
        let victim = round % 3;
        // A deadline given at the start and one changed later must both hold.
        crew.join_device(if round % 2 == 0 { SHORT } else { LONG }, CHOICES[round % 2]);
        if round % 2 == 1 {
            crew.agree(&set_deadline(SHORT));
        }
        crew.tell(&endless(varied(round)));
        sleep(Duration::from_micros(40_000 + 900 * round as u64));
        let stopped = crew.puppets[victim].signal(Signal::STOP);
        for rank in crew.others(victim) {
            let failed = was_late(&crew, rank, &[victim], stopped);
            crew.is_poisoned(rank, &failed, &work(round));
        }
        // Every result that it has taken for one was judged; the call that it was in must fail.
        crew.puppets[victim].signal(Signal::CONT);
        let (_, failed) = crew.hear_failure(victim);
        crew.is_poisoned(victim, &failed, &work(round));
    }
    crew.join_device(LONG, Choice::Auto);
    crew.agree(&one(PLAIN));
}

fn a_silent_rank_is_named_by_all_that_call() {
    let mut crew = Crew::start(4);
    for round in 0..3 {
        let victim = round % 4;
        crew.join_device(SHORT, CHOICES[round % 2]);
        let since = clock::now();
        for rank in crew.others(victim) {
            crew.puppets[rank].tell(&one(varied(2 * round)));
        }
        for rank in crew.others(victim) {
            let failed = was_late(&crew, rank, &[victim], since);
            crew.is_poisoned(rank, &failed, &work(round));
        }
        // Who comes too late may find all that it needs, and is told with the next call at the latest.
        let came = clock::now();
        crew.puppets[victim].tell(&Command::Device(DeviceCalls {
            calls: 2,
            ..DeviceCalls::one(varied(2 * round))
        }));
        let (at, failed) = crew.hear_failure(victim);
        assert_eq!(failed.failed_ranks, [victim], "{}", failed.message);
        assert!(at.saturating_sub(came) < SHORT, "{:?}", at.saturating_sub(came));
    }
}

fn two_silent_ranks_are_both_named() {
    let mut crew = Crew::start(4);
    for round in 0..4 {
        let silent = [round % 2, 2 + round / 2];
        crew.join_device(SHORT, CHOICES[round % 2]);
        crew.agree(&one(varied(round)));
        let since = clock::now();
        let calling: Vec<usize> = (0..4).filter(|rank| !silent.contains(rank)).collect();
        calling
            .iter()
            .for_each(|rank| crew.puppets[*rank].tell(&one(varied(round))));
        for rank in calling {
            let failed = was_late(&crew, rank, &silent, since);
            crew.is_poisoned(rank, &failed, &work(round));
        }
    }
}

/// A rank ends its part while its peers call; they are told how.
fn end(by: &Command, told: impl Fn(usize) -> Told) {
    let mut crew = Crew::start(3);
    for round in 0..ROUNDS {
        let leaver = round % 3;
        crew.join_device(LONG, CHOICES[round % 2]);
        crew.agree(&one(varied(round)));
        for rank in crew.others(leaver) {
            crew.puppets[rank].tell(&endless(varied(round)));
        }
        if round % 2 == 0 {
            sleep(Duration::from_millis(30));
        }
        let left = clock::now();
        crew.puppets[leaver].tell(by);
        assert!(matches!(crew.puppets[leaver].hear().did, Did::Well));
        for rank in crew.others(leaver) {
            let (at, failed) = crew.hear_failure(rank);
            assert_eq!(failed.told, told(leaver), "{}", failed.message);
            assert!(at.saturating_sub(left) < NOTICE);
            crew.is_poisoned(rank, &failed, &work(round));
        }
    }
}

fn a_rank_that_leaves_is_named() {
    end(&Command::Leave, |rank| Told::Departed { rank });
}

fn a_rank_that_panics_is_named() {
    end(&Command::Panic, |rank| Told::Panicked { rank });
}

fn a_deadline_that_is_shortened_holds_for_calls_on_the_stream() {
    let mut crew = Crew::start(2);
    for round in 0..3 {
        crew.join_device(LONG, CHOICES[round % 2]);
        let since = clock::now();
        crew.puppets[0].tell(&Command::Device(DeviceCalls {
            then_deadline_ms: Some(SHORT.as_millis() as u64),
            ..DeviceCalls::burst(varied(round), 1 + round)
        }));
        let failed = was_late(&crew, 0, &[1], since);
        crew.is_poisoned(0, &failed, &work(round));
    }
}

fn a_deadline_that_is_raised_holds_for_calls_on_the_stream() {
    let mut crew = Crew::start(2);
    crew.join_device(SHORT, Choice::Auto);
    crew.puppets[0].tell(&Command::Device(DeviceCalls {
        then_deadline_ms: Some(LONG.as_millis() as u64),
        ..DeviceCalls::one(PLAIN)
    }));
    // Beyond the first deadline and what a receipt waits on top of it.
    sleep(SHORT + Duration::from_secs(3));
    crew.puppets[1].tell(&one(PLAIN));
    for rank in [1, 0] {
        let reply = crew.puppets[rank].hear();
        assert!(matches!(reply.did, Did::Well), "rank {rank}: {reply:?}");
    }
}

fn calls_behind_a_failing_one_end_with_it() {
    let mut crew = Crew::start(3);
    for round in 0..3 {
        let victim = round % 3;
        crew.join_device(SHORT, CHOICES[round % 2]);
        crew.agree(&one(varied(round)));
        let since = clock::now();
        for rank in crew.others(victim) {
            crew.puppets[rank].tell(&Command::Device(DeviceCalls::burst(varied(round), 12)));
        }
        for rank in crew.others(victim) {
            let failed = was_late(&crew, rank, &[victim], since);
            crew.is_poisoned(rank, &failed, &work(round));
        }
    }
}

/// The two engines know nothing of each other's calls: both sides end by the deadline, nobody hangs.
fn against_a_device_call(other: impl Fn(usize) -> Command) {
    let mut crew = Crew::start(2);
    for round in 0..3 {
        crew.join_device(SHORT, CHOICES[round % 2]);
        let since = clock::now();
        crew.puppets[round % 2].tell(&other(round));
        crew.puppets[1 - round % 2].tell(&one(varied(round)));
        for rank in 0..2 {
            let (at, failed) = crew.hear_failure(rank);
            let took = at.saturating_sub(since);
            assert!(
                took < SHORT + MARGIN,
                "rank {rank} ended after {took:?}: {}",
                failed.message
            );
            crew.is_poisoned(rank, &failed, &work(round));
        }
    }
}

fn a_barrier_against_a_device_call_ends_at_the_deadline() {
    against_a_device_call(|_| Command::Barrier);
}

fn a_host_call_against_a_device_call_ends_at_the_deadline() {
    against_a_device_call(|round| Command::Reduce(varied(round)));
}

fn a_slow_rank_does_no_harm() {
    let mut crew = Crew::start(3);
    crew.join_device(LONG, Choice::Auto);
    for round in 0..3 {
        for (rank, puppet) in crew.puppets.iter_mut().enumerate() {
            puppet.tell(&Command::Device(DeviceCalls {
                calls: 4,
                pause_ms: if rank == round { 300 } else { 0 },
                ..DeviceCalls::one(varied(round))
            }));
        }
        for puppet in &crew.puppets {
            let reply = puppet.hear();
            assert!(matches!(reply.did, Did::Well), "{reply:?}");
        }
    }
}

/// Each call's wait is shorter than the deadline, and only their sum is longer.
fn a_slow_rank_does_no_harm_to_calls_in_a_row() {
    let mut crew = Crew::start(2);
    crew.join_device(SHORT, Choice::Auto);
    crew.puppets[0].tell(&Command::Device(DeviceCalls::burst(PLAIN, 12)));
    crew.puppets[1].tell(&Command::Device(DeviceCalls {
        calls: 12,
        pause_ms: 300,
        ..DeviceCalls::one(PLAIN)
    }));
    for rank in [1, 0] {
        let reply = crew.puppets[rank].hear();
        assert!(matches!(reply.did, Did::Well), "rank {rank}: {reply:?}");
    }
}

fn a_forked_child_can_neither_use_nor_poison() {
    let mut crew = Crew::start(2);
    for round in 0..4 {
        crew.join_device(LONG, CHOICES[round % 2]);
        crew.agree(&one(varied(round)));
        let forker = &mut crew.puppets[round % 2];
        forker.tell(&Command::Fork { stay: false });
        let reply = forker.hear();
        let Did::Forked { verdict, .. } = reply.did else {
            panic!("{reply:?}")
        };
        assert_eq!(verdict, 0, "the forked child's attempts went otherwise: {verdict:08b}");
        crew.agree(&one(varied(round + 1)));
        crew.agree(&Command::Barrier);
    }
}

fn kill_ranks_that_stage_in_host_memory() {
    paths::along(PathChoice::HostStaged, || {
        kill_a_rank_in_its_calls();
        kill_a_rank_with_calls_of_its_peers_queued();
        kill_a_rank_whose_forked_child_lives_on();
    });
}

fn faults_through_host_memory_are_told_alike() {
    paths::along(PathChoice::HostStaged, || {
        a_stopped_rank_is_named_at_the_deadline();
        two_silent_ranks_are_both_named();
        a_rank_that_leaves_is_named();
        a_slow_rank_does_no_harm();
        a_forked_child_can_neither_use_nor_poison();
    });
}

fn mismatches_through_host_memory_name_both_sides() {
    paths::along(PathChoice::HostStaged, || {
        other_sizes_name_both_sides();
        nothing_against_something_names_both_sides();
        a_mismatch_outlasts_those_who_leave();
    });
}

fn kill_ranks_that_move_chunks() {
    in_chunks(PathChoice::HostStaged, || {
        kill_a_rank_in_its_calls();
        kill_a_rank_before_any_call();
    });
}

fn faults_among_chunks_are_told_alike() {
    in_chunks(PathChoice::HostStaged, || {
        a_stopped_rank_is_named_at_the_deadline();
        two_silent_ranks_are_both_named();
        a_rank_that_leaves_is_named();
    });
}

fn faults_among_chunks_between_two_gpus_are_told_alike() {
    in_chunks(PathChoice::Peer, || {
        a_deadline_that_is_shortened_holds_for_calls_on_the_stream();
        a_forked_child_can_neither_use_nor_poison();
    });
}

/// Also where one side moves frames.
fn mismatches_among_chunks_name_both_sides() {
    in_chunks(PathChoice::HostStaged, || {
        other_sizes_name_both_sides();
        nothing_against_something_names_both_sides();
        a_mismatch_outlasts_those_who_leave();
    });
}
