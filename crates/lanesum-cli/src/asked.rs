//! Asks what a library of the driver's knows, in a process of its own: one that is broken may hang, crash, print, or end whoever loads it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::CliError;
use crate::spawn::{Ending, die_with_parent, this_program};

/// How long a process that was killed may take to end, before it is left behind.
const LAST: Duration = Duration::from_secs(1);
/// What stands before the words of that process: the library may print, too.
const MARK: &[u8] = b"lanesum-answer: ";
/// What it says before it loads the library.
const LOADING: &[u8] = b"loading";
/// The longest line that may be an answer; of longer ones the rest is passed over.
const LINE_MAX: u64 = 1 << 20;
/// How long an answer may take: GPUs that nobody uses may have to wake.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A question that was put, to a process that dies with this one.
pub struct Asked {
    child: Child,
    /// What it says, without the marks; `None` if it has no output.
    lines: Option<Receiver<Vec<u8>>>,
    until: Instant,
}

/// What became of a question.
pub enum Told<T> {
    /// It was answered.
    Answer(T),
    /// Time ran out.
    Silence,
    /// The library ended the process that loaded it.
    Ended(Ending),
    /// It closed the output of that process, which then had to be killed.
    Closed,
}

impl Asked {
    /// Starts a process with this subcommand, whose work is [`answer`].
    pub fn start(question: &str) -> Result<Self, CliError> {
        let mut child = this_program()?
            .args([question, &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // What is typed at the terminal is for this process, which takes it along.
            .process_group(0)
            .spawn()
            .map_err(not_asked)?;
        let output = child.stdout.take();
        Ok(Self {
            child,
            lines: output.map(lines).transpose().map_err(not_asked)?,
            until: Instant::now() + PATIENCE,
        })
    }

    /// Waits for the answer, and for the end of the process.
    pub fn told<T: DeserializeOwned>(mut self) -> Result<Told<T>, CliError> {
        let heard = self.heard();
        let ending = ended(&mut self.child);
        Ok(match (heard, ending) {
            (Heard::Answer(answer), _) => Told::Answer(answer),
            (Heard::Nothing { loading: false }, _) => {
                return Err(not_asked(io::Error::other("it ended before it had begun")));
            }
            (Heard::Silence, _) => Told::Silence,
            (Heard::Nothing { loading: true }, Some(ending)) => Told::Ended(ending),
            (Heard::Nothing { loading: true }, None) => Told::Closed,
        })
    }

    fn heard<T: DeserializeOwned>(&self) -> Heard<T> {
        let mut loading = false;
        let Some(lines) = &self.lines else {
            return Heard::Nothing { loading };
        };
        loop {
            match lines.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
                Ok(words) if words.trim_ascii() == LOADING => loading = true,
                Ok(words) => {
                    if let Ok(answer) = serde_json::from_slice(&words) {
                        return Heard::Answer(answer);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Heard::Nothing { loading },
                Err(RecvTimeoutError::Timeout) => return Heard::Silence,
            }
        }
    }
}

fn not_asked(source: io::Error) -> CliError {
    CliError::System {
        what: "ask the driver in a process of its own".into(),
        source,
    }
}

/// What the process says.
enum Heard<T> {
    Answer(T),
    /// Its output ended without one, before or after it began to load the library.
    Nothing {
        loading: bool,
    },
    /// Time ran out.
    Silence,
}

/// Reads what is marked, in a thread that ends with the pipe.
fn lines(output: ChildStdout) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, lines) = channel();
    let reader = move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let Some(words) = line.strip_prefix(MARK) else { continue };
            // Whoever asked may have given up.
            if sender.send(words.to_vec()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(reader)?;
    Ok(lines)
}

/// How it ended by itself, within a moment; `None` if it had to be killed.
fn ended(child: &mut Child) -> Option<Ending> {
    let by_itself = awaited(child);
    if by_itself.is_none() {
        child.kill().ok();
        // So that no zombie stays; one that does not even end then is left behind.
        awaited(child);
    }
    by_itself
}

fn awaited(child: &mut Child) -> Option<Ending> {
    let since = Instant::now();
    while since.elapsed() < LAST {
        match child.try_wait() {
            Ok(Some(status)) => {
                return status
                    .signal()
                    .map(Ending::Signal)
                    .or_else(|| status.code().map(Ending::Code));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return None,
        }
    }
    None
}

/// The process that was asked; `parent` started it, and `find` loads the library.
pub fn answer<T: Serialize>(parent: u32, find: impl FnOnce() -> T) -> ExitCode {
    if !die_with_parent(parent).unwrap_or(false) {
        return ExitCode::FAILURE;
    }
    let tell = |words: &[u8]| {
        let mut out = io::stdout().lock();
        // Behind whatever the library has printed.
        let line = [b"\n", MARK, words, b"\n"].concat();
        out.write_all(&line).and_then(|()| out.flush())
    };
    if tell(LOADING).is_err() {
        return ExitCode::FAILURE;
    }
    match serde_json::to_vec(&find()).map(|words| tell(&words)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}
