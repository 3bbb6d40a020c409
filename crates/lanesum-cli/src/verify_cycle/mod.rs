//! `lanesum verify-cycle`: the all-reduces of one speculative verify step, done by real rank processes, checked and timed.
//!
//! | module | role |
//! |---|---|
//! | `rank`, `measure`, `patterns`, `histogram` | what each rank process does |
//! | `message` | what goes over the pipes |
//! | `supervise` | what the parent makes of it |
//! | `report`, `speculation` | what it says in the end |

mod histogram;
mod measure;
mod message;
mod patterns;
pub mod rank;
mod report;
pub mod speculation;
mod supervise;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lanesum_plan::{AlgorithmChoice, Buffers, Dtype};
use serde_json::json;

use crate::arguments::{Economy, VerifyCycle};
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::spawn::{Event, Identity, Team, read_lines, this_program};
use crate::{cores, deadline};
use message::{Assignment, GO, RankReport};
use report::Report;
use speculation::Inputs;
use supervise::{Failure, Verdict, Watch};

/// The largest message of a cycle: every rank holds a few of them.
const MESSAGE_MAX: u64 = 256 << 20;

/// A checked job.
#[derive(Debug, Clone)]
pub struct Job {
    ranks: usize,
    layers: u32,
    tokens: u64,
    hidden: u64,
    dtype: Dtype,
    cycles: u32,
    buffers: Buffers,
    algorithm: AlgorithmChoice,
    deadline: Option<Duration>,
    /// One CPU a rank, or none at all.
    cpus: Vec<usize>,
    step: Inputs,
}

impl Job {
    fn checked(arguments: &VerifyCycle) -> Result<Self, CliError> {
        let usable = cores::usable().map_err(|source| CliError::System {
            what: "read which CPUs this process may use".into(),
            source,
        })?;
        let ranks = arguments.ranks.map_or_else(|| usable.len().clamp(2, 8), usize::from);
        let pin = !arguments.no_pin && ranks <= usable.len();
        let job = Self {
            ranks,
            layers: arguments.layers,
            tokens: arguments.tokens,
            hidden: arguments.hidden,
            dtype: arguments.dtype,
            cycles: arguments.cycles,
            buffers: arguments.buffers,
            algorithm: arguments.algorithm,
            deadline: deadline::wanted(arguments.deadline_ms)?,
            cpus: if pin { usable } else { vec![] },
            step: inputs_of(&arguments.economy),
        };
        job.check_size()?;
        Ok(job)
    }

    fn check_size(&self) -> Result<(), CliError> {
        let elements = self.tokens.checked_mul(self.hidden);
        let bytes = elements.and_then(|elements| elements.checked_mul(self.dtype.size() as u64));
        if bytes.is_some_and(|bytes| bytes <= MESSAGE_MAX) {
            return Ok(());
        }
        Err(CliError::Usage {
            cause: format!(
                "--tokens {} x --hidden {} elements of {} are more than the {} MiB that one message may have",
                self.tokens,
                self.hidden,
                self.dtype,
                MESSAGE_MAX >> 20
            ),
            hint: "take fewer tokens or a narrower model; a verify step has a few tokens, such as --tokens 3".into(),
        })
    }

    fn sums(&self) -> u32 {
        2 * self.layers
    }

    fn bytes(&self) -> u64 {
        self.tokens * self.hidden * self.dtype.size() as u64
    }

    fn pinned(&self) -> bool {
        !self.cpus.is_empty()
    }

    /// The known case with as many sums as there are here.
    fn known(&self) -> Inputs {
        Inputs {
            sums: u64::from(self.sums()),
            ..self.step
        }
    }

    fn assignment(&self, rank: usize) -> Assignment {
        Assignment {
            parent: std::process::id(),
            rank,
            world: self.ranks,
            sums: self.sums(),
            // Both are bounded by MESSAGE_MAX.
            elements: (self.tokens * self.hidden) as usize,
            plain_elements: self.hidden as usize,
            dtype: self.dtype,
            cycles: self.cycles,
            buffers: self.buffers,
            algorithm: self.algorithm,
            cpu: self.cpus.get(rank).copied(),
        }
    }
}

fn inputs_of(economy: &Economy) -> Inputs {
    Inputs {
        sums: speculation::KNOWN.sums,
        compute_ms: economy.compute_ms,
        draft_ms: economy.draft_ms,
        accepted: economy.accepted,
        verify_sum_us: economy.verify_sum_us,
        plain_sum_us: economy.plain_sum_us,
    }
}

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
            None => json!({"ranks": job.ranks, "layers": job.layers, "bytes": job.bytes(), "dtype": job.dtype}),
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
