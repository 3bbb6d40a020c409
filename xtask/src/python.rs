//! `cargo xtask python`: the Python package, built and installed as users do it, then its tests; or the wheel for other machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::error::XtaskError;
use crate::test;
use crate::wheels;
use crate::workspace::Workspace;

/// What to do.
#[derive(clap::Args)]
pub struct Arguments {
    /// Build the wheels for other machines (manylinux2014, x86-64 and aarch64) into target/python/dist instead, and try this machine's in
    /// an environment of its own
    #[arg(long)]
    wheel: bool,
}

/// Runs the tests, or builds the wheel.
///
/// # Errors
/// Python, pip or a compiler is missing or fails.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    if arguments.wheel {
        return wheels::release(workspace);
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
