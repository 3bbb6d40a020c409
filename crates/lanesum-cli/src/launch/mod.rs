//! `lanesum launch`: any program as the ranks of one job, with the environment set and the output told apart.
//!
//! The job ends with its first failing rank. The others first get a moment to say what they noticed (a lanesum program
//! reports the lost rank within 100 ms), then SIGTERM, then SIGKILL, each to the whole process group of the rank.

mod prefix;

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::arguments::{ExecRank, Launch};
use crate::deadline;
use crate::errors::CliError;
use crate::spawn::{Change, Ending, Event, Identity, Team, die_with_parent, this_program};
use prefix::Sink;

/// How long the others may report what they noticed after a rank failed.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How long they may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// How long output may stay open after all ranks ended, before whatever holds it is ended as well.
const LEFTOVERS: Duration = Duration::from_secs(2);
/// "When something happens", for a job that may run for years.
const LONG: Duration = Duration::from_secs(3600);

/// Runs the job.
pub fn run(arguments: &Launch) -> Result<(), CliError> {
    let world = usize::from(arguments.ranks);
    if let Some(program) = arguments.command.first() {
        find_program(program)?;
    }
    let deadline = deadline::wanted(arguments.deadline_ms)?;
    let mut team = Team::new()?;
    let mut copiers = Copiers::new()?;
    let rendezvous = team.rendezvous().to_owned();
    for rank in 0..world {
        let identity = Identity {
            rank,
            world,
            rendezvous: &rendezvous,
            deadline,
        };
        let command = command_of(&identity, &arguments.command)?;
        let sender = team.sender();
        copiers.attach(rank, team.start(command)?, &sender)?;
    }
    let mut job = Job {
        endings: vec![None; world],
        failed: Vec::new(),
        asked: None,
    };
    let outcome = job.supervise(&team);
    if outcome.is_err() {
        job.wind_down(&team);
    }
    copiers.finish(&team);
    team.end();
    outcome.map_err(|stop| job.explain(stop))
}

/// This program again, which asks for the parent-death signal and then becomes the user's.
fn command_of(identity: &Identity<'_>, words: &[OsString]) -> Result<Command, CliError> {
    let mut command = this_program()?;
    command
        .arg("exec-rank")
        .arg("--parent")
        .arg(std::process::id().to_string());
    command.arg("--").args(words);
    identity.dress(&mut command);
    command
        .env("LOCAL_WORLD_SIZE", identity.world.to_string())
        .stdin(input_of(identity.rank))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// Rank 0 reads our input, as with other launchers; but not from a terminal, which would stop a reader in another
/// process group.
fn input_of(rank: usize) -> Stdio {
    if rank == 0 && !io::stdin().is_terminal() {
        Stdio::inherit()
    } else {
        Stdio::null()
    }
}

/// Becomes the user's program; comes back only with an error.
pub fn exec_rank(arguments: &ExecRank) -> Result<(), CliError> {
    let refused = |source| CliError::System {
        what: "tie this rank to its launcher".into(),
        source,
    };
    if !die_with_parent(arguments.parent).map_err(refused)? {
        return Err(refused(io::Error::other("the launcher is gone")));
    }
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(refused(io::Error::other("no program was given")));
    };
    let source = Command::new(program).args(rest).exec();
    Err(why_not_run(program, source))
}

/// The system says "no such file" of an interpreter too.
fn why_not_run(program: &OsStr, source: io::Error) -> CliError {
    let name = program.to_string_lossy().into_owned();
    let is_searched = !program.as_encoded_bytes().contains(&b'/');
    if source.kind() != io::ErrorKind::NotFound || (is_searched && std::env::var_os("PATH").is_none()) {
        return CliError::NotRun { program: name, source };
    }
    match find_program(program) {
        Ok(()) => CliError::NoInterpreter { program: name },
        Err(missing) => missing,
    }
}

/// Finds out before any rank starts whether the program exists, so that one clear error says so and not one a rank.
fn find_program(program: &OsStr) -> Result<(), CliError> {
    let missing = |cause| CliError::NoSuchProgram {
        program: program.to_string_lossy().into_owned(),
        cause,
    };
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return match (Path::new(program).exists(), executable(Path::new(program))) {
            (_, true) => Ok(()),
            (true, false) => Err(missing("it is not an executable file")),
            (false, false) => Err(missing("there is no such file")),
        };
    }
    // Without a PATH the system has a default of its own, which `exec` will search.
    let Some(path) = std::env::var_os("PATH") else {
        return Ok(());
    };
    match std::env::split_paths(&path).any(|place| executable(&place.join(program))) {
        true => Ok(()),
        false => Err(missing("there is no such program in PATH")),
    }
}

fn executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Why a job ends before all of its ranks have.
enum Stop {
    Failed { first: (usize, Ending) },
    Interrupted { signal: i32 },
    OutputLost(io::Error),
}

