//! The script, with stubs for everything that it calls: what it refuses, what it counts, and that its MPS daemon ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::findings::{self, Run};

/// A test binary that notes what it was called with, and whether it could reach the MPS daemon.
const TESTS: &str = r#"mps=no; [ -e "$CUDA_MPS_PIPE_DIRECTORY/on" ] && mps=yes
echo "${0##*/} $* mps=$mps $LANESUM_TEST_DRIVER" >>"$CALLS"
printf 'test a ... ok (0.01 s)\n\ntest result: ok. 2 passed; 0 failed\n\n'"#;

/// What a soak says of its runs, the first behind the name of its test.
const SAYS_RUNS: &str = r#"printf 'test many ... '
echo '[OneShotPush, path peer, 2 ranks from epoch 0x1: 1000059 calls, 1300000 exchanges of the first lane, 20.5 us each]'
echo '[Auto, path "p", 3 ranks from epoch 0xffffd8: 5004 calls, 6000 exchanges of the first lane, 31.0 us each]'
"#;

/// A machine of stubs: a folder of programs that are found first, and a pack.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let root = std::env::temp_dir().join(format!("lanesum-xtask-gpu-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        for folder in ["bin", "pack", "driver", "tmp"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        fs::write(root.join("pack/run.sh"), super::pack::SCRIPT_TEXT).expect("the script");
        fs::write(root.join("pack/commit"), "0123456789ab\n").expect("the commit");
        let machine = Machine { root };
        machine.program(
            "bin/nvidia-smi",
            "case $1 in *driver*) echo 580.1;; *mode*) echo Default;; *) echo Stub GPU;; esac",
        );
        machine.program(
            "bin/nvidia-cuda-mps-control",
            r#"echo "control $*" >>"$CALLS"; [ "${1-}" = -d ] && { touch "$CUDA_MPS_PIPE_DIRECTORY/on"; exit; }
            read -r word; [ "$word" != quit ] || { echo quit >>"$CALLS"; rm "$CUDA_MPS_PIPE_DIRECTORY/on"; }"#,
        );
        machine.program("bin/compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'");
        for name in ["cuda_conformance", "cuda_faults", "cuda_graphs", "cuda_life"] {
            machine.program(&format!("pack/{name}"), TESTS);
        }
        machine.program("pack/cuda_soak", &format!("{SAYS_RUNS}{TESTS}"));
        machine.program(
            "pack/lanesum",
            r#"[ "$1" = bench ] && { printf '{"kind":"row","words":"%s","stand_in":false}\n' "$*" "again"; exit; }
            printf '{\n  "words": "%s",\n  "stand_in": false\n}\n' "$*""#,
        );
        // Any library that is loaded here can stand for the driver's: it is only looked for.
        let maps = fs::read_to_string("/proc/self/maps").expect("procfs");
        let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let library = paths.find(|path| path.contains("/libc.so")).expect("a C library");
        fs::copy(library, machine.root.join("driver/libcuda.so.1")).expect("a copy");
        machine
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{text}\n")).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    fn without(&self, name: &str) {
        fs::remove_file(self.root.join(name)).expect("a stub");
    }

    fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    fn run(&self, options: &[&str], steps: &[&str]) -> Output {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.root.join("bin").display());
        let mut script = Command::new("bash");
        script
            .arg(self.root.join("pack/run.sh"))
            .args(options)
            .arg(self.out())
            .args(steps);
        script
            .env("PATH", path)
            .env("LD_LIBRARY_PATH", self.root.join("driver"));
        script
            .env("CALLS", self.root.join("calls"))
            .env("TMPDIR", self.root.join("tmp"));
        script.output().expect("bash")
    }

    /// What the stubs noted, one call a line.
    fn calls(&self) -> String {
        fs::read_to_string(self.root.join("calls")).unwrap_or_default()
    }

    /// Runs, must fail before any step, and gives the complaint.
    fn refusal(&self, options: &[&str], steps: &[&str]) -> String {
        let output = self.run(options, steps);
        assert_eq!(output.status.code(), Some(1));
        assert!(!self.out().join(findings::SUMMARY).exists());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.root));
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run_of(out: &Path) -> Run {
    Run::read(&[out.to_owned()]).expect("results")
}

