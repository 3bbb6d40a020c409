//! The protocol of the kernels under ThreadSanitizer, and faults in it that must be noticed.
//!
//! The kernels are the real sources, with few bits of tag and frequent sweeps; csrc/protocol/ says how they run.
#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]
mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Ended, compile, here, run};

/// What a run may end with.
const WELL: i32 = 0;
const WRONG_SUM: i32 = 2;
const GAVE_UP: i32 = 3;
const MISMATCH: i32 = 4;
const DATA_RACE: i32 = 66;

const WATCHED: &str = "halt_on_error=1 exitcode=66";

/// What the ranks do; csrc/protocol/protocol.cpp plays them.
#[derive(Debug, Clone, Copy)]
enum Scene {
    Mixed,
    Replays,
    Reordered,
}

impl Scene {
    fn name(self) -> &'static str {
        match self {
            Scene::Mixed => "mixed",
            Scene::Replays => "replays",
            Scene::Reordered => "reordered",
        }
    }

    /// What ThreadSanitizer is told. Where ranks must fail, the NaN that they leave races, by design (see the single half).
    fn options(self) -> String {
        match self {
            Scene::Mixed | Scene::Replays => WATCHED.to_owned(),
            Scene::Reordered => format!("{WATCHED} report_bugs=0"),
        }
    }
}

fn compile_with(program: &Path, mutant: Option<&str>) {
    let include = here().join("csrc/protocol");
    let mutant = mutant.map(|mutant| format!("-DLANESUM_MUTANT_{mutant}"));
    let mut options = vec!["-O1", "-fsanitize=thread", "-I", include.to_str().unwrap()];
    options.extend(["-DLANESUM_WORLD=3", "-DLANESUM_TAG_BITS=4", "-DLANESUM_SWEEP_BITS=2"]);
    options.push("-DLANESUM_SAMPLE_BITS=2");
    options.extend(mutant.as_deref());
    compile("csrc/protocol/protocol.cpp", program, &options);
}

/// Runs so many calls with so many threads a block; waits in the kernel end after `deadline_ms`.
fn watch(program: &Path, scene: Scene, calls: u32, threads: u32, deadline_ms: u32) -> Ended {
    let numbers = [calls, threads, deadline_ms].map(|number| number.to_string());
    let arguments = [&[scene.name().to_owned()], &numbers[..]].concat();
    let options = scene.options();
    // What hangs is ended; a busy machine takes minutes for what takes seconds on an idle one.
    let patience = Duration::from_secs(600);
    let ended = run(
        Command::new(program).args(&arguments).env("TSAN_OPTIONS", &options),
        patience,
    );
    if !ended.stderr.contains("unexpected memory mapping") {
        return ended;
    }
    // Older sanitizers do not expect as much randomness as newer kernels have.
    run(
        Command::new("setarch")
            .arg("-R")
            .arg(program)
            .args(&arguments)
            .env("TSAN_OPTIONS", &options),
        patience,
    )
}

fn code(ended: &Ended) -> Option<i32> {
    ended.status.and_then(|status| status.code())
}

#[test]
fn sums_are_right_and_nothing_races() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("protocol");
    compile_with(&program, None);
    // From eight on, half of the calls move chunks: each role has a thread.
    for threads in [2, 3, 4, 8, 11] {
        let ended = watch(&program, Scene::Mixed, 8000, threads, 60_000);
        assert_eq!(code(&ended), Some(WELL), "{threads} threads: {}", ended.stderr);
    }
    for threads in [2, 3] {
        let ended = watch(&program, Scene::Replays, 8000, threads, 60_000);
        assert_eq!(code(&ended), Some(WELL), "replays, {threads} threads: {}", ended.stderr);
    }
}

/// Only what headers say tells such replays apart.
#[test]
fn reordered_replays_are_a_mismatch() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("reordered");
    compile_with(&program, None);
    for threads in [2, 3] {
        let ended = watch(&program, Scene::Reordered, 800, threads, 3000);
        assert_eq!(code(&ended), Some(MISMATCH), "{threads} threads: {}", ended.stderr);
        assert!(
            ended.stderr.contains("call 400") || ended.stderr.contains("call 401"),
            "{}",
            ended.stderr
        );
    }
}

