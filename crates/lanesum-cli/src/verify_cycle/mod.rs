//! `lanesum verify-cycle`: the all-reduces of one speculative verify step, done by real rank processes, checked and timed.
//!
//! | module | role |
//! |---|---|
//! | `job` | what was asked for, checked |
//! | `rank`, `measure`, `on_device`, `patterns`, `histogram` | what each rank process does |
//! | `message` | what goes over the pipes |
//! | `supervise` | what the parent makes of it |
//! | `report`, `speculation` | what it says in the end |

mod histogram;
mod job;
mod measure;
mod message;
mod on_device;
mod patterns;
pub mod rank;
mod report;
pub mod speculation;
mod supervise;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::arguments::VerifyCycle;
use crate::engines::Found;
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::spawn::{Event, Identity, Team, read_lines, this_program};
use job::Job;
use message::{Assignment, GO, RankReport};
use report::Report;
use supervise::{Failure, Verdict, Watch};

/// Runs the job and reports.
pub fn run(arguments: &VerifyCycle) -> Result<(), CliError> {
    let job = Job::checked(arguments)?;
    let mut team = start(&job)?;
    let outcome = supervise(&mut team, &job)?;
    team.end();
    match outcome {
        Outcome::Reports(reports) => conclude(&job, &reports, arguments.json),
        Outcome::Failure(failure) => Err(fail(&job, None, failure, arguments.json)?),
    }
}

/// Lets so many ranks join with the engine `auto`, and tells why they do without GPUs. If they fail to join at all nothing is
/// told: that is not for this question to report.
pub fn without_device(ranks: usize, engine: &Found, deadline: Duration) -> Result<Option<String>, CliError> {
    let job = Job::least(ranks, engine.clone(), deadline);
    let mut team = start(&job)?;
    Ok(match supervise(&mut team, &job)? {
        Outcome::Reports(reports) => reports.into_iter().find_map(|report| report.without_device),
        Outcome::Failure(_) => None,
    })
}

enum Outcome {
    Reports(Vec<RankReport>),
    Failure(Failure),
}

fn start(job: &Job) -> Result<Team, CliError> {
    let mut team = Team::new()?;
    let rendezvous = team.rendezvous().to_owned();
    for rank in 0..job.ranks {
        let identity = Identity {
            rank,
            world: job.ranks,
            rendezvous: &rendezvous,
            deadline: job.deadline,
        };
        let command = command_of(&identity, &job.assignment(rank))?;
        let child = team.start(command)?;
        if let Some(source) = child.stdout.take() {
            read_lines(rank, source, team.sender())?;
        }
    }
    Ok(team)
}

fn command_of(identity: &Identity<'_>, assignment: &Assignment) -> Result<Command, CliError> {
    let mut command = this_program()?;
    command.arg("rank").arg(serde_json::to_string(assignment)?);
    identity.dress(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

fn supervise(team: &mut Team, job: &Job) -> Result<Outcome, CliError> {
    let total = u64::from(job.sums()) * u64::from(job.cycles);
    let mut progress = Progress::new("all-reduces", total);
    let mut watch = Watch::new(job.ranks, job.deadline, Instant::now());
    loop {
        // Everything that has happened is read before anything is judged: a word that was only read late is not missing.
        while let Some(event) = team.happened() {
            absorb(event, &mut watch, &mut progress)?;
        }
        let until = match watch.verdict(Instant::now()) {
            Verdict::Wait(until) => until,
            Verdict::Go => {
                team.tell_all(GO);
                continue;
            }
            Verdict::Dismiss => {
                team.dismiss_all();
                continue;
            }
            Verdict::Succeeded => return Ok(Outcome::Reports(watch.into_reports())),
            Verdict::Failed(failure) => return Ok(Outcome::Failure(failure)),
        };
        if let Some(event) = team.next(until) {
            absorb(event, &mut watch, &mut progress)?;
        }
    }
}

fn absorb(event: Event, watch: &mut Watch, progress: &mut Progress) -> Result<(), CliError> {
    match event {
        Event::Line { rank, line, at } => {
            if let (Some(done), 0) = (watch.said(rank, &line, at), rank) {
                progress.at(done);
            }
        }
        Event::Closed { rank } => watch.closed(rank),
        Event::Changed { rank, change, at } => watch.changed(rank, change, at),
        Event::Interrupted { signal } => return Err(CliError::Interrupted { signal }),
        Event::OutputLost(cause) => return Err(CliError::Output(cause)),
    }
    Ok(())
}

fn conclude(job: &Job, reports: &[RankReport], json: bool) -> Result<(), CliError> {
    let Some(report) = Report::of(job, reports) else {
        let ran: Vec<_> = reports.iter().map(|report| report.ran).collect();
        let failure = Failure {
            error: format!("the ranks ran different things: {ran:?}"),
            hint: Some("this is a bug: please report it".into()),
            failed_ranks: (0..reports.len()).collect(),
            noticed_ms: None,
            notices: vec![],
        };
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
        let notices = failure
            .notices
            .iter()
            .map(|(rank, error)| json!({"rank": rank, "error": error}));
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
        object["error"] = json!(failure.error);
        object["hint"] = json!(failure.hint);
        object["failed_ranks"] = json!(failure.failed_ranks);
        object["noticed_ms"] = json!(failure.noticed_ms);
        object["notices"] = json!(notices.collect::<Vec<_>>());
        say(&format!("{}\n", serde_json::to_string_pretty(&object)?))?;
    } else if let Some(report) = report {
        say(&report.tables())?;
    }
    let noticed = match failure.noticed_ms {
        Some(ms) if !as_json => format!(" (noticed after {ms:.1} ms)"),
        Some(_) | None => String::new(),
    };
    Ok(CliError::Run {
        cause: format!("{}{noticed}", failure.error),
        hint: failure.hint,
        reported: as_json,
    })
}
