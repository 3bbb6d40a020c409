//! `lanesum verify-cycle`: the all-reduces of one speculative verify step, done by real rank processes, checked and timed.
//!
//! | module | role |
//! |---|---|
//! | `job` | what was asked for, checked |
//! | `rank`, `measure`, `histogram` | what each rank process does |
//! | `message` | what it is told, and what it finds |
//! | `report`, `speculation` | what it says in the end |

mod histogram;
mod job;
mod measure;
mod message;
pub mod rank;
mod report;
pub mod speculation;

use std::time::Duration;

use lanesum_plan::{Path, PathChoice, PathRefusal};
use serde_json::json;

use crate::arguments::VerifyCycle;
use crate::engines::Found;
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::ranks::supervise::Failure;
use crate::ranks::{Crew, Outcome, disagreement, worded};
use job::Job;
use message::RankReport;
use report::Report;

/// Runs the job and reports.
pub fn run(arguments: &VerifyCycle) -> Result<(), CliError> {
    let job = Job::checked(arguments)?;
    match outcome(&job)? {
        Outcome::Reports(reports) => conclude(&job, &reports, arguments.json),
        Outcome::Failure(failure) => Err(fail(&job, None, failure, arguments.json)?),
    }
}

/// What came of a trial.
pub enum Tried {
    /// They have GPUs, and what they exchange takes this path; why not the other.
    With {
        /// The path.
        path: Path,
        /// The other.
        other: Option<PathRefusal>,
    },
    /// They do without GPUs, and why.
    Without(String),
    /// They failed to join at all: that is not for this question to report.
    Failed,
}

/// Lets so many ranks join with this engine and this choice of a path, and tells what they got.
pub fn tried(ranks: usize, engine: &Found, path: PathChoice, deadline: Duration) -> Result<Tried, CliError> {
    let job = Job::least(ranks, engine.clone(), path, deadline);
    let Outcome::Reports(reports) = outcome(&job)? else {
        return Ok(Tried::Failed);
    };
    if let Some(reason) = reports.iter().find_map(|report| report.without_device.clone()) {
        return Ok(Tried::Without(reason));
    }
    Ok(match reports.into_iter().next() {
        Some(report) => Tried::With {
            path: report.ran.path,
            other: report.other_path,
        },
        None => Tried::Failed,
    })
}

fn outcome(job: &Job) -> Result<Outcome<RankReport>, CliError> {
    let crew = Crew {
        subcommand: "rank",
        ranks: job.ranks,
        deadline: job.deadline,
        heeds_switch: true,
    };
    let total = u64::from(job.sums()) * u64::from(job.cycles);
    crew.run(
        |rank| worded(&job.assignment(rank)),
        Progress::new("all-reduces", total),
        // They tell all of it in the end.
        |_, _| Ok(None),
    )
}

fn conclude(job: &Job, reports: &[RankReport], json: bool) -> Result<(), CliError> {
    let Some(report) = Report::of(job, reports) else {
        let ran: Vec<_> = reports.iter().map(|report| report.ran).collect();
        let failure = disagreement(job.ranks, &format!("{ran:?}"));
        return Err(fail(job, None, failure, json)?);
    };
    match report.failure(reports) {
        Some(failure) => Err(fail(job, Some(&report), failure, json)?),
        None if json => say(&format!("{}\n", serde_json::to_string_pretty(&report)?)),
        None => say(&report.tables()),
    }
}

/// Writes what is known of a failed run and returns the error to end with.
fn fail(job: &Job, report: Option<&Report>, failure: Failure, as_json: bool) -> Result<CliError, CliError> {
    if as_json {
        let mut object = match report {
            Some(report) => serde_json::to_value(report)?,
            None => json!({
                "ranks": job.ranks,
                "layers": job.layers,
                "bytes": job.bytes(),
                "dtype": job.dtype,
                "stand_in": job.engine.stand_in(),
            }),
        };
        failure.add_to(&mut object);
        say(&format!("{}\n", serde_json::to_string_pretty(&object)?))?;
    } else if let Some(report) = report {
        say(&report.tables())?;
    }
    Ok(failure.into_error(as_json))
}
