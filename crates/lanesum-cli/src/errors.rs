//! What can go wrong on the command line: each error says its cause, its hint and the exit code.
//!
//! Exit codes: 2 for arguments that make no sense, 1 for a run that failed, 127 for a program that does not
//! exist, 126 for one that cannot be run, 128 + signal after a signal, and for `launch` whatever the first failing rank ended with.

use std::io::{self, Write};

use crate::spawn::{Ending, signal_name};

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
    /// Ctrl-C or another request to end.
    #[error("interrupted by {}", signal_name(*.signal))]
    Interrupted {
        /// The number of the signal.
        signal: i32,
    },
    /// Nobody reads the output any more.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
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
    /// A rank that `launch` started has failed.
    #[error("rank {rank} failed with {ending}{rest}")]
    RankFailed {
        /// The first rank that failed.
        rank: usize,
        /// How it ended.
        ending: Ending,
        /// What happened to the others.
        rest: String,
    },
    /// The ranks of a run did not all succeed; a report with the details may be on stdout already.
    #[error("{cause}")]
    Run {
        /// What happened.
        cause: String,
        /// What to do.
        hint: Option<String>,
    },
}

impl CliError {
    /// What the user can do about it, if anything is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } => Some(hint.clone()),
            Self::System { .. } => {
                Some("look at the limits of processes, open files and memory (ulimit -a, the container)".into())
            }
            Self::NoSuchProgram { .. } => {
                Some("check the spelling and PATH, or give the path of the program after `--`".into())
            }
            Self::NotRun { .. } => {
                Some("a script needs a first line such as `#!/bin/sh`; a binary, this machine's format".into())
            }
            Self::RankFailed { rank, .. } => {
                Some(format!("its own output is in the lines that begin with `[{rank}] `"))
            }
            Self::Run { hint, .. } => hint.clone(),
            Self::Interrupted { .. } | Self::Output(_) | Self::Json(_) => None,
        }
    }

    /// The code that the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            Self::System { .. } | Self::Json(_) | Self::Run { .. } => 1,
            Self::Interrupted { signal } => Ending::Signal(*signal).exit_code(),
            Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe => 141,
            Self::Output(_) => 1,
            Self::NoSuchProgram { .. } => 127,
            Self::NotRun { .. } => 126,
            Self::RankFailed { ending, .. } => ending.exit_code(),
        }
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
