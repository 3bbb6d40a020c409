//! One rank of a verify cycle: a process of its own that the parent started as `lanesum rank`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lanesum::{Builder, Communicator, bf16, f16};
use lanesum_plan::{
    Buffers, Bytes, Candidate, Dtype, Elements, Explanation, Operation, ReductionTree, Request, Verdict, WorldSize,
};

use super::measure::{Place, Series, Tally};
use super::message::{Assignment, RankReport, Refused};
use crate::cores;
use crate::ranks::copy_engines;
use crate::ranks::message::Quantiles;
use crate::ranks::patterns::{Number, Patterns, folded};
use crate::ranks::speech::{self, Pace, RankError, microseconds, milliseconds};

/// Plain steps are timed at most this often; their cost is a single line of the report.
const PLAIN_CYCLES: u32 = 20;

/// Does what the parent asks for.
pub fn run(assignment: &str) -> ExitCode {
    speech::run(|| work(&serde_json::from_str(assignment)?))
}

fn work(assignment: &Assignment) -> Result<(), RankError> {
    speech::settle(assignment.parent, assignment.cpu)?;
    match assignment.dtype {
        Dtype::F32 => typed::<f32>(assignment),
        Dtype::F16 => typed::<f16>(assignment),
        Dtype::Bf16 => typed::<bf16>(assignment),
    }
}

fn typed<T: Number>(assignment: &Assignment) -> Result<(), RankError> {
    let world = WorldSize::new(assignment.world)?;
    let mut verify = Patterns::<T>::new(1, assignment.elements, assignment.rank);
    let mut plain = Patterns::<T>::new(2, assignment.plain_elements, assignment.rank);
    let tree = ReductionTree::canonical(world);
    speech::consult(&mut [&mut verify, &mut plain], &tree, world)?;
    speech::meet()?;

    let shared = shared_bytes(&verify, assignment.buffers) + shared_bytes(&plain, assignment.buffers);
    let communicator = join(assignment, shared)?;
    speech::joined(&communicator)?;
    if *communicator.tree() != tree {
        speech::consult(&mut [&mut verify, &mut plain], communicator.tree(), world)?;
    }
    let report = measured(&communicator, assignment, &verify, &plain)?;
    speech::conclude(communicator, report)
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
        .algorithm(assignment.algorithm)
        .path(assignment.path);
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
    let place = match (buffers_of(communicator, assignment), assignment.graph) {
        (Buffers::Device, false) => Place::Eager,
        (Buffers::Device, true) => Place::Graph { sums: assignment.sums },
        (buffers @ (Buffers::Private | Buffers::Shared), _) => Place::Host(buffers),
    };
    let mut steps = Series::new(communicator, verify, place)?;
    let mut plain_steps = Series::new(communicator, plain, place)?;
    let mut pace = Pace::new(assignment.rank);
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
    let queued_percent = queue.percent();
    let mut report = report(communicator, assignment, steps.into_tally(), plain_steps.into_tally())?;
    report.queued_percent = queued_percent;
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
    let explanation = explained(communicator, assignment);
    let ran = steps.ran.ok_or(RankError::NoReceipt)?;
    Ok(RankReport {
        ran,
        copy_rate: copy_engines::rate(communicator, ran)?,
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
        refused: explanation.candidates.into_iter().filter_map(refused).collect(),
        other_path: explanation.other_path,
    })
}

/// What the plan says about this request.
fn explained(communicator: &Communicator, assignment: &Assignment) -> Explanation {
    let request = Request {
        operation: Operation::Sum,
        dtype: assignment.dtype,
        elements: Elements::new(assignment.elements as u64),
        buffers: buffers_of(communicator, assignment),
        label: None,
    };
    communicator.explain(&request)
}

fn refused(candidate: Candidate) -> Option<Refused> {
    match candidate.verdict {
        Verdict::Chosen => None,
        Verdict::Refused(refusal) => Some(Refused {
            algorithm: candidate.algorithm,
            reason: refusal.to_string(),
            predicted_us: candidate.predicted_us,
        }),
    }
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
