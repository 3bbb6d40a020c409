//! `lanesum bench` on the tests' stand-in for the driver, with a script in place of a Python that has peers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::common::{PATIENCE, all_die, await_ranks, finish, run, signal, stderr, stdout};
use super::cuda::Machine;
use lanesum_standin::Config;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A bench that the stand-in is soon through with.
fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = "bench --replays 2 --calls 9 --deadline-ms 20000 --sizes 64,1KiB --engine cuda";
    words.split(' ').chain(more.iter().copied()).collect()
}

/// The objects of the JSON lines.
fn lines(text: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|cause| panic!("{cause}: {line}"));
    text.lines().map(read).collect()
}

/// A program in place of Python: it is given the script, and then the script's arguments.
fn python(folder: &TempDir, body: &str) -> PathBuf {
    let path = folder.path().join("python");
    std::fs::write(&path, format!("#!/bin/sh\nscript=$1; shift\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const LISTS: &str = r#"
case "$*" in *--list*)
    echo '{"event": "listed", "peer": "flashinfer_vllm", "missing": null}'
    echo '{"event": "listed", "peer": "torch_symm_mem", "missing": null}'
    echo '{"event": "listed", "peer": "nccl", "missing": "this Python has no module torch"}'
    echo '{"event": "built", "seconds": 0.1, "failed": null}'
    echo '{"event": "done"}'
    exit 0 ;;
esac
"#;

const PEERS: [&str; 2] = ["--peers", "flashinfer_vllm,torch_symm_mem,nccl"];

fn with_peers(body: &str, more: &[&str]) -> (String, Vec<Value>) {
    let machine = Machine::new(&Config::new());
    let folder = tempfile::tempdir().unwrap();
    let python = python(&folder, &format!("{LISTS}{body}"));
    let words = [
        &["--ranks=2", "--graph", "--json", "--python", python.to_str().unwrap()][..],
        &PEERS,
        more,
    ]
    .concat();
    let output = machine.run(&small(&words));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    (stdout(&output), lines(&stdout(&output)))
}

fn of<'a>(rows: &'a [Value], peer: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["peer"] == peer).collect()
}

#[test]
fn without_a_driver_gpus_are_refused_with_its_words() {
    let output = run(&["bench", "--engine", "cuda"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("libcuda.so.1"), "{}", stderr(&output));
}

#[test]
fn an_error_is_a_line_of_its_own_kind() {
    for (words, code) in [
        (&["bench", "--engine", "cuda", "--peers", "mpich", "--json"][..], 2),
        (&["bench", "--engine", "cuda", "--json"], 1),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(code));
        let told = lines(&stdout(&output));
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["kind"], "error");
        assert!(told[0]["error"].is_string() && told[0]["hint"].is_string(), "{told:?}");
    }
}

#[test]
fn a_record_that_cannot_be_written_is_found_out_first() {
    let machine = Machine::new(&Config::new());
    let output = machine.run(&small(&["--record", "/no/such/folder/record.json", "--json"]));
    assert_eq!(output.status.code(), Some(1));
    let told = lines(&stdout(&output));
    assert_eq!((told.len(), &told[0]["kind"]), (1, &json!("error")), "{told:?}");
    assert!(told[0]["error"].as_str().unwrap().contains("record.json"), "{told:?}");
}

