//! The command line with the CUDA engine, on the tests' stand-in for the driver: several real rank processes run the real
//! kernels, on machines that a test describes. And without any driver, on whatever machine the tests run.

use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{all_die, await_ranks, finish, json, lanesum, run, signal, stderr, stdout};
use lanesum_standin::{Config, Lie, StandIn};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A machine for a test, as long as it lives.
pub struct Machine {
    _folder: TempDir,
    driver: StandIn,
}

impl Machine {
    pub fn new(config: &Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let driver = config.write(folder.path()).unwrap();
        Self {
            _folder: folder,
            driver,
        }
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = lanesum(arguments);
        self.driver.apply(&mut command);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        finish(self.start(arguments))
    }

    /// The same with this variable.
    pub fn run_with(&self, (name, value): (&str, &str), arguments: &[&str]) -> Output {
        finish(
            self.driver
                .apply(&mut lanesum(arguments))
                .env(name, value)
                .spawn()
                .unwrap(),
        )
    }
}

/// A cycle that the stand-in is soon through with.
fn small<'a>(ranks: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = "verify-cycle --no-pin --cycles 2 --layers 3 --tokens 1 --hidden 301 --deadline-ms 20000 --ranks";
    words.split(' ').chain([ranks]).chain(more.iter().copied()).collect()
}

fn succeeded(output: &Output) -> Value {
    assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
    assert!(stderr(output).is_empty(), "{}", stderr(output));
    json(output)
}

fn failed(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(output), stderr(output));
    let told = json(output);
    assert!(told["error"].is_string() && told["hint"].is_string(), "{told}");
    told
}

#[test]
fn gpus_sum_what_the_oracle_says() {
    let machine = Machine::new(&Config::new());
    for (ranks, dtype, choice) in [
        ("2", "bf16", "auto"),
        ("3", "f32", "one_shot_push"),
        ("1", "f16", "auto"),
    ] {
        let more = ["--engine", "cuda", "--json", "--dtype", dtype, "--algorithm", choice];
        let report = succeeded(&machine.run(&small(ranks, &more)));
        let world: usize = ranks.parse().unwrap();
        let (path, algorithm) = match world {
            1 => ("none", "alone"),
            _ => ("peer", "one_shot_push"),
        };
        for (key, value) in [
            ("engine", json!("cuda")),
            ("path", json!(path)),
            ("algorithm", json!(algorithm)),
            ("buffers", json!("device")),
            ("stand_in", json!(true)),
            ("functional", Value::Null),
            ("not_cuda", Value::Null),
            ("exact", json!(true)),
            ("bit_identical", json!(true)),
            ("reductions", json!(12)),
        ] {
            assert_eq!(report[key], value, "{key} in {report}");
        }
        assert!(report["device_memory_bytes"].as_u64().unwrap() > 0, "{report}");
        assert!(report["timing"].as_str().unwrap().starts_with("eager"), "{report}");
        let devices = report["devices"].as_array().unwrap();
        let places: Vec<&str> = devices
            .iter()
            .map(|device| device["pci_bus_id"].as_str().unwrap())
            .collect();
        assert_eq!(places.len(), world, "{report}");
        assert!(places.iter().skip(1).all(|place| *place != places[0]), "{report}");
        assert!(
            devices
                .iter()
                .all(|device| device["name"].as_str().unwrap().contains("stand-in"))
        );
    }
}

#[test]
fn a_graph_sums_what_the_oracle_says() {
    let machine = Machine::new(&Config::new());
    for dtype in ["bf16", "f32"] {
        let more = ["--engine", "cuda", "--json", "--graph", "--dtype", dtype];
        let report = succeeded(&machine.run(&small("2", &more)));
        for (key, value) in [
            ("graph", json!(true)),
            ("exact", json!(true)),
            ("bit_identical", json!(true)),
            ("reductions", json!(12)),
            ("algorithm", json!("one_shot_push")),
        ] {
            assert_eq!(report[key], value, "{key} in {report}");
        }
        assert!(
            report["timing"]
                .as_str()
                .unwrap()
                .starts_with("replayed from a CUDA graph"),
            "{report}"
        );
    }
    // By itself a call is eager.
    let report = succeeded(&machine.run(&small("2", &["--json", "--eager"])));
    assert_eq!((&report["graph"], &report["engine"]), (&json!(false), &json!("cuda")));
}

