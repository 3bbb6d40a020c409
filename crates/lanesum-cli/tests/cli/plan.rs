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
    let gate = plan["gates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|gate| gate["name"] == "peer_access")
        .unwrap();
    assert_eq!(gate["verdict"], "no");
    assert!(gate["remedy"].is_string());
    // Who insists on peer access has no plan, and the reason.
    let output = run(&["plan", "--topology", &matrix, "--p2p", &peers, "--path", "peer"]);
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
    let error = refused(&["plan", "--preset", "rtx5090x2", "--algorithm", "one_shot_pull"]);
    assert!(error.contains("one_shot_push"), "{error}");
    let plan = json(&[
        "plan",
        "--preset",
        "rtx5090x2",
        "--algorithm",
        "two_shot_push",
        "--json",
    ]);
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
    for arguments in [&["--gpus", "0"][..], &["--path", "peer"]] {
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
