//! The processes of one engine: started once, given orders, listened to, and ended whatever happens.
//!
//! An engine is not ours: it may be absent, refuse a type, give wrong sums, die, or wait for ever. Each of these is an end of the
//! conversation with a reason, after a bounded time, and costs no other engine anything.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lanesum_plan::{Buffers, Dtype};
use rustix::process::Signal;

use super::folder::Folder;
use super::job::Job;
use super::output::{Bounded, CHATTER};
use super::program::Program;
use super::said::{Said, Timed, heard};
use crate::errors::CliError;
use crate::spawn::{Change, Ending, Event, Team, read_lines, this_program, without_identity};

/// Beyond the deadline, so that ranks that keep it themselves say first who was late.
const GRACE: Duration = Duration::from_secs(5);
/// What is left in the pipe of a launcher that ended is read this long: something that it started may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Launchers end their ranks when they are asked to; then they are killed.
const ASKED: Duration = Duration::from_secs(1);
/// Ranks that sleep leave sooner than they could be ended, and leave nothing behind. Those that do not sleep are not waited for longer.
const IDLE: Duration = Duration::from_secs(1);
/// However many calls a turn has, and however slow they are. Ranks end themselves beyond that.
const LONGEST_TURN: Duration = Duration::from_secs(86_400);
/// Ranks that have no more orders leave.
const LEAVE: Duration = Duration::from_secs(5);

/// One turn.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// The type of an element.
    pub dtype: Dtype,
    /// Where they lie.
    pub buffers: Buffers,
    /// How many each rank brings.
    pub elements: u64,
    /// Calls off the record.
    pub warm_ups: u32,
    /// Calls on it.
    pub calls: u32,
    /// The inputs of the sums that are checked depend on it.
    pub salt: u32,
    /// How long its calls may take, as far as that is known.
    pub takes: Duration,
}

/// What came of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Times.
    Timed(Timed),
    /// There is no such sum.
    Missing(String),
    /// The engine is gone.
    Over(Trouble),
}

/// Why an engine is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// In words.
    pub reason: String,
    /// In kind.
    pub how: How,
}

/// How an engine went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It gave a wrong sum.
    Wrong,
    /// It said nothing any more.
    Hung,
    /// It ended, or said that it cannot go on.
    Failed,
}

/// An engine at work.
pub struct Conversation {
    team: Team,
    orders: Vec<File>,
    log: PathBuf,
    patience: Duration,
    /// The launcher has ended.
    over: bool,
    /// What the engine calls itself.
    pub version: String,
}

impl Conversation {
    /// Starts the ranks, and waits until they are ready; or says why they are not.
    pub fn start(
        job: &Job,
        ranks: usize,
        folder: &Folder,
        program: &Program,
    ) -> Result<Result<Self, Trouble>, CliError> {
        let name = folder.name(program.name);
        let (pipes, orders) = folder.pipes(&name, ranks)?;
        let log = format!("{name}.log");
        let patience = job.deadline + GRACE;
        let mut command = bound_to_us()?;
        command.args(&program.before).arg("-n").arg(ranks.to_string());
        command.args(&program.after).arg(pipes).arg(job.cpus_of(ranks));
        command.arg((patience + LONGEST_TURN + GRACE).as_secs().to_string());
        command.envs(program.variables.iter().map(|(name, value)| (name, value)));
        let mut team = Team::new()?;
        listen_to(&mut team, command, folder.log(&log)?)?;
        let mut conversation = Self {
            team,
            orders,
            log: folder.path(&log),
            patience,
            over: false,
            version: String::new(),
        };
        Ok(match conversation.listen(patience)? {
            Ok(Said::Ready { version, .. }) if !version.contains(program.brand) => {
                Err(failed(format!("it is another library, {}", in_short(&version))))
            }
            Ok(Said::Ready { ranks: found, version }) if found == ranks => {
                conversation.version = in_short(&version);
                Ok(conversation)
            }
            Ok(Said::Ready { ranks: found, .. }) => Err(failed(format!("{found} ranks met instead of {ranks}"))),
            Ok(other) => Err(match answer(other) {
                Answer::Over(trouble) => trouble,
                Answer::Missing(reason) => failed(reason),
                Answer::Timed(_) => failed("it answered before it was asked".into()),
            }),
            Err(trouble) => Err(trouble),
        })
    }

    /// One turn. After [`Answer::Over`] there is no other.
    pub fn ask(&mut self, order: &Order) -> Result<Answer, CliError> {
        let line = format!(
            "{} {} {} {} {} {}\n",
            order.dtype, order.buffers, order.elements, order.warm_ups, order.calls, order.salt
        );
        for pipe in &mut self.orders {
            pipe.write_all(line.as_bytes()).map_err(|source| CliError::System {
                what: "give the ranks of an engine their orders".into(),
                source,
            })?;
        }
        Ok(match self.listen(self.patience + order.takes.min(LONGEST_TURN))? {
            Ok(said) => answer(said),
            Err(trouble) => Answer::Over(trouble),
        })
    }

    /// There are no more orders: ranks that sleep leave. Nobody is waited for.
    pub fn dismiss(&mut self) {
        self.orders.clear();
    }

    /// Lets the ranks leave.
    pub fn finish(mut self) {
        self.dismiss();
        self.await_end(LEAVE);
    }

