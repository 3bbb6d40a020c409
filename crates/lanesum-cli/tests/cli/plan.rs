//! `lanesum plan` and `lanesum presets`: pasted text in, one plan out, or a refusal with its place.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{finish, lanesum, run, whole};

fn dump(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../lanesum-probe/tests/data/");
    format!("{folder}{name}")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_matrix_becomes_a_plan() {
    let file = dump("39-8xL40-4v4-pix-sys.txt");
    let plan = json(&["plan", "--topology", &file, "--pcie", "gen4x16", "--json"]);
    assert_eq!(plan["ranks"], 8);
    assert_eq!(plan["gpus"].as_array().unwrap().len(), 8);
    assert_eq!(plan["gpus"][0]["pcie"], "Gen4 x16");
    assert_eq!(plan["pairs"].as_array().unwrap().len(), 56);
    assert_eq!(plan["pairs"][0]["link"], "PIX");
    assert_eq!(plan["pairs"][0]["peer"], "assumed");
    assert_eq!(plan["islands"], serde_json::json!([[0, 1, 2, 3], [4, 5, 6, 7]]));
    let decision = &plan["decision"];
    assert_eq!(
        (&decision["engine"], &decision["path"]),
        (&"cuda".into(), &"peer".into())
    );
    assert_eq!(decision["algorithm"], "two_shot_push");
    assert_eq!(decision["bytes"], 43_008);
    assert!(decision["predicted_us"].as_f64().unwrap() > 2.0);
    let alternatives = plan["alternatives"].as_array().unwrap();
    assert!(alternatives.iter().all(|other| other["refused"].is_string()));
    assert!(
        plan["gates"]
            .as_array()
            .unwrap()
            .iter()
            .any(|gate| gate["name"] == "links" && gate["verdict"] == "yes")
    );
    assert!(!plan["assumes"].as_array().unwrap().is_empty());
}

#[test]
fn slower_links_are_predicted_to_take_longer() {
    let file = dump("39-8xL40-4v4-pix-sys.txt");
    let us = |pcie| {
        json(&["plan", "--topology", &file, "--pcie", pcie, "--bytes", "1MiB", "--json"])["decision"]["predicted_us"]
            .as_f64()
            .unwrap()
    };
    assert!(us("gen3x16") > 1.8 * us("gen4x16"));
}

#[test]
fn refused_peer_access_leads_through_host_memory() {
    let matrix = dump("01-2x5090-phb-wrx80.txt");
    let peers = dump("01-2x5090-phb-wrx80.p2p-rw.txt");
    let plan = json(&["plan", "--topology", &matrix, "--p2p", &peers, "--json"]);
    assert_eq!(plan["decision"]["path"], "host_staged");
    assert_eq!(plan["pairs"][0]["link"], "PHB");
    assert!(plan["pairs"][0]["reason"].as_str().unwrap().contains("GNS"));
    let peer = |arguments: &[&str]| json(&[&["plan", "--json"], arguments].concat())["pairs"][0]["peer"].clone();
    assert_eq!(plan["pairs"][0]["peer"], "refused");
    assert_eq!(peer(&["--topology", &matrix]), "assumed");
    let all_ok = dump("45-8gpu-all-ok.p2p-r.txt");
    let eight = dump("52-8gpu-pix-phb-sys-no-affinity-columns-old-legend.txt");
    assert_eq!(peer(&["--topology", &eight, "--p2p", &all_ok]), "granted");
    let gate = plan["gates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|gate| gate["name"] == "peer_access")
        .unwrap();
    assert_eq!(gate["verdict"], "no");
    assert!(gate["remedy"].is_string());
    // Who insists on peer access has no plan, and the reason.
    let output = run(&["plan", "--topology", &matrix, "--p2p", &peers, "--policy", "peer"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("nothing may run on GPUs")
    );
}

#[test]
fn a_text_may_come_by_the_standard_input() {
    let mut child = lanesum(&["plan", "--topology", "-", "--sweep"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let text = std::fs::read(dump("25-4gpu-pix-phb-plx-lmdeploy.txt")).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = finish(child);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "lanesum 0.1.0 plan: two_shot_push on path peer",
        "67,108,864",
        "islands of ranks: 0 1 | 2 3",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    let cut = dump("56-10x2080Ti-nvlink-pix-node-TRUNCATED.txt");
    let error = refused(&["plan", "--topology", &cut]);
    assert!(
        error.contains("line 5, column 1: the end of the text instead of the row of GPU3"),
        "{error}"
    );
    assert!(error.contains("hint: "), "{error}");
    let two = [
        dump("24-3xA6000-nvlink-pair-plus-one.txt"),
        dump("25-4gpu-pix-phb-plx-lmdeploy.txt"),
    ];
    let error = refused(&["plan", "--topology", &two[0], "--topology", &two[1]]);
    assert!(error.contains("has 3 GPUs") && error.contains("has 4"), "{error}");
    assert!(refused(&["plan", "--topology", "/no/such/file"]).contains("/no/such/file"));
    assert!(refused(&["plan"]).contains("--topology"));
    assert!(refused(&["plan", "--preset", "no-such-box"]).contains("no-such-box"));
    for wrong in [
        ["--gpus", "0,9"],
        ["--gpus", "1,1"],
        ["--ranks", "5"],
        ["--bytes", "3"],
        ["--pcie", "gen5x3"],
        ["--pcie", "5x16"],
    ] {
        let error = refused(&["plan", "--topology", &two[1], wrong[0], wrong[1]]);
        assert!(error.contains(wrong[0]), "{error}");
    }
}

#[test]
fn gpus_are_named_by_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.txt").display().to_string();
    let text = "\tGPU2\tGPU5\tGPU7\nGPU2\t X \tPIX\tSYS\nGPU5\tPIX\t X \tSYS\nGPU7\tSYS\tSYS\t X \n";
    std::fs::write(&file, text).unwrap();
    let plan = json(&["plan", "--topology", &file, "--gpus", "7,2", "--json"]);
    assert_eq!(
        (&plan["gpus"][0]["gpu"], &plan["gpus"][1]["gpu"]),
        (&"GPU7".into(), &"GPU2".into())
    );
    assert_eq!(plan["pairs"][0]["link"], "SYS");
    assert!(refused(&["plan", "--topology", &file, "--gpus", "3"]).contains("2, 5, 7"));
    let best = json(&["plan", "--topology", &file, "--ranks", "2", "--json"]);
    assert_eq!(best["gpus"][1]["gpu"], "GPU5");
}

#[test]
fn more_choices_than_can_be_weighed_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("many.txt").display().to_string();
    let names: Vec<String> = (0..24).map(|gpu| format!("GPU{gpu}")).collect();
    let row = |own: usize| {
        let cells = (0..24).map(|gpu| if gpu == own { " X " } else { "SYS" });
        cells.collect::<Vec<_>>().join("\t")
    };
    let rows: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(own, name)| format!("{name}\t{}", row(own)))
        .collect();
    std::fs::write(&file, format!("\t{}\n{}\n", names.join("\t"), rows.join("\n"))).unwrap();
    assert!(refused(&["plan", "--topology", &file, "--ranks", "8"]).contains("--gpus"));
    assert!(refused(&["plan", "--topology", &file]).contains("at most 16"));
    assert_eq!(
        json(&["plan", "--topology", &file, "--ranks", "3", "--json"])["ranks"],
        3
    );
}

#[test]
fn only_algorithms_of_gpus_can_be_asked_for() {
    let error = refused(&["plan", "--preset", "rtx5090x2", "--policy", "one_shot_pull"]);
    assert!(error.contains("one_shot_push"), "{error}");
    let plan = json(&["plan", "--preset", "rtx5090x2", "--policy", "two_shot_push", "--json"]);
    assert_eq!(plan["decision"]["algorithm"], "two_shot_push");
    // The path that is not taken says what it would take.
    let other = plan["other_path"].as_str().unwrap();
    assert!(other.contains("host_staged (predicted "), "{other}");
}

#[test]
fn a_tree_that_is_not_the_matrix_is_remarked() {
    let matrix = dump("18-8xTITANV-old-no-numa-column.txt");
    let tree = dump("hw-02-lspci-vvv-esc8000a-8xPRO6000-ABRIDGED.txt");
    let plan = json(&["plan", "--topology", &matrix, "--lspci", &tree, "--json"]);
    assert!(
        plan["remarks"].to_string().contains("the matrix says"),
        "{}",
        plan["remarks"]
    );
    let matrix = dump("12-8xPRO6000-dual-epyc-vswitch-ansi-raw.txt");
    let same = json(&["plan", "--topology", &matrix, "--lspci", &tree, "--json"]);
    assert_eq!(same["remarks"], serde_json::json!([]));
    assert_eq!(same["gpus"][0]["pcie"], "Gen5 x16");
}

#[test]
fn a_page_holds_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = folder.path().join("a<b>&c.txt").display().to_string();
    std::fs::copy(dump("01-2x5090-phb-wrx80.txt"), &matrix).unwrap();
    let page = folder.path().join("box.html").display().to_string();
    let peers = dump("01-2x5090-phb-wrx80.p2p-rw.txt");
    json(&[
        "plan",
        "--topology",
        &matrix,
        "--p2p",
        &peers,
        "--report",
        &page,
        "--json",
    ]);
    let html = std::fs::read_to_string(&page).unwrap();
    for part in [
        "<!doctype html>",
        "one_shot_push on path host_staged",
        "a&lt;b&gt;&amp;c.txt",
        "<td class=\"PHB refused\">PHB ",
        "<svg class=\"tree\"",
        "rank 1: GPU1",
        "GNS: GPU not supported",
        "<svg ",
        "<td>67,108,864</td>",
        "How to read this",
    ] {
        assert!(html.contains(part), "{part}");
    }
    whole(&html);
    // Also of one rank, of many, and where nothing may run.
    for arguments in [&["--gpus", "0"][..], &["--policy", "peer"]] {
        let mut all = vec!["plan", "--topology", &matrix, "--p2p", &peers, "--report", &page];
        all.extend(arguments);
        assert!(run(&all).status.code().is_some_and(|code| code < 2));
        whole(&std::fs::read_to_string(&page).unwrap());
    }
    let output = run(&["plan", "--topology", &matrix, "--report", "/no/such/folder/box.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("/no/such/folder/box.html")
    );
}

/// Of `lspci` the bridges are drawn, of labels the groups, and NVLinks beside both.
#[test]
fn a_page_has_the_tree_with_its_links() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("box.html").display().to_string();
    let html = |name: &str| {
        json(&["plan", "--topology", &dump(name), "--report", &page, "--json"]);
        let html = std::fs::read_to_string(&page).unwrap();
        whole(&html);
        html
    };
    let tree = html("hw-02-lspci-vvv-esc8000a-8xPRO6000-ABRIDGED.txt");
    for part in [
        ">NUMA node 1</text>",
        ">host bridge 0000:00</text>",
        ">root port 0000:00:01.1</text>",
        ">switch 0000:01:00.0</text>",
    ] {
        assert_eq!(tree.matches(part).count(), 1, "{part}");
    }
    // Of eight GPUs, and of the four switches above them.
    assert_eq!(tree.matches(">Gen5 x16</text>").count(), 12);
    assert_eq!(tree.matches("class=\"edge shared\"").count(), 4);
    let labels = html("39-8xL40-4v4-pix-sys.txt");
    assert_eq!(labels.matches(">PIX</text>").count(), 2);
    assert_eq!(labels.matches("class=\"rank\"").count(), 8);
    let pairs = html("27-4gpu-nv12-pairs-four-numa.txt");
    assert_eq!(pairs.matches("class=\"nvlink\"").count(), 2);
    assert!(html("66-8xH100-nv18-10nic-TRUNCATED.txt").contains("each to each: NV18"));
}

#[test]
fn presets_are_boxes_that_plan_knows() {
    let list = json(&["presets", "--json"]);
    let presets = list["presets"].as_array().unwrap();
    assert!(presets.len() >= 6);
    for preset in presets {
        let name = preset["name"].as_str().unwrap();
        assert!(!preset["source"].as_str().unwrap().is_empty());
        let plan = json(&["plan", "--preset", name, "--json"]);
        assert!(plan["decision"]["algorithm"].is_string(), "{name}");
    }
    let table = String::from_utf8(run(&["presets"]).stdout).unwrap();
    assert_eq!(table.lines().count(), presets.len() + 1);
}

#[test]
fn another_library_is_handed_messages_only_if_that_is_asked_for() {
    let plan = |policy: &str, bytes: &str| {
        json(&[
            "plan",
            "--preset",
            "pro6000x8-epyc",
            "--policy",
            policy,
            "--bytes",
            bytes,
            "--json",
        ])
    };
    let short = plan("fastest", "43008");
    assert_eq!(short["decision"]["engine"], "cuda");
    assert_eq!(short["decision"]["algorithm"], "two_shot_push");
    let from = short["delegate_from_bytes"].as_u64().unwrap();
    let long = plan("fastest", &from.to_string());
    assert_eq!(long["decision"]["engine"], "delegate");
    assert_eq!(long["decision"]["algorithm"], "nccl");
    let parts = &long["decision"]["parts"];
    let sum: f64 = ["launch_us", "waits_us", "moves_us", "sums_us"]
        .iter()
        .map(|part| parts[part].as_f64().unwrap())
        .sum();
    assert!((sum - long["decision"]["predicted_us"].as_f64().unwrap()).abs() < 1e-6);
    let exact = plan("exact", &from.to_string());
    assert_eq!(exact["decision"]["algorithm"], "two_shot_push");
    assert!(exact["delegate_from_bytes"].is_null());
    // What is not built yet is told with what it would take.
    let named = |name: &str| {
        let alternatives = exact["alternatives"].as_array().unwrap();
        alternatives
            .iter()
            .find(|other| other["algorithm"] == name)
            .unwrap()
            .clone()
    };
    assert!(
        named("island_two_shot")["refused"]
            .as_str()
            .unwrap()
            .contains("not built yet")
    );
    assert!(named("nccl")["refused"].as_str().unwrap().contains("policy exact"));
}

/// More GPUs than kernels serve: there is a plan all the same, and it says where it sums.
#[test]
fn sixteen_gpus_sum_in_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sixteen.txt").display().to_string();
    let names: Vec<String> = (0..16).map(|gpu| format!("GPU{gpu}")).collect();
    let label = |one: usize, other: usize| match (one == other, one / 8 == other / 8) {
        (true, _) => " X ",
        (false, true) => "NODE",
        (false, false) => "SYS",
    };
    let row = |one| (0..16).map(|other| label(one, other)).collect::<Vec<_>>().join("\t");
    let rows: Vec<String> = (0..16).map(|one| format!("GPU{one}\t{}", row(one))).collect();
    std::fs::write(&file, format!("\t{}\n{}\n", names.join("\t"), rows.join("\n"))).unwrap();
    let plan = json(&["plan", "--topology", &file, "--sweep", "--json"]);
    assert_eq!(plan["decision"]["engine"], "host");
    assert_eq!(plan["decision"]["path"], "shared_memory");
    assert!(
        plan["remarks"].to_string().contains("at most 8 ranks"),
        "{}",
        plan["remarks"]
    );
    assert!(
        plan["alternatives"]
            .to_string()
            .contains("kernels serve at most 8 ranks")
    );
    let lengths = plan["sweep"].as_array().unwrap();
    assert!(
        lengths.iter().all(|length| length["algorithm"].is_string()),
        "{lengths:?}"
    );
    // Who insists on GPUs gets the reason, and no plan.
    let output = run(&["plan", "--topology", &file, "--policy", "host_staged"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn words_of_the_policy_add_up_or_are_refused() {
    let error = refused(&["plan", "--preset", "rtx5090x2", "--policy", "peer,avoid_peer"]);
    assert!(error.contains("gainsay"), "{error}");
    let error = refused(&["plan", "--preset", "rtx5090x2", "--policy", "quickest"]);
    assert!(error.contains("fastest"), "{error}");
    let us = |policy: &str| {
        let arguments = [
            "plan",
            "--preset",
            "rtx5090x2",
            "--policy",
            policy,
            "--bytes",
            "4MiB",
            "--json",
        ];
        json(&arguments)["decision"]["predicted_us"].as_f64().unwrap()
    };
    // Little memory wants many exchanges.
    assert!(us("least_memory") > 2.0 * us("exact"));
    let avoided = json(&["plan", "--preset", "rtx5090x2", "--policy", "avoid_peer", "--json"]);
    assert_eq!(avoided["decision"]["path"], "host_staged");
}

#[test]
fn measured_copies_count_for_more_than_labels() {
    let plan = |file: &str| json(&["plan", "--bandwidth", &dump(file), "--json"]);
    let gate = |plan: &serde_json::Value, name: &str| {
        let gates = plan["gates"].as_array().unwrap();
        gates.iter().find(|gate| gate["name"] == name).unwrap().clone()
    };
    // A translating IOMMU: copies reach 11 GB/s, whatever the slots can, and words take 9 us and more.
    let slow = "hw-06-p2pbw-4gpu-7955wx-iommu-on-p2p-enabled-but-slow.txt";
    let redirected = plan(slow);
    assert_eq!(redirected["decision"]["path"], "host_staged");
    assert!(
        redirected["other_path"].as_str().unwrap().contains("takes 17.8 us"),
        "{redirected}"
    );
    // With the same through the host, and faster there, that is the path.
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.txt").display().to_string();
    let table = std::fs::read_to_string(dump(slow)).unwrap();
    let rows = table
        .lines()
        .take(6)
        .map(|row| row.replace("P2P=Enabled", "P2P=Disabled").replace("11.", "31."));
    let through_host: Vec<String> = rows.map(|row| row.replace(" (P2P Writes)", "")).collect();
    let copies: Vec<&str> = table.lines().take(6).collect();
    std::fs::write(&both, format!("{}\n{}\n", through_host.join("\n"), copies.join("\n"))).unwrap();
    let redirected = json(&["plan", "--bandwidth", &both, "--json"]);
    assert_eq!(redirected["decision"]["path"], "host_staged");
    assert!(
        redirected["other_path"]
            .as_str()
            .unwrap()
            .contains("GB/s with peer access")
    );
    assert_eq!(gate(&redirected, "peer_rate")["verdict"], "no");
    assert!(gate(&redirected, "peer_rate")["remedy"].is_string());
    // Of two pairs with NVLinks the near ones are found without a matrix.
    let paired = plan("hw-12-p2pbw-4gpu-two-nvlink-pairs-plus-pcie.txt");
    assert_eq!(paired["islands"], serde_json::json!([[0, 1], [2, 3]]));
}
