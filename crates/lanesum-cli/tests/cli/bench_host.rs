//! `lanesum bench --engine host` with few calls, and with scripts in place of an MPI: whatever a peer does costs its own rows alone.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::common::{PATIENCE, all_die, await_ranks, children_of, finish, lanesum, run, signal, start, stderr, stdout};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

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

fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// In place of a compiler it gives out `rank`, and in place of a launcher it starts that for each rank.
fn fake_openmpi(rank: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    executable(
        &folder.path().join("mpicc.openmpi"),
        &format!("#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nexec cp '{place}/rank' \"$2\"\n"),
    );
    executable(
        &folder.path().join("mpirun.openmpi"),
        &format!(
            "#!/bin/sh\necho $$ >>'{place}/pids'\nwhile [ \"$1\" != -n ]; do shift; done\nranks=$2; shift 2\nrank=0\n\
             while [ $rank -lt $ranks ]; do FAKE_RANK=$rank \"$@\" & rank=$((rank + 1)); done\nwait $!\n"
        ),
    );
    let text = format!(
        "#!/bin/sh\necho $$ >>'{place}/pids'\n[ $FAKE_RANK = 0 ] || exec cat \"$1/rank-$FAKE_RANK\" >/dev/null\n\
         echo '{{\"event\":\"ready\",\"ranks\":2,\"version\":\"Open MPI v0, a fake\"}}'\n\
         point() {{ echo '{{\"event\":\"point\",\"p50\":1.5,\"p99\":2.5,\"algorithm\":null}}'; }}\n\
         while read dtype buffers elements warm_ups calls salt; do\n{rank}\ndone <\"$1/rank-0\"\n"
    );
    executable(&folder.path().join("rank"), &text);
    folder
}

/// Every process that the fakes were.
fn pids(folder: &TempDir) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.path().join("pids")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn with_fake(folder: &TempDir, more: &[&str]) -> Vec<Value> {
    let mut command = lanesum(&small(&[&["--json", "--peers", "openmpi"][..], more].concat()));
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
    let output = finish(command.spawn().unwrap());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    let ours: Vec<&Value> = of(&rows, "lanesum")
        .into_iter()
        .filter(|row| row["dtype"] == "f32")
        .collect();
    assert_eq!(rounds(&ours, "private", 4096), 2, "{rows:?}");
    rows
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

#[test]
fn a_right_peer_stands_beside_ours() {
    let folder = fake_openmpi(
        "case $dtype in bf16) echo '{\"event\":\"missing\",\"reason\":\"it has no sum of bf16\"}' ;; *) point ;; esac",
    );
    let file = folder.path().join("record.json");
    let rows = with_fake(&folder, &["--dtype=f32,bf16", "--record", file.to_str().unwrap()]);
    let peer = of(&rows, "openmpi");
    let (missing, timed): (Vec<&Value>, Vec<&Value>) = peer.into_iter().partition(|row| row["kind"] == "missing");
    assert_eq!(
        (rounds(&timed, "private", 1024), rounds(&timed, "private", 4096)),
        (2, 2),
        "{rows:?}"
    );
    for row in timed {
        assert_eq!((&row["us"]["p50"], &row["us"]["p99"]), (&json!(1.5), &json!(2.5)));
        assert_eq!((&row["algorithm"], &row["dtype"]), (&Value::Null, &json!("f32")));
    }
    assert_eq!(missing.len(), 1, "{rows:?}");
    assert_eq!(
        (&missing[0]["dtype"], &missing[0]["missing"]),
        (&json!("bf16"), &json!("it has no sum of bf16"))
    );
    let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&document["complete"], &document["commit"]),
        (&json!(true), &json!("0123456789ab"))
    );
    let engine = &document["engines"]["openmpi"];
    assert_eq!(engine["version"], "Open MPI v0, a fake");
    assert!(
        engine["started"]
            .as_str()
            .unwrap()
            .starts_with("mpirun.openmpi --bind-to none"),
        "{engine}"
    );
    // Two rounds of two sizes: ours in both types and kinds of buffers, the peer's in one.
    assert_eq!(document["points"].as_array().unwrap().len(), 2 * 2 * (2 * 2 + 1));
    let count = document["rows"].as_array().unwrap().len() + document["missing"].as_array().unwrap().len();
    assert_eq!(count, rows.len());
    assert!(all_die(pids(&folder)));
}

#[test]
fn a_peer_that_is_wrong_has_no_row_at_that_size() {
    let folder = fake_openmpi(
        "case $elements in 256) echo '{\"event\":\"wrong\",\"reason\":\"rank 1: element 7 is 3, expected 4\"}' ;; *) point ;; esac",
    );
    let rows = with_fake(&folder, &[]);
    let peer = of(&rows, "openmpi");
    assert_eq!(rounds(&peer, "private", 1024), 0, "{rows:?}");
    assert_eq!(rounds(&peer, "private", 4096), 2, "{rows:?}");
    let missing: Vec<_> = peer.iter().filter(|row| row["kind"] == "missing").collect();
    assert_eq!((missing.len(), &missing[0]["bytes"]), (1, &json!(1024)), "{rows:?}");
    assert_eq!(missing[0]["missing"], "wrong sums: rank 1: element 7 is 3, expected 4");
    assert!(all_die(pids(&folder)));
}

