//! The steps that are one cargo command each.

use std::process::Command;
use std::time::Duration;

use super::Journal;
use crate::docs;
use crate::error::XtaskError;
use crate::kernels;
use crate::tally::Tally;
use crate::wheels;
use crate::workspace::Workspace;

/// For steps that compile and look, but run nothing.
const CHECK_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// All unit and integration tests together: under eight minutes on two cores, so this only ends a
/// run that hangs.
const TESTS_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// The extension module has its tests in Python; a harness of Rust would have to link that.
const WITHOUT_PYTHON: [&str; 2] = ["--exclude", "lanesum-py"];

pub fn fmt(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let mut command = workspace.cargo(&["fmt", "--all", "--check"]);
    journal.run(&mut command, CHECK_DEADLINE)
}

pub fn clippy(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let mut command = workspace.cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]);
    journal.run(&mut command, CHECK_DEADLINE)
}

/// Nothing is linked, so no cross compiler is needed. Counted as one skipped test where the target's
/// standard library is missing: `rustup target add` brings it.
pub fn aarch64(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    if !Workspace::has_standard_library(TARGET) {
        println!("    no standard library for {TARGET}; `rustup target add {TARGET}` brings it");
        return Ok(Tally {
            skipped: 1,
            ..Tally::default()
        });
    }
    let words = [
        "clippy",
        "--workspace",
        "--lib",
        "--bins",
        "--target",
        TARGET,
        "--",
        "--deny",
        "warnings",
    ];
    let tally = journal.run(&mut workspace.cargo(&words), CHECK_DEADLINE)?;
    Ok(tally)
}

pub fn generated(workspace: &Workspace) -> Result<Tally, XtaskError> {
    docs::check(workspace)?;
    Ok(Tally::default())
}

/// Fails, and is not skipped, where the compilers cannot be had: nobody else compares the images with the sources.
pub fn kernels(workspace: &Workspace) -> Result<Tally, XtaskError> {
    kernels::check(workspace)?;
    Ok(Tally::default())
}

/// Private items too, and links to them: who reads the rooms' documentation works on them. The
/// command line is left out: its program has the façade's name, and its words are documented in docs/cli.md.
pub fn rustdoc(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let mut command = workspace.cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--exclude",
        "lanesum-cli",
    ]);
    command.env(
        "RUSTDOCFLAGS",
        "--deny warnings --allow rustdoc::private-intra-doc-links",
    );
    journal.run(&mut command, CHECK_DEADLINE)
}

pub fn tests(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let words = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"];
    let words = [&words[..], &WITHOUT_PYTHON].concat();
    let tally = journal.run(&mut workspace.cargo(&words), TESTS_DEADLINE)?;
    not_empty(tally, "tests", "unit and integration tests in crates/")
}

pub fn doctests(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let words = ["test", "--workspace", "--doc", "--no-fail-fast"];
    let words = [&words[..], &WITHOUT_PYTHON].concat();
    let tally = journal.run(&mut workspace.cargo(&words), TESTS_DEADLINE)?;
    not_empty(tally, "doctests", "the README's example and those of the façade")
}

/// Compiled in haste, as only that they can be built and run matters here. Each that is, counts as a test; so does one that can't be.
pub fn wheels(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let dist = workspace.target().join("python/trial");
    let mut run = |command: &mut Command| journal.run_silently(command, wheels::DEADLINE).map(|_none| ());
    let built = wheels::build(workspace, "trial", &dist, &mut run)?;
    Ok(Tally {
        passed: built.wheels,
        skipped: built.missing,
        ..Tally::default()
    })
}

/// A step whose tests all went missing must not pass.
pub fn not_empty(tally: Tally, step: &'static str, expected: &'static str) -> Result<Tally, XtaskError> {
    if tally.executed() == 0 {
        return Err(XtaskError::NothingRun { step, expected });
    }
    Ok(tally)
}
