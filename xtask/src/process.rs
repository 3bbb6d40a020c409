//! Children under a deadline, followed line by line.
//!
//! Each child leads a process group of its own, so that whatever it started ends with it: at the
//! deadline, at Ctrl-C, or when the caller has read enough. A group of its own does not get the
//! terminal's Ctrl-C, therefore the signal is taken here and ends the group.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::XtaskError;

/// What a reader of lines wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// The answer is known: end the child now.
    Enough,
}

/// How a child ended that did not reach its deadline.
#[derive(Debug, Clone, Copy)]
pub enum Outcome {
    Exited(ExitStatus),
    /// Ended by us after [`Next::Enough`].
    CutShort,
}

impl Outcome {
    pub fn success(self) -> bool {
        match self {
            Outcome::Exited(status) => status.success(),
            Outcome::CutShort => false,
        }
    }
}

/// How often the deadline, Ctrl-C and the child's end are looked at while no line comes.
const LOOK: Duration = Duration::from_millis(50);

/// The same once both pipes are closed: the end is near.
const LOOK_CLOSED: Duration = Duration::from_millis(2);

/// For what is still in the pipes of a child that ended; only who left its group could hold them open so long.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How many lines of output an error shows.
const LAST_LINES: usize = 15;

/// Set when we are told to end: by Ctrl-C, by a supervisor, by a terminal that closes.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&flag)) {
            eprintln!("warning: signal {signal} will not end the children: {error}");
        }
    }
    flag
});

/// Runs `command` to its end and gives each line of its output and error output to `each`.
///
/// # Errors
/// The child could not be started, was late, or Ctrl-C came. A failing exit is no error here.
pub fn follow(
    command: &mut Command,
    deadline: Duration,
    each: &mut dyn FnMut(&str) -> Next,
) -> Result<Outcome, XtaskError> {
    let interrupted = &*INTERRUPTED;
    let started = Instant::now();
    let mut child = start(command)?;
    let (sender, lines) = mpsc::channel();
    read_lines(child.stdout.take(), sender.clone());
    read_lines(child.stderr.take(), sender);
    loop {
        let silent = match lines.recv_timeout(LOOK) {
            Ok(line) => {
                if each(&line) == Next::Enough {
                    end(&mut child, command)?;
                    return Ok(Outcome::CutShort);
                }
                false
            }
            Err(RecvTimeoutError::Timeout) => true,
            // Both pipes are closed: this no longer waits, and the child may still live.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(LOOK_CLOSED);
                true
            }
        };
        // A grandchild may hold the pipes open after the child's end: it is ended, not waited for.
        if silent && let Some(status) = ended(&mut child, command)? {
            end(&mut child, command)?;
            return Ok(last_words(&lines, status, each));
        }
        // Pairs with the signal handler's store; nothing else is published by it.
        if interrupted.load(Ordering::Relaxed) {
            end(&mut child, command)?;
            let command = describe(command);
            return Err(XtaskError::Interrupted { command });
        }
        if started.elapsed() > deadline {
            end(&mut child, command)?;
            let command = describe(command);
            return Err(XtaskError::Late { command, deadline });
        }
    }
}

/// Gives the lines that the child left in its pipes. They close with its group, so this ends soon; a busy machine may take longer to
/// read them than [`LOOK`], and a count or a report that misses lines would be wrong.
fn last_words(lines: &Receiver<String>, status: ExitStatus, each: &mut dyn FnMut(&str) -> Next) -> Outcome {
    let ended = Instant::now();
    while let Ok(line) = lines.recv_timeout(LAST_WORDS.saturating_sub(ended.elapsed())) {
        if each(&line) == Next::Enough {
            return Outcome::CutShort;
        }
    }
    Outcome::Exited(status)
}

/// Runs `command` and returns the lines it printed.
///
/// # Errors
/// As [`follow`], and a failing exit, with the last lines.
pub fn capture(command: &mut Command, deadline: Duration) -> Result<Vec<String>, XtaskError> {
    let mut lines = Vec::new();
    let outcome = follow(command, deadline, &mut |line| {
        lines.push(line.to_owned());
        Next::Continue
    })?;
    if outcome.success() {
        return Ok(lines);
    }
    Err(failure(command, outcome, &lines))
}

/// Replaces this process by `command`, which keeps the terminal, the pipes and the exit code.
///
/// Returns only if that failed.
pub fn become_it(command: &mut Command) -> XtaskError {
    let source = command.exec();
    let command = describe(command);
    XtaskError::CannotStart { command, source }
}

