//! lanesum as an engine of the benches: one `all_reduce` of f32 by sum, in place, on private
//! buffers, back to back.
//!
//! Usage: `lanesum launch -n RANKS -- bench-lanesum BYTES CALLS`
//!
//! Same loop as ../openmpi/all_reduce.c, change both together: pin rank r to the r-th core it may
//! use, check every element of one sum, warm up, time each call, report the slowest rank's median
//! and 99th percentile as one line of JSON from rank 0. The timed calls sum zeros, so that values
//! neither overflow nor become subnormal however many calls there are.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use lanesum::{AlgorithmName, AllReduce, Communicator, Issued, Operation};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("usage: bench-lanesum BYTES CALLS, with BYTES that hold an f32 and CALLS of one or more")]
    Usage,
    #[error("cannot pin rank {rank} to a core: {errno}")]
    Pin { rank: usize, errno: rustix::io::Errno },
    #[error("cannot find the number of this rank before it joins: {0}")]
    Identity(#[from] lanesum::environment::EnvironmentError),
    #[error("element {index} is {found}, expected {expected}")]
    WrongSum { index: usize, found: f32, expected: f32 },
    #[error("a call on host memory returned before it was complete")]
    Incomplete,
    #[error(transparent)]
    Lanesum(#[from] lanesum::Error),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), BenchError> {
    let (elements, calls) = arguments().ok_or(BenchError::Usage)?;
    // Pinned before it joins: the plan is made for the cores that the ranks may use.
    pin(lanesum::environment::identity(&|name| std::env::var_os(name))?.rank)?;
    let communicator = Communicator::from_env()?;
    let mut buffer = vec![0.0_f32; elements];
    let algorithm = check(&communicator, &mut buffer)?;

    buffer.fill(0.0);
    for _ in 0..calls / 10 + 1 {
        sum(&communicator, &mut buffer)?;
    }
    completed(communicator.barrier()?)?;
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let started = Instant::now();
        sum(&communicator, &mut buffer)?;
        times.push(started.elapsed());
    }

    times.sort_unstable();
    let microseconds = |index: usize| times[index].as_secs_f32() * 1e6;
    let mut slowest = [microseconds(calls / 2), microseconds(calls * 99 / 100)];
    let slowest_of_all = AllReduce::in_place(&mut slowest).operation(Operation::Max);
    completed(communicator.all_reduce(slowest_of_all)?)?;
    if communicator.rank().index() == 0 {
        let [median, p99] = slowest;
        println!(r#"{{"median_us":{median:.4},"p99_us":{p99:.4},"algorithm":"{algorithm}"}}"#);
    }
    communicator.close()?;
    Ok(())
}

/// Elements and calls.
fn arguments() -> Option<(usize, usize)> {
    let mut words = std::env::args().skip(1);
    let bytes: usize = words.next()?.parse().ok()?;
    let calls: usize = words.next()?.parse().ok()?;
    let elements = bytes / size_of::<f32>();
    (words.next().is_none() && elements > 0 && calls > 0).then_some((elements, calls))
}

fn pin(rank: usize) -> Result<(), BenchError> {
    let failed = |errno| BenchError::Pin { rank, errno };
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let mut own = CpuSet::new();
    if let Some(core) = cores.get(rank % cores.len().max(1)) {
        own.set(*core);
    }
    sched_setaffinity(None, &own).map_err(failed)
}

/// One all-reduce, and which algorithm ran.
fn sum(communicator: &Communicator, buffer: &mut [f32]) -> Result<AlgorithmName, BenchError> {
    completed(communicator.all_reduce(AllReduce::in_place(buffer))?)
}

/// Only a complete call may be timed.
fn completed(issued: Issued) -> Result<AlgorithmName, BenchError> {
    match issued {
        Issued::Done(receipt) => Ok(receipt.algorithm()),
        Issued::Enqueued(_) | Issued::Captured(_) => Err(BenchError::Incomplete),
    }
}

/// Small integers: every order of additions gives the same sum. Returns the algorithm that ran.
fn check(communicator: &Communicator, buffer: &mut [f32]) -> Result<AlgorithmName, BenchError> {
    let mine = communicator.rank().index() as f32 + 1.0;
    let world = communicator.world().get() as f32;
    for (index, element) in buffer.iter_mut().enumerate() {
        *element = mine * (index % 61) as f32;
    }
    let algorithm = sum(communicator, buffer)?;
    for (index, &found) in buffer.iter().enumerate() {
        let expected = world * (world + 1.0) / 2.0 * (index % 61) as f32;
        if found != expected {
            return Err(BenchError::WrongSum { index, found, expected });
        }
    }
    Ok(algorithm)
}
