//! `lanesum reduce`: sums the tensors of safetensors files into one, with a rank process a file.
//!
//! | module | role |
//! |---|---|
//! | `header` | what a file says of itself, believed only after it is checked |
//! | `input`, `output` | files that are read, and the one that is written |
//! | `layout` | whether files fit together, and in which windows they are summed |
//! | `rank` | what each rank process does |
//! | `message` | what it is told, and what it finds |
//! | `error`, `report` | what is said in the end |

mod error;
mod header;
mod input;
mod layout;
mod message;
mod output;
pub mod rank;
mod report;

use std::path::{Path, PathBuf};
use std::time::Instant;

use lanesum_plan::WORLD_MAX;
use serde_json::json;

use crate::arguments::Reduce;
use crate::deadline;
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::ranks::supervise::Failure;
use crate::ranks::{Crew, Outcome, disagreement, worded};
use error::FileError;
use input::{Input, Stamp};
use message::{Assignment, RankReport};
use output::{Part, Target};
use report::Report;

/// Sums the files and reports. Nothing is written before all of them are known to fit together.
pub fn run(arguments: &Reduce) -> Result<(), CliError> {
    let start = Instant::now();
    let (first, others) = several(&arguments.files)?;
    let stamps = stamps_of(&arguments.files)?;
    let target = Target::checked(&arguments.output, arguments.force, &stamps)?;
    let deadline = deadline::wanted(arguments.deadline_ms)?;
    let (first, stamps) = fitting(first, others)?;
    let part = Part::new(&target, &first.head, first.stamp.bytes)?;

    let crew = Crew {
        subcommand: "reduce-rank",
        ranks: arguments.files.len(),
        deadline,
        heeds_switch: true,
    };
    let total = rank::mebibytes(first.stamp.bytes - first.header.data);
    let outcome = crew.run(
        |rank| worded(&assignment(arguments, &part, rank)),
        Progress::new("MiB", total),
        |_, _| Ok(None),
    )?;
    let reports: Vec<RankReport> = match outcome {
        Outcome::Reports(reports) => reports,
        Outcome::Failure(failure) => return Err(fail(arguments, failure)?),
    };
    if reports.iter().any(|report| Some(report) != reports.first()) {
        let ran: Vec<_> = reports.iter().map(|report| &report.ran).collect();
        return Err(fail(arguments, disagreement(reports.len(), &format!("{ran:?}")))?);
    }
    check_unchanged(&stamps)?;
    part.keep(&target)?;
    let report = Report::new(
        target.path(),
        arguments.operation,
        &first.header,
        &reports,
        start.elapsed(),
    );
    if arguments.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&report)?))
    } else {
        say(&report.lines())
    }
}

/// As many files as there can be ranks: the first, which counts where files differ, and the others.
fn several(files: &[PathBuf]) -> Result<(&Path, &[PathBuf]), CliError> {
    let hint = match files {
        [first, others @ ..] if (1..WORLD_MAX).contains(&others.len()) => return Ok((first, others)),
        [] | [_] => "name the others too",
        [..] => "sum some of them first, and then the sums; that rounds 16-bit values once more",
    };
    let are = if files.len() == 1 { "file is" } else { "files are" };
    Err(CliError::Usage {
        cause: format!("{} {are} given, and 2 to {WORLD_MAX} can be summed", files.len()),
        hint: hint.into(),
    })
}

fn stamps_of(files: &[PathBuf]) -> Result<Vec<(PathBuf, Stamp)>, FileError> {
    files.iter().map(|path| Ok((path.clone(), Stamp::now(path)?))).collect()
}

/// Reads all headers, one at a time, and compares each with the first. Returns that, and what each file was when its header was read.
fn fitting(first_path: &Path, others: &[PathBuf]) -> Result<(Input, Vec<(PathBuf, Stamp)>), FileError> {
    let first = Input::open(first_path)?;
    let mut stamps = vec![(first_path.to_owned(), first.stamp)];
    for path in others {
        let other = Input::open(path)?;
        layout::spans(&first.header, &other.header).map_err(|difference| FileError::Differ {
            first: first_path.to_owned(),
            second: path.clone(),
            difference,
        })?;
        stamps.push((path.clone(), other.stamp));
    }
    Ok((first, stamps))
}

/// Ranks read the files by their names, at their own time: only files that are the same in the end were the same all along.
fn check_unchanged(stamps: &[(PathBuf, Stamp)]) -> Result<(), FileError> {
    for (path, stamp) in stamps {
        if Stamp::now(path)? != *stamp {
            return Err(FileError::Changed { path: path.clone() });
        }
    }
    Ok(())
}

fn assignment(arguments: &Reduce, part: &Part, rank: usize) -> Assignment {
    let file = |rank: usize| arguments.files.get(rank).cloned().unwrap_or_default().into_os_string();
    Assignment {
        parent: std::process::id(),
        rank,
        world: arguments.files.len(),
        first: file(0),
        own: file(rank),
        part: part.path().as_os_str().to_owned(),
        output: arguments.output.as_os_str().to_owned(),
        operation: arguments.operation,
    }
}

/// Writes what is known of a failed run and returns the error to end with.
fn fail(arguments: &Reduce, failure: Failure) -> Result<CliError, CliError> {
    if arguments.json {
        let mut object = json!({
            "output": arguments.output.display().to_string(),
            "ranks": arguments.files.len(),
            "operation": arguments.operation,
        });
        failure.add_to(&mut object);
        say(&format!("{}\n", serde_json::to_string_pretty(&object)?))?;
    }
    Ok(failure.into_error(arguments.json))
}
