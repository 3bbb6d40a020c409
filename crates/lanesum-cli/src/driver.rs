//! Asks the GPU driver what it is, in a process of its own: a driver that is broken may hang, crash, print, or end whoever loads it.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use lanesum::cuda::DriverFacts;
use lanesum::{CudaError, EngineChoice};
use serde::{Deserialize, Serialize};

use crate::engines::Found;
use crate::errors::{CliError, say};
use crate::spawn::{Ending, die_with_parent, this_program};

/// How long a process that was killed may take to end, before it is left behind.
const LAST: Duration = Duration::from_secs(1);
/// What stands before the answer: the library may print, too.
const MARK: &str = "lanesum-driver: ";

/// What became of the question.
#[derive(Debug, Clone, PartialEq)]
pub enum Driver {
    /// Nobody asked: the host's memory is to do.
    NotAsked,
    /// It is there, and shows GPUs.
    There(DriverFacts),
    /// There is none.
    Missing {
        /// The loader's words.
        error: String,
        /// What to do.
        hint: String,
    },
    /// It shows no GPU to this process.
    NoDevice {
        /// What it says.
        error: String,
        /// What to do.
        hint: String,
    },
    /// There is one that can't be used.
    Broken {
        /// What is wrong.
        error: String,
        /// What to do.
        hint: String,
    },
}

impl Driver {
    /// Asks, where the choice leaves room for GPUs, and waits so long for the answer.
    pub fn ask(choice: EngineChoice, patience: Duration) -> Result<Self, CliError> {
        if choice == EngineChoice::Host {
            return Ok(Self::NotAsked);
        }
        let mut child = this_program()?
            .args(["ask-driver", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| CliError::System {
                what: "start a process that asks the driver".into(),
                source,
            })?;
        let answer = child.stdout.take().map(|output| heard(output, patience));
        let ending = ended(&mut child);
        Ok(match (answer.unwrap_or(Heard::Nothing), ending) {
            (Heard::Answer(answer), _) => answer.into(),
            (Heard::Silence, _) => broken(
                &format!("the GPU driver does not say what it is within {} s", patience.as_secs()),
                "see whether nvidia-smi answers and what dmesg says of Xid errors; GPUs that nobody uses may take long to wake (nvidia-smi -pm 1), and one that has fallen off the bus wants a restart of the machine",
            ),
            (Heard::Nothing, Some(ending)) => broken(
                &format!("the CUDA driver library ended the process that loaded it, with {ending}"),
                "install the NVIDIA driver anew; in a container, look whose libcuda.so.1 is found first (LD_LIBRARY_PATH)",
            ),
            (Heard::Nothing, None) => broken(
                "the CUDA driver library says nothing, and the process that loaded it does not end",
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
            Self::Missing { error, .. } | Self::NoDevice { error, .. } | Self::Broken { error, .. } => {
                Found::host(Some(error.clone()))
            }
        }
    }
}

fn broken(error: &str, hint: &str) -> Driver {
    Driver::Broken {
        error: error.to_owned(),
        hint: hint.to_owned(),
    }
}

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "driver", rename_all = "snake_case")]
enum Answer {
    There {
        version: u32,
        stand_in: bool,
        devices: usize,
    },
    Missing {
        error: String,
        hint: String,
    },
    NoDevice {
        error: String,
        hint: String,
    },
    Broken {
        error: String,
        hint: String,
    },
}

impl From<Answer> for Driver {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::There {
                version,
                stand_in,
                devices,
            } => Self::There(DriverFacts {
                version,
                stand_in,
                devices,
            }),
            Answer::Missing { error, hint } => Self::Missing { error, hint },
            Answer::NoDevice { error, hint } => Self::NoDevice { error, hint },
            Answer::Broken { error, hint } => Self::Broken { error, hint },
        }
    }
}

enum Heard {
    Answer(Answer),
    /// Its output ended without one.
    Nothing,
    /// Time ran out.
    Silence,
}

/// Reads until there is an answer, in a thread that ends with the pipe.
fn heard(output: ChildStdout, patience: Duration) -> Heard {
    let (sender, answer) = channel();
    let reader = move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let answers = lines.filter_map(|line| serde_json::from_str(line.strip_prefix(MARK)?).ok());
        // Whoever asked may have given up.
        answers.take(1).for_each(|answer: Answer| drop(sender.send(answer)));
    };
    if std::thread::Builder::new().spawn(reader).is_err() {
        return Heard::Nothing;
    }
    match answer.recv_timeout(patience) {
        Ok(answer) => Heard::Answer(answer),
        Err(RecvTimeoutError::Disconnected) => Heard::Nothing,
        Err(RecvTimeoutError::Timeout) => Heard::Silence,
    }
}

/// How it ended, by itself within a moment or killed; `None` if it does not.
fn ended(child: &mut Child) -> Option<Ending> {
    use std::os::unix::process::ExitStatusExt;
    let mut ending = |patience: Duration| {
        let since = Instant::now();
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return status
                    .signal()
                    .map(Ending::Signal)
                    .or_else(|| status.code().map(Ending::Code));
            }
            if since.elapsed() > patience {
                // It may have ended meanwhile.
                child.kill().ok();
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    ending(LAST).or_else(|| ending(LAST))
}

/// The process that asks; `parent` started it.
pub fn answer(parent: u32) -> ExitCode {
    if !die_with_parent(parent).unwrap_or(false) {
        return ExitCode::FAILURE;
    }
    let answer = match lanesum::cuda::driver() {
        Ok(DriverFacts {
            version,
            stand_in,
            devices,
        }) => Answer::There {
            version,
            stand_in,
            devices,
        },
        Err(error) => refused(&error),
    };
    let told = serde_json::to_string(&answer).map_err(CliError::from);
    match told.and_then(|answer| say(&format!("\n{MARK}{answer}\n"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn refused(error: &CudaError) -> Answer {
    let (told, hint) = (error.to_string(), error.hint());
    // A file that is there and can't be loaded is another matter.
    if matches!(error, CudaError::NoLibrary { reason } if reason.contains("No such file")) {
        Answer::Missing { error: told, hint }
    } else if *error == CudaError::NoDevice {
        Answer::NoDevice { error: told, hint }
    } else {
        Answer::Broken { error: told, hint }
    }
}