#[test]
fn a_peer_that_dies_is_started_again_for_the_other_sizes() {
    let folder =
        fake_openmpi("case $elements in 256) echo 'Error: signal 11 (segmentation)' >&2; exit 3 ;; *) point ;; esac");
    // The launcher's end is that of its last rank.
    executable(
        &folder.path().join("mpirun.openmpi"),
        "#!/bin/sh\nwhile [ \"$1\" != -n ]; do shift; done\nshift 2\nFAKE_RANK=0 exec \"$@\"\n",
    );
    let rows = with_fake(&folder, &[]);
    let peer = of(&rows, "openmpi");
    assert_eq!(rounds(&peer, "private", 4096), 2, "{rows:?}");
    let missing: Vec<_> = peer.iter().filter(|row| row["kind"] == "missing").collect();
    assert_eq!((missing.len(), &missing[0]["bytes"]), (1, &json!(1024)), "{rows:?}");
    assert_eq!(
        missing[0]["missing"],
        "it ended with exit code 3: Error: signal 11 (segmentation)"
    );
}

#[test]
fn a_peer_that_hangs_is_killed_with_all_that_it_started() {
    let folder = fake_openmpi("case $elements in 256) trap '' TERM; while :; do sleep 1; done ;; *) point ;; esac");
    let start = Instant::now();
    let rows = with_fake(&folder, &["--deadline-ms=3000"]);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let peer = of(&rows, "openmpi");
    assert!(peer.iter().all(|row| row["kind"] == "missing"), "{rows:?}");
    let reasons: Vec<_> = peer.iter().map(|row| row["missing"].as_str().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "it hangs: no rank said anything for 8 s",
            "it is not tried, since it hung at 1024 bytes"
        ]
    );
    assert!(!pids(&folder).is_empty() && all_die(pids(&folder)));
}

#[test]
fn a_peer_that_does_not_start_or_is_another_library_is_missing() {
    let folder = fake_openmpi("point");
    let place = folder.path();
    let rank = std::fs::read_to_string(place.join("rank")).unwrap();
    let reason = |rows: &[Value]| {
        let peer = of(rows, "openmpi");
        assert_eq!((peer.len(), &peer[0]["kind"]), (1, &json!("missing")), "{rows:?}");
        peer[0]["missing"].as_str().unwrap().to_owned()
    };
    executable(&place.join("rank"), &rank.replace("Open MPI v0", "MPICH 4"));
    assert_eq!(
        reason(&with_fake(&folder, &[])),
        "it is another library, MPICH 4, a fake"
    );
    executable(
        &place.join("mpirun.openmpi"),
        "#!/bin/sh\necho 'no slots' >&2\nexit 9\n",
    );
    assert_eq!(reason(&with_fake(&folder, &[])), "it ended with exit code 9: no slots");
    executable(
        &place.join("mpicc.openmpi"),
        "#!/bin/sh\necho '/a/b.c: error: no mpi.h' >&2\nexit 1\n",
    );
    assert_eq!(
        reason(&with_fake(&folder, &[])),
        "mpicc.openmpi ended with exit code 1: b.c: error: no mpi.h"
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
fn the_plot_is_xml_with_a_label_for_everything() {
    let folder = fake_openmpi("point");
    let file = folder.path().join("bench.svg");
    with_fake(&folder, &["--plot", file.to_str().unwrap()]);
    let parser = "import sys, xml.dom.minidom\n\
                  for node in xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName('text'): print(node.firstChild.data)";
    let parsed = Command::new("python3")
        .args(["-c", parser])
        .arg(&file)
        .output()
        .unwrap();
    assert!(parsed.status.success(), "{}", stderr(&parsed));
    let text = stdout(&parsed);
    let labels: Vec<&str> = text.lines().collect();
    for label in [
        "All-reduce in the host's memory, by sum, in place",
        "lanesum, private buffers",
        "lanesum, shared buffers",
        "openmpi",
        "bytes a rank",
        "us a call, median of the slowest rank",
        "1 KiB",
        "4 KiB",
    ] {
        assert!(labels.contains(&label), "{label}: {labels:?}");
    }
    assert!(
        labels.iter().any(|label| label.starts_with("2 ranks, f32, ")),
        "{labels:?}"
    );
}

#[test]
fn what_cannot_be_written_is_found_out_first() {
    for flag in ["--record", "--plot"] {
        let place = PathBuf::from("/no/such/folder/file");
        let output = run(&small(&[flag, place.to_str().unwrap(), "--json"]));
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
