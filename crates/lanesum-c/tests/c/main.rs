//! C programs against the library as it is installed: what it promises, seen from C.
#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]
mod kit;

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use kit::{Linkage, Program, prefix, run, well};
use lanesum_standin::{Config, directory};

#[test]
fn the_example_runs_with_either_library() {
    for linkage in [Linkage::Shared, Linkage::Static] {
        let program = Program::compile("examples/sum.c", linkage, &[]);
        let ended = run(&mut program.launched(2));
        assert!(ended.status.unwrap().success(), "{}", ended.stderr);
        for rank in 0..2 {
            assert!(ended.stdout.contains(&format!("[{rank}] call 0: 28672 bytes by")));
        }
        assert_eq!(
            ended.stdout.matches("every element is 3").count(),
            2,
            "{}",
            ended.stdout
        );
        // Nobody has started it: the message says how to.
        let ended = run(&mut program.command());
        assert_eq!(ended.status.unwrap().code(), Some(1));
        assert!(ended.stderr.starts_with("environment: ") && ended.stderr.contains("lanesum launch"));
        let ended = run(program.launched(2).env("LANESUM", "0"));
        assert!(!ended.status.unwrap().success() && ended.stderr.contains("turns lanesum off (LANESUM is \"0\")"));
    }
}

#[test]
fn the_guide_s_program_runs() {
    let guide = include_str!("../../../../docs/c.md");
    let (_, rest) = guide.split_once("```c\n/* program.c */").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.c");
    fs::write(&source, text).unwrap();
    let program = Program::compile(source.to_str().unwrap(), Linkage::Shared, &[]);
    let ended = run(&mut program.launched(2));
    assert_eq!(
        ended.stdout.matches("] 6\n").count(),
        2,
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn sums_of_every_kind_go_well() {
    let program = Program::shared("sums.c");
    program.ranks(1, None, &[])[0].well();
    for world in [2, 3] {
        let ended = run(&mut program.launched(world));
        assert!(ended.status.unwrap().success(), "{}", ended.stderr);
        assert_eq!(ended.stdout.matches("well").count(), world, "{}", ended.stdout);
    }
}

#[test]
fn what_is_refused_has_no_effect() {
    Program::shared("refused.c").ranks(1, None, &[])[0].well();
}

#[test]
fn ranks_that_fail_are_named() {
    let program = Program::shared("faults.c");
    for case in ["mismatch", "departed", "late"] {
        for ended in program.ranks(2, Some(case), &[]) {
            ended.well();
        }
    }
    let ended = program.ranks(3, Some("killed"), &[]);
    ended[0].well();
    ended[2].well();
    assert_eq!(ended[1].status.unwrap().signal(), Some(9), "{}", ended[1].stderr);
    assert!(
        ended[0].stdout.contains("the process of rank 1 ended"),
        "{}",
        ended[0].stdout
    );
}

#[test]
fn threads_and_forked_children_are_told() {
    Program::shared("processes.c").ranks(1, None, &[])[0].well();
}

#[test]
fn gpu_memory_is_reduced_on_streams_and_in_graphs() {
    let driver = directory().to_str().unwrap();
    let more = ["-L", driver, "-l:libcuda.so.1", "-lm"];
    let program = Program::compile("tests/c/programs/device.c", Linkage::Shared, &more);
    let folder = tempfile::tempdir().unwrap();
    let stand_in = Config::new().devices(2).write(folder.path()).unwrap();
    let libraries = [stand_in.directory.as_path(), &prefix().join("lib")].map(|path| path.as_os_str().to_owned());
    let environment = [
        ("LD_LIBRARY_PATH", libraries.join(&OsString::from(":"))),
        ("LANESUM_STANDIN", stand_in.config.into_os_string()),
    ];
    for ended in program.ranks(2, None, &environment) {
        ended.well();
    }
}

#[test]
fn the_header_is_cpp_too() {
    let program = Program::shared("header.cpp");
    let ended = run(&mut program.launched(2));
    // The ranks' tensors are the same, so the last element is twice its own.
    assert_eq!(
        ended.stdout.matches("well").count(),
        2,
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn a_status_must_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("careless.c");
    let text = "#include <lanesum.h>\nvoid leave(lanesum_communicator *c) { lanesum_close(c, NULL); }\n";
    fs::write(&source, text).unwrap();
    let mut command = Command::new("cc");
    command.args(["-std=c99", "-Wall", "-c", "-o", "/dev/null", "-I"]);
    let ended = run(command.arg(prefix().join("include")).arg(source));
    assert!(ended.status.unwrap().success(), "{}", ended.stderr);
    assert!(ended.stderr.contains("warn_unused_result"), "{}", ended.stderr);
}

#[test]
fn only_the_functions_of_the_header_are_exported() {
    let library = prefix().join("lib/liblanesum.so");
    let listed = well(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let mut exported: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    exported.sort_unstable();
    let header = fs::read_to_string(prefix().join("include/lanesum.h")).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with('*'));
    let mut declared: Vec<&str> = code
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("lanesum_"))
        .collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
    let dynamic = well(Command::new("readelf").arg("-d").arg(library));
    assert!(dynamic.contains("Library soname: [liblanesum.so.0]") && dynamic.contains("NODELETE"));
}
