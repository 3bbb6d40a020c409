//! The numbered examples compile, and each runs on two ranks as a user would start it.

use std::process::Command;
use std::time::Duration;

use super::Journal;
use crate::error::XtaskError;
use crate::tally::Tally;
use crate::workspace::{Example, Workspace};

const BUILD_DEADLINE: Duration = Duration::from_secs(15 * 60);
const RUN_DEADLINE: Duration = Duration::from_secs(60);

pub fn run(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    if workspace.examples().is_empty() {
        return Err(XtaskError::NothingRun {
            step: "examples",
            expected: "examples/01-... as example targets of the façade",
        });
    }
    let words = ["build", "--workspace", "--bins", "--examples"];
    journal.run(&mut workspace.cargo(&words), BUILD_DEADLINE)?;
    let mut tally = Tally::default();
    for example in workspace.examples() {
        match journal.run_silently(&mut on_two_ranks(workspace, example), RUN_DEADLINE) {
            Ok(_) => tally += Tally::ONE_PASSED,
            Err(error @ XtaskError::Interrupted { .. }) => return Err(error),
            Err(error) => {
                let Example { name, package } = example;
                journal.note_failure(format!("example {name} of {package}"), &error.to_string())?;
                tally += Tally::ONE_FAILED;
            }
        }
    }
    Ok(tally)
}

fn on_two_ranks(workspace: &Workspace, example: &Example) -> Command {
    let mut command = Command::new(workspace.built("debug", "lanesum"));
    command
        .args(["launch", "-n", "2", "--"])
        .arg(workspace.built("debug/examples", &example.name))
        .current_dir(workspace.root());
    command
}
