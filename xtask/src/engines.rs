//! `cargo xtask engines`: do the plug-ins still fit the engines? Below target/engines, of which nothing becomes part of lanesum.
//!
//! For each engine the sources of the version that its plug-in knows, and of the newest one that is published, are compared with
//! what the plug-in needs; then the plug-in's tests run with the version that it knows. Not in CI: an engine is 10 GB, and a new
//! version of it is not a fault of lanesum.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum;

use crate::error::XtaskError;
use crate::process::{self, Next};
use crate::python::Environment;
use crate::workspace::Workspace;

/// An engine comes with a whole torch.
const DEADLINE: Duration = Duration::from_secs(2 * 60 * 60);

/// Compares sources.
const CHECK: &str = "python/tests/engines_check.py";

/// Which engines to look at.
#[derive(clap::Args)]
pub struct Arguments {
    /// Those to look at; all of them by default
    #[arg(value_enum)]
    names: Vec<Engine>,
    /// Compare the sources only, without installing the engines
    #[arg(long)]
    no_tests: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Vllm,
    Sglang,
}

impl Engine {
    /// Its name on PyPI, and that of its tests.
    fn name(self) -> &'static str {
        match self {
            Engine::Vllm => "vllm",
            Engine::Sglang => "sglang",
        }
    }
}

/// A line of the table.
struct Row {
    engine: Engine,
    what: &'static str,
    fits: bool,
    lines: Vec<String>,
}

/// Looks at the engines and prints a table.
///
/// # Errors
/// Python or pip is missing or fails. A plug-in that does not fit is a failing exit code.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    let engines = match arguments.names.as_slice() {
        [] => Engine::value_variants(),
        names => names,
    };
    // Beside the sources, wherever cargo builds, like the peers.
    let place = workspace.root().join("target/engines");
    let mut rows = Vec::new();
    for &engine in engines {
        let environment = with_lanesum(workspace, &place.join(engine.name()))?;
        let tried = process::capture(&mut environment.program("python", &[CHECK, engine.name()]), DEADLINE)?.concat();
        let known = format!("{}=={tried}", engine.name());
        for (what, wanted) in [("known", known.as_str()), ("newest", engine.name())] {
            let folder = place.join("wheels").join(format!("{}-{what}", engine.name()));
            rows.push(sources(&environment, engine, what, wanted, &folder)?);
        }
        if !arguments.no_tests {
            rows.push(in_the_engine(&environment, engine, &known)?);
        }
    }
    print_table(&rows);
    let fits = rows.iter().all(|row| row.fits);
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An environment with lanesum and what its tests need.
fn with_lanesum(workspace: &Workspace, folder: &Path) -> Result<Environment, XtaskError> {
    let environment = Environment::at(workspace, folder.to_owned());
    if let Some(mut command) = environment.make() {
        process::aloud(DEADLINE, &mut command)?;
    }
    let tools = ["install", "--quiet", "--requirement", "python/tests/requirements.txt"];
    process::aloud(DEADLINE, &mut environment.pip(&tools))?;
    let package = [
        "install",
        ".",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--force-reinstall",
        "--config-settings",
        "profile=dev",
    ];
    process::aloud(DEADLINE, &mut environment.pip(&package))?;
    Ok(environment)
}

/// The sources of a version, beside what is needed.
fn sources(
    environment: &Environment,
    engine: Engine,
    what: &'static str,
    wanted: &str,
    folder: &Path,
) -> Result<Row, XtaskError> {
    // A folder holds one wheel, and the newest one changes.
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(XtaskError::file("remove", folder, error));
    }
    let words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"];
    process::aloud(DEADLINE, environment.pip(&words).arg(folder).arg(wanted))?;
    let mut check = environment.program("python", &[CHECK, engine.name()]);
    row(engine, what, check.arg(folder))
}

/// The plug-in's tests, in the engine itself.
fn in_the_engine(environment: &Environment, engine: Engine, known: &str) -> Result<Row, XtaskError> {
    process::aloud(DEADLINE, &mut environment.pip(&["install", known]))?;
    let file = format!("python/tests/test_{}.py", engine.name());
    let words = ["-q", "--color=no", "-p", "no:cacheprovider", &file];
    let mut row = row(engine, "tests", &mut environment.program("pytest", &words))?;
    if row.fits {
        // What passed is one line; what failed is all that pytest says of it.
        row.lines.drain(..row.lines.len().saturating_sub(1));
    }
    Ok(row)
}

fn row(engine: Engine, what: &'static str, command: &mut Command) -> Result<Row, XtaskError> {
    let mut lines = Vec::new();
    let outcome = process::follow(command, DEADLINE, &mut |line| {
        lines.push(line.to_owned());
        Next::Continue
    })?;
    let fits = outcome.success();
    Ok(Row {
        engine,
        what,
        fits,
        lines,
    })
}

fn print_table(rows: &[Row]) {
    for row in rows {
        let verdict = if row.fits { "fits" } else { "DIFFERS" };
        println!(
            "{:8} {:8} {verdict:8} {}",
            row.engine.name(),
            row.what,
            row.lines.join("; ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_tests_of_its_own() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/tests");
        for engine in Engine::value_variants() {
            assert!(tests.join(format!("test_{}.py", engine.name())).is_file(), "{engine:?}");
        }
    }
}
