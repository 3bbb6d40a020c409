//! `cargo xtask snapshots`: what `lanesum plan` says of every dump that people sent, and of every preset.
//!
//! A change of the cost model or of a gate changes plans of machines that nobody has at hand. Kept as text, such a change is seen in
//! review, machine by machine. Each file begins with its command, so that the test that compares them needs no list of its own; this
//! chore is what makes the commands.

mod said;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde::Deserialize;

use crate::error::XtaskError;
use crate::process::{self, Next, Outcome};
use crate::workspace::Workspace;

/// Where the dumps lie; commands run there, so that no path of this machine is in what they say.
const DUMPS: &str = "crates/lanesum-probe/tests/data";
const SNAPSHOTS: &str = "crates/lanesum-cli/tests/snapshots";

/// Of all GPUs, the sum of a verify step.
const REQUEST: &str = "--bytes 43008 --dtype bf16";

/// A plan takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(60);
const BUILD_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// The part of `lanesum presets --json` that is used here.
#[derive(Deserialize)]
struct Presets {
    presets: Vec<Preset>,
}

#[derive(Deserialize)]
struct Preset {
    name: String,
}

/// Writes all of them anew.
///
/// # Errors
/// The program can't be built or run, or a file can't be read or written.
pub fn run(workspace: &Workspace) -> Result<ExitCode, XtaskError> {
    let build = ["build", "--quiet", "--package", "lanesum-cli"];
    process::capture(&mut workspace.cargo(&build), BUILD_DEADLINE)?;
    let folder = workspace.root().join(SNAPSHOTS);
    let mut commands = of_dumps(&files(&workspace.root().join(DUMPS))?);
    commands.extend(of_presets(workspace)?);
    let mut changed = 0;
    for (name, command) in &commands {
        let text = told(workspace, command)?;
        let path = folder.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|former| former == text) {
            continue;
        }
        Workspace::write(&path, &text)?;
        println!("wrote {name}");
        changed += 1;
    }
    for stray in files(&folder)?.iter().filter(|name| !commands.contains_key(*name)) {
        let path = folder.join(stray);
        std::fs::remove_file(&path).map_err(|source| XtaskError::file("remove", &path, source))?;
        println!("removed {stray}");
    }
    println!(
        "{changed} of {} snapshots in {SNAPSHOTS} are new or changed",
        commands.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// A snapshot for each dump. One of peers is told with the matrix of its machine, where there is one.
fn of_dumps(files: &[String]) -> BTreeMap<String, String> {
    let dumps = files.iter().filter(|name| name.ends_with(".txt"));
    let command = |dump: &String| {
        let matrix = dump.split_once(".p2p-").map(|(machine, _)| format!("{machine}.txt"));
        let inputs = match matrix.filter(|matrix| files.contains(matrix)) {
            Some(matrix) => format!("--topology {matrix} --p2p {dump}"),
            None => format!("--topology {dump}"),
        };
        (dump.clone(), format!("lanesum plan {inputs} {REQUEST}"))
    };
    dumps.map(command).collect()
}

fn of_presets(workspace: &Workspace) -> Result<BTreeMap<String, String>, XtaskError> {
    let mut command = Command::new(workspace.built("debug", "lanesum"));
    command.args(["presets", "--json"]);
    let lines = process::capture(&mut command, DEADLINE)?;
    let Ok(list) = serde_json::from_str::<Presets>(&lines.join("\n")) else {
        return Err(XtaskError::Unreadable {
            command: process::describe(&command),
            wanted: "list of presets",
            last_lines: process::last_lines(&lines),
        });
    };
    let command = |preset: Preset| {
        let Preset { name } = preset;
        (
            format!("preset-{name}.txt"),
            format!("lanesum plan --preset {name} {REQUEST}"),
        )
    };
    Ok(list.presets.into_iter().map(command).collect())
}

/// Runs it among the dumps. A refusal is worth a snapshot, too.
fn told(workspace: &Workspace, command: &str) -> Result<String, XtaskError> {
    let mut program = Command::new(workspace.built("debug", "lanesum"));
    program
        .args(command.split(' ').skip(1))
        .current_dir(workspace.root().join(DUMPS));
    let mut said = String::new();
    let outcome = process::follow(&mut program, DEADLINE, &mut |line| {
        said.push_str(line);
        said.push('\n');
        Next::Continue
    })?;
    let code = match outcome {
        Outcome::Exited(status) => status.code(),
        Outcome::CutShort => None,
    };
    Ok(said::snapshot(command, &said, code))
}

/// The names of the files of a folder, in order; none, where there is no folder yet.
fn files(folder: &Path) -> Result<Vec<String>, XtaskError> {
    if !folder.is_dir() {
        return Ok(vec![]);
    }
    let entries = std::fs::read_dir(folder).map_err(|source| XtaskError::file("read", folder, source))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| XtaskError::file("read", folder, source))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_of_peers_comes_with_its_matrix() {
        let files = ["1.p2p-rw.txt", "1.txt", "2.p2p-r.txt", "2.expected"].map(str::to_owned);
        let commands = of_dumps(&files);
        assert_eq!(commands.len(), 3);
        assert!(commands["1.p2p-rw.txt"].contains("--topology 1.txt --p2p 1.p2p-rw.txt "));
        assert!(commands["2.p2p-r.txt"].contains("--topology 2.p2p-r.txt "));
    }
}
