//! The wheels for other machines: built with zig for every distribution since 2014, and the one for this machine tried in an
//! environment that has nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::error::XtaskError;
use crate::process;
use crate::python::Environment;
use crate::workspace::Workspace;

/// The systems that have a wheel, as Rust and as wheels call them.
const SYSTEMS: [(&str, &str); 2] = [
    ("x86_64-unknown-linux-gnu", "manylinux2014_x86_64"),
    ("aarch64-unknown-linux-gnu", "manylinux2014_aarch64"),
];

/// The C library of these distributions. Rust's own standard library needs as much.
const GLIBC: &str = "2.17";

/// A wheel holds two programs, compiled without hurry.
pub const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// What became of the systems.
pub struct Built {
    /// Wheels that were built, and tried where that is possible.
    pub wheels: u64,
    /// Systems whose standard library of Rust is not installed.
    pub missing: u64,
}

/// Builds the wheels that users get.
///
/// # Errors
/// As [`build`].
pub fn release(workspace: &Workspace) -> Result<ExitCode, XtaskError> {
    let dist = workspace.target().join("python/dist");
    build(workspace, "release", &dist, &mut |command| {
        process::aloud(DEADLINE, command)
    })?;
    println!("the wheels are in {}", dist.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds a wheel for each system with one of cargo's profiles, and tries this machine's.
///
/// # Errors
/// Python, pip, zig or a compiler is missing or fails, or a wheel is not what it should be.
pub fn build(
    workspace: &Workspace,
    profile: &str,
    dist: &Path,
    run: &mut dyn FnMut(&mut Command) -> Result<(), XtaskError>,
) -> Result<Built, XtaskError> {
    let builder = Environment::named(workspace, "builder");
    if let Some(mut command) = builder.make() {
        run(&mut command)?;
    }
    run(&mut builder.pip(&["install", "--quiet", "maturin>=1.9.4,<2", "ziglang", "cargo-zigbuild"]))?;
    let mut built = Built { wheels: 0, missing: 0 };
    for (triple, tag) in SYSTEMS {
        if !Workspace::has_standard_library(triple) {
            println!("    no standard library for {triple}; `rustup target add {triple}` brings it");
            built.missing += 1;
            continue;
        }
        let wheel = for_system(&builder, profile, (triple, tag), dist, run)?;
        if triple.starts_with(std::env::consts::ARCH) {
            try_it(workspace, &wheel, run)?;
        }
        built.wheels += 1;
    }
    Ok(built)
}

fn for_system(
    builder: &Environment,
    profile: &str,
    (triple, tag): (&str, &str),
    dist: &Path,
    run: &mut dyn FnMut(&mut Command) -> Result<(), XtaskError>,
) -> Result<PathBuf, XtaskError> {
    let folder = dist.join(tag);
    // An older wheel there would be taken for the new one.
    Workspace::clear(&folder)?;
    let settings = [format!("profile={profile}"), format!("target={triple}.{GLIBC}")];
    let mut command = builder.pip(&["wheel", ".", "--no-build-isolation", "--no-deps"]);
    for setting in &settings {
        command.args(["--config-settings", setting]);
    }
    run(command.arg("--wheel-dir").arg(&folder))?;
    let wheels = Workspace::files_in(&folder)?;
    let named = |path: &&PathBuf| path.to_string_lossy().contains(&format!("abi3-{tag}"));
    wheels.iter().find(named).cloned().ok_or(XtaskError::NothingRun {
        step: "wheels",
        expected: "a wheel of abi3 whose name has the tag of its system",
    })
}

/// Installs the wheel where nothing else is, and runs both of its programs.
fn try_it(
    workspace: &Workspace,
    wheel: &Path,
    run: &mut dyn FnMut(&mut Command) -> Result<(), XtaskError>,
) -> Result<(), XtaskError> {
    let clean = Environment::named(workspace, "clean");
    if let Some(mut command) = clean.make() {
        run(&mut command)?;
    }
    let words = ["install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"];
    run(clean.pip(&words).arg(wheel))?;
    let program = "import lanesum; print(lanesum.Communicator(0, 1, 'smoke').barrier())";
    run(&mut clean.program("python", &["-c", program]))?;
    run(&mut clean.program("lanesum", &["verify-cycle", "--ranks", "2", "--cycles", "2"]))
}
