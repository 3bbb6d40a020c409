//! `lanesum bench`: what a sum costs on GPUs, beside its floors, its guards and other people's all-reduces, in one run.
//!
//! | module | role |
//! |---|---|
//! | `job` | what was asked for, checked |
//! | `rank`, `message` | what each rank process does, is told, and finds |
//! | `peers` | other people's all-reduces, in processes of their own |
//! | `row`, `table`, `record` | what is said of it |
//!
//! A time is the device's for one replay of a graph of 122 calls, divided by its calls. Ranks meet before each replay, and the
//! replay that is timed follows another one, so that all begin it together; of each replay the slowest rank counts. What is
//! compared of lanesum is measured replay by replay in turn, so that no change of the machine's pace falls on one of them alone;
//! peers follow, in processes of their own.

mod job;
mod message;
pub mod peers;
pub mod rank;
mod record;
mod row;
mod table;

use serde_json::json;

use crate::arguments::Bench;
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::ranks::supervise::Failure;
use crate::ranks::{Crew, Outcome, disagreement, worded};
use job::Job;
use message::BenchReport;
use peers::Peers;
use row::{Found, rows_of};

/// Runs the job, for each number of ranks, and reports.
pub fn run(arguments: &Bench) -> Result<(), CliError> {
    let job = Job::checked(arguments)?;
    let peers = Peers::prepare(&job)?;
    let mut all = Vec::new();
    let mut wrong = None;
    for &ranks in &job.ranks {
        let mut found = match own(&job, ranks)? {
            Outcome::Reports(reports) => match rows_of(&job, ranks, &reports) {
                Ok(found) => found,
                Err(what) => return Err(fail(&job, ranks, disagreement(ranks, &what))?),
            },
            Outcome::Failure(failure) => return Err(fail(&job, ranks, failure)?),
        };
        found.add(&job, peers.run(&job, ranks)?);
        tell(&job, &found)?;
        wrong = wrong.or_else(|| found.wrong.clone());
        all.push(found);
    }
    if let Some(file) = &arguments.record {
        record::keep(&job, &all, file)?;
    }
    match wrong {
        None => Ok(()),
        Some(what) => Err(Failure {
            error: format!("results are not the oracle's: {what}"),
            hint: Some("this is a bug: please report it with this output and the model of the GPU".into()),
            failed_ranks: vec![],
            noticed_ms: None,
            notices: vec![],
        }
        .into_error(false)),
    }
}

fn own(job: &Job, ranks: usize) -> Result<Outcome<BenchReport>, CliError> {
    let crew = Crew {
        subcommand: "bench-rank",
        ranks,
        deadline: job.deadline,
    };
    let progress = Progress::new("replays", job.replays_in_all());
    crew.run(|rank| worded(&job.assignment(ranks, rank)), progress)
}

fn tell(job: &Job, found: &Found) -> Result<(), CliError> {
    if !job.json {
        return say(&table::of(job, found));
    }
    found.lines()?.iter().try_for_each(|line| say(&format!("{line}\n")))
}

/// Writes what is known of a failed run and returns the error to end with.
fn fail(job: &Job, ranks: usize, failure: Failure) -> Result<CliError, CliError> {
    if job.json {
        let mut object = json!({"ranks": ranks, "dtype": job.dtype, "stand_in": job.stand_in});
        failure.add_to(&mut object);
        say(&format!("{object}\n"))?;
    }
    Ok(failure.into_error(job.json))
}
