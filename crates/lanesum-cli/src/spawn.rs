//! Starts the ranks of a job as direct children, watches them, and ends them whatever happens.
//!
//! Three reasons shape this module:
//!
//! 1. A child that is dead is reaped by [`Team::end`] only. Until then its process id, which is also the id of its
//!    process group, cannot be given to a stranger, so that a signal never hits the wrong process.
//! 2. Every child leads a process group of its own. Ctrl-C at a terminal reaches this process alone, which then decides,
//!    and ending a rank also ends what it started.
//! 3. A child dies with its parent even if that is killed: it asks for the parent-death signal itself, first thing
//!    (see [`die_with_parent`]), because doing so between fork and exec would need unsafe code. That signal is tied to
//!    the *thread* which started the child: ranks are started from the main thread.
//!
//! Everything that happens arrives in one queue of [`Event`]s, stamped where it was seen.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::errors::{CliError, Reader};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It returned this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl Ending {
    /// What a shell would report for it.
    pub fn exit_code(self) -> u8 {
        match self {
            // Codes have eight bits on Unix.
            Self::Code(code) => (code & 0xff) as u8,
            Self::Signal(signal) => (128 + (signal & 0x7f)) as u8,
        }
    }

    /// Whether it ended as it should.
    pub fn succeeded(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(out, "exit code {code}"),
            Self::Signal(signal) => write!(out, "signal {}", signal_name(*signal)),
        }
    }
}

/// `SIGKILL` for 9, and so on; a number where there is no name.
pub fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => signal.to_string(),
    }
}

/// What became of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It ended.
    Exited(Ending),
    /// It was stopped (SIGSTOP, a debugger) and does not run.
    Stopped,
    /// It runs again.
    Continued,
}

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// A rank wrote a line (without its end).
    Line {
        /// Who.
        rank: usize,
        /// What.
        line: Vec<u8>,
        /// When it was read.
        at: Instant,
    },
    /// A rank closed its output: no line follows.
    Closed {
        /// Who.
        rank: usize,
    },
    /// A rank ended, stopped or went on.
    Changed {
        /// Who.
        rank: usize,
        /// How.
        change: Change,
        /// When it was seen.
        at: Instant,
    },
    /// This process was asked to end.
    Interrupted {
        /// By which signal.
        signal: i32,
    },
    /// Nobody reads what this process writes.
    OutputLost(io::Error),
}

/// What to hand to a rank besides its own arguments.
pub struct Identity<'a> {
    /// Its index.
    pub rank: usize,
    /// How many there are.
    pub world: usize,
    /// The name that only this job uses.
    pub rendezvous: &'a str,
    /// The bound of every wait, where one was asked for.
    pub deadline: Option<Duration>,
}

impl Identity<'_> {
    /// Sets the variables of this rank and removes the ranks and sizes of other launchers, which would contradict them.
    pub fn dress(&self, command: &mut Command) {
        without_identity(command);
        command
            .env("RANK", self.rank.to_string())
            .env("WORLD_SIZE", self.world.to_string())
            .env("LOCAL_RANK", self.rank.to_string())
            .env("LANESUM_RENDEZVOUS", self.rendezvous);
        if let Some(deadline) = self.deadline {
            command.env("LANESUM_DEADLINE_MS", deadline.as_millis().to_string());
        }
    }
}

/// Removes the ranks and sizes that some launcher gave this process.
pub fn without_identity(command: &mut Command) {
    let places = lanesum::environment::VARIABLES.iter().map(|variable| variable.name);
    for place in places.filter(|name| name.ends_with("RANK") || name.ends_with("SIZE")) {
        command.env_remove(place);
    }
}

/// A rendezvous name that no other job on this host uses.
fn own_rendezvous() -> String {
    // The standard library keys each of these from the system's randomness.
    let random = RandomState::new().build_hasher().finish();
    format!("lanesum-{}-{random:016x}", std::process::id())
}

/// A command that runs this very program again.
pub fn this_program() -> Result<Command, CliError> {
    let path = std::env::current_exe().map_err(|source| CliError::System {
        what: "find the path of this program".into(),
        source,
    })?;
    Ok(Command::new(path))
}

