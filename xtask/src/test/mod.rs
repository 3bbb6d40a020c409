//! `cargo xtask test`: every check and test, in an order that fails early and cheaply.
//!
//! Counting rules. Tests are counted from the harness' own summary lines, one for each example that
//! ran and one for each mutant that the tests noticed. A check without tests of its own (fmt,
//! clippy, generated files, images, rustdoc) counts only when it fails, as one failure; so does a step that
//! could not run, or that found nothing to run. The last line printed is the count, in the words
//! that CI reads.

mod examples;
mod loom;
mod python;
mod steps;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::error::XtaskError;
use crate::process::{self, Next, Outcome, Tail};
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Which steps to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only these steps; all of them, in order, when none is named
    #[arg(value_enum)]
    steps: Vec<Step>,
}

/// One step of the test run, in the order of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The sources are formatted
    Fmt,
    /// No lint fires on any target
    Clippy,
    /// The libraries and programs compile for aarch64, where its standard library is installed
    Aarch64,
    /// The generated files say what the sources say
    Generated,
    /// The shipped GPU images are those of the sources, complete, and spill next to nothing
    Kernels,
    /// The API documentation builds without a warning
    Rustdoc,
    /// Unit and integration tests
    Tests,
    /// Code in documentation compiles and runs
    Doctests,
    /// The numbered examples run on two ranks
    Examples,
    /// The Python package, installed by pip: its types and its tests
    Python,
    /// The wheels for other machines can be built, and this machine's runs where nothing else is installed
    Wheels,
    /// The segment's protocol under the loom model checker
    Loom,
    /// Each deliberate fault of the protocol makes a loom test fail
    Mutants,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Fmt => "fmt",
            Step::Clippy => "clippy",
            Step::Aarch64 => "aarch64",
            Step::Generated => "generated",
            Step::Kernels => "kernels",
            Step::Rustdoc => "rustdoc",
            Step::Tests => "tests",
            Step::Doctests => "doctests",
            Step::Examples => "examples",
            Step::Python => "python",
            Step::Wheels => "wheels",
            Step::Loom => "loom",
            Step::Mutants => "mutants",
        }
    }

    fn run(self, workspace: &Workspace, journal: &mut Journal) -> Result<Tally, XtaskError> {
        match self {
            Step::Fmt => steps::fmt(workspace, journal),
            Step::Clippy => steps::clippy(workspace, journal),
            Step::Aarch64 => steps::aarch64(workspace, journal),
            Step::Generated => steps::generated(workspace),
            Step::Kernels => steps::kernels(workspace),
            Step::Rustdoc => steps::rustdoc(workspace, journal),
            Step::Tests => steps::tests(workspace, journal),
            Step::Doctests => steps::doctests(workspace, journal),
            Step::Examples => examples::run(workspace, journal),
            Step::Python => python::run(workspace, journal),
            Step::Wheels => steps::wheels(workspace, journal),
            Step::Loom => loom::protocol(workspace, journal),
            Step::Mutants => loom::mutants(workspace, journal),
        }
    }

    /// What to do when the step fails.
    fn remedy(self) -> &'static str {
        match self {
            Step::Fmt => "run `cargo fmt --all`",
            Step::Clippy => "mend what clippy names; `cargo xtask test clippy` shows it again",
            Step::Aarch64 => "run `cargo clippy --target aarch64-unknown-linux-gnu`",
            Step::Generated => "run `cargo xtask docs` and commit what it writes",
            Step::Kernels => "run `cargo xtask kernels --check`",
            Step::Rustdoc => "mend the documentation comment that rustdoc names",
            Step::Tests => "run the named test alone: `cargo test -p CRATE NAME`",
            Step::Doctests => "run `cargo test --doc -p CRATE`",
            Step::Examples => "run `cargo run -- launch -n 2 -- target/debug/examples/NAME`",
            Step::Python => "run `target/python/venv/bin/pytest -x -k NAME`",
            Step::Wheels => "run `cargo xtask python --wheel`",
            Step::Loom => "run `cargo xtask test loom`; loom prints the schedule that fails",
            Step::Mutants => "a model in tests/loom.rs must fail with LANESUM_MUTANT set to the named one",
        }
    }
}

/// Runs the step of the Python package alone.
///
/// # Errors
/// As [`run`].
pub fn python_alone(workspace: &Workspace) -> Result<ExitCode, XtaskError> {
    let steps = vec![Step::Python];
    run(workspace, &Arguments { steps })
}

