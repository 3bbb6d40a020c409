//! Runs that are disturbed: a rank dies or stops, a signal comes, an input changes.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::files::Folder;
use crate::common::{all_die, await_ranks, finish, json, lives, signal, start, stderr};

/// Three files that take a moment to sum, into an output that is there already.
struct Scene {
    folder: Folder,
    files: [String; 3],
    output: String,
}

const NAMES: [&str; 3] = ["a.safetensors", "b.safetensors", "c.safetensors"];

impl Scene {
    fn new() -> Self {
        let folder = Folder::new();
        let bytes: u64 = 256 << 20;
        let json = format!(
            r#"{{"w":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{bytes}]}}}}"#,
            bytes / 2
        );
        let files = NAMES.map(|name| folder.sparse(name, &json, bytes));
        let output = folder.bytes("sum.safetensors", b"precious");
        Self { folder, files, output }
    }

    /// Starts, and stops a rank as soon as it is there: the others wait for it, and the run cannot end before it is disturbed.
    fn held(&self, deadline_ms: &str) -> (Child, Vec<(usize, u32)>) {
        let [a, b, c] = self.files.each_ref().map(String::as_str);
        let flags = ["--force", "--json", "--deadline-ms", deadline_ms];
        let child = start(&[&["reduce", a, b, c, "-o", &self.output], &flags[..]].concat());
        let ranks = await_ranks(child.id(), 3);
        signal(ranks[1].1, Signal::STOP);
        (child, ranks)
    }

    fn nothing_happened(&self, ranks: Vec<(usize, u32)>) {
        assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
        assert_eq!(std::fs::read(&self.output).unwrap(), b"precious");
        assert_eq!(self.folder.left(&NAMES), ["sum.safetensors"]);
    }
}

/// Waits until all ranks have memory in common, or one has ended.
fn await_meeting(ranks: &[(usize, u32)]) {
    let meets =
        |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("memfd:"));
    let until = Instant::now() + Duration::from_secs(60);
    while ranks.iter().all(|&(_, pid)| lives(pid)) && !ranks.iter().all(|&(_, pid)| meets(pid)) {
        assert!(Instant::now() < until, "the ranks do not meet");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether it was killed in time, and what was said.
fn killed_while_it_sums(scene: &Scene) -> Option<Value> {
    let [a, b, c] = scene.files.each_ref().map(String::as_str);
    let flags = ["--force", "--json", "--deadline-ms", "60000"];
    let child = start(&[&["reduce", a, b, c, "-o", &scene.output], &flags[..]].concat());
    let ranks = await_ranks(child.id(), 3);
    await_meeting(&ranks);
    let pid = Pid::from_raw(ranks[1].1 as i32).unwrap();
    // It may be through already, and gone.
    rustix::process::kill_process(pid, Signal::KILL).ok();
    let killed = Instant::now();
    let done = finish(child);
    if done.status.success() {
        std::fs::write(&scene.output, b"precious").unwrap();
        return None;
    }
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("error: rank 1 died"), "{}", stderr(&done));
    scene.nothing_happened(ranks);
    Some(json(&done))
}

#[test]
fn a_rank_that_is_killed_while_it_sums_ends_the_run_at_once_and_no_output_is_left() {
    let scene = Scene::new();
    // On a busy machine the sum may be there before the signal.
    let said = (0..10)
        .find_map(|_| killed_while_it_sums(&scene))
        .expect("is killed in time once");
    assert_eq!(said["failed_ranks"], json!([1]), "{said}");
    assert!(
        said["error"].as_str().unwrap().contains("rank 1 died (signal SIGKILL)"),
        "{said}"
    );
    assert_eq!((&said["ranks"], &said["output"]), (&json!(3), &json!(scene.output)));
}

#[test]
fn a_rank_that_is_killed_before_it_has_met_the_others_ends_the_run_too() {
    let scene = Scene::new();
    let (child, ranks) = scene.held("3000");
    signal(ranks[1].1, Signal::KILL);
    let done = finish(child);
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("error: rank 1 died"), "{}", stderr(&done));
    scene.nothing_happened(ranks);
}

#[test]
fn a_stopped_rank_ends_the_run_at_the_deadline() {
    let scene = Scene::new();
    let (child, ranks) = scene.held("500");
    let done = finish(child);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    let said = json(&done);
    assert_eq!(said["failed_ranks"], json!([1]), "{said}");
    scene.nothing_happened(ranks);
}

#[test]
fn an_interrupted_run_removes_what_it_wrote() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scene = Scene::new();
        let (child, ranks) = scene.held("60000");
        signal(child.id(), sent);
        let done = finish(child);
        assert_eq!(done.status.code(), Some(code), "{}", stderr(&done));
        assert!(json(&done)["error"].as_str().unwrap().contains("interrupted by"));
        scene.nothing_happened(ranks);
    }
}

#[test]
fn an_input_that_changes_meanwhile_is_an_error() {
    let scene = Scene::new();
    let (child, ranks) = scene.held("60000");
    let file = std::fs::OpenOptions::new().write(true).open(&scene.files[2]).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(9))
        .unwrap();
    signal(ranks[1].1, Signal::CONT);
    let done = finish(child);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    let wanted = format!("{} was changed while it was summed", scene.files[2]);
    assert_eq!(json(&done)["error"], wanted);
    scene.nothing_happened(ranks);
}

#[test]
fn an_input_that_is_cut_off_meanwhile_is_an_error() {
    let scene = Scene::new();
    let (child, ranks) = scene.held("60000");
    let file = std::fs::OpenOptions::new().write(true).open(&scene.files[1]).unwrap();
    file.set_len(100 << 20).unwrap();
    signal(ranks[1].1, Signal::CONT);
    let done = finish(child);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    // By the rank that meets the end, or by the rank that finds the header wrong, which depends on when it was stopped.
    let error = json(&done)["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains(&scene.files[1]) && error.contains("rank 1 failed"),
        "{error}"
    );
    scene.nothing_happened(ranks);
}

#[test]
fn an_output_that_appears_meanwhile_is_not_replaced() {
    let scene = Scene::new();
    std::fs::remove_file(&scene.output).unwrap();
    let [a, b, c] = scene.files.each_ref().map(String::as_str);
    let child = start(&["reduce", a, b, c, "-o", &scene.output]);
    let ranks = await_ranks(child.id(), 3);
    signal(ranks[1].1, Signal::STOP);
    std::fs::write(&scene.output, b"precious").unwrap();
    signal(ranks[1].1, Signal::CONT);
    let done = finish(child);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(
        stderr(&done).contains("exists now, and did not when the run began"),
        "{}",
        stderr(&done)
    );
    scene.nothing_happened(ranks);
}