/// Nobody else says so: the other ranks just seem to hang.
fn tell_stopped(rank: usize) {
    let text =
        format!("lanesum launch: rank {rank} was stopped; the others wait for it until it goes on or they give up\n");
    // Without a stderr there is nobody left to tell.
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

struct Job {
    endings: Vec<Option<Ending>>,
    /// The ranks that failed before they were asked to end, in the order seen.
    failed: Vec<(usize, Ending)>,
    /// How many were asked to end, once they were.
    asked: Option<usize>,
}

impl Job {
    /// Waits until every rank has ended well, or for the first reason to stop.
    fn supervise(&mut self, team: &Team) -> Result<(), Stop> {
        while self.running() > 0 {
            match team.next(Instant::now() + LONG) {
                Some(Event::Changed {
                    rank,
                    change: Change::Exited(ending),
                    ..
                }) => {
                    self.note(rank, ending);
                    if !ending.succeeded() {
                        return Err(Stop::Failed { first: (rank, ending) });
                    }
                }
                Some(Event::Changed {
                    rank,
                    change: Change::Stopped,
                    ..
                }) => tell_stopped(rank),
                Some(Event::Interrupted { signal }) => return Err(Stop::Interrupted { signal }),
                Some(Event::OutputLost(cause)) => return Err(Stop::OutputLost(cause)),
                Some(Event::Changed {
                    change: Change::Continued,
                    ..
                })
                | Some(Event::Line { .. } | Event::Closed { .. })
                | None => {}
            }
        }
        Ok(())
    }

    /// Ends what still runs: last words, SIGTERM, SIGKILL. A second request to end skips the waiting.
    fn wind_down(&mut self, team: &Team) {
        if !self.failed.is_empty() {
            let patient = self.ended_within(team, LAST_WORDS);
            self.asked = Some(self.running());
            if !patient {
                return;
            }
        }
        team.signal_all(Signal::TERM);
        // A stopped process takes note of SIGTERM only once it runs again.
        team.signal_all(Signal::CONT);
        self.ended_within(team, GRACE);
        team.signal_all(Signal::KILL);
    }

    /// Waits for the remaining ranks to end; says no if somebody has no more patience.
    fn ended_within(&mut self, team: &Team, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self.running() > 0 && Instant::now() < until {
            match team.next(until) {
                Some(Event::Changed {
                    rank,
                    change: Change::Exited(ending),
                    ..
                }) => {
                    self.note(rank, ending);
                }
                Some(Event::Interrupted { .. }) => {
                    team.signal_all(Signal::KILL);
                    return false;
                }
                Some(
                    Event::Changed {
                        change: Change::Stopped | Change::Continued,
                        ..
                    }
                    | Event::Line { .. }
                    | Event::Closed { .. }
                    | Event::OutputLost(_),
                )
                | None => {}
            }
        }
        true
    }

    fn running(&self) -> usize {
        self.endings.iter().filter(|ending| ending.is_none()).count()
    }

    fn note(&mut self, rank: usize, ending: Ending) {
        if let Some(known) = self.endings.get_mut(rank) {
            *known = Some(ending);
        }
        if !ending.succeeded() && self.asked.is_none() {
            self.failed.push((rank, ending));
        }
    }

    fn explain(&self, stop: Stop) -> CliError {
        match stop {
            Stop::Failed { first } => CliError::RankFailed {
                first,
                others: self.failed.iter().skip(1).copied().collect(),
                rest: match self.asked.unwrap_or_default() {
                    0 => String::new(),
                    1 => "; the other rank was ended".into(),
                    ended => format!("; the other {ended} ranks were ended"),
                },
            },
            Stop::Interrupted { signal } => CliError::Interrupted { signal },
            Stop::OutputLost(cause) => CliError::Output(cause),
        }
    }
}

/// The threads that copy output, and the pipe whose end tells them that the job is over.
struct Copiers {
    threads: Vec<JoinHandle<()>>,
    over: PipeReader,
    still_on: PipeWriter,
}

impl Copiers {
    fn new() -> Result<Self, CliError> {
        let (over, still_on) = io::pipe().map_err(|source| CliError::System {
            what: "make a pipe".into(),
            source,
        })?;
        Ok(Self {
            threads: Vec::new(),
            over,
            still_on,
        })
    }

    fn attach(&mut self, rank: usize, child: &mut Child, sender: &SyncSender<Event>) -> Result<(), CliError> {
        if let Some(source) = child.stdout.take() {
            self.spawn(rank, source, Sink::Stdout, sender.clone())?;
        }
        if let Some(source) = child.stderr.take() {
            self.spawn(rank, source, Sink::Stderr, sender.clone())?;
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        rank: usize,
        source: impl io::Read + std::os::fd::AsFd + Send + 'static,
        sink: Sink,
        sender: SyncSender<Event>,
    ) -> Result<(), CliError> {
        let refused = |source| CliError::System {
            what: format!("copy the output of rank {rank}"),
            source,
        };
        let over = self.over.try_clone().map_err(refused)?;
        let work = move || {
            if let Err(cause) = prefix::copy(rank, source, sink, over) {
                sender.send(Event::OutputLost(cause)).ok();
            }
        };
        let thread = thread::Builder::new()
            .name(format!("copy-{rank}"))
            .spawn(work)
            .map_err(refused)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Lets the copiers write everything there is. What keeps a pipe open after its rank is ended too. A slow reader of
    /// *our* output is waited for, unless somebody asks to end.
    fn finish(self, team: &Team) {
        let until = Instant::now() + LEFTOVERS;
        while Instant::now() < until && !self.all_done() {
            thread::sleep(Duration::from_millis(2));
        }
        team.signal_all(Signal::KILL);
        drop(self.still_on);
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if let Some(Event::Interrupted { .. }) = team.next(Instant::now() + Duration::from_millis(10)) {
                return;
            }
        }
    }

    fn all_done(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}
