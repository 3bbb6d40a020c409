//! The Python package as users get it: built by pip, installed into an environment of its own, typed, and tested there.
//!
//! It is built with cargo's `dev` profile, whose artefacts the other steps share. torch is there for the tests of what is made for it; that
//! the package needs none is what the wheels are tried for, where nothing else is installed.

use std::time::Duration;

use super::Journal;
use super::steps::not_empty;
use crate::error::XtaskError;
use crate::python::Environment;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// For downloads, a compilation and the tests together.
const DEADLINE: Duration = Duration::from_secs(20 * 60);

pub fn run(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let environment = Environment::named(workspace, "venv");
    if let Some(mut command) = environment.make() {
        journal.run_silently(&mut command, DEADLINE)?;
    }
    let tools = [
        "install",
        "--quiet",
        "--requirement",
        "python/tests/requirements.txt",
        "--requirement",
        "python/tests/requirements-torch.txt",
    ];
    journal.run_silently(&mut environment.pip(&tools), DEADLINE)?;
    // Without build isolation, which would fetch maturin anew each time.
    let package = [
        "install",
        ".",
        "--no-build-isolation",
        "--no-deps",
        "--force-reinstall",
        "--config-settings",
        "profile=dev",
    ];
    journal.run_silently(&mut environment.pip(&package), DEADLINE)?;
    for (checker, words) in [
        ("mypy", &["python/lanesum", "python/examples"][..]),
        // The one module that has a stub; the others are their own, and one of them needs torch.
        ("stubtest", &["lanesum._lanesum"]),
    ] {
        journal.run_silently(&mut environment.program(checker, words), DEADLINE)?;
    }
    // The stand-in driver, which is C++ and takes its time.
    journal.run(
        &mut workspace.cargo(&["build", "--package", "lanesum-standin"]),
        DEADLINE,
    )?;
    let words = ["-q", "--color=no", "-p", "no:cacheprovider", "-rfE"];
    let tally = journal.run(&mut environment.program("pytest", &words), DEADLINE)?;
    not_empty(tally, "python", "tests in python/tests")
}
