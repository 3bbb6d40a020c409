//! What `lanesum plan` says of every dump that people sent and of every preset, as text below tests/snapshots: a change of the cost
//! model, a gate or a word is seen there, machine by machine.

use std::collections::BTreeMap;
use std::path::Path;

use super::common::{finish, json, lanesum, run, stderr, stdout};

#[path = "../../../../xtask/src/docs/difference.rs"]
mod difference;
#[path = "../../../../xtask/src/snapshots/said.rs"]
mod said;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots");
const DUMPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lanesum-probe/tests/data");
const RENEW: &str = "if that is meant, run `cargo xtask snapshots`, look at the difference and commit it";
/// So many differences are shown; a change of the cost model changes all.
const SHOWN: usize = 5;

/// Their texts by name.
fn snapshots() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap());
    let text = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(text).collect()
}

/// The command on the first line.
fn command(text: &str) -> &str {
    let first = text.lines().next().unwrap_or_default();
    first
        .strip_prefix("$ ")
        .unwrap_or_else(|| panic!("no command: {first}"))
}

#[test]
fn plans_say_what_they_said() {
    let mut differences = Vec::new();
    for (name, kept) in snapshots() {
        let words = command(&kept);
        let arguments: Vec<&str> = words.split(' ').skip(1).collect();
        let output = finish(lanesum(&arguments).current_dir(DUMPS).spawn().unwrap());
        let text = stdout(&output) + &stderr(&output);
        let now = said::snapshot(words, &text, output.status.code());
        if now != kept {
            differences.push(format!("{name}\n{}", difference::between(&kept, &now)));
        }
    }
    assert!(
        differences.is_empty(),
        "{} snapshots differ; {RENEW}\n\n{}",
        differences.len(),
        differences[..differences.len().min(SHOWN)].join("\n\n")
    );
}

#[test]
fn every_dump_and_preset_has_a_snapshot() {
    let snapshots = snapshots();
    let all: Vec<&str> = snapshots.values().flat_map(|text| command(text).split(' ')).collect();
    let dumps = Path::new(DUMPS).read_dir().unwrap();
    let dumps = dumps.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut named: Vec<String> = dumps.filter(|name| name.ends_with(".txt")).collect();
    let presets = json(&run(&["presets", "--json"]));
    let presets = presets["presets"].as_array().unwrap().iter();
    named.extend(presets.map(|preset| preset["name"].as_str().unwrap().to_owned()));
    assert_eq!(named.len(), snapshots.len(), "{RENEW}");
    for name in named {
        assert!(all.contains(&name.as_str()), "{name}; {RENEW}");
    }
}