#[test]
fn a_machine_without_a_gpu_is_refused() {
    let machine = Machine::new("refused");
    assert!(
        machine
            .refusal(&["--gpus", "2"], &[])
            .contains("2 GPUs are asked for, and there are 1")
    );
    assert!(machine.refusal(&[], &["nothing"]).contains("there is no step nothing"));
    assert!(
        machine
            .refusal(&["--gpus", "none"], &[])
            .contains("--gpus wants a number")
    );
    let driver = machine.root.join("driver/libcuda.so.1");
    let mut bytes = fs::read(&driver).expect("a library");
    // What stands behind the end of a library does not keep it from being loaded.
    bytes.extend_from_slice(b"lanesumStandIn");
    fs::write(&driver, bytes).expect("a library");
    assert!(machine.refusal(&[], &[]).contains("is the stand-in"));
    machine.without("driver/libcuda.so.1");
    assert!(machine.refusal(&[], &[]).contains("no libcuda.so.1"));
    machine.program("bin/nvidia-smi", "echo No devices were found; exit 6");
    assert!(machine.refusal(&[], &[]).contains("nvidia-smi finds no GPU"));
    machine.without("bin/nvidia-smi");
    assert!(machine.refusal(&[], &[]).contains("no nvidia-smi"));
}

#[test]
fn all_steps_pass_each_with_the_driver_and_the_sharing_it_wants() {
    let machine = Machine::new("passes");
    let output = machine.run(&[], &[]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).ends_with("13 steps, 0 failed\n"), "{}", text(&output));
    let calls = machine.calls();
    for call in [
        "cuda_conformance --skip threads_ mps=yes real",
        "cuda_faults --skip kill_ mps=yes real",
        "cuda_faults kill_ mps=no real",
        "cuda_graphs --skip kill_ mps=yes real",
        "cuda_graphs kill_ mps=no real",
        "cuda_life  mps=yes real",
        "cuda_soak  mps=yes real",
    ] {
        assert!(calls.lines().any(|line| line == call), "no {call} in\n{calls}");
    }
    assert_eq!(calls.matches("control -d").count(), calls.matches("quit").count());
    assert_eq!(fs::read_dir(machine.root.join("tmp")).expect("a folder").count(), 0);
    let files = fs::read_dir(machine.out()).expect("results").count();
    assert!(files <= 8, "{files} files");

    let run = run_of(&machine.out());
    assert!(run.failed().is_empty());
    let record: serde_json::Value = serde_json::from_str(&run.record().expect("a record").json()).expect("JSON");
    assert_eq!(record["commit"], "0123456789ab");
    assert_eq!(record["machine"]["gpus"][0], "Stub GPU");
    assert_eq!(record["machine"]["driver"], "580.1");
    assert_eq!(record["steps"].as_array().map(Vec::len), Some(13));
    assert_eq!(record["steps"][1]["tests"], serde_json::json!([2, 0]));
    let words = &record["steps"][6]["results"]["8"]["words"];
    assert_eq!(words, "verify-cycle --engine cuda --ranks 8 --json");
    let words = &record["steps"][6]["results"]["8 graph host_staged"]["words"];
    assert_eq!(
        words,
        "verify-cycle --engine cuda --ranks 8 --path host_staged --graph --json"
    );
    let runs = record["steps"][5]["results"]["runs"].as_array().expect("runs");
    let made = [
        "1000059 calls, 1300000 exchanges",
        r#"path "p", 3 ranks from epoch 0xffffd8: 5004 calls"#,
    ];
    assert_eq!(runs.len(), made.len());
    for (run, made) in runs.iter().zip(made) {
        let run = run.as_str().expect("words");
        assert!(
            run.starts_with('[') && run.contains(made) && run.ends_with(" us each]"),
            "{run}"
        );
    }
    let lines = record["steps"][7]["results"]["lines"].as_array().expect("lines");
    assert_eq!((lines.len(), &lines[1]["words"]), (2, &"again".into()));
    let words = lines[0]["words"].as_str().expect("words");
    assert!(words.starts_with("bench --engine cuda --ranks 2,4,8"), "{words}");
}

