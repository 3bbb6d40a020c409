//! The segment's protocol under loom, and the mutants that loom must notice.
//!
//! A mutant is a fault written into the protocol on purpose: a relaxed flag, a single half, a
//! missing header. A model that passes with such a fault proves nothing, so each mutant has to make
//! a model fail. A build for loom carries all of them, and one of its tests tries each against the
//! model that is named to notice it, after comparing its list with that of the sources; so when that
//! test passes, every mutant that the sources declare was noticed, and each counts as one test.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Journal;
use super::steps::not_empty;
use crate::error::XtaskError;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// The room whose protocol is modelled, and where it declares its mutants.
const ROOM: &str = "lanesum-segment";
const DECLARED: &str = "crates/lanesum-segment/src/mutants.rs";

/// The test that tries all mutants.
const JUDGE: &str = "every_mutant_is_caught";

const DEADLINE: Duration = Duration::from_secs(20 * 60);

/// Runs the models of the unchanged protocol: all must pass.
pub fn protocol(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let tally = journal.run(&mut loom_tests(workspace, &["--skip", JUDGE]), DEADLINE)?;
    not_empty(tally, "loom", "models in tests/loom.rs of lanesum-segment")
}

/// Tries each mutant.
pub fn mutants(workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
    let declared = declared(&workspace.root().join(DECLARED))?;
    let judged = journal.run(&mut loom_tests(workspace, &["--exact", JUDGE]), DEADLINE)?;
    let judged = not_empty(judged, "mutants", "the test every_mutant_is_caught in tests/loom.rs")?;
    if judged.failed > 0 {
        return Ok(judged);
    }
    journal.note(&format!("{} mutants, each noticed by a model", declared.len()))?;
    Ok(Tally {
        passed: declared.len() as u64,
        ..Tally::default()
    })
}

/// The loom tests in a target folder of their own, so that the usual builds stay warm.
fn loom_tests(workspace: &Workspace, which: &[&str]) -> Command {
    let words = ["test", "--package", ROOM, "--test", "loom", "--release", "--"];
    let mut command = workspace.cargo(&words);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command
        .args(which)
        .env("RUSTFLAGS", format!("{flags} --cfg loom").trim())
        .env("CARGO_TARGET_DIR", workspace.target().join("loom"));
    command
}

/// The mutants that the sources declare.
///
/// # Errors
/// The file is not there, or declares none.
fn declared(path: &Path) -> Result<Vec<String>, XtaskError> {
    let mutants = declared_in(&Workspace::read(path)?);
    if mutants.is_empty() {
        return Err(XtaskError::NothingRun {
            step: "mutants",
            expected: "lines `name = \"name\";` in mutants.rs of lanesum-segment",
        });
    }
    Ok(mutants)
}

/// A mutant is declared on a line of its own that names it twice: `single_half = "single_half";`.
fn declared_in(source: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, text) = line.trim().strip_suffix("\";")?.split_once(" = \"")?;
        (name == text).then(|| name.to_owned())
    };
    source.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_read_from_the_declarations() {
        let source = r#"
            ($($(#[$doc:meta])* $name:ident = $literal:literal;)*) => {
            /// The comment says `other = "thing";`
            relaxed_header = "relaxed_header";
            single_half = "single_half";
            let unlike = "something";
        "#;
        assert_eq!(declared_in(source), ["relaxed_header", "single_half"]);
    }

    #[test]
    fn the_segment_declares_mutants() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DECLARED);
        assert!(!declared(&path).expect("mutants").is_empty());
    }
}
