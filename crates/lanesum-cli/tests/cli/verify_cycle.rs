//! `lanesum verify-cycle` with real rank processes: its report, and what it says of ranks that die or stop.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{all_die, await_ranks, finish, json, lanesum, ranks_of, run, signal, start, stderr, stdout};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A cycle that is long enough to be disturbed.
const ENDLESS: [&str; 8] = [
    "verify-cycle",
    "--no-pin",
    "--json",
    "--cycles",
    "1000000",
    "--layers",
    "10",
    "--ranks",
];

fn endless<'a>(ranks: &'a str, deadline_ms: &'a str) -> Vec<&'a str> {
    let mut arguments = ENDLESS.to_vec();
    arguments.extend([ranks, "--deadline-ms", deadline_ms]);
    arguments
}

fn small(more: &[&str]) -> Value {
    let mut arguments = vec!["verify-cycle", "--no-pin", "--json", "--cycles", "3", "--layers", "4"];
    arguments.extend(more);
    let output = run(&arguments);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    json(&output)
}

#[test]
fn the_report_has_every_key() {
    let report = small(&["--ranks", "2"]);
    for (key, value) in [
        ("engine", json!("host")),
        ("path", json!("shared_memory")),
        ("graph", json!(false)),
        ("ranks", json!(2)),
        ("layers", json!(4)),
        ("bytes", json!(43_008)),
        ("dtype", json!("bf16")),
        ("reductions", json!(24)),
        ("bit_identical", json!(true)),
        ("exact", json!(true)),
        ("stand_in", json!(false)),
    ] {
        assert_eq!(report[key], value, "{key}");
    }
    let algorithm = report["algorithm"].as_str().unwrap();
    assert!(["one_shot_pull", "two_shot_pull"].contains(&algorithm));
    for key in ["all_reduce_us", "cycle_ms"] {
        let (p50, p99) = (
            report[key]["p50"].as_f64().unwrap(),
            report[key]["p99"].as_f64().unwrap(),
        );
        assert!(p50 > 0.0 && p99 >= p50, "{key}: {p50} {p99}");
    }
    assert!(report["setup_ms"].as_f64().unwrap() > 0.0);
    assert!(report["memory_bytes"].as_u64().unwrap() > 0);
    let refused = report["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 5);
    assert!(
        refused
            .iter()
            .all(|refused| refused["algorithm"] != algorithm && refused["reason"].is_string())
    );
}

#[test]
fn speculation_is_judged_with_the_sums_of_this_run() {
    let report = small(&[
        "--ranks",
        "2",
        "--compute-ms",
        "2",
        "--draft-ms",
        "0.5",
        "--accepted",
        "2",
    ]);
    let (known, here) = (&report["speculation"]["known"], &report["speculation"]["here"]);
    assert_eq!(known["sums"], 8);
    assert_eq!(known["verify_sum_us"], 200.0);
    assert_eq!(known["measured"], json!([]));
    assert_eq!(here["measured"], json!(["verify_sum_us", "plain_sum_us"]));
    assert_eq!(here["assumed"], json!(["compute_ms", "draft_ms", "accepted"]));
    let step = 2.5 + 8.0 * here["verify_sum_us"].as_f64().unwrap() / 1000.0;
    assert!((here["step_ms"].as_f64().unwrap() - step).abs() < 0.01, "{here}");
    assert!(
        (here["tokens_per_s"].as_f64().unwrap() - 2000.0 / step).abs() < 1.0,
        "{here}"
    );
}

#[test]
fn dtypes_buffers_and_algorithms_can_be_chosen() {
    for dtype in ["f32", "f16", "bf16"] {
        for buffers in ["private", "shared"] {
            for algorithm in ["one_shot_pull", "two_shot_pull"] {
                let choice = [
                    "--ranks",
                    "3",
                    "--dtype",
                    dtype,
                    "--buffers",
                    buffers,
                    "--algorithm",
                    algorithm,
                ];
                let report = small(&choice);
                assert_eq!(report["dtype"], dtype);
                assert_eq!(report["buffers"], buffers);
                assert_eq!(report["algorithm"], algorithm);
                assert_eq!(report["exact"], true);
            }
        }
    }
}

#[test]
fn worlds_of_one_and_of_sixteen_work() {
    let alone = small(&["--ranks", "1"]);
    assert_eq!((&alone["path"], &alone["algorithm"]), (&json!("none"), &json!("alone")));
    let many = small(&["--ranks", "16", "--hidden", "513"]);
    assert_eq!((&many["ranks"], &many["exact"]), (&json!(16), &json!(true)));
}

#[test]
fn long_messages_and_single_elements_work() {
    let long = small(&["--ranks", "2", "--tokens", "300", "--buffers", "shared"]);
    assert_eq!(long["bytes"], 300 * 7168 * 2);
    let short = small(&["--ranks", "2", "--tokens", "1", "--hidden", "1"]);
    assert_eq!(short["bytes"], 2);
}

#[test]
fn the_tables_say_what_is_measured_and_what_assumed() {
    let output = run(&["verify-cycle", "--ranks", "2", "--cycles", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for line in [
        "verify cycle: 2 ranks, 61 layers x 2 sums of 3 x 7168 bf16 (43,008 B), 2 cycles",
        "244 all-reduces on every rank: all have the oracle's bits",
        "speculation, 122 sums a step",
        "54.8 tok/s",
        "90.0 tok/s",
        "measured here: verify_sum_us, plain_sum_us; assumed: compute_ms, draft_ms, accepted",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'));
}

/// Lets the ranks meet and run.
fn under_way(ranks: &[(usize, u32)]) {
    let until = Instant::now() + Duration::from_secs(60);
    let meets =
        |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("memfd:"));
    while !ranks.iter().all(|&(_, pid)| meets(pid)) {
        assert!(Instant::now() < until, "the ranks do not meet");
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_killed_rank_is_named_and_noticed_at_once() {
    let child = start(&endless("3", "10000"));
    let ranks = await_ranks(child.id(), 3);
    under_way(&ranks);
    signal(ranks[1].1, Signal::KILL);
    let killed = Instant::now();
    let output = finish(child);
    assert!(killed.elapsed() < Duration::from_secs(8));
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!(report["failed_ranks"], json!([1]), "{report}");
    // 100 ms on a machine of its own; tests run side by side.
    assert!(report["noticed_ms"].as_f64().unwrap() < 1000.0, "{report}");
    assert!(
        report["error"]
            .as_str()
            .unwrap()
            .contains("rank 1 died (signal SIGKILL)"),
        "{report}"
    );
    assert_eq!(report["notices"].as_array().unwrap().len(), 2, "{report}");
    assert!(stderr(&output).contains("error: rank 1 died"), "{}", stderr(&output));
    assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
}

#[test]
fn a_stopped_rank_is_named_at_the_deadline() {
    let child = start(&endless("3", "1500"));
    let ranks = await_ranks(child.id(), 3);
    under_way(&ranks);
    signal(ranks[2].1, Signal::STOP);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!(report["failed_ranks"], json!([2]), "{report}");
    let noticed = report["noticed_ms"].as_f64().unwrap();
    assert!((1300.0..3500.0).contains(&noticed), "{report}");
    assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
}

#[test]
fn a_rank_killed_before_the_ranks_meet_ends_the_run() {
    let child = start(&endless("2", "10000"));
    let ranks = await_ranks(child.id(), 2);
    signal(ranks[0].1, Signal::KILL);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["failed_ranks"], json!([0]));
    assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
}

#[test]
fn signals_to_the_parent_end_all() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let child = start(&endless("2", "10000"));
        let ranks = await_ranks(child.id(), 2);
        signal(child.id(), sent);
        let output = finish(child);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(
            json(&output)["error"]
                .as_str()
                .unwrap()
                .starts_with("interrupted by SIG")
        );
        assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
    }
}

#[test]
fn a_parent_that_was_suspended_does_not_blame_its_ranks() {
    let child = start(&endless("2", "500"));
    let ranks = await_ranks(child.id(), 2);
    under_way(&ranks);
    signal(child.id(), Signal::STOP);
    // Two deadlines and 15 s are silence.
    thread::sleep(Duration::from_millis(16_500));
    signal(child.id(), Signal::CONT);
    // It looks at least every half second, and whom it blames it would have named before this.
    thread::sleep(Duration::from_secs(3));
    signal(child.id(), Signal::INT);
    let output = finish(child);
    assert_eq!(
        output.status.code(),
        Some(130),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

/// Without the privilege of root to write everywhere.
fn unprivileged(arguments: &[&str]) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return Some(lanesum(arguments));
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-dac_override"]);
    command.arg(env!("CARGO_BIN_EXE_lanesum")).args(arguments);
    let mut trial = Command::new("setpriv");
    let trial = trial.args(["--bounding-set", "-dac_override", "true"]).status();
    trial.is_ok_and(|status| status.success()).then_some(command)
}

#[test]
fn a_rank_0_that_cannot_serve_is_the_cause() {
    let arguments = ["verify-cycle", "--json", "--ranks", "2", "--deadline-ms", "20000"];
    let Some(mut command) = unprivileged(&arguments) else {
        return;
    };
    let base = std::env::temp_dir().join(format!("lanesum-unwritable-{}", std::process::id()));
    let directory = base.join("lanesum");
    std::fs::create_dir_all(&directory).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o500);
    std::fs::set_permissions(&directory, mode).unwrap();
    let started = Instant::now();
    let output = command.env("XDG_RUNTIME_DIR", &base).output().unwrap();
    std::fs::remove_dir_all(&base).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    let told = json(&output);
    let error = told["error"].as_str().unwrap();
    assert!(
        error.starts_with("rank 0 failed: ") && error.contains("ermission"),
        "{told}"
    );
    assert_eq!(told["failed_ranks"], json!([0]), "{told}");
    assert!(started.elapsed() < Duration::from_secs(15), "{told}");
}

#[test]
fn a_limit_of_file_sizes_is_an_error_with_a_remedy() {
    let script = "ulimit -f 100; exec \"$0\" verify-cycle --ranks 2 --cycles 1 --json";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_lanesum")]);
    let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(output.status.code(), Some(1));
    let failure: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(failure["hint"].as_str().unwrap().contains("ulimit -f"), "{failure}");
}

#[test]
fn a_reader_that_leaves_misses_the_help_as_it_misses_everything() {
    let gone = std::io::pipe().unwrap().1;
    let output = lanesum(&["--help"]).stdout(gone).output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn ranks_die_with_a_parent_that_is_killed() {
    let mut child = start(&endless("2", "10000"));
    let ranks = await_ranks(child.id(), 2);
    under_way(&ranks);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
}

#[test]
fn the_parent_starts_nothing_but_its_ranks() {
    let mut child = start(&endless("2", "10000"));
    let ranks = await_ranks(child.id(), 2);
    under_way(&ranks);
    for (_, pid) in &ranks {
        assert!(ranks_of(*pid).is_empty());
    }
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    assert_eq!(children.split_whitespace().count(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn variables_of_another_launcher_do_not_confuse_the_ranks() {
    let mut command = lanesum(&[
        "verify-cycle",
        "--json",
        "--ranks",
        "2",
        "--cycles",
        "1",
        "--layers",
        "1",
    ]);
    command
        .env("RANK", "5")
        .env("OMPI_COMM_WORLD_RANK", "9")
        .env("OMPI_COMM_WORLD_SIZE", "12")
        .env("PMI_RANK", "3");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn two_runs_at_once_do_not_meet() {
    let runs: Vec<_> = (0..3)
        .map(|_| start(&["verify-cycle", "--no-pin", "--json", "--ranks", "2", "--cycles", "2"]))
        .collect();
    for child in runs {
        let output = finish(child);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn senseless_arguments_are_explained() {
    for (arguments, words) in [
        (&["--ranks", "0"][..], "--ranks"),
        (&["--ranks", "17"], "1..=16"),
        (&["--layers", "0"], "--layers"),
        (&["--dtype", "fp8"], "bf16"),
        (&["--tokens", "18446744073709551615", "--hidden", "2"], "256 MiB"),
        (&["--tokens", "100000", "--hidden", "100000"], "256 MiB"),
        (&["--compute-ms", "-3"], "--compute-ms"),
        (&["--algorithm", "ring"], "two_shot_pull"),
    ] {
        let output = run(&[&["verify-cycle"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = stderr(&output);
        assert!(text.starts_with("error: ") && text.contains(words), "{text}");
        assert!(text.contains("hint: "), "{text}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn each_help_has_examples() {
    for subcommand in ["verify-cycle", "selftest", "launch"] {
        let output = run(&[subcommand, "--help"]);
        assert!(output.status.success());
        let text = stdout(&output);
        assert!(text.contains("Examples:\n  lanesum "), "{text}");
    }
    let text = stdout(&run(&["--help"]));
    assert!(text.starts_with("Sums tensors"), "{text}");
    assert!(!text.contains("exec-rank") && text.contains("verify-cycle"), "{text}");
}
