//! What can go wrong on the command line: each error says its cause, its hint and the exit code.
//!
//! Exit codes: 2 for arguments that make no sense, 1 for a run that failed, 127 for a program that does not
//! exist, 126 for one that cannot be run, 128 + signal after a signal, and for `launch` whatever the first failing rank ended with.

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::json;

use crate::spawn::{Ending, signal_name};

/// Who reads stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// People.
    People,
    /// A program that wants one JSON document.
    Document,
    /// A program that wants JSON objects, a line each, which say their kind.
    Lines,
}

/// Everything a subcommand can end with instead of success.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The arguments cannot be worked with.
    #[error("{cause}")]
    Usage {
        /// What is wrong.
        cause: String,
        /// What to write instead.
        hint: String,
    },
    /// The operating system refused something that every run needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried, in the infinitive.
        what: String,
        /// The refusal.
        source: io::Error,
    },
    /// A file that was asked for can't be written.
    #[error("cannot write {}: {source}", .file.display())]
    NotWritten {
        /// Which.
        file: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// Ctrl-C or another request to end.
    #[error("interrupted by {}", signal_name(*.signal))]
    Interrupted {
        /// The number of the signal.
        signal: i32,
    },
    /// Nobody reads the output any more.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// No GPU can be had, and nothing else would do.
    #[error("{cause}")]
    Driver {
        /// What the driver says, or what became of it.
        cause: String,
        /// What to do.
        hint: String,
    },
    /// A report that cannot be written as JSON.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// `launch` was given a program that does not exist or may not be run.
    #[error("cannot run {program:?}: {cause}")]
    NoSuchProgram {
        /// The program as it was written.
        program: String,
        /// Where it was looked for.
        cause: &'static str,
    },
    /// The program exists, but the system would not run it.
    #[error("cannot run {program:?}: {source}")]
    NotRun {
        /// The program as it was written.
        program: String,
        /// The refusal.
        source: io::Error,
    },
    /// The file is there, but what should run it is not.
    #[error("cannot run {program:?}: it is there, but its interpreter does not exist")]
    NoInterpreter {
        /// The program as it was written.
        program: String,
    },
    /// Ranks that `launch` started have failed.
    #[error("{}{rest}", each_failed(.first, .others))]
    RankFailed {
        /// The first rank that failed, and how it ended.
        first: (usize, Ending),
        /// Those that failed by themselves before the job was ended.
        others: Vec<(usize, Ending)>,
        /// What happened to the rest.
        rest: String,
    },
    /// The ranks of a run did not all succeed; a report with the details may be on stdout already.
    #[error("{cause}")]
    Run {
        /// What happened.
        cause: String,
        /// What to do.
        hint: Option<String>,
        /// Whether both are in the JSON object on stdout already.
        reported: bool,
    },
}

fn each_failed(first: &(usize, Ending), others: &[(usize, Ending)]) -> String {
    let (rank, ending) = first;
    let mut text = format!("rank {rank} failed with {ending}");
    for (rank, ending) in others {
        text.push_str(&format!(", rank {rank} with {ending}"));
    }
    text
}

impl CliError {
    /// What the user can do about it, if anything is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } | Self::Driver { hint, .. } => Some(hint.clone()),
            Self::System { .. } => {
                Some("look at the limits of processes, open files and memory (ulimit -a, the container)".into())
            }
            Self::NotWritten { .. } => {
                Some("name a file in a folder that exists, that may be written to and that has room".into())
            }
            Self::NoSuchProgram { .. } => {
                Some("check the spelling and PATH, or give the path of the program after `--`".into())
            }
            Self::NotRun { .. } => {
                Some("a script needs a first line such as `#!/bin/sh`; a binary, this machine's format".into())
            }
            Self::NoInterpreter { .. } => Some(
                "look at the program in the first line of the script (is there a carriage return at its end?), or at the loader of the binary".into(),
            ),
            Self::RankFailed { first: (rank, _), others, .. } => Some(if others.is_empty() {
                format!("its own output is in the lines that begin with `[{rank}] `")
            } else {
                "the output of each is in the lines that begin with its number in brackets; whichever blames no other rank \
                 is the likely cause"
                    .into()
            }),
            Self::Run { hint, .. } => hint.clone(),
            Self::Interrupted { .. } | Self::Output(_) | Self::Json(_) => None,
        }
    }

    /// The code that the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            Self::System { .. } | Self::NotWritten { .. } | Self::Driver { .. } | Self::Json(_) | Self::Run { .. } => 1,
            Self::Interrupted { signal } => Ending::Signal(*signal).exit_code(),
            Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe => 141,
            Self::Output(_) => 1,
            Self::NoSuchProgram { .. } => 127,
            Self::NotRun { .. } | Self::NoInterpreter { .. } => 126,
            Self::RankFailed { first: (_, ending), .. } => ending.exit_code(),
        }
    }

    /// Tells people, and with `--json` also the program that reads stdout, unless the report did so.
    pub fn tell(&self, reader: Reader) {
        let told = matches!(self, Self::Output(_) | Self::Run { reported: true, .. });
        let (error, hint) = (self.to_string(), self.hint());
        let text = match reader {
            Reader::People => None,
            Reader::Document => Some(format!("{:#}\n", json!({"error": error, "hint": hint}))),
            Reader::Lines => Some(format!("{}\n", json!({"kind": "error", "error": error, "hint": hint}))),
        };
        if let Some(text) = text.filter(|_| !told) {
            // A reader that went away misses nothing.
            say(&text).ok();
        }
        self.print();
    }

    /// Writes cause and hint to stderr. A reader that went away is not worth a message.
    pub fn print(&self) {
        if matches!(self, Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe) {
            return;
        }
        let mut text = format!("error: {self}\n");
        if let Some(hint) = self.hint() {
            text.push_str(&format!("hint: {hint}\n"));
        }
        // Without a stderr there is nobody left to tell.
        io::stderr().lock().write_all(text.as_bytes()).ok();
    }
}

/// Writes to stdout and flushes it, so that a lost reader is an error here and not a panic in a macro.
pub fn say(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(CliError::Output)
}