#[test]
fn whatever_is_not_right_fails_its_step() {
    let machine = Machine::new("fails");
    machine.program(
        "pack/cuda_conformance",
        "echo 'test result: FAILED. 1 passed; 2 failed'; exit 1",
    );
    machine.program("pack/cuda_faults", "echo 'test result: ok. 0 passed; 0 failed'");
    machine.program("pack/cuda_soak", "echo 'test hangs ... '; kill -SEGV $$");
    machine.without("pack/cuda_life");
    machine.without("bin/compute-sanitizer");
    machine.program("pack/lanesum", r#"echo '{"stand_in": true}'"#);
    let output = machine.run(&[], &[]);
    assert_eq!(output.status.code(), Some(1));
    let run = run_of(&machine.out());
    let expected = [
        "conformance",
        "faults-mps",
        "life",
        "soak",
        "verify-cycle",
        "bench",
        "selftest",
        "launch-overhead",
        "doctor",
        "kills",
        "sanitizer",
    ];
    assert_eq!(run.failed(), expected, "{}", text(&output));
    let record: serde_json::Value = serde_json::from_str(&run.record().expect("a record").json()).expect("JSON");
    assert_eq!(record["steps"][1]["tests"], serde_json::json!([1, 2]));
    assert!(text(&output).contains("in: test hangs ..."), "{}", text(&output));
    let calls = machine.calls();
    assert_eq!(calls.matches("control -d").count(), calls.matches("quit").count());
}

#[test]
fn what_a_bench_has_measured_is_kept_when_it_fails() {
    let machine = Machine::new("bench");
    let lines = r#"{"kind":"row","stand_in":false}\n{"kind":"error","error":"rank 1 died"}\n"#;
    machine.program("pack/lanesum", &format!("printf '{lines}'; exit 1"));
    assert_eq!(machine.run(&["--no-mps"], &["bench"]).status.code(), Some(1));
    let run = run_of(&machine.out());
    assert_eq!(run.failed(), ["bench"]);
    let record: serde_json::Value = serde_json::from_str(&run.record().expect("a record").json()).expect("JSON");
    let results = &record["steps"][1]["results"]["lines"];
    assert_eq!(
        (&results[0]["kind"], &results[1]["error"]),
        (&"row".into(), &"rank 1 died".into())
    );
    machine.program("pack/lanesum", "echo nothing");
    assert_eq!(machine.run(&["--no-mps"], &["bench"]).status.code(), Some(1));
}

#[test]
fn a_soak_that_says_no_counts_fails_and_one_that_fails_keeps_its_counts() {
    let machine = Machine::new("soak");
    machine.program("pack/cuda_soak", TESTS);
    assert_eq!(machine.run(&["--no-mps"], &["soak"]).status.code(), Some(1));
    assert_eq!(run_of(&machine.out()).failed(), ["soak"]);
    fs::remove_dir_all(machine.out()).expect("results");
    machine.program("pack/cuda_soak", &format!("{SAYS_RUNS}kill -SEGV $$"));
    assert_eq!(machine.run(&["--no-mps"], &["soak"]).status.code(), Some(1));
    let run = run_of(&machine.out());
    assert_eq!(run.failed(), ["soak"]);
    let record: serde_json::Value = serde_json::from_str(&run.record().expect("a record").json()).expect("JSON");
    assert_eq!(record["steps"][1]["results"]["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_error_of_the_memory_checker_fails() {
    let machine = Machine::new("memory");
    let checker = "echo '========= ERROR SUMMARY: 0 errors'; echo '========= ERROR SUMMARY: 3 errors'";
    machine.program("bin/compute-sanitizer", checker);
    assert_eq!(
        machine.run(&["--no-mps"], &["sanitizer", "life"]).status.code(),
        Some(1)
    );
    assert_eq!(run_of(&machine.out()).failed(), ["sanitizer"]);
    assert!(!machine.calls().contains("control"));
}

#[test]
fn results_of_different_commits_make_no_record() {
    let machine = Machine::new("commits");
    assert!(machine.run(&[], &[]).status.success());
    let other = machine.root.join("other");
    fs::rename(machine.out(), &other).expect("a move");
    fs::write(machine.root.join("pack/commit"), "ba9876543210\n").expect("the commit");
    assert!(machine.run(&[], &[]).status.success());
    assert!(Run::read(&[other.clone(), machine.out()]).is_err());
    assert_eq!(
        Run::read(&[other.clone(), other]).expect("one commit").failed().len(),
        0
    );
}

#[test]
fn a_machine_without_mps_fails_what_wants_it() {
    let machine = Machine::new("without-mps");
    machine.program("bin/nvidia-cuda-mps-control", "exit 1");
    assert_eq!(machine.run(&[], &["life", "kills"]).status.code(), Some(1));
    assert_eq!(run_of(&machine.out()).failed(), ["life"]);
}
