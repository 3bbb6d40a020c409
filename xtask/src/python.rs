//! `cargo xtask python`: the Python package, built and installed as users do it, then its tests; or the wheel for other machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::error::XtaskError;
use crate::process;
use crate::test;
use crate::workspace::Workspace;

/// Where wheels have to run: every distribution since 2014. Rust's own standard library needs as much.
const OLDEST: &str = "x86_64-unknown-linux-gnu.2.17";

/// The wheel holds two programs, compiled without hurry.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// What to do.
#[derive(clap::Args)]
pub struct Arguments {
    /// Build the wheel for other machines (manylinux2014) into target/python/dist instead, and try it in an environment of its own
    #[arg(long)]
    wheel: bool,
}

/// Runs the tests, or builds the wheel.
///
/// # Errors
/// Python, pip or a compiler is missing or fails.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    if arguments.wheel {
        return wheel(workspace);
    }
    test::python_alone(workspace)
}

/// An environment of Python below the target folder.
pub struct Environment {
    folder: PathBuf,
    root: PathBuf,
}

impl Environment {
    /// That of this name; it need not be there yet.
    pub fn named(workspace: &Workspace, name: &str) -> Self {
        Self::at(workspace, workspace.target().join("python").join(name))
    }

    /// That of this folder; it need not be there yet.
    pub fn at(workspace: &Workspace, folder: PathBuf) -> Self {
        Self {
            folder,
            root: workspace.root().to_owned(),
        }
    }

    /// What makes it, if it is not there.
    pub fn make(&self) -> Option<Command> {
        if self.folder.join("bin/pip").is_file() {
            return None;
        }
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(&self.folder);
        Some(command)
    }

    /// One of its programs, with these words.
    pub fn program(&self, name: &str, words: &[&str]) -> Command {
        let bin = self.folder.join("bin");
        let mut command = Command::new(bin.join(name));
        command
            .args(words)
            .current_dir(&self.root)
            .env("PATH", before_path(&bin))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// pip, with these words.
    pub fn pip(&self, words: &[&str]) -> Command {
        let mut command = self.program("pip", &["--disable-pip-version-check"]);
        command.args(words);
        command
    }
}

/// The search path of programs with a folder in front.
fn before_path(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}

fn wheel(workspace: &Workspace) -> Result<ExitCode, XtaskError> {
    let builder = Environment::named(workspace, "venv");
    if let Some(mut command) = builder.make() {
        process::aloud(DEADLINE, &mut command)?;
    }
    process::aloud(
        DEADLINE,
        &mut builder.pip(&["install", "--quiet", "maturin>=1.9.4,<2", "ziglang", "cargo-zigbuild"]),
    )?;
    let dist = workspace.target().join("python/dist");
    let target = format!("target={OLDEST}");
    let words = [
        "wheel",
        ".",
        "--no-build-isolation",
        "--no-deps",
        "--config-settings",
        &target,
        "--wheel-dir",
    ];
    process::aloud(DEADLINE, builder.pip(&words).arg(&dist))?;
    let clean = Environment::named(workspace, "clean");
    if let Some(mut command) = clean.make() {
        process::aloud(DEADLINE, &mut command)?;
    }
    let words = ["install", "--quiet", "--no-index", "--force-reinstall", "--find-links"];
    process::aloud(DEADLINE, clean.pip(&words).arg(&dist).arg("lanesum"))?;
    process::aloud(
        DEADLINE,
        &mut clean.program(
            "python",
            &["-c", "import lanesum; lanesum.Communicator(0, 1, 'smoke').close()"],
        ),
    )?;
    process::aloud(
        DEADLINE,
        &mut clean.program("lanesum", &["verify-cycle", "--ranks", "2", "--cycles", "2"]),
    )?;
    println!("the wheel is in {}", dist.display());
    Ok(ExitCode::SUCCESS)
}