/// The error of a child that ended with `outcome`, showing the end of what it printed.
pub fn failure(command: &Command, outcome: Outcome, lines: &[String]) -> XtaskError {
    let status = match outcome {
        Outcome::Exited(status) => status.to_string(),
        Outcome::CutShort => "ended early".to_owned(),
    };
    XtaskError::Failed {
        command: describe(command),
        status,
        last_lines: last_lines(lines),
    }
}

/// The end of some output, as errors show it.
pub fn last_lines(lines: &[String]) -> Vec<String> {
    lines[lines.len().saturating_sub(LAST_LINES)..].to_vec()
}

/// Keeps only the end of a long output.
#[derive(Debug, Default)]
pub struct Tail(VecDeque<String>);

impl Tail {
    pub fn push(&mut self, line: &str) {
        if self.0.len() == LAST_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    pub fn lines(self) -> Vec<String> {
        self.0.into()
    }
}

/// The command line as errors and records show it: the program's name without its folder.
pub fn describe(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut words = vec![
        program
            .file_name()
            .unwrap_or(program.as_os_str())
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

fn start(command: &mut Command) -> Result<Child, XtaskError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|source| XtaskError::CannotStart {
            command: describe(command),
            source,
        })
}

fn read_lines(pipe: Option<impl Read + Send + 'static>, lines: Sender<String>) {
    let Some(pipe) = pipe else { return };
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        // A read error or a reader that left both end this thread: there is nobody to tell.
        while pipe.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            let line = String::from_utf8_lossy(&bytes);
            if lines.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
}

fn ended(child: &mut Child, command: &Command) -> Result<Option<ExitStatus>, XtaskError> {
    child.try_wait().map_err(|source| lost(command, source))
}

fn wait(child: &mut Child, command: &Command) -> Result<ExitStatus, XtaskError> {
    child.wait().map_err(|source| lost(command, source))
}

/// Kills the child's whole group. That nobody is left in it is what is wanted.
fn end(child: &mut Child, command: &Command) -> Result<(), XtaskError> {
    match kill_process_group(Pid::from_child(child), Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => wait(child, command).map(drop),
        Err(errno) => Err(lost(command, errno.into())),
    }
}

fn lost(command: &Command, source: std::io::Error) -> XtaskError {
    XtaskError::CannotStart {
        command: describe(command),
        source,
    }
}

/// Runs it to its end, and passes on what it says.
///
/// # Errors
/// It can't be started, is late, or ends badly.
pub fn aloud(deadline: Duration, command: &mut Command) -> Result<(), XtaskError> {
    println!("{}", describe(command));
    let mut lines = Vec::new();
    let outcome = follow(command, deadline, &mut |line| {
        println!("  {line}");
        lines.push(line.to_owned());
        Next::Continue
    })?;
    if outcome.success() {
        return Ok(());
    }
    Err(failure(command, outcome, &lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_of_both_pipes_arrive() {
        let lines = capture(&mut shell("echo one; echo two >&2"), Duration::from_secs(10));
        let mut lines = lines.expect("a shell");
        lines.sort();
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn a_failing_child_shows_what_it_said() {
        let error = capture(&mut shell("echo why; exit 3"), Duration::from_secs(10));
        let error = error.expect_err("exit 3").to_string();
        assert!(error.contains("why") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_hanging_child_is_killed_with_its_children() {
        let started = Instant::now();
        let error = capture(&mut shell("sleep 60 & sleep 60"), Duration::from_millis(200));
        assert!(matches!(error, Err(XtaskError::Late { .. })), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_grandchild_that_holds_the_pipes_is_not_waited_for() {
        let started = Instant::now();
        assert!(capture(&mut shell("sleep 60 &"), Duration::from_secs(30)).is_ok());
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn no_line_is_lost_when_they_are_read_late() {
        let mut lines = 0;
        let slowly = &mut |_: &str| {
            lines += 1;
            if lines == 1 {
                std::thread::sleep(3 * LOOK);
            }
            Next::Continue
        };
        let outcome = follow(&mut shell("seq 20000; seq 20000 >&2"), Duration::from_secs(30), slowly);
        assert!(outcome.is_ok_and(Outcome::success));
        assert_eq!(lines, 40_000);
    }

    #[test]
    fn enough_ends_the_child() {
        let outcome = follow(&mut shell("echo go; sleep 60"), Duration::from_secs(30), &mut |_| {
            Next::Enough
        });
        assert!(matches!(outcome, Ok(Outcome::CutShort)), "{outcome:?}");
    }
}
