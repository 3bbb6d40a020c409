//! `cargo xtask fuzz`: inputs that nobody thought of, for whatever reads text from outside.
//!
//! Optional, and no part of the tests or of CI: it needs nightly Rust and cargo-fuzz, and says so where they are missing. What it finds
//! becomes a test of the room that reads, with the right value.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum;

use crate::error::XtaskError;
use crate::process::{self, Next};
use crate::workspace::Workspace;

/// The real dumps: what fuzzing begins with.
const DUMPS: &str = "crates/lanesum-probe/tests/data";
/// A text that takes longer hangs.
const SLOW_SECONDS: &str = "10";
/// Real dumps are longer, and cut to this: ten times as many short texts are tried in the time, and reach more.
const MOST_BYTES: usize = 1_500;
/// No word or tree is.
const MOST_LETTERS: usize = 200;
/// Building, starting and reading the corpus.
const BESIDES: Duration = Duration::from_secs(15 * 60);

/// What to fuzz, and how long.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only this target; all of them, one after the other, when none is named
    #[arg(value_enum)]
    target: Option<Target>,
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Any bytes, as dumps
    Dumps,
    /// `nvidia-smi topo`
    Grid,
    /// p2pBandwidthLatencyTest
    Bandwidth,
    /// `nvidia-smi -L`
    List,
    /// `nvidia-smi -q`
    Query,
    /// `lspci -vvv`
    Listing,
    /// `lspci -tv`
    Tree,
    /// Relations, links, algorithms, processors, addresses
    Words,
    /// Reduction trees
    Notation,
}

impl Target {
    /// The name of its program, and the longest input that is worth a try.
    fn facts(self) -> (&'static str, usize) {
        match self {
            Target::Dumps => ("dumps", MOST_BYTES),
            Target::Grid => ("grid", MOST_BYTES),
            Target::Bandwidth => ("bandwidth", MOST_BYTES),
            Target::List => ("list", MOST_BYTES),
            Target::Query => ("query", MOST_BYTES),
            Target::Listing => ("listing", MOST_BYTES),
            Target::Tree => ("tree", MOST_BYTES),
            Target::Words => ("words", MOST_LETTERS),
            Target::Notation => ("notation", MOST_LETTERS),
        }
    }
}

/// Runs them.
///
/// # Errors
/// Nightly Rust or cargo-fuzz is missing, or a target found something.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    look_for_tools()?;
    let targets = match &arguments.target {
        Some(target) => std::slice::from_ref(target),
        None => Target::value_variants(),
    };
    for target in targets {
        fuzz(workspace, *target, arguments.seconds)?;
    }
    println!("nothing was found");
    Ok(ExitCode::SUCCESS)
}

fn look_for_tools() -> Result<(), XtaskError> {
    for (tool, words) in [
        ("nightly Rust", ["+nightly", "--version"]),
        ("cargo-fuzz", ["fuzz", "--version"]),
    ] {
        let mut command = Command::new("cargo");
        command.args(words);
        if let Err(error) = process::capture(&mut command, Duration::from_secs(60)) {
            return Err(XtaskError::NoFuzzing {
                tool,
                reason: error.to_string(),
            });
        }
    }
    Ok(())
}

fn fuzz(workspace: &Workspace, target: Target, seconds: u32) -> Result<(), XtaskError> {
    let folder = workspace.root().join("fuzz");
    let mut command = command(workspace.root(), target, seconds);
    command.current_dir(&folder);
    println!("{}", process::describe(&command));
    let (name, _) = target.facts();
    // What is found is kept there, beside the sources, and is no part of them.
    let corpus = folder.join("corpus").join(name);
    std::fs::create_dir_all(&corpus).map_err(|source| XtaskError::File {
        action: "make",
        path: corpus,
        source,
    })?;
    let mut lines = Vec::new();
    let deadline = BESIDES + Duration::from_secs(u64::from(seconds));
    let outcome = process::follow(&mut command, deadline, &mut |line| {
        // It tells of each step; people want to know that it goes on, and what it found.
        let step = line.starts_with('#') && !line.contains("pulse") && !line.contains("DONE");
        if !step {
            println!("  {line}");
            lines.push(line.to_owned());
        }
        Next::Continue
    })?;
    if outcome.success() {
        return Ok(());
    }
    Err(process::failure(&command, outcome, &lines))
}

fn command(root: &Path, target: Target, seconds: u32) -> Command {
    let (name, most) = target.facts();
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", "run", name]);
    command.arg(format!("corpus/{name}"));
    if most == MOST_BYTES {
        command.arg(root.join(DUMPS));
    }
    command.args(["--", "-dict=words.dict"]);
    command.args([format!("-max_total_time={seconds}"), format!("-max_len={most}")]);
    command.arg(format!("-timeout={SLOW_SECONDS}"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifest is no part of the workspace, so nothing else would notice.
    #[test]
    fn every_target_has_its_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("the manifest");
        for target in Target::value_variants() {
            let (name, _) = target.facts();
            assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
            assert!(folder.join(format!("targets/{name}.rs")).is_file(), "{name}");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), Target::value_variants().len());
    }
}
