//! One rank that the doctor tries: a process of its own that the parent started as `lanesum doctor-rank`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lanesum::cuda::{Device, DeviceBuffer, Stream};
use lanesum::{AllReduce, Builder, Communicator, EngineChoice, bf16};
use lanesum_plan::{Buffers, Bytes, Dtype, Elements, Finding, Operation, PathRefusal, Preference, Request, Topology};
use serde::{Deserialize, Serialize};

use super::report::{Alternative, Decision};
use crate::bench::statistics::Spread;
use crate::cores;
use crate::ranks::message::engine_word;
use crate::ranks::speech::{self, Pace, RankError, microseconds, milliseconds};

/// Bytes of a sum of a verify step.
const VERIFY_STEP: u64 = 43_008;
/// The lengths that decisions are told for, in bytes, and how often a sum of each is timed in the host's memory.
pub const SIZES: [(u64, u32); 6] = [
    (1 << 10, 2_000),
    (8 << 10, 1_000),
    (VERIFY_STEP, 400),
    (256 << 10, 100),
    (1 << 20, 30),
    (16 << 20, 5),
];
/// Sums of a length that nobody times, at most.
const WARM_UP: u32 = 20;
/// GPUs make a sum of each length up to this one.
const ON_GPUS: u64 = 1 << 20;
/// A wait for the device takes at most its bounded kernels' time, and this.
const MARGIN: Duration = Duration::from_secs(5);
/// On a machine that is slow or busy fewer sums have to do.
const BUDGET: Duration = Duration::from_millis(300);

/// The work of one rank: its only argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assignment {
    /// The process that started the rank.
    pub parent: u32,
    /// Which engine to ask for.
    #[serde(with = "engine_word")]
    pub engine: EngineChoice,
    /// The CPU to stay on.
    pub cpu: Option<usize>,
}

/// What one rank found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// What was observed, the same on all ranks.
    pub topology: Topology,
    /// What runs each length, and how long that takes this rank.
    pub decisions: Vec<Decision>,
    /// The gates' answers for a verify step's sum.
    pub gates: Vec<Finding>,
    /// The path between GPUs that is not taken.
    pub other_path: Option<PathRefusal>,
    /// Why there is no GPU, where one would have been welcome.
    pub without_device: Option<String>,
    /// The instructions that sum in the host's memory.
    pub isa: String,
    /// How long it took to make the communicator.
    pub setup_ms: f64,
    /// The host memory that the ranks share.
    pub memory_bytes: u64,
    /// The GPU memory that this rank has taken.
    pub device_memory_bytes: u64,
}

/// Does what the parent asks for.
pub fn run(assignment: &str) -> ExitCode {
    speech::run(|| work(&serde_json::from_str(assignment)?))
}

fn work(assignment: &Assignment) -> Result<(), RankError> {
    speech::settle(assignment.parent, None)?;
    // Where that is refused, ranks do without, as any rank does that nobody pins.
    assignment.cpu.map(cores::pin).transpose().ok();
    speech::meet()?;
    let communicator = Builder::from_env()?.engine(assignment.engine).join()?;
    speech::joined(&communicator)?;
    let report = examined(&communicator)?;
    speech::conclude(communicator, report)
}