#[test]
fn the_first_line_says_that_it_is_a_stand_in() {
    let machine = Machine::new(&Config::new());
    // By itself the engine is the one that is there.
    let output = machine.run(&small("2", &[]));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("STAND-IN") && first.contains("times mean nothing"),
        "{text}"
    );
    assert!(text.contains("engine      cuda (sm_90), device buffers"), "{text}");
    assert!(text.contains("rank 1: lanesum stand-in 1 at "), "{text}");
    assert!(!text.contains("FUNCTIONAL"), "{text}");
}

#[test]
fn ranks_that_share_a_gpu_are_a_functional_set_up() {
    let machine = Machine::new(&Config::new().devices(1));
    let output = machine.run(&small("2", &["--engine", "cuda"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("FUNCTIONAL  ranks share a GPU") && text.contains("CUDA MPS"),
        "{text}"
    );
    let report = succeeded(&machine.run(&small("2", &["--engine", "cuda", "--json"])));
    assert!(
        report["functional"].as_str().unwrap().contains("no link between GPUs"),
        "{report}"
    );
    assert_eq!(report["devices"][0]["uuid"], report["devices"][1]["uuid"]);
}

#[test]
fn as_many_ranks_as_gpus_by_default() {
    let machine = Machine::new(&Config::new().devices(3));
    let words = "verify-cycle --json --no-pin --cycles 1 --layers 1 --tokens 1 --hidden 9";
    let report = succeeded(&machine.run(&words.split(' ').collect::<Vec<_>>()));
    assert_eq!((&report["ranks"], &report["engine"]), (&json!(3), &json!("cuda")));
}

#[test]
fn without_a_driver_cuda_is_an_error_with_a_hint() {
    for words in [
        small("2", &["--engine", "cuda", "--json"]),
        small("2", &["--algorithm", "one_shot_push", "--json"]),
        small("2", &["--graph", "--json"]),
        vec!["selftest", "--engine", "cuda", "--json"],
    ] {
        let output = run(&words);
        let told = failed(&output);
        assert!(told["error"].as_str().unwrap().contains("libcuda.so.1"), "{told}");
        assert!(told["hint"].as_str().unwrap().contains("driver"), "{told}");
        // No rank has said anything: none was started.
        assert_eq!(told.get("failed_ranks"), None, "{told}");
        let text = stderr(&output);
        assert!(text.starts_with("error: ") && text.contains("\nhint: "), "{text}");
    }
}

#[test]
fn without_a_driver_auto_takes_the_host_and_says_why() {
    let report = succeeded(&run(&small("2", &["--json"])));
    assert_eq!(
        (&report["engine"], &report["stand_in"]),
        (&json!("host"), &json!(false))
    );
    assert!(
        report["not_cuda"].as_str().unwrap().contains("libcuda.so.1"),
        "{report}"
    );
    let output = run(&small("2", &[]));
    assert!(
        stdout(&output).contains("  not cuda    the CUDA driver library"),
        "{}",
        stdout(&output)
    );
    let output = run(&small("2", &["--engine", "host"]));
    assert!(!stdout(&output).contains("not cuda"), "{}", stdout(&output));
}

#[test]
fn a_driver_without_devices_is_none() {
    let machine = Machine::new(&Config::new().devices(0));
    let told = failed(&machine.run(&small("2", &["--engine", "cuda", "--json"])));
    assert!(told["error"].as_str().unwrap().contains("no device"), "{told}");
    let report = succeeded(&machine.run(&small("2", &["--json"])));
    assert_eq!(report["engine"], "host");
    assert!(report["not_cuda"].as_str().unwrap().contains("no device"), "{report}");
}

#[test]
fn a_refused_pair_is_named() {
    let machine = Machine::new(&Config::new().refuse(1, 0));
    let told = failed(&machine.run(&small("3", &["--path", "peer", "--json"])));
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("rank 1") && error.contains("rank 0's"), "{told}");
    let hint = told["hint"].as_str().unwrap();
    assert!(
        hint.contains("nvidia-smi topo") && hint.contains("host_staged"),
        "{told}"
    );
    // Left the choice, all ranks stage in host memory, and the report says which pair is the reason.
    for more in [&["--engine", "cuda", "--json"][..], &["--json", "--graph"]] {
        let report = succeeded(&machine.run(&small("3", more)));
        assert_eq!(
            (&report["engine"], &report["path"], &report["exact"]),
            (&json!("cuda"), &json!("host_staged"), &json!(true)),
            "{report}"
        );
        assert_eq!(report["other_path"]["path"], "peer", "{report}");
        let reason = report["other_path"]["reason"].as_str().unwrap();
        assert!(reason.contains("rank 1") && reason.contains("rank 0's"), "{report}");
    }
    let text = stdout(&machine.run(&small("3", &[])));
    assert!(
        text.contains(
            "  path        host_staged\n              not peer: the GPU of rank 1 has no access to memory of rank 0's"
        ),
        "{text}"
    );
}

#[test]
fn a_path_can_be_asked_for() {
    let machine = Machine::new(&Config::new());
    for (path, other) in [("peer", "host_staged"), ("host_staged", "peer")] {
        let more = ["--json", "--path", path, "--algorithm", "two_shot_push"];
        let report = succeeded(&machine.run(&small("3", &more)));
        for (key, value) in [
            ("engine", json!("cuda")),
            ("path", json!(path)),
            ("algorithm", json!("two_shot_push")),
            ("exact", json!(true)),
            ("bit_identical", json!(true)),
            (
                "other_path",
                json!({"path": other, "reason": format!("the policy asks for {path}")}),
            ),
        ] {
            assert_eq!(report[key], value, "{key} in {report}");
        }
    }
    let report = succeeded(&machine.run(&small("2", &["--json"])));
    let reason = "peer access is proven for all pairs, and goes first";
    assert_eq!(
        (&report["path"], &report["other_path"]),
        (&json!("peer"), &json!({"path": "host_staged", "reason": reason})),
        "{report}"
    );
    // One rank exchanges nothing, and the host engine nothing between GPUs.
    for more in [
        &["--json", "--path", "host_staged"][..],
        &["--json", "--engine", "host"],
    ] {
        let report = succeeded(&machine.run(&small("1", more)));
        assert_eq!((&report["path"], &report["other_path"]), (&json!("none"), &Value::Null));
    }
}

#[test]
fn a_pair_whose_writes_get_lost_is_not_trusted() {
    let machine = Machine::new(&Config::new().lie(0, 1, Lie::Drop));
    let told = failed(&machine.run(&small("2", &["--path", "peer", "--json"])));
    let lost = |text: &str| text.contains("rank 0 wrote") && text.contains("rank 1's GPU did not arrive");
    assert!(lost(told["error"].as_str().unwrap()), "{told}");
    assert!(told["hint"].as_str().unwrap().contains("lost"), "{told}");
    let report = succeeded(&machine.run(&small("2", &["--json"])));
    assert_eq!(
        (&report["path"], &report["exact"]),
        (&json!("host_staged"), &json!(true))
    );
    assert!(lost(report["other_path"]["reason"].as_str().unwrap()), "{report}");
}

#[test]
fn without_any_path_it_is_an_error_or_the_host() {
    let machine = Machine::new(&Config::new().refuse(1, 0).lie_host(1, Lie::Tear));
    let told = failed(&machine.run(&small("2", &["--engine", "cuda", "--json"])));
    let lost = |text: &str| text.contains("rank 1's GPU wrote to rank 0's part of pinned host memory");
    assert!(lost(told["error"].as_str().unwrap()), "{told}");
    assert!(told["hint"].as_str().unwrap().contains("dmesg"), "{told}");
    let report = succeeded(&machine.run(&small("2", &["--json"])));
    assert_eq!(report["engine"], "host");
    assert!(lost(report["not_cuda"].as_str().unwrap()), "{report}");
    let machine = Machine::new(&Config::new().fail("cuMemHostRegister_v2", 1, 801));
    let told = failed(&machine.run(&small("2", &["--path", "host_staged", "--json"])));
    assert!(told["error"].as_str().unwrap().contains("cuMemHostRegister"), "{told}");
    assert!(told["hint"].as_str().unwrap().contains("memory limit"), "{told}");
}

#[test]
fn a_gpu_that_has_no_memory_is_an_error_of_its_rank() {
    let machine = Machine::new(&Config::new().memory(1 << 20));
    let told = failed(&machine.run(&small("2", &["--engine", "cuda", "--json"])));
    assert!(told["error"].as_str().unwrap().contains("no memory for"), "{told}");
}

#[test]
fn a_rank_killed_in_the_middle_is_named() {
    let machine = Machine::new(&Config::new());
    let words = "verify-cycle --no-pin --json --cycles 1000000 --layers 3 --tokens 1 --hidden 301 --deadline-ms 10000 \
                 --engine cuda --ranks 3";
    let words: Vec<&str> = words.split_whitespace().collect();
    let child = machine.start(&words);
    let ranks = await_ranks(child.id(), 3);
    under_way(&ranks);
    signal(ranks[1].1, Signal::KILL);
    let killed = Instant::now();
    let told = failed(&finish(child));
    assert!(killed.elapsed() < Duration::from_secs(9), "{told}");
    assert_eq!(told["failed_ranks"], json!([1]), "{told}");
    assert!(
        told["error"].as_str().unwrap().contains("rank 1 died (signal SIGKILL)"),
        "{told}"
    );
    assert_eq!(told["notices"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told["stand_in"], true, "{told}");
    assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
}

/// Lets the ranks join and run: whoever waits in a call has the segment mapped, which is the last thing made.
fn under_way(ranks: &[(usize, u32)]) {
    let until = Instant::now() + Duration::from_secs(60);
    let maps = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    while !ranks.iter().all(|&(_, pid)| maps(pid).contains("memfd:lanesum (")) {
        assert!(Instant::now() < until, "the ranks do not meet: {}", maps(ranks[0].1));
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(500));
}

#[test]
fn flags_that_do_not_go_together_are_explained() {
    let machine = Machine::new(&Config::new());
    for (more, words) in [
        (
            &["--engine", "cuda", "--buffers", "shared"][..],
            "--buffers shared asks for the host's memory",
        ),
        (
            &["--engine", "cuda", "--algorithm", "two_shot_pull"],
            "--algorithm two_shot_pull",
        ),
        (&["--engine", "host", "--algorithm", "one_shot_push"], "--engine host"),
        (&["--engine", "host", "--graph"], "--engine host"),
        (&["--engine", "host", "--path", "host_staged"], "--path host_staged"),
        (&["--buffers", "shared", "--path", "peer"], "--path peer"),
        (&["--buffers", "shared", "--eager"], "--eager"),
    ] {
        let output = machine.run(&small("2", more));
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        let text = stderr(&output);
        assert!(text.contains(words) && text.contains("hint: "), "{text}");
    }
    let output = machine.run(&small("9", &["--engine", "cuda"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("at most 8 ranks"), "{}", stderr(&output));
    // Nobody insists on the GPUs here.
    let report = succeeded(&machine.run(&small("2", &["--buffers", "shared", "--json"])));
    assert_eq!(
        (&report["engine"], &report["buffers"]),
        (&json!("host"), &json!("shared"))
    );
    assert!(
        report["not_cuda"].as_str().unwrap().contains("--buffers shared"),
        "{report}"
    );
}

#[test]
fn the_selftest_covers_what_is_there() {
    let machine = Machine::new(&Config::new());
    let report = succeeded(&machine.run(&["selftest", "--ranks", "1", "--json"]));
    assert_eq!(
        (&report["engines"], &report["stand_in"]),
        (&json!(["host", "cuda"]), &json!(true))
    );
    assert_eq!((&report["failed"], &report["not_cuda"]), (&json!(0), &Value::Null));
    let output = machine.run(&["selftest", "--ranks", "2", "--engine", "cuda"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with("ON A STAND-IN") && text.contains("\nengines: cuda\n"),
        "{text}"
    );
    assert!(text.trim_end().ends_with(" passed, 0 failed"), "{text}");
    let report = succeeded(&machine.run(&["selftest", "--ranks", "1", "--engine", "host", "--json"]));
    assert_eq!(
        (&report["engines"], &report["stand_in"]),
        (&json!(["host"]), &json!(false))
    );
}

/// Of the selftest: which paths ran, and the other with the reason.
fn paths(report: &Value) -> (Vec<&str>, Option<(&str, &str)>) {
    let ran = report["paths"].as_array().unwrap().iter();
    let other = &report["other_path"];
    let other = other["path"].as_str().zip(other["reason"].as_str());
    (ran.map(|path| path.as_str().unwrap()).collect(), other)
}

#[test]
fn the_selftest_takes_the_paths_that_there_are() {
    let selftest = |machine: &Machine, more: &[&str]| {
        let words = ["selftest", "--ranks", "2", "--engine", "cuda", "--json"];
        let report = succeeded(&machine.run(&[&words[..], more].concat()));
        assert_eq!(
            (&report["failed"], &report["not_cuda"]),
            (&json!(0), &Value::Null),
            "{report}"
        );
        report
    };
    let machine = Machine::new(&Config::new());
    let both = selftest(&machine, &[]);
    assert_eq!(paths(&both), (vec!["peer", "host_staged"], None));
    for (path, other) in [("peer", "host_staged"), ("host_staged", "peer")] {
        let report = selftest(&machine, &["--path", path]);
        let reason = format!("the policy asks for {path}");
        assert_eq!(paths(&report), (vec![path], Some((other, reason.as_str()))));
        assert!(report["passed"].as_u64() < both["passed"].as_u64(), "{report}");
    }
    let apart = Machine::new(&Config::new().refuse(1, 0));
    let report = selftest(&apart, &[]);
    let (ran, other) = paths(&report);
    let (path, reason) = other.unwrap();
    assert_eq!((ran, path), (vec!["host_staged"], "peer"));
    assert!(
        reason.starts_with("not with --ranks 2: the GPU of rank 1") && reason.contains("rank 0's"),
        "{reason}"
    );
    let text = stdout(&apart.run(&["selftest", "--ranks", "2", "--engine", "cuda"]));
    assert!(
        text.contains("\npaths between GPUs: host_staged (not peer: not with --ranks 2: "),
        "{text}"
    );
    // Where nothing can be pinned, peers that reach each other still do.
    let unpinned = Machine::new(&Config::new().fail("cuMemHostRegister_v2", 1, 801));
    let report = selftest(&unpinned, &[]);
    let (ran, other) = paths(&report);
    let (path, reason) = other.unwrap();
    assert_eq!((ran, path), (vec!["peer"], "host_staged"));
    assert!(reason.contains("cuMemHostRegister"), "{reason}");
}

#[test]
fn a_path_that_the_selftest_is_to_take_must_be_there() {
    let apart = Machine::new(&Config::new().refuse(1, 0));
    let output = apart.run(&["selftest", "--ranks", "2", "--path", "peer", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = json(&output);
    assert!(report["failed"].as_u64().unwrap() > 0 && report["passed"].as_u64().unwrap() > 0);
    let failure = report["failures"][0].to_string();
    assert!(
        failure.contains("rank 1") && failure.contains("no access to memory of rank 0's"),
        "{failure}"
    );
    let told = failed(&run(&["selftest", "--path", "host_staged", "--json"]));
    assert!(told["error"].as_str().unwrap().contains("libcuda.so.1"), "{told}");
    for (words, named) in [
        (&["selftest", "--engine", "host", "--path", "peer"][..], "--path peer"),
        (&["selftest", "--case", "{}", "--path", "peer"], "--path"),
    ] {
        let output = apart.run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let text = stderr(&output);
        assert!(text.contains(named) && text.contains("hint: "), "{text}");
    }
}

#[test]
fn the_selftest_leaves_out_gpus_that_do_not_work_together() {
    let machine = Machine::new(&Config::new().refuse(1, 0).lie_host(0, Lie::Drop));
    let report = succeeded(&machine.run(&["selftest", "--ranks", "2", "--json"]));
    assert_eq!(report["engines"], json!(["host", "cuda"]), "{report}");
    assert_eq!(paths(&report), (vec![], None), "{report}");
    assert!(
        report["not_cuda"].as_str().unwrap().contains("not with --ranks 2: "),
        "{report}"
    );
    // The one process that may have this GPU is not enough for two ranks.
    let machine = Machine::new(&Config::new().devices(1).exclusive(0));
    let report = succeeded(&machine.run(&["selftest", "--ranks", "2", "--json"]));
    assert!(
        report["not_cuda"].as_str().unwrap().contains("EXCLUSIVE_PROCESS"),
        "{report}"
    );
    let output = run(&["selftest", "--ranks", "1", "--json"]);
    let report = succeeded(&output);
    assert_eq!(report["engines"], json!(["host"]), "{report}");
    assert!(
        report["not_cuda"].as_str().unwrap().contains("libcuda.so.1"),
        "{report}"
    );
}