/// Runs the steps and prints the count as the last line.
///
/// # Errors
/// Only Ctrl-C stops the run: any other failure of a step is counted, and the next step runs.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    let steps: &[Step] = if arguments.steps.is_empty() {
        Step::value_variants()
    } else {
        &arguments.steps
    };
    let mut total = Tally::default();
    let mut failures = Vec::new();
    let started = Instant::now();
    for &step in steps {
        let (tally, failure) = run_step(workspace, step)?;
        total += tally;
        failures.extend(failure);
    }
    println!("\nAll steps took {:.0} s.", started.elapsed().as_secs_f64());
    for failure in &failures {
        println!("FAILED {failure}");
    }
    println!("{total}");
    Ok(if total.failed == 0 && total.passed > 0 || only_checks(steps, total) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A run of named checks that have no tests of their own passes without a counted test.
fn only_checks(steps: &[Step], total: Tally) -> bool {
    total.failed == 0
        && steps.iter().all(|step| match step {
            Step::Fmt | Step::Clippy | Step::Aarch64 | Step::Generated | Step::Kernels | Step::Rustdoc => true,
            Step::Tests
            | Step::Doctests
            | Step::Examples
            | Step::Python
            | Step::Wheels
            | Step::Loom
            | Step::Mutants => false,
        })
}

fn run_step(workspace: &Workspace, step: Step) -> Result<(Tally, Option<String>), XtaskError> {
    println!("=== {}", step.name());
    let started = Instant::now();
    let mut journal = Journal::open(workspace, step.name())?;
    let result = step.run(workspace, &mut journal);
    let seconds = started.elapsed().as_secs_f64();
    let name = step.name();
    match result {
        Ok(tally) if tally.failed == 0 => {
            match tally.executed() {
                0 => println!("    {name}: ok, {seconds:.1} s"),
                _ => println!("    {name}: ok, {seconds:.1} s ({tally})"),
            }
            Ok((tally, None))
        }
        Ok(tally) => {
            println!("    {name}: FAILED, {seconds:.1} s ({tally})");
            let failed = journal.failed.join(", ");
            Ok((tally, Some(format!("{name}: {failed}: {}", step.remedy()))))
        }
        Err(error @ XtaskError::Interrupted { .. }) => Err(error),
        Err(error) => {
            println!("    {name}: FAILED, {seconds:.1} s: {error}");
            let remedy = error.hint().unwrap_or_else(|| step.remedy().to_owned());
            Ok((Tally::ONE_FAILED, Some(format!("{name}: {remedy}"))))
        }
    }
}

/// Follows the children of one step: all they print goes to a file, what a reader needs to the
/// terminal.
pub struct Journal {
    file: File,
    path: PathBuf,
    /// What failed, by name, for the summary at the end.
    failed: Vec<String>,
}

/// Whether a child's lines are shown as they come; if not, its failure shows the last of them.
#[derive(Clone, Copy)]
enum Voice {
    Aloud,
    Silent,
}

impl Journal {
    fn open(workspace: &Workspace, step: &str) -> Result<Journal, XtaskError> {
        let path = workspace.target().join("xtask").join(format!("{step}.log"));
        Workspace::write(&path, "")?;
        let failed = |source| XtaskError::File {
            action: "open",
            path: path.clone(),
            source,
        };
        let file = File::options().append(true).open(&path).map_err(failed)?;
        Ok(Journal {
            file,
            path,
            failed: Vec::new(),
        })
    }

    /// Notes one line and shows it unless it is noise.
    pub fn note(&mut self, line: &str) -> Result<(), XtaskError> {
        if !is_noise(line) {
            println!("    {line}");
        }
        self.keep(line)
    }

    fn keep(&mut self, line: &str) -> Result<(), XtaskError> {
        writeln!(self.file, "{line}").map_err(|source| XtaskError::File {
            action: "write",
            path: self.path.clone(),
            source,
        })
    }

    /// Notes that something that counts as a test failed, and why.
    pub fn note_failure(&mut self, name: String, why: &str) -> Result<(), XtaskError> {
        self.note(&format!("{name}: FAILED: {why}"))?;
        self.failed.push(name);
        Ok(())
    }

    /// Runs a child that must succeed and whose tests, if any, are counted, and shows what it says.
    ///
    /// # Errors
    /// It could not start, was late, or failed without a counted test to blame.
    pub fn run(&mut self, command: &mut Command, deadline: Duration) -> Result<Tally, XtaskError> {
        self.follow(command, deadline, Voice::Aloud)
    }

    /// The same for a child whose words only matter when it fails: the error holds the last of them.
    pub fn run_silently(&mut self, command: &mut Command, deadline: Duration) -> Result<Tally, XtaskError> {
        self.follow(command, deadline, Voice::Silent)
    }

    fn follow(&mut self, command: &mut Command, deadline: Duration, voice: Voice) -> Result<Tally, XtaskError> {
        let mut tally = Tally::default();
        let mut tail = Tail::default();
        let mut noted = Ok(());
        let outcome = process::follow(command, deadline, &mut |line| {
            if let Some(more) = Tally::from_line(line) {
                tally += more;
            }
            self.failed.extend(failed_test(line));
            noted = match voice {
                Voice::Aloud => self.note(line),
                Voice::Silent => {
                    tail.push(line);
                    self.keep(line)
                }
            };
            match noted {
                Ok(()) => Next::Continue,
                Err(_) => Next::Enough,
            }
        })?;
        noted?;
        if tally.failed > 0 || outcome.success() {
            return Ok(tally);
        }
        Err(self.failure(command, outcome, tail))
    }

    fn failure(&self, command: &Command, outcome: Outcome, tail: Tail) -> XtaskError {
        let mut lines = tail.lines();
        lines.push(format!("(all of it: {})", self.path.display()));
        process::failure(command, outcome, &lines)
    }
}

/// The name in `test NAME ... FAILED`, or in pytest's `FAILED NAME - why`.
fn failed_test(line: &str) -> Option<String> {
    let cargos = || line.strip_prefix("test ")?.strip_suffix(" ... FAILED");
    let pytests = || {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
        let name = rest.split(" - ").next()?;
        name.contains(".py").then_some(name)
    };
    cargos().or_else(pytests).map(str::to_owned)
}

/// Lines that say only that things go well.
fn is_noise(line: &str) -> bool {
    const WORDS_OF_CARGO: [&str; 13] = [
        "Blocking ",
        "Checking ",
        "Compiling ",
        "Doc-tests ",
        "Documenting ",
        "Downloaded ",
        "Downloading ",
        "Executable ",
        "Finished ",
        "Generated ",
        "Locking ",
        "Running ",
        "all doctests ran in ",
    ];
    let line = line.trim();
    line.is_empty()
        || line.starts_with("running ") && line.ends_with(['s', 't'])
        || line.starts_with("test result: ")
        || Tally::from_pytest(line).is_some_and(|tally| tally.failed == 0)
        || is_progress_of_pytest(line)
        || line.starts_with("test ") && line.ends_with("... ok")
        || WORDS_OF_CARGO.iter().any(|word| line.starts_with(word))
}

/// A line such as `..s..x [ 97%]`; an `F` or an `E` in it is told by name at the end.
fn is_progress_of_pytest(line: &str) -> bool {
    let Some((letters, percent)) = line.split_once('[') else {
        return false;
    };
    percent.ends_with("%]") && letters.trim_end().chars().all(|letter| ".sxXFE".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_never_noise() {
        for line in [
            "test epoch::wraps ... FAILED",
            "thread 'a' panicked at src/lib.rs:1:1:",
            "error: could not compile `x`",
            "test a has been running for over 60 seconds",
        ] {
            assert!(!is_noise(line), "{line}");
        }
        assert!(is_noise("test epoch::wraps ... ok"));
        assert!(is_noise("   Compiling serde v1"));
        assert!(is_noise("running 12 tests"));
        assert!(is_noise("....s..F.            [ 97%]"));
        assert!(is_noise("75 passed, 4 skipped, 1 deselected in 24.93s"));
        assert!(!is_noise("1 failed, 75 passed in 24.93s"));
    }

    #[test]
    fn a_failing_test_is_named() {
        assert_eq!(
            failed_test("test reuse_is_proved ... FAILED").as_deref(),
            Some("reuse_is_proved")
        );
        assert_eq!(failed_test("test reuse_is_proved ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 0 passed"), None);
        assert_eq!(
            failed_test("FAILED python/tests/test_host.py::test_bits[ab] - AssertionError: no").as_deref(),
            Some("python/tests/test_host.py::test_bits[ab]")
        );
    }

    #[test]
    fn a_run_of_checks_alone_needs_no_counted_test() {
        assert!(only_checks(&[Step::Fmt, Step::Clippy], Tally::default()));
        assert!(!only_checks(&[Step::Fmt, Step::Tests], Tally::default()));
        assert!(!only_checks(&[Step::Fmt], Tally::ONE_FAILED));
    }
}
