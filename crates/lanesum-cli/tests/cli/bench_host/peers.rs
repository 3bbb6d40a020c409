//! Whatever a peer does costs its own rows alone.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::common::{PATIENCE, all_die, finish, signal, stderr, stdout};
use super::fake::{executable, fake_openmpi, lanesum_with, pids, with_fake};
use super::{of, rounds, small};

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
    assert_eq!(engine["version"], "Open MPI v0");
    assert!(
        engine["started"]
            .as_str()
            .unwrap()
            .starts_with("OMPI_MCA_plm_rsh_agent=true mpirun.openmpi --bind-to none"),
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
    // Ours have no more time than the peer.
    let rows = with_fake(&folder, &["--deadline-ms=20000"]);
    let peer = of(&rows, "openmpi");
    assert!(peer.iter().all(|row| row["kind"] == "missing"), "{rows:?}");
    let reasons: Vec<_> = peer.iter().map(|row| row["missing"].as_str().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "it hangs: no rank said anything for 25 s",
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
    assert_eq!(reason(&with_fake(&folder, &[])), "it is another library, MPICH 4");
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

#[test]
fn a_peer_that_floods_its_output_is_stopped() {
    let folder = fake_openmpi("point");
    let launcher = folder.path().join("mpirun.openmpi");
    let flood = |program: &str| {
        executable(
            &launcher,
            &format!("#!/bin/sh\necho $$ >>'{}/pids'\n{program}\n", folder.path().display()),
        );
        let rows = with_fake(&folder, &[]);
        let peer = of(&rows, "openmpi");
        assert_eq!(peer.len(), 1, "{rows:?}");
        peer[0]["missing"].as_str().unwrap().to_owned()
    };
    assert_eq!(flood("exec yes"), "it wrote 1024 KiB and no answer");
    assert_eq!(
        flood("exec tr '\\000' y </dev/zero"),
        "it wrote a line of more than 64 KiB"
    );
    let compiler = "#!/bin/sh\nexec yes\n";
    executable(&folder.path().join("mpicc.openmpi"), compiler);
    assert_eq!(flood("exec yes"), "mpicc.openmpi writes more than 1024 KiB");
    assert!(pids(&folder).len() == 2 && all_die(pids(&folder)));
}

#[test]
fn variables_that_tune_peers_do_not_reach_them() {
    let folder = fake_openmpi("point");
    let place = folder.path().display();
    let rank = std::fs::read_to_string(folder.path().join("rank")).unwrap();
    let telling = rank.replacen('\n', &format!("\nenv >'{place}/env'\n"), 1);
    executable(&folder.path().join("rank"), &telling);
    let mut command = lanesum_with(&folder, &small(&["--peers=openmpi"]));
    let tuning = [
        "OMPI_MCA_btl",
        "PRTE_MCA_x",
        "PMIX_MCA_x",
        "I_MPI_FABRICS",
        "UCX_TLS",
        "MPIR_CVAR_x",
        "MPICH_x",
        "HYDRA_BINDING",
        "CCL_ALLREDUCE",
        "FI_PROVIDER",
    ];
    command
        .envs(tuning.map(|name| (name, "tuned")))
        .env("OTHER_VARIABLE", "1");
    let output = finish(command.spawn().unwrap());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let text = std::fs::read_to_string(folder.path().join("env")).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"OTHER_VARIABLE"), "{text}");
    for name in tuning {
        assert!(!names.contains(&name), "{name}: {text}");
    }
}

/// Ranks that sleep get to their own end, also those of engines that are not listened to when the signal comes.
#[test]
fn an_interrupted_bench_lets_idle_ranks_leave() {
    let folder = fake_openmpi("point");
    let file = folder.path().join("record.json");
    let words = "bench --engine host --ranks 2 --sizes 1KiB --rounds 1000 --calls 100 --peers openmpi --record";
    let words: Vec<&str> = words.split(' ').chain([file.to_str().unwrap()]).collect();
    let child = lanesum_with(&folder, &words).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < until, "the first round has no end");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(child.id(), Signal::TERM);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(128 + 15), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path().join("left")).unwrap(), "left\n");
    assert!(all_die(pids(&folder)));
    let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(document["complete"], false);
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
