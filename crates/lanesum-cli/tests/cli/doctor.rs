//! `lanesum doctor` on this machine, and on machines of the stand-in.

use std::process::{Command, Output};

use super::common::{finish, json, lanesum, run, stderr, stdout, whole};
use super::cuda::Machine;
use lanesum_standin::{Config, Lie};
use serde_json::Value;

pub fn examined(output: &Output, codes: &[i32]) -> Value {
    let code = output.status.code().unwrap();
    assert!(codes.contains(&code), "{code}: {}{}", stdout(output), stderr(output));
    assert!(stderr(output).is_empty(), "{}", stderr(output));
    let report = json(output);
    let verdict = ["fine", "remarks", "mend"][code as usize];
    assert_eq!(report["verdict"], verdict, "{report}");
    // Whoever is told of a fault is told what to do.
    for remark in report["remarks"].as_array().unwrap() {
        assert!(remark["what"].as_str().is_some_and(|what| !what.is_empty()), "{remark}");
        assert!(
            remark["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()),
            "{remark}"
        );
    }
    assert_eq!(code == 0, report["remarks"] == serde_json::json!([]));
    report
}

pub fn remarks(report: &Value) -> Vec<&str> {
    let remarks = report["remarks"].as_array().unwrap();
    remarks.iter().map(|remark| remark["what"].as_str().unwrap()).collect()
}

#[test]
fn the_host_sums_in_its_memory() {
    // A machine with few CPUs is worth a remark.
    let report = examined(&run(&["doctor", "--engine", "host", "--ranks", "3", "--json"]), &[0, 1]);
    assert_eq!(report["ranks"], 3);
    assert_eq!(
        (&report["driver"], &report["without_gpus"]),
        (&Value::Null, &Value::Null)
    );
    assert!(report["machine"]["cpus"].as_str().is_some_and(|cpus| !cpus.is_empty()));
    let decisions = report["decisions"].as_array().unwrap();
    let bytes: Vec<u64> = decisions
        .iter()
        .map(|decision| decision["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(bytes, [1024, 8192, 43_008, 262_144, 1_048_576, 16_777_216]);
    for decision in decisions {
        assert_eq!(
            (&decision["engine"], &decision["path"]),
            (&"host".into(), &"shared_memory".into())
        );
        assert!(decision["algorithm"].is_string(), "{decision}");
        assert!(decision["predicted_us"].as_f64().unwrap() > 0.0, "{decision}");
        assert!(decision["measured_us"].as_f64().unwrap() > 0.0, "{decision}");
        assert_eq!(decision["checked"], true);
        assert!(
            decision["alternatives"]
                .as_array()
                .unwrap()
                .iter()
                .all(|other| other["refused"].is_string())
        );
    }
    let gates = report["gates"].as_array().unwrap();
    assert!(gates.iter().any(|gate| gate["name"] == "cores"), "{report}");
    assert!(gates.iter().all(|gate| gate["reason"].is_string()));
}

/// The tests' environment has a library that can't be loaded.
#[test]
fn a_driver_that_cannot_be_loaded_is_to_be_mended() {
    for engine in ["auto", "cuda"] {
        let report = examined(&run(&["doctor", "--engine", engine, "--json"]), &[2]);
        assert!(remarks(&report)[0].contains("libcuda"), "{report}");
        assert!(report["without_gpus"].as_str().unwrap().contains("libcuda"), "{report}");
        // The ranks were tried all the same.
        assert_eq!(report["decisions"][0]["checked"], true, "{report}");
    }
    let output = run(&["doctor"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    assert!(
        text.contains("doctor: 1 thing to mend") && text.contains("\nto mend 1: "),
        "{text}"
    );
    assert_eq!(
        run(&["doctor", "--engine", "cuda", "--ranks", "9"]).status.code(),
        Some(2)
    );
    assert_eq!(run(&["doctor", "--ranks", "17"]).status.code(), Some(2));
}

#[test]
fn drivers_that_say_no_are_told_with_what_to_do() {
    let machine = |config: &Config, codes: &[i32]| examined(&Machine::new(config).run(&["doctor", "--json"]), codes);
    let two = || Config::new().devices(2);
    let report = machine(&two().fail("cuInit", 1, 999), &[2]);
    assert!(remarks(&report)[0].contains("cuInit"), "{report}");
    let report = machine(&two().driver(11_000), &[2]);
    assert!(remarks(&report)[0].contains("version 11.0"), "{report}");
    // A container may have the library and no GPU.
    let report = machine(&Config::new().devices(0), &[1]);
    assert!(remarks(&report)[0].contains("shows no device"), "{report}");
    // They join, and their sums fail.
    let report = machine(&two().launch_error(4), &[2]);
    assert!(report["failed"]["error"].is_string(), "{report}");
}

/// Whatever the library does to the process that loads it, the doctor goes on.
#[test]
fn libraries_that_crash_leave_or_hang_are_told() {
    for (body, wanted) in [
        ("abort();", "signal SIGABRT"),
        ("exit(0);", "exit code 0"),
        ("for (;;) pause();", "within 30 s"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("driver.c");
        let text = format!(
            "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void at_once(void) {{ {body} }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let library = folder.path().join("libcuda.so.1");
        let mut compiler = Command::new("cc");
        let built = compiler
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source)
            .status();
        assert!(built.unwrap().success());
        let mut doctor = lanesum(&["doctor", "--json"]);
        let report = examined(
            &finish(doctor.env("LD_LIBRARY_PATH", folder.path()).spawn().unwrap()),
            &[2],
        );
        assert!(remarks(&report)[0].contains(wanted), "{report}");
        assert_eq!(report["decisions"][0]["engine"], "host");
        // Other commands outlive it as well; a driver that hangs gets longer there.
        if body.contains("pause") {
            continue;
        }
        let mut cycle = lanesum(&["verify-cycle", "--engine", "cuda", "--json"]);
        let output = finish(cycle.env("LD_LIBRARY_PATH", folder.path()).spawn().unwrap());
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        assert!(
            json(&output)["error"].as_str().unwrap().contains(wanted),
            "{}",
            stdout(&output)
        );
    }
}

#[test]
fn an_environment_that_ranks_refuse_is_told() {
    for (name, value) in [("LANESUM_DEADLINE_MS", "soon"), ("RANK", "5")] {
        let child = lanesum(&["doctor", "--engine", "host", "--ranks", "2", "--json"])
            .env(name, value)
            .spawn();
        let report = examined(&finish(child.unwrap()), &[2]);
        let told = remarks(&report)[0];
        assert!(told.contains("would not start") && told.contains(name), "{told}");
    }
}

#[test]
fn gpus_that_reach_each_other_are_fine_but_for_the_stand_in() {
    let machine = Machine::new(&Config::new().devices(2));
    let report = examined(&machine.run(&["doctor", "--engine", "cuda", "--json"]), &[1]);
    assert_eq!(report["stand_in"], true);
    assert_eq!((&report["ranks"], &report["driver"]["devices"]), (&2.into(), &2.into()));
    assert_eq!(report["gpus"].as_array().unwrap().len(), 2);
    let pairs = report["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    assert!(pairs.iter().all(|pair| pair["peer"]["verdict"] == "proven"), "{report}");
    for decision in report["decisions"].as_array().unwrap() {
        assert_eq!(
            (&decision["engine"], &decision["path"]),
            (&"cuda".into(), &"peer".into())
        );
        assert_eq!(decision["measured_us"], Value::Null);
        assert_eq!(decision["checked"], decision["bytes"].as_u64() <= Some(1 << 20));
    }
    assert_eq!(report["decisions"][5]["algorithm"], "one_shot_push");
}

#[test]
fn ways_that_are_refused_or_lie_are_told_with_a_remedy() {
    let refused = Machine::new(&Config::new().devices(2).refuse(1, 0));
    let report = examined(&refused.run(&["doctor", "--json"]), &[1]);
    assert_eq!(report["decisions"][2]["path"], "host_staged");
    let told = remarks(&report).join("\n");
    assert!(told.contains("bytes go through the host's memory"), "{told}");
    // Neither way: the ranks sum in the host's memory, and that is to be mended.
    let lost = Machine::new(&Config::new().devices(2).refuse(1, 0).lie_host(0, Lie::Drop));
    let report = examined(&lost.run(&["doctor", "--json"]), &[2]);
    assert_eq!(report["decisions"][2]["engine"], "host");
    assert!(remarks(&report)[0].contains("the GPUs are not used"), "{report}");
    // More ranks than GPUs are the user's doing; by itself a GPU gets one.
    let shared = Machine::new(&Config::new().devices(1));
    let report = examined(&shared.run(&["doctor", "--json"]), &[1]);
    assert_eq!(
        (report["ranks"].as_u64(), remarks(&report).len()),
        (Some(1), 1),
        "{report}"
    );
    let report = examined(&shared.run(&["doctor", "--ranks", "2", "--json"]), &[1]);
    let told = remarks(&report).join("\n");
    assert!(told.contains("2 ranks share 1 GPU"), "{told}");
}

/// Peer access would work there; the user does not want it, and what hangs may be what he knows of.
#[test]
fn peer_access_that_the_user_turned_off_is_not_tried() {
    let machine = Machine::new(&Config::new().devices(2));
    let report = examined(
        &machine.run_with(("NCCL_P2P_DISABLE", "1"), &["doctor", "--json"]),
        &[1],
    );
    for decision in report["decisions"].as_array().unwrap() {
        assert_eq!(
            (&decision["engine"], &decision["path"]),
            (&"cuda".into(), &"host_staged".into())
        );
    }
    let pairs = report["pairs"].as_array().unwrap();
    assert!(
        pairs.iter().all(|pair| pair["peer"]["verdict"] == "unknown"),
        "{report}"
    );
    assert!(
        pairs.iter().all(|pair| pair["host_staged"]["verdict"] == "proven"),
        "{report}"
    );
    let gates = report["gates"].as_array().unwrap();
    let wishes = gates.iter().find(|gate| gate["name"] == "nccl_settings").unwrap();
    assert_eq!(wishes["verdict"], "no");
    let told = report["remarks"].as_array().unwrap();
    let remark = told
        .iter()
        .find(|remark| remark.to_string().contains("NCCL_P2P_DISABLE=1"))
        .unwrap();
    assert_eq!(remark["remedy"], wishes["remedy"]);
    // A value of 0, and a level that reaches everywhere, turn nothing off.
    for setting in [("NCCL_P2P_DISABLE", "0"), ("NCCL_P2P_LEVEL", "SYS")] {
        let report = examined(&machine.run_with(setting, &["doctor", "--json"]), &[1]);
        assert_eq!(report["decisions"][2]["path"], "peer", "{setting:?}");
    }
}

/// The page of a machine whose CPUs sum, of one whose GPUs do, and of one whose GPUs can't.
#[test]
fn a_page_holds_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("box.html").display().to_string();
    let page = |output: &Output, parts: &[&str]| {
        assert!(output.status.code().is_some_and(|code| code < 3), "{}", stderr(output));
        assert!(stderr(output).is_empty(), "{}", stderr(output));
        let html = std::fs::read_to_string(&file).unwrap();
        whole(&html);
        for part in parts {
            assert!(html.contains(part), "{part} in {html}");
        }
        std::fs::remove_file(&file).unwrap();
    };
    let common = [
        "<svg class=\"tree\"",
        "What runs, and why",
        "<h2>Gates</h2>",
        "How to read this",
        "42 KiB",
    ];
    let host = run(&["doctor", "--engine", "host", "--ranks", "2", "--report", &file]);
    page(&host, &common);
    let host = run(&[
        "doctor", "--engine", "host", "--ranks", "2", "--report", &file, "--json",
    ]);
    assert_eq!(json(&host)["ranks"], 2);
    page(
        &host,
        &[
            "No GPU takes part",
            "one_shot_pull",
            ">measured<",
            "flag round trip",
            "rank 1",
        ],
    );
    let machine = |config: &Config| Machine::new(config).run(&["doctor", "--report", &file]);
    page(&machine(&Config::new().devices(2)), &common);
    page(
        &machine(&Config::new().devices(2)),
        &[
            "ON A STAND-IN",
            "rank 1: lanesum stand-in",
            "<td class=\"unknown\">? \u{2713}</td>",
            "one_shot_push",
        ],
    );
    let refused = Config::new().devices(2).refuse(1, 0);
    page(
        &machine(&refused),
        &[
            "<td class=\"unknown refused\">",
            "no peer access</b>, 1 to 0",
            "host_staged",
        ],
    );
    // Ranks that fail are no reason to say nothing.
    page(
        &machine(&Config::new().devices(2).launch_error(4)),
        &["to mend: 2 ranks were tried, and failed"],
    );
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_before_anything_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("no/such/box.html").display().to_string();
    for path in [absent.as_str(), "/dev/null", "/"] {
        let output = run(&["doctor", "--engine", "host", "--report", path]);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        let error = stderr(&output);
        assert!(error.contains(path) && error.contains("hint: name a file"), "{error}");
        assert!(stdout(&output).is_empty());
    }
}

#[test]
fn what_is_turned_off_is_examined_and_told() {
    let mut command = lanesum(&["doctor", "--engine", "host", "--ranks", "2", "--json"]);
    let report = examined(&finish(command.env("LANESUM", "0").spawn().unwrap()), &[2]);
    let told = remarks(&report);
    assert!(
        told.iter()
            .any(|what| what.contains("turns lanesum off (LANESUM is \"0\")")),
        "{told:?}"
    );
    assert!(
        report["decisions"]
            .as_array()
            .is_some_and(|decisions| !decisions.is_empty()),
        "{report}"
    );
}

#[test]
fn nothing_sums_where_lanesum_is_turned_off() {
    for (value, said) in [("off", "turns lanesum off"), ("2", "LANESUM is set to \"2\"")] {
        let mut command = lanesum(&["verify-cycle", "--ranks", "2", "--cycles", "1"]);
        let output = finish(command.env("LANESUM", value).spawn().unwrap());
        assert!(!output.status.success());
        assert!(
            stderr(&output).contains(said) && stderr(&output).contains("hint:"),
            "{}",
            stderr(&output)
        );
    }
}
