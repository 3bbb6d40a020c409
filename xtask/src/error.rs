//! What can go wrong in a chore, with the facts and, where there is one, the remedy.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The error of every chore.
#[derive(Debug, thiserror::Error)]
pub enum XtaskError {
    /// The program is not there, or may not be started.
    #[error("cannot start `{command}`: {source}")]
    CannotStart { command: String, source: std::io::Error },
    /// The child ended, but not well.
    #[error("`{command}` failed: {status}{}", quoted(.last_lines))]
    Failed {
        command: String,
        status: String,
        last_lines: Vec<String>,
    },
    /// The child was still running at its deadline; it and its group were killed.
    #[error("`{command}` was still running after {} s and was killed", .deadline.as_secs())]
    Late { command: String, deadline: Duration },
    /// We were told to end: the child's group was killed.
    #[error("interrupted; `{command}` was ended")]
    Interrupted { command: String },
    /// A file of the workspace could not be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// The machine refused something that is not a file.
    #[error("cannot {action}: {source}")]
    Machine {
        action: &'static str,
        source: std::io::Error,
    },
    /// A program printed something else than it promises.
    #[error("`{command}` printed no {wanted}{}", quoted(.last_lines))]
    Unreadable {
        command: String,
        wanted: &'static str,
        last_lines: Vec<String>,
    },
    /// A step that has nothing to run proves nothing.
    #[error("{step} found nothing to run: expected {expected}")]
    NothingRun { step: &'static str, expected: &'static str },
    /// A generated file differs from what the sources say now.
    #[error("{} is stale:\n{difference}", .path.display())]
    Stale { path: PathBuf, difference: String },
    /// The compilers for GPUs, which the images are made with.
    #[error("the pinned compilers for GPUs cannot be had: {reason}")]
    NoCompilers { reason: String },
    /// The kernels are not what they have to be.
    #[error("the kernels are refused:{}", first_of(.problems))]
    Kernels { problems: Vec<String> },
    /// The shipped images are not those of the sources.
    #[error("the shipped images differ from what the sources give:{}", first_of(.files))]
    StaleImages { files: Vec<String> },
    /// There is nothing to run the tests for GPUs on.
    #[error("there is no NVIDIA GPU here: {reason}")]
    NoGpu { reason: String, pack: PathBuf },
    /// A test for GPUs that no step of the script runs.
    #[error("no step of xtask/src/gpu/run.sh runs {program}")]
    NoStep { program: String },
    /// What fuzzing needs, and nothing else here.
    #[error("{tool} is missing, and fuzzing needs it: {reason}")]
    NoFuzzing { tool: &'static str, reason: String },
    /// The folder for the machine with the GPU could not be carried there.
    #[error("the programs of the pack take {bytes} bytes, and at most {most} are packed")]
    PackTooLarge { bytes: u64, most: u64 },
    /// The header for C could not be made from the sources.
    #[error("lanesum.h cannot be made: {reason}")]
    NoHeader { reason: String },
    /// The library refused.
    #[error(transparent)]
    Lanesum(#[from] lanesum::Error),
    /// A row of published figures can't be read.
    #[error("{}, line {line}: {reason}", .path.display())]
    Row { path: PathBuf, line: usize, reason: String },
    /// An option's value makes no sense here.
    #[error("{option} {value} is refused: {reason}")]
    Refused {
        option: &'static str,
        value: String,
        reason: &'static str,
    },
}

impl XtaskError {
    /// A file of the workspace could not be read or written.
    pub fn file(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::File {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            XtaskError::Stale { .. } => "run `cargo xtask docs` and commit what it writes",
            XtaskError::Late { .. } => "a wait without a deadline is a bug here: look for the test that hangs",
            XtaskError::NothingRun { .. } => "a moved or renamed test must be named again in xtask/src/test",
            XtaskError::NoCompilers { .. } => {
                "this needs python3 with pip, a package index that pip reaches, and 400 MB below the target folder; \
                 wheels that are put into its folder kernels/wheels by hand are taken from there"
            }
            XtaskError::Kernels { .. } => {
                "the lists are kernels/lanesum.cu and the types of lanesum-plan; spills and registers go with fewer values \
                 alive in the named function"
            }
            XtaskError::StaleImages { .. } => "run `cargo xtask kernels` and commit what it writes",
            XtaskError::NoGpu { pack, .. } => {
                return Some(format!(
                    "take {} to a machine with a GPU, run `bash run.sh OUT` there, and bring OUT back: \
                     `cargo xtask gpu --record FILE --from OUT` makes a record of it",
                    pack.display()
                ));
            }
            XtaskError::NoFuzzing { .. } => {
                "run `rustup toolchain install nightly` and `cargo install cargo-fuzz`; fuzzing is optional, the tests do without"
            }
            XtaskError::NoStep { .. } => "add a step, or name the test in STAND_IN_ONLY of xtask/src/gpu/pack.rs",
            XtaskError::PackTooLarge { .. } => {
                "the images of the kernels are in each program: pack fewer test binaries"
            }
            XtaskError::NoHeader { .. } => "its settings are crates/lanesum-c/cbindgen.toml",
            XtaskError::Lanesum(error) => return error.hint(),
            XtaskError::CannotStart { .. }
            | XtaskError::Failed { .. }
            | XtaskError::Interrupted { .. }
            | XtaskError::File { .. }
            | XtaskError::Machine { .. }
            | XtaskError::Unreadable { .. }
            | XtaskError::Row { .. }
            | XtaskError::Refused { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// The first few of a list that may be long.
fn first_of(lines: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = quoted(&lines[..lines.len().min(SHOWN)]);
    if lines.len() > SHOWN {
        text += &format!("\n    and {} more", lines.len() - SHOWN);
    }
    text
}

fn quoted(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n    {line}")).collect()
}
