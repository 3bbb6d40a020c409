//! What `lanesum doctor` makes of the GPUs' management library (NVML), on machines of the stand-in's scripts.

use std::process::Output;

use super::common::{finish, lanesum, stdout};
use super::cuda::Machine;
use super::doctor::{examined, remarks};
use lanesum_standin::{Config, Nvml, NvmlGpu};
use serde_json::{Value, json};

const UUIDS: [&str; 2] = [
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-89aa01b2-0000-4111-8222-333344445555",
];
/// As NVML writes them.
const PLACES: [&str; 2] = ["00000000:C1:00.0", "00000000:41:00.0"];
const GIB: u64 = 1 << 30;

/// A GPU at rest, with all that it can have.
fn gpu(number: usize) -> NvmlGpu {
    NvmlGpu::new(UUIDS[number], PLACES[number], "NVIDIA Test 80GB")
        .memory(80 * GIB, 128 * GIB)
        .link((1, 16), (5, 16))
        .state(8, 0)
        .display(false, false)
        .mig(false, &[])
}

/// The CUDA driver's stand-in has two GPUs, too.
fn doctor(config: &Config, nvml: &Nvml, variables: &[(&str, &str)], more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (name, script) = nvml.write(folder.path()).unwrap();
    let arguments: Vec<&str> = ["doctor"].into_iter().chain(more.iter().copied()).collect();
    let machine = Machine::new(config);
    let mut command = machine.command(&arguments);
    command.env(name, script).envs(variables.iter().copied());
    finish(command.spawn().unwrap())
}

fn told(nvml: &Nvml, codes: &[i32]) -> Value {
    examined(&doctor(&Config::new().devices(2), nvml, &[], &["--json"]), codes)
}

/// All remarks but that of the stand-in.
fn others(report: &Value) -> Vec<&str> {
    let all = remarks(report).into_iter();
    all.filter(|remark| !remark.contains("the tests' stand-in")).collect()
}

