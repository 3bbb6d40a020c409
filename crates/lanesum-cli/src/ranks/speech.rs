//! A rank's side of the pipes.
//!
//! It prepares, waits for the parent's word (so that the set-up time is that of the communicator and not of starting
//! processes), meets the others, works, reports, and stays until the parent closes its input: a rank that is through, or that
//! has given up, must not look to its peers like one that died.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use lanesum::{Captured, Communicator, FaultKind, Issued, Receipt};
use lanesum_plan::{PlanError, ReductionTree, WorldSize};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::{GO, Message, Ran, RankFailure};
use super::patterns::{Number, Patterns};
use crate::{cores, spawn};

/// Rank 0 says how far it is this often, for the progress bar.
const OFTEN: Duration = Duration::from_millis(250);
/// The others only show that they are alive.
const SELDOM: Duration = Duration::from_secs(1);

/// Why a rank gives up.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// It was started by hand.
    #[error("this subcommand is started by others, not typed: {0}")]
    Assignment(#[from] serde_json::Error),
    /// Numbers that make no job.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Nobody is left to report to.
    #[error("the process that started this rank is gone")]
    Orphaned,
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The refusal.
        source: io::Error,
    },
    /// What this rank was given cannot be worked with, or not any more.
    #[error("{cause}")]
    Refused {
        /// What is wrong.
        cause: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The library refused or failed.
    #[error(transparent)]
    Lanesum(#[from] lanesum::Error),
    /// A call returned success without proof.
    #[error("an all-reduce returned without a receipt")]
    NoReceipt,
    /// A call on a stream claims to be done, or to be in a graph where none is recorded, or not to be where one is.
    #[error("an all-reduce on a stream was not {wanted} there")]
    Elsewhere {
        /// What it should have been.
        wanted: &'static str,
    },
    /// Equal requests were decided differently.
    #[error("equal requests ran as {first:?} and then as {then:?}")]
    SeveralDecisions {
        /// What the first receipt named.
        first: Option<Ran>,
        /// What a later one named.
        then: Ran,
    },
}

impl From<lanesum::CudaError> for RankError {
    fn from(error: lanesum::CudaError) -> Self {
        Self::Lanesum(error.into())
    }
}

impl RankError {
    fn failure(&self) -> RankFailure {
        let mut failure = RankFailure {
            error: self.to_string(),
            hint: None,
            failed_ranks: Vec::new(),
            waited_ms: None,
        };
        if let Self::Refused { hint, .. } = self {
            failure.hint.clone_from(hint);
        }
        if let Self::Lanesum(error) = self {
            failure.hint = error.hint();
            failure.failed_ranks = error.failed_ranks().into_iter().map(|rank| rank.index()).collect();
            if let lanesum::Error::Fault(fault) = error
                && let FaultKind::Late { waited, .. } = &fault.kind
            {
                failure.waited_ms = Some(milliseconds(*waited));
            }
        }
        failure
    }
}

/// Does the work of a rank, and tells the parent if it fails.
pub fn run(work: impl FnOnce() -> Result<(), RankError>) -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(RankError::Orphaned) => ExitCode::FAILURE,
        Err(error) => {
            // If the parent cannot be told, it has gone, and there is nothing to stay for.
            if say(&Message::<()>::Failed(error.failure())).is_ok() {
                await_dismissal();
            }
            ExitCode::FAILURE
        }
    }
}

/// Ties this process to its parent, and to a CPU if it has one.
pub fn settle(parent: u32, cpu: Option<usize>) -> Result<(), RankError> {
    let refused = |source| RankError::System {
        what: "tie this rank to its parent",
        source,
    };
    if !spawn::die_with_parent(parent).map_err(refused)? {
        return Err(RankError::Orphaned);
    }
    let Some(cpu) = cpu else { return Ok(()) };
    cores::pin(cpu).map_err(|source| RankError::System {
        what: "stay on one CPU",
        source,
    })
}

