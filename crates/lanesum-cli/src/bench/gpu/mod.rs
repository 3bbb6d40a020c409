//! `lanesum bench --engine cuda`: what a sum costs on GPUs, beside its floors, its guards and other people's all-reduces, in one run.
//!
//! | module | role |
//! |---|---|
//! | `job` | what was asked for, checked |
//! | `rank`, `message` | what each rank process does, is told, and finds |
//! | `effort` | how much of a size is timed |
//! | `peers` | other people's all-reduces, in processes of their own |
//! | `gather`, `ledger` | what all ranks have told, kept at once |
//! | `row`, `table`, `picture`, `document` | what is said of it |
//!
//! A time is the device's for one replay of a graph of 122 calls, divided by its calls. Ranks meet before each replay, and the
//! replay that is timed follows another one, so that all begin it together; of each replay the slowest rank counts. What is
//! compared of lanesum is measured replay by replay in turn, so that no change of the machine's pace falls on one of them alone;
//! peers follow, in processes of their own.

mod document;
mod effort;
mod gather;
mod job;
mod ledger;
mod message;
pub mod peers;
mod picture;
pub mod rank;
mod row;
mod table;

use std::io::Write;

use serde_json::{Value, json};

use crate::arguments::Bench;
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::ranks::supervise::Failure;
use crate::ranks::{Crew, Outcome, disagreement, worded};
use gather::{Gather, Unusable};
use job::Job;
use ledger::Ledger;
use peers::Peers;

/// Runs the job, for each number of ranks, and reports.
pub fn run(arguments: &Bench) -> Result<(), CliError> {
    let job = Job::checked(arguments)?;
    let mut ledger = Ledger::open(&job, arguments.record.as_deref())?;
    let outcome = all(&job, &mut ledger);
    match outcome {
        Ok(()) => ledger.complete()?,
        Err(error) => {
            ledger.failed(&error)?;
            return Err(error);
        }
    }
    match ledger.wrong() {
        None => Ok(()),
        Some((ranks, rank, what)) => Err(fail(&job, ranks, not_the_oracles(ranks, rank, what))?),
    }
}

/// All was timed, and some of it was wrong.
fn not_the_oracles(ranks: usize, rank: usize, what: &str) -> Failure {
    Failure {
        error: format!("results are not the oracle's: {ranks} ranks, {what}"),
        hint: Some("this is a bug: please report it with this output and the model of the GPU".into()),
        failed_ranks: vec![rank],
        noticed_ms: None,
        notices: vec![],
    }
}

fn all(job: &Job, ledger: &mut Ledger<'_>) -> Result<(), CliError> {
    let peers = Peers::prepare(job)?;
    for &ranks in &job.ranks {
        ledger.begin(ranks);
        let outcome = own(job, ranks, ledger).and_then(|()| peers.run(job, ranks, ledger));
        // Also of a run that fails: what was measured was measured.
        ledger.table()?;
        outcome?;
    }
    Ok(())
}

/// Our own sums.
fn own(job: &Job, ranks: usize, ledger: &mut Ledger<'_>) -> Result<(), CliError> {
    let crew = Crew {
        subcommand: "bench-rank",
        ranks,
        deadline: job.deadline,
        heeds_switch: true,
    };
    let progress = Progress::new("sizes", job.sizes.len() as u64);
    let mut gather = Gather::new(ledger, ranks, warn);
    let mut differs = None;
    let outcome = crew.run(
        |rank| worded(&job.assignment(ranks, rank)),
        progress,
        |rank, finding| {
            gather.heard(rank, finding).map_err(|unusable| match unusable {
                Unusable::Other(error) => error,
                Unusable::Differs(what) => disagreement(ranks, differs.insert(what)).into_error(false),
            })
        },
    );
    if let Some(what) = differs {
        return Err(fail(job, ranks, disagreement(ranks, &what))?);
    }
    match outcome? {
        Outcome::Reports(_) if gather.is_complete() => Ok(()),
        Outcome::Reports(_) => Err(fail(job, ranks, disagreement(ranks, "a rank left out a size"))?),
        Outcome::Failure(failure) => Err(fail(job, ranks, failure)?),
    }
}

/// Without a stderr there is nobody to warn.
fn warn(text: &str) {
    std::io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// Writes what is known of a failed run and returns the error to end with.
fn fail(job: &Job, ranks: usize, failure: Failure) -> Result<CliError, CliError> {
    if job.json {
        say(&format!("{}\n", error_line(job, ranks, &failure)))?;
    }
    Ok(failure.into_error(job.json))
}

/// The last of the JSON lines of a run that failed.
fn error_line(job: &Job, ranks: usize, failure: &Failure) -> Value {
    let mut object = json!({"kind": "error", "ranks": ranks, "dtype": job.dtype, "stand_in": job.stand_in});
    failure.add_to(&mut object);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_sums_are_an_error_object_like_every_other_failure() {
        let failure = not_the_oracles(4, 2, "64 bytes, graph, lanesum, rank 2: call 7, element 5 is off");
        let line = error_line(&Job::made_up(), 4, &failure);
        assert_eq!((&line["kind"], &line["failed_ranks"]), (&json!("error"), &json!([2])));
        assert_eq!(
            (&line["ranks"], &line["dtype"], &line["stand_in"]),
            (&json!(4), &json!("bf16"), &json!(false))
        );
        let error = line["error"].as_str().expect("a text");
        assert!(
            error.contains("not the oracle's: 4 ranks, 64 bytes, graph, lanesum, rank 2: call 7"),
            "{error}"
        );
        assert!(line["hint"].as_str().is_some_and(|hint| hint.contains("bug")), "{line}");
        assert_eq!(failure.into_error(true).exit_code(), 1);
    }
}