    /// The next word, or the reason why there is none.
    fn listen(&mut self, patience: Duration) -> Result<Result<Said, Trouble>, CliError> {
        let mut until = Instant::now() + patience;
        let mut ended = None;
        let mut chatter = 0;
        loop {
            match self.team.next(until) {
                Some(Event::Line { line, .. }) => {
                    if let Some(said) = heard(&line) {
                        return Ok(Ok(said));
                    }
                    chatter += line.len() + 1;
                    if chatter > CHATTER {
                        return Ok(Err(failed(format!("it wrote {} KiB and no answer", CHATTER >> 10))));
                    }
                }
                Some(Event::Closed { .. }) if ended.is_some() => until = Instant::now(),
                Some(Event::Changed {
                    change: Change::Exited(ending),
                    ..
                }) => {
                    ended = Some(ending);
                    self.over = true;
                    until = Instant::now() + LAST_WORDS;
                }
                Some(Event::Closed { .. } | Event::Changed { .. }) => {}
                Some(Event::Interrupted { signal }) => return Err(CliError::Interrupted { signal }),
                Some(Event::OutputLost(cause)) => return Err(CliError::Output(cause)),
                None => return Ok(Err(self.silent(ended, patience))),
            }
            // There is always a next line of who writes faster than we read.
            if Instant::now() >= until {
                return Ok(Err(self.silent(ended, patience)));
            }
        }
    }

    fn silent(&self, ended: Option<Ending>, patience: Duration) -> Trouble {
        let Some(ending) = ended else {
            return Trouble {
                reason: format!("it hangs: no rank said anything for {} s", patience.as_secs()),
                how: How::Hung,
            };
        };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        failed(match telling_line(&log) {
            Some(line) => format!("it ended with {ending}: {line}"),
            None => format!("it ended with {ending}"),
        })
    }

    /// Waits for the launcher's end, not longer than this. Whoever interrupts us learns of it when all is over, soon.
    fn await_end(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.over && Instant::now() < until {
            let Some(event) = self.team.next(until) else {
                return;
            };
            self.over = matches!(
                event,
                Event::Changed {
                    change: Change::Exited(_),
                    ..
                }
            );
        }
    }
}

impl Drop for Conversation {
    /// Asks first: a launcher that is killed may leave ranks behind, in groups of their own. The team kills what is left.
    fn drop(&mut self) {
        self.dismiss();
        self.await_end(IDLE);
        self.team.signal_all(Signal::TERM);
        self.await_end(ASKED);
    }
}

fn answer(said: Said) -> Answer {
    match said {
        Said::Point(timed) => Answer::Timed(timed),
        Said::Missing { reason } => Answer::Missing(reason),
        Said::Wrong { reason } => Answer::Over(Trouble {
            reason: format!("wrong sums: {reason}"),
            how: How::Wrong,
        }),
        Said::Failed { reason } => Answer::Over(failed(reason)),
        Said::Ready { .. } => Answer::Over(failed("its ranks began anew in the middle".into())),
    }
}

fn failed(reason: String) -> Trouble {
    Trouble {
        reason,
        how: How::Failed,
    }
}

/// What it calls itself, without what follows the first comma, which is of who built it and where.
fn in_short(version: &str) -> String {
    let name = version.split(',').next().unwrap_or_default();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What tunes the libraries of peers.
const TUNES: [&str; 10] = [
    "OMPI_MCA_",
    "PRTE_MCA_",
    "PMIX_MCA_",
    "I_MPI_",
    "UCX_",
    "MPIR_CVAR_",
    "MPICH_",
    "HYDRA_",
    "CCL_",
    "FI_",
];

/// This program, which will become the one that is added, and die with us. Peers are what their defaults and our flags make of them,
/// which are told, and not what variables of this machine do.
pub fn bound_to_us() -> Result<Command, CliError> {
    let mut command = this_program()?;
    without_identity(&mut command);
    for (name, _) in std::env::vars_os() {
        if TUNES
            .iter()
            .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        {
            command.env_remove(name);
        }
    }
    command
        .arg("exec-rank")
        .arg("--parent")
        .arg(std::process::id().to_string())
        .arg("--");
    Ok(command)
}

/// Starts it; its lines are events of the team, and its complaints are in the log.
pub fn listen_to(team: &mut Team, mut command: Command, log: File) -> Result<(), CliError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let child = team.start(command)?;
    match child.stdout.take() {
        Some(source) => read_lines(0, Bounded::new(source), team.sender()),
        None => Ok(()),
    }
}

/// The first line that says `error`, else the last with anything in it.
pub fn telling_line(log: &str) -> Option<String> {
    let lines = || {
        log.lines()
            .map(str::trim)
            .filter(|line| line.chars().any(char::is_alphanumeric))
    };
    let error = lines().find(|line| line.to_ascii_lowercase().contains("error"));
    let line = error.or_else(|| lines().next_back())?;
    Some(line.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_is_the_first_error_or_the_last_line() {
        let log = "hello\n----\nfatal error: mpi.h: No such file\ncompilation ended\n\n";
        assert_eq!(telling_line(log).as_deref(), Some("fatal error: mpi.h: No such file"));
        assert_eq!(telling_line("one\ntwo\n---\n").as_deref(), Some("two"));
        assert_eq!(telling_line("\n---\n"), None);
    }

    #[test]
    fn a_version_does_not_say_who_built_it() {
        assert_eq!(
            in_short("Open MPI  v4.1.6, package: Open MPI me@host"),
            "Open MPI v4.1.6"
        );
        assert_eq!(in_short("lanesum 0.1.0 (avx2)"), "lanesum 0.1.0 (avx2)");
    }
}