/// Asks the oracle for the results of several lists of patterns, with signs of life in between.
pub fn consult<T: Number>(
    patterns: &mut [&mut Patterns<T>],
    tree: &ReductionTree,
    world: WorldSize,
) -> Result<(), RankError> {
    let mut last = Instant::now();
    let mut alive = || {
        if last.elapsed() < SELDOM {
            return Ok(());
        }
        last = Instant::now();
        say(&Message::<()>::Preparing)
    };
    patterns
        .iter_mut()
        .try_for_each(|patterns| patterns.consult(tree, world, &mut alive))
}

/// Does what may take long and says nothing itself, with signs of life meanwhile.
pub fn audibly<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, RankError> {
    let (sender, done) = channel();
    thread::scope(|scope| {
        let worker = move || sender.send(work());
        let started = thread::Builder::new().spawn_scoped(scope, worker);
        started.map_err(|source| RankError::System {
            what: "start a thread",
            source,
        })?;
        loop {
            match done.recv_timeout(SELDOM) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => say(&Message::<()>::Preparing)?,
                Err(RecvTimeoutError::Disconnected) => return Err(RankError::Orphaned),
            }
        }
    })
}

/// Waits until all are ready.
pub fn meet() -> Result<(), RankError> {
    say(&Message::<()>::Ready)?;
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(_) if line.trim_end() == GO => Ok(()),
        Ok(_) | Err(_) => Err(RankError::Orphaned),
    }
}

/// Says that the communicator is there.
pub fn joined(communicator: &Communicator) -> Result<(), RankError> {
    say(&Message::<()>::Joined {
        deadline_ms: u64::try_from(communicator.deadline().as_millis()).unwrap_or(u64::MAX),
    })
}

/// Tells a part of what this rank finds.
pub fn tell<R: Serialize>(part: R) -> Result<(), RankError> {
    say(&Message::Part(Box::new(part)))
}

/// Waits for what the parent makes of the parts of all ranks.
pub fn answer<A: DeserializeOwned>() -> Result<A, RankError> {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(bytes) if bytes > 0 => Ok(serde_json::from_str(&line)?),
        Ok(_) | Err(_) => Err(RankError::Orphaned),
    }
}

/// Reports, stays until all have, and leaves.
pub fn conclude<R: Serialize>(communicator: Communicator, report: R) -> Result<(), RankError> {
    say(&Message::Report(Box::new(report)))?;
    await_dismissal();
    Ok(communicator.close()?)
}

/// Tells the parent how far this rank is, not too often.
pub struct Pace {
    every: Duration,
    last: Instant,
}

impl Pace {
    /// For a rank of this index.
    pub fn new(rank: usize) -> Self {
        Self {
            every: if rank == 0 { OFTEN } else { SELDOM },
            last: Instant::now(),
        }
    }

    /// So much is done.
    pub fn at(&mut self, done: u64) -> Result<(), RankError> {
        if self.last.elapsed() < self.every {
            return Ok(());
        }
        self.last = Instant::now();
        say(&Message::<()>::Progress { done })
    }
}

/// What proves that a call ran, or will: a receipt, or the word of the library that it is part of a graph.
pub fn ran(issued: &Issued) -> Result<Ran, RankError> {
    let of_receipt = |receipt: &Receipt| Ran {
        engine: receipt.engine(),
        path: receipt.path(),
        algorithm: receipt.algorithm(),
    };
    let of_captured = |captured: &Captured| Ran {
        engine: captured.engine(),
        path: captured.path(),
        algorithm: captured.algorithm(),
    };
    match issued {
        Issued::Captured(captured) => Ok(of_captured(captured)),
        Issued::Done(_) | Issued::Enqueued(_) => issued.receipt().map(of_receipt).ok_or(RankError::NoReceipt),
    }
}

/// In microseconds.
pub fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

/// In milliseconds.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn say<R: Serialize>(message: &Message<R>) -> Result<(), RankError> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|_| RankError::Orphaned)
}

/// Stays until the parent closes the pipe, which it does at the latest when it ends.
fn await_dismissal() {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
}
