//! `lanesum bench --engine host` with few calls, and with scripts in place of an MPI.

mod fake;
mod peers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::common::{PATIENCE, all_die, await_ranks, children_of, finish, lanesum, run, signal, start, stderr, stdout};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A bench that is soon over.
const SMALL: &str = "bench --engine host --ranks 2 --sizes 1KiB,4KiB --rounds 2 --calls 3 --commit 0123456789ab";

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.split(' ').chain(more.iter().copied()).collect()
}

fn lines(text: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|cause| panic!("{cause}: {line}"));
    text.lines().map(read).collect()
}

fn of<'a>(rows: &'a [Value], peer: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["peer"] == peer).collect()
}

/// So many rounds at this size, whatever the machine did meanwhile.
fn rounds(rows: &[&Value], buffers: &str, bytes: u64) -> u64 {
    let of = rows
        .iter()
        .filter(|row| row["buffers"] == buffers && row["bytes"] == bytes);
    of.map(|row| row["rounds"].as_u64().unwrap()).sum()
}

#[test]
fn both_kinds_of_buffers_are_timed_in_every_type() {
    let output = run(&small(&["--peers=none", "--json", "--dtype=f32,bf16,f16"]));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    for dtype in ["f32", "bf16", "f16"] {
        let rows: Vec<&Value> = rows.iter().filter(|row| row["dtype"] == dtype).collect();
        for bytes in [1024, 4096] {
            for buffers in ["private", "shared"] {
                assert_eq!(rounds(&rows, buffers, bytes), 2, "{buffers} {bytes}: {rows:?}");
            }
        }
    }
    for row in &rows {
        for (key, value) in [
            ("kind", json!("row")),
            ("engine", json!("host")),
            ("peer", json!("lanesum")),
            ("path", json!("shared_memory")),
            ("ranks", json!(2)),
            ("checked", json!(true)),
            ("ratio_to_best_peer", Value::Null),
        ] {
            assert_eq!(row[key], value, "{key} in {row}");
        }
        assert!(row["algorithm"].as_str().unwrap().ends_with("_pull"), "{row}");
        assert!(
            ["near", "far", "moved", "busy", "one_core"].contains(&row["regime"].as_str().unwrap()),
            "{row}"
        );
        let us = |key: &str| row["us"][key].as_f64().unwrap();
        assert!(
            0.0 < us("min") && us("min") <= us("q1") && us("q1") <= us("p50"),
            "{row}"
        );
        assert!(
            us("p50") <= us("q3") && us("q3") <= us("max") && us("p50") <= us("p99"),
            "{row}"
        );
        assert_eq!(
            row["calls"].as_u64().unwrap(),
            3 * row["rounds"].as_u64().unwrap(),
            "{row}"
        );
    }
}

#[test]
fn without_a_gpu_the_host_is_timed_and_the_table_says_why() {
    let output = run(&[
        "bench",
        "--ranks=3",
        "--sizes=1KiB",
        "--rounds=1",
        "--calls=2",
        "--peers=none",
        "--algorithm=one_shot_pull",
    ]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let output = run(&["bench", "--ranks=3", "--sizes=1KiB", "--calls=2", "--peers=none"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("not on GPUs: ") && text.contains("libcuda.so.1"),
        "{text}"
    );
    assert!(
        text.contains("bench: 3 ranks in the host's memory, f32, 9 rounds"),
        "{text}"
    );
    assert!(
        text.contains("lanesum, private (") && text.contains("lanesum, shared ("),
        "{text}"
    );
}

/// What was measured before is in the record, which says that it is not all.
#[test]
fn one_of_our_ranks_that_is_killed_is_named_and_ends_the_bench() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.json");
    let words = "bench --engine host --ranks 2 --sizes 1KiB --rounds 1000 --calls 100 --peers none --json --record";
    let words: Vec<&str> = words.split(' ').chain([file.to_str().unwrap()]).collect();
    let child = start(&words);
    let until = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < until, "the first round has no end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let launcher = children_of(child.id())[0];
    let ranks = await_ranks(launcher, 2);
    signal(ranks[1].1, Signal::KILL);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let told = lines(&stdout(&output));
    let last = told.last().unwrap();
    assert_eq!(last["kind"], "error", "{last}");
    assert!(last["error"].as_str().unwrap().contains("rank 1"), "{last}");
    assert!(told.iter().any(|line| line["kind"] == "row"), "{told:?}");
    let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(document["complete"], false);
    assert!(
        document["error"].as_str().unwrap().contains("rank 1"),
        "{}",
        document["error"]
    );
    assert!(all_die([launcher, ranks[0].1, ranks[1].1]));
}

#[test]
fn peers_that_are_not_there_say_what_was_looked_for() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = lanesum(&small(&["--json"]));
    command.env("PATH", empty.path());
    let output = finish(command.spawn().unwrap());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    for (peer, word) in [
        ("openmpi", "mpicc.openmpi"),
        ("openmpi_ucx", "cargo xtask peers openmpi"),
        ("mpich", "mpicc.mpich"),
        ("impi", "its mpiexec"),
        ("oneccl", "cargo xtask peers oneccl"),
        ("gloo", "python3"),
    ] {
        let found = of(&rows, peer);
        assert_eq!(
            (found.len(), &found[0]["kind"]),
            (1, &json!("missing")),
            "{peer}: {rows:?}"
        );
        let reason = found[0]["missing"].as_str().unwrap();
        assert!(reason.contains(word), "{peer}: {reason}");
    }
}

#[test]
fn peers_of_gpus_and_unknown_ones_are_refused() {
    for (peers, words) in [
        ("nccl", ["--peers nccl is for", "openmpi_ucx"]),
        ("vader", ["vader", "openmpi_ucx"]),
        ("mpich,", ["is no peer", "on the host"]),
    ] {
        let output = run(&small(&["--peers", peers]));
        assert_eq!(output.status.code(), Some(2), "{peers}");
        let text = stderr(&output).replace("for the bench of GPUs", "is for");
        assert!(
            text.contains("--peers") && words.iter().all(|word| text.contains(word)),
            "{peers}: {text}"
        );
    }
    let output = run(&small(&["--peers-dir", "/no/such/folder"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("there is no such folder"),
        "{}",
        stderr(&output)
    );
    let output = run(&small(&["--sizes", "1KiB,1030", "--dtype=bf16,f32"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--sizes 1030"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_written_is_found_out_first() {
    for flag in ["--record", "--plot"] {
        let place = PathBuf::from("/no/such/folder/file");
        let output = run(&small(&["--peers=none", flag, place.to_str().unwrap(), "--json"]));
        assert_eq!(output.status.code(), Some(1));
        let told = lines(&stdout(&output));
        assert_eq!((told.len(), &told[0]["kind"]), (1, &json!("error")), "{told:?}");
        assert!(
            told[0]["error"]
                .as_str()
                .unwrap()
                .contains("write /no/such/folder/file"),
            "{told:?}"
        );
    }
}