/// That every key is of small letters, digits and low lines.
fn check_keys(value: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
                assert!(key.bytes().all(plain), "{key}");
                check_keys(field);
            }
        }
        Value::Array(values) => values.iter().for_each(check_keys),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn gpus_at_rest_are_shown_and_no_remark() {
    let nvml = Nvml::new()
        .driver("580.65.06", 13_000)
        .gpu(gpu(0).nvlinks(4, PLACES[1]).nvlinks(2, "inactive"))
        .gpu(gpu(1).nvlinks(4, PLACES[0]));
    let report = told(&nvml, &[1]);
    assert_eq!(others(&report), Vec::<&str>::new());
    let shown = &report["nvml"];
    for (key, value) in [
        ("state", json!("there")),
        ("error", Value::Null),
        ("driver_version", json!("580.65.06")),
        ("cuda_version", json!(13_000)),
    ] {
        assert_eq!(shown[key], value, "{key} in {report}");
    }
    for (key, value) in [
        ("index", json!(0)),
        ("refused", Value::Null),
        ("uuid", json!(UUIDS[0])),
        ("pci_bus_id", json!("0000:c1:00.0")),
        ("name", json!("NVIDIA Test 80GB")),
        ("memory", json!(80 * GIB)),
        ("bar1", json!(128 * GIB)),
        ("link", json!({"generation": 1, "width": 16})),
        ("link_max", json!({"generation": 5, "width": 16})),
        ("at_rest", json!(true)),
        ("performance_state", json!(8)),
        ("utilisation_percent", json!(0)),
        ("display_attached", json!(false)),
        ("display_active", json!(false)),
        ("mig", json!(false)),
        ("instances", Value::Null),
        (
            "nvlinks",
            json!([{"to": {"end": "gpu", "pci_bus_id": "0000:41:00.0"}, "count": 4}]),
        ),
    ] {
        assert_eq!(shown["gpus"][0][key], value, "{key} in {report}");
    }
    assert_eq!(report["visible"]["cuda_visible_devices"], Value::Null);
    // By their places, as they are alike.
    assert_eq!(report["visible"]["gpus"][0]["uuid"], UUIDS[1]);
    check_keys(&report);
    let text = stdout(&doctor(&Config::new().devices(2), &nvml, &[], &[]));
    for words in [
        "GPUs that NVML shows (driver 580.65.06, for CUDA 13.0)",
        "Gen1 x16, at rest",
        "4 to 0000:41:00.0",
        "128 GiB",
        UUIDS[1],
        "CUDA_VISIBLE_DEVICES is not set: ranks see all of them",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

/// What NVML does not tell is nothing, and no fault.
#[test]
fn what_is_not_told_is_null() {
    let plain = NvmlGpu::new(UUIDS[0], PLACES[0], "NVIDIA Test");
    let switched = plain.clone().nvlinks(18, "00000000:07:00.0").to_switches(18);
    let report = told(&Nvml::new().gpu(plain).gpu(switched), &[1]);
    assert_eq!(others(&report), Vec::<&str>::new());
    for key in [
        "memory",
        "bar1",
        "link",
        "link_max",
        "at_rest",
        "nvlinks",
        "display_active",
    ] {
        assert_eq!(report["nvml"]["gpus"][0][key], Value::Null, "{key}");
    }
    // A model that can't be cut into instances isn't.
    assert_eq!(report["nvml"]["gpus"][0]["mig"], false);
    assert_eq!(
        report["nvml"]["gpus"][1]["nvlinks"],
        json!([{"to": {"end": "switch"}, "count": 18}])
    );
}

#[test]
fn links_that_lack_something_are_remarked() {
    let busy = |now| gpu(0).link(now, (4, 16)).state(0, 97);
    for (now, wanted) in [
        ((4, 8), "runs as Gen4 x8, and could as Gen4 x16; it is in P0, 97 % busy"),
        ((1, 16), "runs as Gen1 x16, and could as Gen4 x16"),
    ] {
        let report = told(&Nvml::new().gpu(busy(now)).gpu(gpu(1)), &[1]);
        let others = others(&report);
        assert!(others.len() == 1 && others[0].contains(wanted), "{others:?}");
        assert!(others[0].contains("GPU 0 (0000:c1:00.0)"), "{others:?}");
    }
    let lost = told(&Nvml::new().gpu(gpu(0)).gpu(gpu(1).refuse(15)), &[1]);
    assert!(
        others(&lost)[0].contains("can't look at it: device fell off the bus"),
        "{lost}"
    );
}

#[test]
fn instances_are_remarked() {
    let instance = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f";
    let nvml = Nvml::new().gpu(gpu(0).mig(true, &[instance])).gpu(gpu(1));
    let devices = [("CUDA_VISIBLE_DEVICES", instance)];
    let report = examined(&doctor(&Config::new().devices(2), &nvml, &devices, &["--json"]), &[1]);
    let others = others(&report);
    assert!(
        others.len() == 1 && others[0].contains("is cut into MIG instances"),
        "{others:?}"
    );
    assert_eq!(report["nvml"]["gpus"][0]["instances"], json!([instance]));
    assert_eq!(report["visible"]["gpus"][0]["pci_bus_id"], "0000:c1:00.0");
}

#[test]
fn a_small_bar1_is_remarked_where_gpus_do_not_reach_each_other() {
    let small = || Nvml::new().gpu(gpu(0).memory(24 * GIB, GIB / 4)).gpu(gpu(1));
    let output = doctor(&Config::new().devices(2).refuse(1, 0), &small(), &[], &["--json"]);
    let report = examined(&output, &[1]);
    let about: Vec<&str> = others(&report)
        .into_iter()
        .filter(|remark| remark.contains("BAR1"))
        .collect();
    assert!(
        about.len() == 1 && about[0].contains("(256 MiB) is smaller than its memory (24 GiB)"),
        "{report}"
    );
    assert_eq!(others(&told(&small(), &[1])), Vec::<&str>::new());
}

#[test]
fn a_library_that_fails_says_what_to_do() {
    for (code, wanted) in [(18, "version mismatch"), (9, "NVIDIA driver is not loaded")] {
        let report = told(&Nvml::new().init(code), &[1]);
        let others = others(&report);
        assert!(others.len() == 1 && others[0].contains(wanted), "{others:?}");
        assert_eq!(report["nvml"]["state"], "failing");
        assert!(report["nvml"]["error"].as_str().unwrap().contains(wanted), "{report}");
    }
}

/// Then what it would show is not known, and that is not fine.
#[test]
fn a_library_that_crashes_or_hangs_is_not_known() {
    let nvml = || Nvml::new().gpu(gpu(0));
    for (nvml, wanted) in [
        (nvml().crash("nvmlDeviceGetName"), "signal SIGABRT"),
        (nvml().hang("nvmlInit_v2"), "does not answer within 30 s"),
    ] {
        let report = told(&nvml, &[1]);
        let others = others(&report);
        assert!(others.len() == 1 && others[0].contains(wanted), "{others:?}");
        assert_eq!(report["nvml"]["state"], "unknown", "{report}");
        assert!(report["nvml"]["error"].as_str().unwrap().contains(wanted), "{report}");
        let unknown = report["unknown"].as_array().unwrap();
        let about = |unknown: &&Value| unknown["what"].as_str().unwrap().contains("of the GPUs");
        let how = unknown.iter().find(about).unwrap()["how"].as_str().unwrap();
        assert!(how.contains("nvidia-smi -q"), "{how}");
        // The ranks were tried all the same.
        assert_eq!(report["decisions"][0]["checked"], true, "{report}");
    }
}

#[test]
fn what_cuda_shows_is_told_by_its_variables() {
    let nvml = Nvml::new().gpu(gpu(0)).gpu(gpu(1));
    let run = |devices, more: &[&str]| {
        let variables = [("CUDA_VISIBLE_DEVICES", devices), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")];
        doctor(&Config::new().devices(2), &nvml, &variables, more)
    };
    let report = examined(&run("1,GPU-89", &["--json"]), &[2]);
    let others = others(&report);
    assert!(
        others.len() == 1 && others[0].contains("entry 2 of CUDA_VISIBLE_DEVICES"),
        "{others:?}"
    );
    let visible = &report["visible"];
    assert_eq!(visible["cuda_visible_devices"], "1,GPU-89");
    assert_eq!(visible["order"], "pci_bus_id");
    // The second by its place is NVML's first.
    assert_eq!(
        visible["gpus"],
        json!([{"entry": "1", "uuid": UUIDS[0], "pci_bus_id": "0000:c1:00.0"}])
    );
    assert_eq!(visible["troubles"][0]["trouble"], "other_kind");
    let text = stdout(&run("GPU-89aa", &[]));
    let line = format!("0000:41:00.0   {}", UUIDS[1]);
    assert!(
        text.contains("CUDA_VISIBLE_DEVICES=\"GPU-89aa\": ranks see\n") && text.contains(&line),
        "{text}"
    );
    let none = stdout(&run("-1", &[]));
    assert!(none.contains("ranks see no GPU"), "{none}");
}

#[test]
fn the_host_asks_nobody() {
    let mut command = lanesum(&["doctor", "--engine", "host", "--ranks", "2", "--json"]);
    let report = examined(
        &finish(command.env("CUDA_VISIBLE_DEVICES", "x").spawn().unwrap()),
        &[0, 1],
    );
    assert_eq!(report["nvml"]["state"], "not_asked");
    assert_eq!(report["visible"], Value::Null);
}
