//! One rank of a verify cycle: a process of its own that the parent started as `lanesum rank`.
//!
//! It prepares, waits for the parent's word (so that the set-up time is that of the communicator and not of starting
//! processes), meets the others, measures, reports, and stays until the parent closes its input: a rank that is through,
//! or that has given up, must not look to its peers like one that died.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lanesum::{Builder, Communicator, FaultKind, bf16, f16};
use lanesum_plan::{
    Buffers, Bytes, Candidate, Dtype, Elements, Operation, PlanError, ReductionTree, Request, Verdict, WorldSize,
};

use super::measure::{Series, Tally};
use super::message::{Assignment, GO, Message, Quantiles, Ran, RankFailure, RankReport, Refused};
use super::patterns::{Number, Patterns, folded};
use crate::{cores, spawn};

/// Rank 0 says how far it is this often, for the progress bar.
const OFTEN: Duration = Duration::from_millis(250);
/// The others only show that they are alive.
const SELDOM: Duration = Duration::from_secs(1);
/// Plain steps are timed at most this often; their cost is a single line of the report.
const PLAIN_CYCLES: u32 = 20;

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
    /// The library refused or failed.
    #[error(transparent)]
    Lanesum(#[from] lanesum::Error),
    /// A call returned success without proof.
    #[error("an all-reduce returned without a receipt")]
    NoReceipt,
    /// A call on a stream claims to be done, or to be in a graph.
    #[error("an all-reduce on a stream was not enqueued there")]
    NotEnqueued,
    /// Equal requests were decided differently.
    #[error("equal requests ran as {first:?} and then as {then:?}")]
    SeveralDecisions {
        /// What the first receipt named.
        first: Option<Ran>,
        /// What a later one named.
        then: Ran,
    },
}

