//! Asks the GPU driver what it is, in a process of its own: a driver that is broken may hang, crash, print, or end whoever loads it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use lanesum::cuda::DriverFacts;
use lanesum::{CudaError, EngineChoice};
use serde::{Deserialize, Serialize};

use crate::engines::Found;
use crate::errors::CliError;
use crate::spawn::{Ending, die_with_parent, this_program};

/// How long a process that was killed may take to end, before it is left behind.
const LAST: Duration = Duration::from_secs(1);
/// What stands before the words of that process: the library may print, too.
const MARK: &[u8] = b"lanesum-driver: ";
/// What it says before it loads the library.
const LOADING: &[u8] = b"loading";
/// The longest line that may be an answer; of longer ones the rest is passed over.
const LINE_MAX: u64 = 64 << 10;
/// How long a driver may take to say what it is: GPUs that nobody uses may have to wake.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of the question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Nobody asked: the host's memory is to do.
    NotAsked,
    /// It is there, and shows GPUs.
    There(#[serde(with = "Facts")] DriverFacts),
    /// No GPU can be had from it.
    Without {
        /// Which kind of reason.
        lack: Lack,
        /// What is wrong.
        error: String,
        /// What to do.
        hint: String,
    },
}

/// Why no GPU can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// There is no driver.
    Driver,
    /// It shows no GPU to this process.
    Device,
    /// There is a driver that can't be used.
    Use,
}

/// How the facts are told.
#[derive(Serialize, Deserialize)]
#[serde(remote = "DriverFacts")]
struct Facts {
    version: u32,
    stand_in: bool,
    devices: usize,
}

impl Driver {
    /// Asks, where the choice leaves room for GPUs.
    pub fn ask(choice: EngineChoice) -> Result<Self, CliError> {
        if choice == EngineChoice::Host {
            return Ok(Self::NotAsked);
        }
        let mut child = this_program()?
            .args(["ask-driver", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // What is typed at the terminal is for this process, which takes it along.
            .process_group(0)
            .spawn()
            .map_err(not_asked)?;
        let heard = match child.stdout.take() {
            Some(output) => heard(output).map_err(not_asked)?,
            None => Heard::Nothing { loading: false },
        };
        let ending = ended(&mut child);
        Ok(match (heard, ending) {
            (Heard::Answer(answer), _) => answer,
            (Heard::Nothing { loading: false }, _) => {
                return Err(not_asked(io::Error::other("it ended before it had begun")));
            }
            (Heard::Silence, _) => broken(
                &format!("the GPU driver does not say what it is within {} s", PATIENCE.as_secs()),
                "see whether nvidia-smi answers and what dmesg says of Xid errors; GPUs that nobody uses may take long to wake (nvidia-smi -pm 1), and one that has fallen off the bus wants a restart of the machine",
            ),
            (Heard::Nothing { .. }, Some(ending)) => broken(
                &format!("the CUDA driver library ended the process that loaded it, with {ending}"),
                "install the NVIDIA driver anew; in a container, look whose libcuda.so.1 is found first (LD_LIBRARY_PATH)",
            ),
            (Heard::Nothing { .. }, None) => broken(
                "the CUDA driver library closed the output of the process that loaded it, which then had to be killed",
                "see whether nvidia-smi answers and what dmesg says of Xid errors",
            ),
        })
    }

    /// What ranks are to join with.
    pub fn engine(&self, choice: EngineChoice) -> Found {
        match self {
            Self::NotAsked => Found::host(None),
            Self::There(facts) => Found {
                choice,
                driver: Some(*facts),
                without: None,
            },
            Self::Without { error, .. } => Found::host(Some(error.clone())),
        }
    }
}

fn not_asked(source: io::Error) -> CliError {
    CliError::System {
        what: "ask the driver in a process of its own".into(),
        source,
    }
}

fn broken(error: &str, hint: &str) -> Driver {
    Driver::Without {
        lack: Lack::Use,
        error: error.to_owned(),
        hint: hint.to_owned(),
    }
}

/// What the process says.
enum Heard {
    Answer(Driver),
    /// Its output ended without one, before or after it began to load the library.
    Nothing {
        loading: bool,
    },
    /// Time ran out.
    Silence,
}

/// Reads until there is an answer, in a thread that ends with the pipe.
fn heard(output: ChildStdout) -> io::Result<Heard> {
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
    let until = Instant::now() + PATIENCE;
    let mut loading = false;
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(words) if words.trim_ascii() == LOADING => loading = true,
            Ok(words) => {
                if let Ok(answer) = serde_json::from_slice(&words) {
                    return Ok(Heard::Answer(answer));
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(Heard::Nothing { loading }),
            Err(RecvTimeoutError::Timeout) => return Ok(Heard::Silence),
        }
    }
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

/// The process that asks; `parent` started it.
pub fn answer(parent: u32) -> ExitCode {
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
    let answer = lanesum::cuda::driver().map_or_else(|error| refused(&error), Driver::There);
    match serde_json::to_vec(&answer).map(|words| tell(&words)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

fn refused(error: &CudaError) -> Driver {
    // A file that is there and can't be loaded is another matter.
    let lack = if matches!(error, CudaError::NoLibrary { reason } if reason.starts_with("libcuda.so.1: cannot open")) {
        Lack::Driver
    } else if *error == CudaError::NoDevice {
        Lack::Device
    } else {
        Lack::Use
    };
    Driver::Without {
        lack,
        error: error.to_string(),
        hint: error.hint(),
    }
}
