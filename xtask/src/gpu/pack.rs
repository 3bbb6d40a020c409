//! The folder that goes to the machine with the GPU: test binaries, the command line, the script.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::bench::machine;
use crate::error::XtaskError;
use crate::process::{self, Next, Tail};
use crate::workspace::Workspace;

/// The script's name in the folder.
pub const SCRIPT: &str = "run.sh";
pub const SCRIPT_TEXT: &str = include_str!("run.sh");

/// Which commit the programs are of.
const COMMIT: &str = "commit";

const README: &str = "\
lanesum's tests for a machine with NVIDIA GPUs and without Rust: Linux on the processor that this was packed on, bash, nvidia-smi,
the driver's libcuda.so.1, nvidia-cuda-mps-control and compute-sanitizer.

    bash run.sh OUT                      all steps; logs and summary.jsonl go to the folder OUT
    bash run.sh OUT conformance kills    only these
    bash run.sh --gpus 4 OUT             fails where there are fewer GPUs

It ends with 0 only if every step passed. Bring OUT back: `cargo xtask gpu --record FILE --from OUT` makes a record of it.
";

const BUILD_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// The package whose tests are packed, and how their names begin.
const PACKAGE: &str = "lanesum-conformance";
const PREFIX: &str = "cuda_";

/// Those that play with machines that only the stand-in driver has.
const STAND_IN_ONLY: [&str; 1] = ["cuda_driver"];

/// What every way of carrying it takes.
const MOST_BYTES: u64 = 60 << 20;

/// The part of cargo's messages that is used here.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds everything and fills the folder, which it returns.
///
/// # Errors
/// Something does not build, or the folder cannot be written.
pub fn make(workspace: &Workspace) -> Result<PathBuf, XtaskError> {
    let mut programs = test_binaries(workspace)?;
    let words = ["build", "--release", "--quiet", "--package", "lanesum-cli"];
    process::capture(&mut workspace.cargo(&words), BUILD_DEADLINE)?;
    programs.push(("lanesum".to_owned(), workspace.built("release", "lanesum")));

    let folder = workspace.target().join("gpu");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|source| XtaskError::file("remove", &folder, source))?;
    }
    Workspace::write(&folder.join(SCRIPT), SCRIPT_TEXT)?;
    Workspace::write(&folder.join("README"), README)?;
    if let Some(commit) = machine::commit(workspace) {
        Workspace::write(&folder.join(COMMIT), &format!("{commit}\n"))?;
    }
    let mut total = 0;
    for (name, program) in &programs {
        let bytes = copy(program, &folder.join(name))?;
        println!("{name:<24}{:>8} KiB", bytes / 1024);
        total += bytes;
    }
    if total > MOST_BYTES {
        return Err(XtaskError::PackTooLarge {
            bytes: total,
            most: MOST_BYTES,
        });
    }
    println!("{} holds {} programs and {SCRIPT}", folder.display(), programs.len());
    Ok(folder)
}

/// The test binaries for GPUs, by name.
fn test_binaries(workspace: &Workspace) -> Result<Vec<(String, PathBuf)>, XtaskError> {
    let words = [
        "test",
        "--release",
        "--no-run",
        "--quiet",
        "--message-format=json-render-diagnostics",
        "--package",
        PACKAGE,
    ];
    let mut command = workspace.cargo(&words);
    let (mut found, mut said) = (Vec::new(), Tail::default());
    let outcome = process::follow(&mut command, BUILD_DEADLINE, &mut |line| {
        found.extend(test_binary(line));
        // The messages are for programs; what the compiler says to people is shown when it fails.
        if !line.starts_with('{') {
            said.push(line);
        }
        Next::Continue
    })?;
    if !outcome.success() {
        return Err(process::failure(&command, outcome, &said.lines()));
    }
    if found.is_empty() {
        return Err(XtaskError::NothingRun {
            step: "the pack",
            expected: "test binaries of lanesum-conformance whose names begin with cuda_",
        });
    }
    // A test that is carried along and never run would look like one that passed.
    match found.iter().find(|(name, _)| !SCRIPT_TEXT.contains(name.as_str())) {
        Some((name, _)) => Err(XtaskError::NoStep { program: name.clone() }),
        None => Ok(found),
    }
}

/// The name and place of a test binary that is packed, if this line of cargo is about one.
fn test_binary(line: &str) -> Option<(String, PathBuf)> {
    let artifact: Artifact = serde_json::from_str(line).ok()?;
    let is_test = artifact.target.kind.iter().any(|kind| kind == "test");
    let name = artifact.target.name;
    let wanted = is_test && name.starts_with(PREFIX) && !STAND_IN_ONLY.contains(&name.as_str());
    wanted.then_some((name, artifact.executable?))
}

/// Copies a program without its symbols, where `strip` is there to take them out; returns its size.
fn copy(from: &Path, to: &Path) -> Result<u64, XtaskError> {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(to).arg(from);
    if process::capture(&mut strip, Duration::from_secs(60)).is_err() {
        std::fs::copy(from, to).map_err(|source| XtaskError::file("copy", from, source))?;
    }
    let about = std::fs::metadata(to).map_err(|source| XtaskError::file("read", to, source))?;
    Ok(about.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_for_gpus_are_packed() {
        let line = |name: &str, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"executable":"/t/{name}-1"}}"#
            )
        };
        assert_eq!(
            test_binary(&line("cuda_life", "test")),
            Some(("cuda_life".to_owned(), PathBuf::from("/t/cuda_life-1")))
        );
        assert_eq!(test_binary(&line("cuda_life", "bench")), None);
        assert_eq!(test_binary(&line("faults", "test")), None);
        assert_eq!(test_binary(&line("cuda_driver", "test")), None);
        assert_eq!(test_binary(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
