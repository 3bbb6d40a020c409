//! Ranks as processes of this program: how they are started, what they say, and what is made of it.
//!
//! | module | role |
//! |---|---|
//! | `message` | what goes over the pipes |
//! | `speech` | a rank's side of it |
//! | `supervise` | what the parent makes of it |
//! | `patterns`, `on_device` | inputs with known sums, and where they lie on a GPU |

pub mod copy_engines;
pub mod message;
pub mod on_device;
pub mod patterns;
pub mod speech;
pub mod supervise;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::errors::CliError;
use crate::progress::Progress;
use crate::spawn::{Event, Identity, Team, read_lines, this_program};
use message::GO;
use supervise::{Failure, Heard, Verdict, Watch};

/// What the parent needs to know of a job, whatever its ranks do.
#[derive(Debug, Clone, Copy)]
pub struct Crew {
    /// The hidden subcommand that is one rank.
    pub subcommand: &'static str,
    /// How many.
    pub ranks: usize,
    /// The bound of every wait, where one was asked for.
    pub deadline: Option<Duration>,
    /// Whether `LANESUM=0` is for these ranks, too: not where the user wants to know what lanesum would do.
    pub heeds_switch: bool,
}

/// How a job ended.
pub enum Outcome<R> {
    /// What each rank found, in their order.
    Reports(Vec<R>),
    /// At least one did not get so far.
    Failure(Failure),
}

impl Crew {
    /// Starts a rank with each assignment, and waits for what they find. `part` gets what a rank tells before it is through, and may
    /// have a line told to all ranks.
    pub fn run<R: DeserializeOwned>(
        &self,
        assignment: impl Fn(usize) -> Result<String, serde_json::Error>,
        progress: Progress,
        part: impl FnMut(usize, R) -> Result<Option<String>, CliError>,
    ) -> Result<Outcome<R>, CliError> {
        let mut team = self.start(assignment)?;
        let outcome = self.supervise(&mut team, progress, part)?;
        team.end();
        Ok(outcome)
    }

    fn start(&self, assignment: impl Fn(usize) -> Result<String, serde_json::Error>) -> Result<Team, CliError> {
        let mut team = Team::new()?;
        let rendezvous = team.rendezvous().to_owned();
        for rank in 0..self.ranks {
            let identity = Identity {
                rank,
                world: self.ranks,
                rendezvous: &rendezvous,
                deadline: self.deadline,
            };
            let child = team.start(self.command_of(&identity, &assignment(rank)?)?)?;
            if let Some(source) = child.stdout.take() {
                read_lines(rank, source, team.sender())?;
            }
        }
        Ok(team)
    }

    fn command_of(&self, identity: &Identity<'_>, assignment: &str) -> Result<Command, CliError> {
        let mut command = this_program()?;
        command.arg(self.subcommand).arg(assignment);
        identity.dress(&mut command);
        if !self.heeds_switch {
            command.env_remove(lanesum::environment::SWITCH);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }

    fn supervise<R: DeserializeOwned>(
        &self,
        team: &mut Team,
        mut progress: Progress,
        mut part: impl FnMut(usize, R) -> Result<Option<String>, CliError>,
    ) -> Result<Outcome<R>, CliError> {
        let mut absorb = |event, team: &mut Team, watch: &mut Watch<R>| {
            if let Some((rank, found)) = absorb(event, watch, &mut progress)?
                && let Some(line) = part(rank, *found)?
            {
                team.tell_all(&line);
            }
            Ok::<(), CliError>(())
        };
        let mut watch = Watch::new(self.ranks, self.deadline, Instant::now());
        loop {
            // Everything that has happened is read before anything is judged: a word that was only read late is not missing.
            while let Some(event) = team.happened() {
                absorb(event, team, &mut watch)?;
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
                absorb(event, team, &mut watch)?;
            }
        }
    }
}

/// Tells the watch; what is left is a part of what a rank finds.
fn absorb<R: DeserializeOwned>(
    event: Event,
    watch: &mut Watch<R>,
    progress: &mut Progress,
) -> Result<Option<(usize, Box<R>)>, CliError> {
    match event {
        Event::Line { rank, line, at } => match watch.said(rank, &line, at) {
            Heard::Progress(done) if rank == 0 => progress.at(done),
            Heard::Part(found) => return Ok(Some((rank, found))),
            Heard::Progress(_) | Heard::Nothing => {}
        },
        Event::Closed { rank } => watch.closed(rank),
        Event::Changed { rank, change, at } => watch.changed(rank, change, at),
        Event::Interrupted { signal } => return Err(CliError::Interrupted { signal }),
        Event::OutputLost(cause) => return Err(CliError::Output(cause)),
    }
    Ok(None)
}

/// The ranks of one job found different things where that cannot be.
pub fn disagreement(ranks: usize, what: &str) -> Failure {
    Failure {
        error: format!("the ranks ran different things: {what}"),
        hint: Some("this is a bug: please report it".into()),
        failed_ranks: (0..ranks).collect(),
        noticed_ms: None,
        notices: vec![],
    }
}

impl Failure {
    /// Adds to an object on stdout what programs want to know of a failure.
    pub fn add_to(&self, object: &mut Value) {
        let notices = self
            .notices
            .iter()
            .map(|(rank, error)| json!({"rank": rank, "error": error}));
        object["error"] = json!(self.error);
        object["hint"] = json!(self.hint);
        object["failed_ranks"] = json!(self.failed_ranks);
        object["noticed_ms"] = json!(self.noticed_ms);
        object["notices"] = json!(notices.collect::<Vec<_>>());
    }

    /// The error to end with; `reported` says that stdout has it already.
    pub fn into_error(self, reported: bool) -> CliError {
        let noticed = match self.noticed_ms {
            Some(ms) if !reported => format!(" (noticed after {ms:.1} ms)"),
            Some(_) | None => String::new(),
        };
        CliError::Run {
            cause: format!("{}{noticed}", self.error),
            hint: self.hint,
            reported,
        }
    }
}

/// An assignment as the argument of its rank.
pub fn worded(assignment: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(assignment)
}
