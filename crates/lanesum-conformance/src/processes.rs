//! Ranks as processes of their own: a program that is run again for each rank and calls [`serve_rank`].
//!
//! A rank gets its job as JSON on standard input and writes a line of JSON for each report. No environment variable is
//! involved, and a rank dies with the thread that started it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use crate::carrier::{Carry, Job, Message, Options, Report, drive, serve};
use crate::case::Case;
use crate::verdict::{Carrier, Failure, Outcome, Summary};

/// A program that calls [`serve_rank`] when it is run with these arguments.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// The running executable with one argument, which makes it a rank.
    ///
    /// # Errors
    /// Where the operating system can't tell which file is being run.
    pub fn this(argument: &str) -> io::Result<Program> {
        Ok(Program {
            path: std::env::current_exe()?,
            arguments: vec![argument.into()],
        })
    }
}

/// Why a rank could not even begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The job could not be read.
    #[error("reading the job from standard input: {0}")]
    Read(#[from] io::Error),
    /// The job is not one.
    #[error("standard input holds no job: {0}")]
    Job(#[from] serde_json::Error),
    /// The rank could not be tied to the life of its parent.
    #[error("asking to end with the parent: {0}")]
    Tie(#[from] rustix::io::Errno),
}

/// Runs the cases, ranks being processes, and calls `observe` with each outcome as it is known.
pub fn run(program: &Program, cases: &[Case], options: &Options, observe: &mut dyn FnMut(&Outcome)) -> Summary {
    drive(program, cases, options, observe)
}

/// The rank's side: reads a job from standard input, runs it, writes the reports to standard output.
///
/// # Errors
/// Where standard input holds no job. All that goes wrong later is reported to the parent.
pub fn serve_rank() -> Result<(), ServeError> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    let job: Job = serde_json::from_str(&text)?;
    serve(&job, &mut |report| {
        // A line that can't be written has no reader: the parent is gone or has given this rank up.
        if let Ok(line) = serde_json::to_string(&report) {
            drop(writeln!(io::stdout().lock(), "{line}"));
        }
    });
    Ok(())
}

impl Carry for Program {
    const CARRIER: Carrier = Carrier::Processes;
    type Group = Vec<Child>;

    fn start(&self, jobs: Vec<Job>, to: &Sender<Message>) -> Result<Vec<Child>, Failure> {
        let mut children = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.start_rank(&job, to.clone()) {
                Ok(child) => children.push(child),
                Err(error) => {
                    self.stop(children, Duration::ZERO);
                    return Err(Failure::Join {
                        error: format!("no process for rank {}: {error}", job.rank),
                    });
                }
            }
        }
        Ok(children)
    }

    fn stop(&self, children: Vec<Child>, grace: Duration) {
        let start = Instant::now();
        for mut child in children {
            while matches!(child.try_wait(), Ok(None)) && start.elapsed() < grace {
                thread::sleep(Duration::from_millis(1));
            }
            // Both fail only for a child that has ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Program {
    fn start_rank(&self, job: &Job, to: Sender<Message>) -> io::Result<Child> {
        let mut child = Command::new(&self.path)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let rank = job.rank;
        let line = serde_json::to_string(job)?;
        let Some((mut stdin, stdout)) = stdin.zip(stdout) else {
            return Err(io::Error::other("the pipes to the rank are missing"));
        };
        thread::Builder::new()
            .name(format!("reports of rank {rank}"))
            .spawn(move || listen(rank, stdout, &to))?;
        // The child reads all of it before it does anything else, so this can't block for long.
        stdin.write_all(line.as_bytes())?;
        Ok(child)
    }
}

/// Passes a rank's reports on, and makes up for the last one where the rank ends without it.
fn listen(rank: usize, stdout: ChildStdout, to: &Sender<Message>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { break };
        // What isn't a report is something else the program prints.
        let Ok(report) = serde_json::from_str::<Report>(&line) else {
            continue;
        };
        let last = matches!(report, Report::Ended { .. });
        if to.send((rank, report)).is_err() || last {
            return;
        }
    }
    let status = "its process ended without a last report".to_owned();
    // Nobody listens any more once the group was given up.
    drop(to.send((
        rank,
        Report::Ended {
            failure: Some(Failure::Crashed { status }),
        },
    )));
}