/// The mutant must end in one of these ways, with one thread a block that moves frames and with two.
fn is_noticed(mutant: &str, ways: &[i32]) {
    is_noticed_by(mutant, ways, Scene::Mixed, [2, 3]);
}

/// The same, in replays of graphs.
fn is_noticed_in(scene: Scene, mutant: &str, ways: &[i32]) {
    is_noticed_by(mutant, ways, scene, [2, 3]);
}

/// The same, where chunks move too.
fn is_noticed_in_chunks(mutant: &str, ways: &[i32]) {
    is_noticed_by(mutant, ways, Scene::Mixed, [8, 9]);
}

fn is_noticed_by(mutant: &str, ways: &[i32], scene: Scene, threads: [u32; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(mutant);
    compile_with(&program, Some(mutant));
    for threads in threads {
        let ended = watch(&program, scene, 8000, threads, 3000);
        let noticed = code(&ended).is_some_and(|code| ways.contains(&code));
        assert!(
            noticed,
            "{mutant}, {threads} threads: {:?} {}",
            ended.status, ended.stderr
        );
    }
}

#[test]
fn a_torn_word_is_noticed() {
    is_noticed("RELAXED_TAG", &[DATA_RACE]);
}

/// The packets of a frame come one after the other. Where it is a header's, the ranks seem to call differently; see the single half.
#[test]
fn a_frame_whose_second_packet_is_still_under_way_is_noticed() {
    is_noticed("ONE_TAG", &[WRONG_SUM, GAVE_UP, MISMATCH, DATA_RACE]);
}

/// Headers are taken as they are, too.
#[test]
fn taking_what_is_there_is_noticed() {
    is_noticed("NO_WAIT", &[WRONG_SUM, GAVE_UP, MISMATCH, DATA_RACE]);
}

/// A word that was overwritten before it was read is waited for in vain, or a later one is taken for it. A lane that gave up
/// writes NaN over what the others have left without a release (`outlast_others` in kernels/lane.cuh), which is a race, too.
#[test]
fn a_single_half_is_noticed() {
    is_noticed("SINGLE_BUFFER", &[GAVE_UP, MISMATCH, WRONG_SUM, DATA_RACE]);
}

#[test]
fn a_tag_that_comes_round_is_noticed() {
    is_noticed("WRAPPED_TAG", &[WRONG_SUM]);
}

/// As a single half.
#[test]
fn running_ahead_of_headers_is_noticed() {
    is_noticed("MISSING_HEADER", &[GAVE_UP, MISMATCH, WRONG_SUM, DATA_RACE]);
}

#[test]
fn a_count_that_overtakes_its_chunks_is_noticed() {
    is_noticed_in_chunks("UNFENCED_COUNT", &[DATA_RACE, WRONG_SUM]);
}

#[test]
fn chunks_that_nobody_awaits_are_noticed() {
    is_noticed_in_chunks("UNAWAITED_COUNT", &[WRONG_SUM, DATA_RACE]);
}

/// In place, what is still to be written for others is overwritten.
#[test]
fn output_before_input_was_read_is_noticed() {
    is_noticed_in_chunks("EARLY_OUTPUT", &[DATA_RACE, WRONG_SUM]);
}

/// An epoch that a graph would have frozen at its capture: the second replay finds the packets of the first, and takes them.
#[test]
fn an_epoch_that_does_not_advance_is_noticed() {
    is_noticed_in(Scene::Replays, "STALE_EPOCH", &[WRONG_SUM]);
}

/// Replays of equal shape, in another order on one rank.
#[test]
fn headers_that_nobody_compares_are_noticed() {
    is_noticed_in(Scene::Reordered, "UNCOMPARED_HEADER", &[WRONG_SUM]);
}