fn examined(communicator: &Communicator) -> Result<RankReport, RankError> {
    let buffers = match communicator.device() {
        Some(_) => Buffers::Device,
        None => Buffers::Private,
    };
    let request = |bytes: u64| Request {
        operation: Operation::Sum,
        dtype: Dtype::Bf16,
        elements: Elements::new(bytes / Dtype::Bf16.size() as u64),
        buffers,
        label: None,
    };
    let mut decisions = Vec::new();
    let mut pace = Pace::new(communicator.rank().index());
    for (bytes, times) in SIZES {
        let request = request(bytes);
        let explanation = communicator.explain(&request);
        let (checked, measured_us) = match communicator.device() {
            Some(device) if bytes <= ON_GPUS => {
                summed(communicator, device, request.elements)?;
                (true, None)
            }
            Some(_) => (false, None),
            None => (true, measured(communicator, request.elements, times)?),
        };
        decisions.push(Decision {
            bytes,
            dtype: request.dtype,
            engine: explanation.engine,
            path: explanation.path,
            algorithm: explanation.chosen,
            predicted_us: explanation.predicted_us,
            checked,
            measured_us,
            alternatives: Alternative::all_of(&explanation, Preference::Exact),
        });
        pace.at(decisions.len() as u64)?;
    }
    let step = communicator.explain(&request(VERIFY_STEP));
    Ok(RankReport {
        topology: communicator.topology().clone(),
        decisions,
        gates: step.gates,
        other_path: step.other_path,
        without_device: communicator.without_device().map(str::to_owned),
        isa: communicator.isa().to_owned(),
        setup_ms: milliseconds(communicator.setup_time()),
        memory_bytes: communicator.memory().get(),
        device_memory_bytes: communicator.device_memory().get(),
    })
}

/// The numbers that this rank brings, and their sum: up to 16 ranks bf16 holds it.
fn numbers(communicator: &Communicator) -> (bf16, bf16) {
    let ranks = communicator.world().get();
    let own = communicator.rank().index() as f32 + 1.0;
    (bf16::from_f32(own), bf16::from_f32((ranks * (ranks + 1) / 2) as f32))
}

fn check(values: &[bf16], wanted: bf16) -> Result<(), RankError> {
    if values.iter().all(|value| *value == wanted) {
        return Ok(());
    }
    Err(RankError::Refused {
        cause: format!("a sum of {} is wrong", Bytes::new(2 * values.len() as u64)),
        hint: Some("please report it, with the output of `lanesum selftest`".into()),
    })
}

/// Makes and checks a sum on this rank's GPU.
fn summed(communicator: &Communicator, device: &Device, elements: Elements) -> Result<(), RankError> {
    let (own, wanted) = numbers(communicator);
    let mut values = vec![own; elements.get() as usize];
    let stream = Stream::new(device)?;
    let mut buffer = DeviceBuffer::new(device, values.len())?;
    buffer.copy_from(&values, &stream)?;
    speech::ran(&communicator.all_reduce(AllReduce::device(&mut buffer, &stream))?)?;
    stream.synchronize(communicator.deadline() + MARGIN)?;
    communicator.check()?;
    buffer.copy_to(&mut values, &stream)?;
    check(&values, wanted)
}

/// The median of so many sums in the host's memory, in microseconds, or of fewer if they take long; all ranks make as many. The first
/// and the last are checked.
fn measured(communicator: &Communicator, elements: Elements, times: u32) -> Result<Option<f64>, RankError> {
    let (own, wanted) = numbers(communicator);
    let mut values = vec![own; elements.get() as usize];
    let sum = |values: &mut [bf16]| -> Result<Duration, RankError> {
        let start = Instant::now();
        let issued = communicator.all_reduce(AllReduce::in_place(values))?;
        let time = start.elapsed();
        speech::ran(&issued)?;
        Ok(time)
    };
    let start = Instant::now();
    sum(&mut values)?;
    check(&values, wanted)?;
    // Sums of zeros stay what they are. What the ranks agree on is the largest number that the slowest of them has time for.
    values.fill(bf16::from_f32(0.0));
    let rounds = BUDGET.as_secs_f64() / start.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    let mut agreed = [rounds.clamp(1.0, f64::from(times)) as f32];
    let least = AllReduce::in_place(&mut agreed[..]).operation(Operation::Min);
    speech::ran(&communicator.all_reduce(least)?)?;
    let [rounds] = agreed.map(|rounds| rounds as u32);
    for _ in 0..WARM_UP.min(rounds) {
        sum(&mut values)?;
    }
    let mut found = Vec::new();
    for _ in 0..rounds {
        found.push(microseconds(sum(&mut values)?));
    }
    check(&values, bf16::from_f32(0.0))?;
    values.fill(own);
    sum(&mut values)?;
    check(&values, wanted)?;
    Ok(Spread::of(found).map(|spread| spread.median))
}