/// A rename would put a file in the place of a link or a device.
#[test]
fn a_record_replaces_files_only_and_each_only_once() {
    let machine = Machine::new(&Config::new());
    let folder = tempfile::tempdir().unwrap();
    let (link, same) = (folder.path().join("link"), folder.path().join("same"));
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    let (link, same) = (link.to_str().unwrap(), same.to_str().unwrap());
    for (words, wanted) in [
        (vec!["--record", link], "is no regular file"),
        (vec!["--plot", folder.path().to_str().unwrap()], "is no regular file"),
        (vec!["--record", same, "--plot", same], "is asked for twice"),
    ] {
        for engine in ["cuda", "host"] {
            let all = [
                &[
                    "bench", "--ranks", "2", "--sizes", "64", "--peers", "none", "--engine", engine,
                ],
                &words[..],
            ]
            .concat();
            let output = machine.run(&all);
            assert_eq!(output.status.code(), Some(2), "{all:?}");
            assert!(stderr(&output).contains(wanted), "{all:?}: {}", stderr(&output));
        }
    }
    assert_eq!(std::fs::read_link(link).unwrap().to_str(), Some("/dev/null"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// What was measured before is there, on stdout and in the record, which says that it is not all.
#[test]
fn a_rank_killed_in_the_middle_is_named_and_costs_only_what_was_to_come() {
    let machine = Machine::new(&Config::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.json");
    let words = "bench --engine cuda --ranks 3 --calls 9 --deadline-ms 10000 --peers none --json --graph --sizes 64,1KiB --replays 100 --record";
    let words: Vec<&str> = words.split(' ').chain([file.to_str().unwrap()]).collect();
    // What there was before stays until there is something to keep; whatever is there is whole.
    std::fs::write(&file, "{}").unwrap();
    let child = machine.start(&words);
    let ranks = await_ranks(child.id(), 3);
    let document = || -> Value { serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap() };
    let until = Instant::now() + PATIENCE;
    while document()["rows"].is_null() {
        assert!(Instant::now() < until, "the first size has no end");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(ranks[1].1, Signal::KILL);
    let killed = Instant::now();
    let output = finish(child);
    assert!(killed.elapsed() < Duration::from_secs(12), "{:?}", killed.elapsed());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let told = lines(&stdout(&output));
    let last = told.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["failed_ranks"]),
        (&json!("error"), &json!([1])),
        "{last}"
    );
    assert!(
        last["error"].as_str().unwrap().contains("rank 1 died (signal SIGKILL)"),
        "{last}"
    );
    assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
    let record = document();
    assert_eq!(record["complete"], false);
    assert!(record["error"].as_str().unwrap().contains("rank 1 died"), "{record}");
    let rows = record["rows"].as_array().unwrap();
    assert_eq!(rows[..], told[..rows.len()]);
    assert!(rows.iter().all(|row| row["bytes"] == 64), "{record}");
}

/// How much that is follows from how long the first calls take, which here is the machine's affair.
#[test]
fn what_nobody_chose_is_timed_in_full_or_said_to_be_less() {
    let machine = Machine::new(&Config::new().devices(1));
    let words = "bench --engine cuda --ranks 2 --sizes 64 --peers none --json --eager";
    let output = machine.run(&words.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let (told, rows) = (stderr(&output), lines(&stdout(&output)));
    assert_eq!(rows.len(), 1, "{rows:?}");
    let full = (&rows[0]["calls"], &rows[0]["replays"]) == (&json!(122), &json!(100));
    assert_eq!(full, told.is_empty(), "{}: {told}", rows[0]);
    assert!(full || told.contains("2 ranks share 1 GPU(s)"), "{told}");
}

#[test]
fn each_size_is_timed_in_both_ways_and_checked() {
    let machine = Machine::new(&Config::new());
    let record = tempfile::tempdir().unwrap();
    let file = record.path().join("record.json");
    let words = [
        "--ranks=2,3",
        "--json",
        "--record",
        file.to_str().unwrap(),
        "--commit",
        "0123456789ab",
    ];
    let output = machine.run(&small(&words));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    for ranks in [2, 3] {
        for bytes in [64, 1024] {
            for graph in [true, false] {
                let plain = |row: &&Value| {
                    row["ranks"] == ranks && row["bytes"] == bytes && row["graph"] == graph && row["variant"].is_null()
                };
                let found: Vec<&Value> = rows.iter().filter(plain).filter(|row| row["us"].is_object()).collect();
                assert_eq!(found.len(), 1, "{ranks} ranks, {bytes} bytes, graph {graph}: {rows:?}");
                for (key, value) in [
                    ("kind", json!("row")),
                    ("calls", json!(9)),
                    ("replays", json!(2)),
                    ("engine", json!("cuda")),
                    ("peer", json!("lanesum")),
                    ("path", json!("peer")),
                    ("dtype", json!("bf16")),
                    ("checked", json!(true)),
                    ("stand_in", json!(true)),
                ] {
                    assert_eq!(found[0][key], value, "{key} in {}", found[0]);
                }
                assert!(found[0]["us"]["p50"].as_f64().unwrap() > 0.0, "{}", found[0]);
            }
        }
    }
    kept(&file, &rows);
}

/// A flag round is of one block, whatever the call's grid is.
#[test]
fn gpus_without_peer_access_are_timed_through_host_memory() {
    let machine = Machine::new(&Config::new().devices(2).refuse(0, 1).refuse(1, 0));
    let output = machine.run(&small(&["--ranks=2", "--graph", "--json", "--peers=none"]));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    let ours: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "row").collect();
    assert_eq!(ours.len(), 2, "{rows:?}");
    for row in ours {
        assert_eq!(
            (&row["path"], &row["checked"]),
            (&json!("host_staged"), &json!(true)),
            "{row}"
        );
        assert!(
            row["copy_engine_share"].as_f64().is_some_and(|share| share > 0.0),
            "{row}"
        );
    }
    let output = machine.run(&small(&[
        "--ranks=2",
        "--graph",
        "--json",
        "--peers=none",
        "--path=peer",
    ]));
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let told = lines(&stdout(&output));
    assert_eq!(told.len(), 1, "{told:?}");
    let error = told[0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("has no access to memory of rank"), "{error}");
}

#[test]
fn calls_of_many_blocks_stand_beside_their_floors_and_guards() {
    let machine = Machine::new(&Config::new());
    let timed = |algorithm: &str| {
        let words = format!(
            "bench --engine cuda --ranks 3 --sizes 12KiB --replays 2 --calls 3 --deadline-ms 20000 --graph --json --peers none \
             --algorithm {algorithm}"
        );
        let output = machine.run(&words.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        lines(&stdout(&output))
    };
    let rows = timed("one_shot_push");
    assert_eq!(rows.len(), 6, "{rows:?}");
    for row in &rows {
        assert!(row["us"]["p50"].as_f64().is_some_and(|time| time > 0.0), "{row}");
        assert!(row["floor_us"].as_f64().is_some_and(|time| time > 0.0), "{row}");
        assert_ne!(row["checked"], json!(false), "{row}");
    }
    // Guards are left out of one shot alone, and the bench says so.
    let rows = timed("two_shot_push");
    assert_eq!(rows.iter().filter(|row| row["us"].is_object()).count(), 3, "{rows:?}");
    assert_eq!(
        rows.iter().filter(|row| row["missing"].is_string()).count(),
        3,
        "{rows:?}"
    );
}

/// The document holds the same rows, and what they are of.
fn kept(file: &Path, rows: &[Value]) {
    let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert!(
        document["command"].as_str().unwrap().starts_with("lanesum bench "),
        "{document}"
    );
    assert_eq!(document["commit"], "0123456789ab");
    assert_eq!(document["date"].as_str().unwrap().len(), 10);
    assert!(
        document["machine"]["gpus"].as_array().unwrap().len() >= 3,
        "{}",
        document["machine"]
    );
    assert_eq!(
        (&document["complete"], &document["error"]),
        (&json!(true), &Value::Null)
    );
    let kept = document["rows"].as_array().unwrap().len() + document["missing"].as_array().unwrap().len();
    assert_eq!(kept, rows.len());
    // Nothing else is left of writing it.
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn the_table_says_that_it_is_a_stand_in() {
    let machine = Machine::new(&Config::new().devices(1));
    let output = machine.run(&small(&["--ranks=2", "--eager"]));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with("ON A STAND-IN") && text.contains("ranks share a GPU"),
        "{text}"
    );
    assert!(
        text.contains("eager  lanesum (one_shot_push)") && !text.contains("  graph  "),
        "{text}"
    );
    assert!(
        text.contains("checked: all of our results have the oracle's bits"),
        "{text}"
    );
}

#[test]
fn a_plot_has_panels_for_graphs_and_for_calls_without() {
    let machine = Machine::new(&Config::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.svg");
    let output = machine.run(&small(&["--ranks=2", "--peers=none", "--plot", file.to_str().unwrap()]));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let svg = std::fs::read_to_string(&file).unwrap();
    for label in [
        "All-reduce on GPUs, bf16, by sum",
        "2 ranks, graph",
        "2 ranks, eager",
        "lanesum",
        "flag round (floor)",
    ] {
        assert_eq!(svg.matches(&format!(">{label}</text>")).count(), 1, "{label}: {svg}");
    }
    assert!(svg.contains("ON A STAND-IN"), "{svg}");
}

#[test]
fn peers_stand_beside_ours() {
    let body = r#"
echo '{"event": "begin", "peer": "flashinfer_vllm"}'
for bytes in 64 1024; do
    echo "{\"event\": \"row\", \"peer\": \"flashinfer_vllm\", \"bytes\": $bytes, \"graph\": true, \"choice\": \"default\", \"us\": [3.0, 2.0], \"max_error\": 0.002, \"bound\": 0.01}"
done
echo '{"event": "begin", "peer": "torch_symm_mem"}'
echo '{"event": "missing", "peer": "torch_symm_mem", "bytes": null, "graph": null, "reason": "no symmetric memory"}'
echo '{"event": "done"}'
"#;
    let (text, rows) = with_peers(body, &[]);
    let vllm = of(&rows, "flashinfer_vllm");
    assert_eq!(vllm.len(), 2, "{text}");
    assert_eq!(vllm[0]["us"], json!({"p50": 2.0, "p99": 3.0}));
    assert_eq!((&vllm[0]["checked"], &vllm[0]["graph"]), (&json!(true), &json!(true)));
    assert_eq!((&vllm[0]["kind"], &vllm[0]["replays"]), (&json!("peer"), &json!(2)));
    assert_eq!(of(&rows, "torch_symm_mem")[0]["missing"], "no symmetric memory");
    assert_eq!(of(&rows, "nccl")[0]["missing"], "this Python has no module torch");
}

#[test]
fn a_peer_that_dies_costs_its_own_rows_alone() {
    let body = r#"
case "$*" in *flashinfer_vllm*)
    echo '{"event": "begin", "peer": "flashinfer_vllm"}'
    echo 'CUDA error: an illegal memory access was encountered' >&2
    exit 3 ;;
esac
echo '{"event": "begin", "peer": "torch_symm_mem"}'
echo '{"event": "row", "peer": "torch_symm_mem", "bytes": 64, "graph": true, "choice": "one shot", "us": [3.0], "max_error": 0.0, "bound": 0.01}'
echo '{"event": "done"}'
"#;
    let start = Instant::now();
    let (text, rows) = with_peers(body, &[]);
    let vllm = of(&rows, "flashinfer_vllm");
    assert_eq!(vllm.len(), 2, "{text}");
    for (row, bytes) in vllm.iter().zip([64, 1024]) {
        assert_eq!(row["bytes"], bytes);
        let reason = row["missing"].as_str().unwrap();
        assert!(
            reason.contains("exit code 3") && reason.contains("illegal memory access"),
            "{reason}"
        );
    }
    assert_eq!(of(&rows, "torch_symm_mem")[0]["algorithm"], "one shot");
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_python_that_is_not_there_is_no_failure_of_ours() {
    let machine = Machine::new(&Config::new());
    let words = [
        "--ranks=2",
        "--graph",
        "--json",
        "--python",
        "/no/such/python",
        "--peers",
        "nccl",
    ];
    let output = machine.run(&small(&words));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    let reason = of(&rows, "nccl")[0]["missing"].as_str().unwrap();
    assert!(
        reason.starts_with("python cannot be asked") && !reason.contains('/'),
        "{reason}"
    );
}

/// The script itself, with as much of PyTorch as its peer `nccl` needs.
fn with_a_fake_torch(fake: &str) -> Vec<Value> {
    let machine = Machine::new(&Config::new());
    let folder = tempfile::tempdir().unwrap();
    let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fakes");
    let body = format!(
        "export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{}' LANESUM_FAKE='{fake}'\nexec python3 \"$script\" \"$@\"",
        fakes.display()
    );
    let python = python(&folder, &body);
    let words = [
        "--ranks=3",
        "--json",
        "--peers=nccl",
        "--python",
        python.to_str().unwrap(),
    ];
    let output = machine.run(&small(&words));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    of(&rows, "nccl").into_iter().cloned().collect()
}

#[test]
fn a_right_peer_has_a_row_for_each_size_and_way() {
    let rows = with_a_fake_torch("none");
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in rows {
        assert_eq!(
            (&row["checked"], &row["calls"], &row["replays"]),
            (&json!(true), &json!(9), &json!(2)),
            "{row}"
        );
        // Rounding is all that a tree of another order may cost; the fake does not even round.
        assert_eq!(row["max_error"], 0.0, "{row}");
    }
}

/// All leave it together, at once, for the reason of the rank that saw it.
#[test]
fn a_peer_that_is_wrong_on_one_rank_has_no_row_and_says_on_which() {
    let start = Instant::now();
    // The sums until then: those before the capture, those of the check, and some of those that are timed.
    for fake in ["wrong:1:1", "wrong:1:30"] {
        let rows = with_a_fake_torch(fake);
        assert_eq!(rows.len(), 2, "{rows:?}");
        for (row, bytes) in rows.iter().zip([64, 1024]) {
            assert_eq!((&row["kind"], &row["bytes"]), (&json!("missing"), &json!(bytes)));
            let reason = row["missing"].as_str().unwrap();
            assert!(
                reason.starts_with("rank 1: wrong sums: call 0 is off"),
                "{fake}: {reason}"
            );
        }
    }
    assert!(start.elapsed() < Duration::from_secs(25), "somebody was waited for");
}

#[test]
fn a_peer_that_fails_on_one_rank_leaves_its_reason_though_the_others_hang() {
    let rows = with_a_fake_torch("fails:2:30");
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in rows {
        let reason = row["missing"].as_str().unwrap();
        assert!(
            reason.contains("rank 2: RuntimeError: CUDA error: an illegal memory access"),
            "{reason}"
        );
    }
}