impl RankError {
    fn failure(&self) -> RankFailure {
        let mut failure = RankFailure {
            error: self.to_string(),
            hint: None,
            failed_ranks: Vec::new(),
            waited_ms: None,
        };
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

/// Does what the parent asks for.
pub fn run(assignment: &str) -> ExitCode {
    match work(assignment) {
        Ok(()) => ExitCode::SUCCESS,
        Err(RankError::Orphaned) => ExitCode::FAILURE,
        Err(error) => {
            // If the parent cannot be told, it has gone, and there is nothing to stay for.
            if say(&Message::Failed(error.failure())).is_ok() {
                await_dismissal();
            }
            ExitCode::FAILURE
        }
    }
}

fn work(assignment: &str) -> Result<(), RankError> {
    let assignment: Assignment = serde_json::from_str(assignment)?;
    let refused = |source| RankError::System {
        what: "tie this rank to its parent",
        source,
    };
    if !spawn::die_with_parent(assignment.parent).map_err(refused)? {
        return Err(RankError::Orphaned);
    }
    if let Some(cpu) = assignment.cpu {
        cores::pin(cpu).map_err(|source| RankError::System {
            what: "stay on one CPU",
            source,
        })?;
    }
    match assignment.dtype {
        Dtype::F32 => typed::<f32>(&assignment),
        Dtype::F16 => typed::<f16>(&assignment),
        Dtype::Bf16 => typed::<bf16>(&assignment),
    }
}

fn typed<T: Number>(assignment: &Assignment) -> Result<(), RankError> {
    let world = WorldSize::new(assignment.world)?;
    let mut verify = Patterns::<T>::new(1, assignment.elements, assignment.rank);
    let mut plain = Patterns::<T>::new(2, assignment.plain_elements, assignment.rank);
    let tree = ReductionTree::canonical(world);
    consult(&mut verify, &mut plain, &tree, world)?;
    say(&Message::Ready)?;
    await_go()?;

    let shared = shared_bytes(&verify, assignment.buffers) + shared_bytes(&plain, assignment.buffers);
    let communicator = join(assignment, shared)?;
    say(&Message::Joined {
        deadline_ms: u64::try_from(communicator.deadline().as_millis()).unwrap_or(u64::MAX),
    })?;
    if *communicator.tree() != tree {
        consult(&mut verify, &mut plain, communicator.tree(), world)?;
    }
    let report = measured(&communicator, assignment, &verify, &plain)?;
    say(&Message::Report(Box::new(report)))?;
    await_dismissal();
    communicator.close()?;
    Ok(())
}

fn consult<T: Number>(
    verify: &mut Patterns<T>,
    plain: &mut Patterns<T>,
    tree: &ReductionTree,
    world: WorldSize,
) -> Result<(), RankError> {
    let mut last = Instant::now();
    let mut alive = || {
        if last.elapsed() < SELDOM {
            return Ok(());
        }
        last = Instant::now();
        say(&Message::Preparing)
    };
    verify.consult(tree, world, &mut alive)?;
    plain.consult(tree, world, &mut alive)
}

/// What the inputs take of the communicator's shared memory, each on pages of its own at worst.
fn shared_bytes<T: Number>(patterns: &Patterns<T>, buffers: Buffers) -> u64 {
    match buffers {
        Buffers::Private | Buffers::Device => 0,
        Buffers::Shared => {
            let each = (patterns.elements() * size_of::<T>()) as u64;
            patterns.count() as u64 * (each.next_multiple_of(4096) + 4096)
        }
    }
}

fn join(assignment: &Assignment, shared: u64) -> Result<Communicator, RankError> {
    let mut builder = Builder::from_env()?
        .engine(assignment.engine)
        .algorithm(assignment.algorithm);
    if shared > 0 {
        builder = builder.shared_capacity(Bytes::new(shared));
    }
    Ok(builder.join()?)
}

/// Where there is a GPU, its memory is summed.
fn buffers_of(communicator: &Communicator, assignment: &Assignment) -> Buffers {
    match communicator.device() {
        Some(_) => Buffers::Device,
        None => assignment.buffers,
    }
}

fn measured<T: Number>(
    communicator: &Communicator,
    assignment: &Assignment,
    verify: &Patterns<T>,
    plain: &Patterns<T>,
) -> Result<RankReport, RankError> {
    let buffers = buffers_of(communicator, assignment);
    let mut steps = Series::new(communicator, verify, buffers)?;
    let mut plain_steps = Series::new(communicator, plain, buffers)?;
    let mut pace = Pace::new(assignment);
    steps.warm_up(assignment.sums)?;
    plain_steps.warm_up(assignment.sums)?;
    let queue = Queue::new();
    for cycle in 0..assignment.cycles {
        steps.cycle(assignment.sums)?;
        pace.at(u64::from(cycle + 1) * u64::from(assignment.sums))?;
    }
    for _ in 0..assignment.cycles.min(PLAIN_CYCLES) {
        plain_steps.cycle(assignment.sums)?;
        pace.at(u64::from(assignment.cycles) * u64::from(assignment.sums))?;
    }
    let mut report = report(communicator, assignment, steps.into_tally(), plain_steps.into_tally())?;
    report.queued_percent = queue.percent();
    Ok(report)
}

fn report(
    communicator: &Communicator,
    assignment: &Assignment,
    steps: Tally,
    plain: Tally,
) -> Result<RankReport, RankError> {
    let quantiles = |value: &dyn Fn(u64) -> f64| Quantiles {
        p50: value(50),
        p99: value(99),
    };
    let counters = communicator.counters();
    let mut waited_ms = vec![0.0; assignment.world];
    for (rank, waited) in &counters.waited {
        if let Some(total) = waited_ms.get_mut(rank.index()) {
            *total = milliseconds(*waited);
        }
    }
    Ok(RankReport {
        ran: steps.ran.ok_or(RankError::NoReceipt)?,
        isa: communicator.isa().to_owned(),
        tree: communicator.tree().to_string(),
        all_reduce_us: quantiles(&|percent| microseconds(steps.calls.at_most(percent))),
        cycle_ms: quantiles(&|percent| milliseconds(steps.cycles.at_most(percent))),
        plain_cycle_ms: quantiles(&|percent| milliseconds(plain.cycles.at_most(percent))),
        reductions: u64::from(assignment.cycles) * u64::from(assignment.sums),
        wrong: steps.wrong + plain.wrong,
        first_wrong: steps.first_wrong.or(plain.first_wrong),
        digest: folded(steps.digest, plain.digest),
        setup_ms: milliseconds(communicator.setup_time()),
        memory_bytes: communicator.memory().get(),
        device_memory_bytes: communicator.device_memory().get(),
        gpu: communicator.device().map(|device| device.facts().clone()),
        without_device: communicator.without_device().map(str::to_owned),
        queued_percent: None,
        waited_ms,
        refused: refused(communicator, assignment),
    })
}

/// What the plan says about this request.
fn refused(communicator: &Communicator, assignment: &Assignment) -> Vec<Refused> {
    let request = Request {
        operation: Operation::Sum,
        dtype: assignment.dtype,
        elements: Elements::new(assignment.elements as u64),
        buffers: buffers_of(communicator, assignment),
        label: None,
    };
    let told = |candidate: Candidate| match candidate.verdict {
        Verdict::Chosen => None,
        Verdict::Refused(refusal) => Some(Refused {
            algorithm: candidate.algorithm,
            reason: refusal.to_string(),
            predicted_us: candidate.predicted_us,
        }),
    };
    communicator
        .explain(&request)
        .candidates
        .into_iter()
        .filter_map(told)
        .collect()
}

/// Tells load from cost: a rank that others keep off its CPU makes slow sums, whatever the sums cost.
struct Queue {
    start: Instant,
    before: Option<Duration>,
}

impl Queue {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            before: cores::queued(),
        }
    }

    fn percent(&self) -> Option<f64> {
        let queued = cores::queued()?.saturating_sub(self.before?);
        Some((100.0 * queued.as_secs_f64() / self.start.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)).min(100.0))
    }
}

/// Tells the parent how far this rank is, not too often.
struct Pace {
    every: Duration,
    last: Instant,
}

impl Pace {
    fn new(assignment: &Assignment) -> Self {
        Self {
            every: if assignment.rank == 0 { OFTEN } else { SELDOM },
            last: Instant::now(),
        }
    }

    fn at(&mut self, done: u64) -> Result<(), RankError> {
        if self.last.elapsed() < self.every {
            return Ok(());
        }
        self.last = Instant::now();
        say(&Message::Progress { done })
    }
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn say(message: &Message) -> Result<(), RankError> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|_| RankError::Orphaned)
}

fn await_go() -> Result<(), RankError> {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(_) if line.trim_end() == GO => Ok(()),
        Ok(_) | Err(_) => Err(RankError::Orphaned),
    }
}

/// Stays until the parent closes the pipe, which it does at the latest when it ends.
fn await_dismissal() {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
}
