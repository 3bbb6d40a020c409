//! `lanesum doctor` on this machine, and on machines of the stand-in.

use std::process::Output;

use super::common::{json, run, stderr, stdout};
use super::cuda::Machine;
use lanesum_standin::{Config, Lie};
use serde_json::Value;

fn examined(output: &Output, codes: &[i32]) -> Value {
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

fn remarks(report: &Value) -> Vec<&str> {
    let remarks = report["remarks"].as_array().unwrap();
    remarks.iter().map(|remark| remark["what"].as_str().unwrap()).collect()
}

#[test]
fn a_machine_without_gpus_sums_in_its_memory() {
    // A busy machine is worth a remark.
    let report = examined(&run(&["doctor", "--ranks", "3", "--json"]), &[0, 1]);
    assert_eq!(report["ranks"], 3);
    assert_eq!(report["driver"], Value::Null);
    assert!(report["without_gpus"].as_str().unwrap().contains("libcuda"), "{report}");
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

#[test]
fn who_insists_on_gpus_is_told_what_to_mend() {
    let report = examined(&run(&["doctor", "--engine", "cuda", "--json"]), &[2]);
    assert!(remarks(&report)[0].contains("libcuda"), "{report}");
    // The ranks were tried all the same.
    assert!(report["decisions"][0]["algorithm"].is_string(), "{report}");
    let output = run(&["doctor", "--engine", "cuda"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    assert!(
        text.contains("doctor: 1 thing to mend") && text.contains("\nto mend 1: "),
        "{text}"
    );
    assert_eq!(
        run(&["doctor", "--engine", "cuda", "--ranks", "17"]).status.code(),
        Some(2)
    );
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
    // More ranks than GPUs.
    let shared = Machine::new(&Config::new().devices(1));
    let report = examined(&shared.run(&["doctor", "--ranks", "2", "--json"]), &[1]);
    let told = remarks(&report).join("\n");
    assert!(told.contains("2 ranks share 1 GPU"), "{told}");
}