struct Member {
    child: Child,
    pid: Pid,
    stdin: Option<ChildStdin>,
}

/// Events that wait to be looked at. Whoever has more to say waits too, so that a flood costs no memory.
const QUEUE: usize = 1024;

/// The ranks of one job, and everything that they report.
pub struct Team {
    rendezvous: String,
    members: Vec<Member>,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
}

impl Team {
    /// An empty team that already listens to SIGINT, SIGTERM and SIGHUP, unless they were ignored from the start.
    pub fn new() -> Result<Self, CliError> {
        let (sender, events) = sync_channel(QUEUE);
        listen_for_signals(sender.clone())?;
        Ok(Self {
            rendezvous: own_rendezvous(),
            members: Vec::new(),
            events,
            sender,
        })
    }

    /// The name under which the ranks meet.
    pub fn rendezvous(&self) -> &str {
        &self.rendezvous
    }

    /// Starts the next rank. The caller takes the pipes that it asked for, all but stdin, out of the child it gets.
    pub fn start(&mut self, mut command: Command) -> Result<&mut Child, CliError> {
        let rank = self.members.len();
        let refused = |source| CliError::System {
            what: format!("start rank {rank}"),
            source,
        };
        let mut child = command.process_group(0).spawn().map_err(refused)?;
        let pid = Pid::from_child(&child);
        let stdin = child.stdin.take();
        self.members.push(Member { child, pid, stdin });
        let sender = self.sender.clone();
        thread::Builder::new()
            .name(format!("watch-{rank}"))
            .spawn(move || watch(rank, pid, &sender))
            .map_err(refused)?;
        match self.members.last_mut() {
            Some(member) => Ok(&mut member.child),
            None => Err(refused(io::Error::other("no such rank"))),
        }
    }

    /// Where readers of the ranks' output put what they read.
    pub fn sender(&self) -> SyncSender<Event> {
        self.sender.clone()
    }

    /// The next event, or `None` if nothing happens until then.
    pub fn next(&self, until: Instant) -> Option<Event> {
        let patience = until.saturating_duration_since(Instant::now());
        // The team holds a sender itself: the only error is that nothing happened.
        self.events.recv_timeout(patience).ok()
    }

    /// What has happened already, if anything has.
    pub fn happened(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Writes a line to each rank. One that cannot read it has ended, which its watcher tells.
    pub fn tell_all(&mut self, line: &str) {
        for stdin in self.members.iter_mut().filter_map(|member| member.stdin.as_mut()) {
            stdin.write_all(format!("{line}\n").as_bytes()).ok();
        }
    }

    /// Closes the stdin of each rank.
    pub fn dismiss_all(&mut self) {
        for member in &mut self.members {
            member.stdin = None;
        }
    }

    /// Sends a signal to each rank and to what it started. Those that have ended no longer mind.
    pub fn signal_all(&self, signal: Signal) {
        for member in &self.members {
            rustix::process::kill_process_group(member.pid, signal).ok();
        }
    }

    /// Kills whatever is left and reaps all, within a bound: a process that even SIGKILL does not end (it hangs in the
    /// kernel) is left to the system.
    pub fn end(&mut self) {
        self.signal_all(Signal::KILL);
        let patience = Instant::now() + Duration::from_secs(2);
        for mut member in self.members.drain(..) {
            while matches!(member.child.try_wait(), Ok(None)) && Instant::now() < patience {
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen_for_signals(sender: SyncSender<Event>) -> Result<(), CliError> {
    on_each_signal(move |signal| sender.send(Event::Interrupted { signal }).is_ok())
}

/// Notes a request to end for work that looks from time to time: the signal's number, or 0. It is noted by the time a system
/// call that the signal interrupts returns.
pub fn note_signals() -> Result<Arc<AtomicUsize>, CliError> {
    let noted = Arc::new(AtomicUsize::new(0));
    for signal in heeded() {
        signal_hook::flag::register_usize(signal, Arc::clone(&noted), signal.unsigned_abs() as usize)
            .map_err(not_listening)?;
    }
    Ok(noted)
}

/// Ends this process when it is asked to, for work that has no queue of events. Its children die with it.
pub fn end_on_signals(reader: Reader) -> Result<(), CliError> {
    on_each_signal(move |signal| {
        let error = CliError::Interrupted { signal };
        error.tell(reader);
        std::process::exit(i32::from(error.exit_code()))
    })
}

/// Calls `act` with each request to end, in a thread of its own, until it says no.
fn on_each_signal(mut act: impl FnMut(i32) -> bool + Send + 'static) -> Result<(), CliError> {
    let mut signals = signal_hook::iterator::Signals::new(heeded()).map_err(not_listening)?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if !act(signal) {
                    return;
                }
            }
        })
        .map(drop)
        .map_err(not_listening)
}

fn not_listening(source: io::Error) -> CliError {
    CliError::System {
        what: "listen to signals".into(),
        source,
    }
}

/// The requests to end that this process heeds.
fn heeded() -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(move |&signal| !ignored(&status, signal))
}

/// Whether this process was started with the signal ignored, as `nohup` does with SIGHUP: then it stays so.
fn ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

/// Reports each change of one child until it ended, and leaves it unreaped (reason 1).
fn watch(rank: usize, pid: Pid, sender: &SyncSender<Event>) {
    let interest = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    loop {
        let status = match rustix::process::waitid(WaitId::Pid(pid), interest | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        let at = Instant::now();
        let change = read_change(&status);
        if sender.send(Event::Changed { rank, change, at }).is_err() {
            return;
        }
        // Takes what was only looked at, or the next look would find it again. It may be gone by now; then what has come in its
        // place is left for the next look.
        let seen = match change {
            Change::Stopped => WaitIdOptions::STOPPED,
            Change::Continued => WaitIdOptions::CONTINUED,
            Change::Exited(_) => return,
        };
        rustix::process::waitid(WaitId::Pid(pid), seen | WaitIdOptions::NOHANG).ok();
    }
}

fn read_change(status: &WaitIdStatus) -> Change {
    if status.stopped() || status.trapped() {
        Change::Stopped
    } else if status.continued() {
        Change::Continued
    } else if let Some(signal) = status.terminating_signal() {
        Change::Exited(Ending::Signal(signal))
    } else {
        Change::Exited(Ending::Code(status.exit_status().unwrap_or(-1)))
    }
}

/// Reads the lines of one rank in a thread of its own.
pub fn read_lines(rank: usize, source: impl Read + Send + 'static, sender: SyncSender<Event>) -> Result<(), CliError> {
    let work = move || {
        let mut source = BufReader::new(source);
        loop {
            let mut line = Vec::new();
            match source.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let at = Instant::now();
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if sender.send(Event::Line { rank, line, at }).is_err() {
                return;
            }
        }
        sender.send(Event::Closed { rank }).ok();
    };
    thread::Builder::new()
        .name(format!("lines-{rank}"))
        .spawn(work)
        .map(drop)
        .map_err(|source| CliError::System {
            what: format!("read from rank {rank}"),
            source,
        })
}

/// In a child: from now on the death of the parent kills this process too. Says no if the parent is dead already.
pub fn die_with_parent(parent: u32) -> io::Result<bool> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the request; then somebody else has adopted this process.
    let adopter = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    Ok(adopter.and_then(|pid| u32::try_from(pid).ok()) == Some(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With nothing to wait for in between: who looks after a system call that was interrupted must see it.
    #[test]
    fn a_request_to_end_is_noted_at_once() {
        let noted = note_signals().expect("listens");
        assert_eq!(noted.load(std::sync::atomic::Ordering::Relaxed), 0);
        signal_hook::low_level::raise(SIGTERM).expect("is raised");
        assert_eq!(noted.load(std::sync::atomic::Ordering::Relaxed), SIGTERM as usize);
    }

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tlanesum\nSigIgn:\t0000000000000001\nSigCgt:\tffffffffffffffff\n";
        assert!(ignored(status, SIGHUP) && !ignored(status, SIGINT) && !ignored(status, SIGTERM));
        assert!(!ignored("", SIGHUP));
    }
}
