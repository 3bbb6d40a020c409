//! What a call costs besides moving and adding bytes, for `cargo xtask bench overhead` and `lanesum bench-launch`.
#![expect(unsafe_code, reason = "launches a kernel without the call around it")]

use std::time::Instant;

use half::bf16;
use lanesum_cuda::{BenchKernel, Unqueued};
use lanesum_plan::{Algorithm, Announced, CallIdentity, Refusal};
use serde::Serialize;

use crate::buffers::{AllReduce, Memory};
use crate::communicator::Communicator;
use crate::error::{Error, Refused};

/// Nanoseconds of a call that waits for nobody: checks, decision, digest, header, looking at the peer's
/// header, counters and receipt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Overhead {
    /// A call with no elements: everything but payload. Median over the batches.
    pub overhead_ns: f64,
    /// A call with one element: the same, and a copy and a sum of four bytes.
    pub one_element_ns: f64,
    /// Calls measured.
    pub calls: u64,
}

const BATCHES: usize = 101;
const BATCH: usize = 10_000;

/// Measures the overhead of a call: two ranks of this process on one thread; the peer's header is there
/// before each call. What posting it costs is measured beside each batch, since a processor's speed changes
/// within seconds, by a second pair of ranks, since a rank that only posts is of no use afterwards.
///
/// # Errors
/// [`Error`] if the ranks can't join, or a call fails.
pub fn overhead() -> Result<Overhead, Error> {
    let ((caller, peer), (_, poster)) = (pair("calls")?, pair("posts")?);
    let [mut empty, mut single] = [Vec::with_capacity(BATCHES), Vec::with_capacity(BATCHES)];
    for _ in 0..BATCHES {
        let posting = time(|| {
            post(&poster, 0);
            Ok(())
        })?;
        empty.push(batch(&caller, &peer, 0)? - posting);
        single.push(batch(&caller, &peer, 1)? - posting);
    }
    Ok(Overhead {
        overhead_ns: median(&mut empty).max(0.0),
        one_element_ns: median(&mut single).max(0.0),
        calls: (2 * BATCHES * BATCH) as u64,
    })
}

/// Nanoseconds of a call of a world of one with eight elements, of the fastest batch: what a call takes where there is nothing to wait
/// for and next to nothing to copy.
///
/// # Errors
/// [`Error`] if the rank can't join, or a call fails.
pub fn alone() -> Result<f64, Error> {
    let alone = Communicator::builder(0, 1, format!("alone-{}", std::process::id())).join()?;
    let mut buffer = [1.0f32; 8];
    let mut best = f64::INFINITY;
    for _ in 0..BATCHES {
        let batch = time(|| {
            let issued = alone.all_reduce(AllReduce::in_place(&mut buffer))?;
            std::hint::black_box(&issued);
            Ok(())
        })?;
        best = best.min(batch);
    }
    Ok(best)
}

/// Two ranks that joined on two threads, both on this one.
fn pair(what: &str) -> Result<(Communicator, Communicator), Error> {
    let name = format!("overhead-{what}-{}", std::process::id());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| Communicator::builder(1, 2, name.as_str()).join());
        let caller = Communicator::builder(0, 2, name.as_str()).join();
        let peer = other.join().unwrap_or_else(|_| {
            Err(Error::System {
                what: "a thread",
                source: std::io::Error::other("it panicked"),
            })
        });
        Ok((caller?, peer?))
    })
}

/// Nanoseconds of one call and of posting its peer's header.
fn batch(caller: &Communicator, peer: &Communicator, elements: usize) -> Result<f64, Error> {
    let mut buffer = [1.0f32; 1];
    time(|| {
        post(peer, elements);
        let issued = caller.all_reduce(AllReduce::in_place(&mut buffer[..elements]))?;
        std::hint::black_box(&issued);
        Ok(())
    })
}

/// Posts the header of the call that the other side is about to make.
fn post(peer: &Communicator, elements: usize) {
    let mut nothing = [0.0f32; 1];
    let call = AllReduce::in_place(&mut nothing[..elements]);
    if let Ok((request, _)) = call.check(peer.engine.segment(), None)
        && let Ok(algorithm) = peer.plan.decide(&request)
    {
        peer.engine.post_only(&Announced::all_reduce(
            &request,
            algorithm.name(),
            CallIdentity::Eager {
                ordinal: peer.next_ordinal(),
            },
        ));
    }
}

/// Nanoseconds of one run of `body`, over a batch.
fn time(mut body: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..BATCH {
        body()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / BATCH as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds of host time to enqueue a call on GPU memory, beside those of launching its kernel and nothing else. Medians over
/// batches that alternate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaunchOverhead {
    /// Name of the device.
    pub device: String,
    /// Whether it is the tests' stand-in, whose times mean nothing.
    pub stand_in: bool,
    /// `all_reduce`, up to its receipt.
    pub call_ns: f64,
    /// The driver's launch of the same kernel with the same grid.
    pub bare_launch_ns: f64,
    /// The first call, which must not load, allocate or compile anything.
    pub first_call_ns: f64,
    /// Calls measured.
    pub calls: u64,
}

/// Fewer than the driver's queue holds: no launch waits for a kernel to end.
const LAUNCHES: u32 = 200;

/// Measures what enqueuing costs the host: a world of one on device `ordinal`, 42 KiB of bf16.
///
/// # Errors
/// [`Error`] if the device can't be used.
pub fn launch_overhead(ordinal: usize) -> Result<LaunchOverhead, Error> {
    let name = format!("launches-{}", std::process::id());
    let communicator = Communicator::builder(0, 1, name).device(ordinal).join()?;
    let (Some(device), Some(cuda)) = (communicator.device(), &communicator.cuda) else {
        return Err(crate::Refused::from(lanesum_plan::Refusal::NoDevice).into());
    };
    let stream = lanesum_cuda::Stream::new(device)?;
    let mut buffer = lanesum_cuda::DeviceBuffer::<half::bf16>::new(device, 3 * 7168)?;
    let start = Instant::now();
    let first = communicator.all_reduce(AllReduce::device(&mut buffer, &stream))?;
    let first_call_ns = start.elapsed().as_nanos() as f64;
    completed(&first)?;
    let [mut calls, mut bare] = [Vec::with_capacity(BATCHES), Vec::with_capacity(BATCHES)];
    let longest = communicator.deadline();
    for _ in 0..BATCHES {
        calls.push(per_launch(|| {
            for _ in 0..LAUNCHES {
                let _issued = communicator.all_reduce(AllReduce::device(&mut buffer, &stream))?;
            }
            Ok(())
        })?);
        stream.synchronize(longest)?;
        let call = AllReduce::device(&mut buffer, &stream);
        let (request, memory) = call.check(communicator.engine.segment(), Some(device.ordinal()))?;
        let (Memory::Device(operands), Ok(Algorithm::DeviceAlone(alone))) =
            (memory, communicator.plan.decide(&request))
        else {
            return Err(crate::Refused::from(lanesum_plan::Refusal::NoDevice).into());
        };
        bare.push(per_launch(|| {
            // SAFETY: the buffer outlives the kernels, which the stream is waited for below.
            Ok(unsafe { cuda.bare_launches((alone.grid(), LAUNCHES), &request, operands) }?)
        })?);
        stream.synchronize(longest)?;
    }
    Ok(LaunchOverhead {
        device: device.facts().name.clone(),
        stand_in: device.facts().stand_in,
        call_ns: median(&mut calls),
        bare_launch_ns: median(&mut bare),
        first_call_ns,
        calls: u64::from(LAUNCHES) * BATCHES as u64,
    })
}

fn completed(issued: &crate::Issued) -> Result<(), Error> {
    issued.receipt().map_or(Ok(()), |receipt| receipt.wait().map(drop))
}

fn per_launch(run: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_nanos() as f64 / f64::from(LAUNCHES))
}

/// What is enqueued in place of a call: the floors of one, and calls without some of their guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// A kernel that does nothing.
    Empty,
    /// A word to each peer and one from each.
    FlagRound,
    /// One shot without headers.
    NoHeader,
    /// One shot whose waits have no deadline.
    NoDeadline,
    /// One shot without any guard.
    Bare,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Variant; 5] = [
        Variant::Empty,
        Variant::FlagRound,
        Variant::NoHeader,
        Variant::NoDeadline,
        Variant::Bare,
    ];

    const fn kernel(self) -> BenchKernel {
        match self {
            Self::Empty => BenchKernel::Empty,
            Self::FlagRound => BenchKernel::FlagRound,
            Self::NoHeader => BenchKernel::NoHeader,
            Self::NoDeadline => BenchKernel::NoDeadline,
            Self::Bare => BenchKernel::Bare,
        }
    }
}

/// Bytes that the copy engines of this rank's GPU carry each way in a microsecond, up and down at once: what the path through host
/// memory is measured against. All ranks ask, and measure together, so that those that share a link divide it. Takes a tenth of a
/// second. `None` if this rank's could not be measured.
///
/// # Errors
/// As [`Communicator::barrier`].
pub fn copy_rate(communicator: &Communicator) -> Result<Option<f64>, Error> {
    let rank = communicator.rank().index();
    let gpus = communicator.topology().gpus.as_ref();
    let node = gpus.and_then(|gpus| gpus.ranks.get(rank)?.numa_node);
    let copies = communicator
        .device()
        .and_then(|device| lanesum_cuda::Copies::new(device, node).ok());
    let _met = communicator.barrier()?;
    Ok(copies.and_then(|copies| copies.rate(communicator.deadline()).ok()))
}

/// Loads the kernels of all variants.
///
/// # Errors
/// [`CudaError::NoImage`](crate::CudaError::NoImage) if this build has none that may stand beside its calls; what the driver refuses.
pub fn load(communicator: &Communicator) -> Result<(), Error> {
    let no_device = || Refused::from(Refusal::NoDevice);
    Ok(communicator.cuda.as_ref().ok_or_else(no_device)?.load_bench()?)
}

/// Enqueues a variant on the call's stream, or records it where that is being captured; the first one loads the kernels. All ranks
/// enqueue the same in the same order.
///
/// # Errors
/// [`CudaError::NoImage`](crate::CudaError::NoImage) if this build has no such kernels; else as [`Communicator::all_reduce`].
///
/// # Safety
/// The buffers of the call live, and nobody else uses them, until the stream is done; in a graph, whenever it runs. The stream is waited
/// for before the communicator ends. What comes of wrong use of a variant without guards is not found out, and may not end.
pub unsafe fn enqueue(communicator: &Communicator, variant: Variant, call: &AllReduce<'_, bf16>) -> Result<(), Error> {
    communicator.usable()?;
    let no_device = || Refused::from(Refusal::NoDevice);
    let cuda = communicator.cuda.as_ref().ok_or_else(no_device)?;
    cuda.load_bench()?;
    let (request, memory) = call.check(communicator.engine.segment(), Some(cuda.device().ordinal()))?;
    let decided = communicator.plan.decide(&request).map_err(Refused::from)?;
    let (Memory::Device(operands), Some(grid)) = (memory, decided.grid()) else {
        return Err(no_device().into());
    };
    // SAFETY: passed on from the caller; `check` has compared the lengths.
    let enqueued = unsafe { cuda.enqueue_bench(variant.kernel(), grid, &request, operands) };
    enqueued.map_err(|unqueued| match unqueued {
        Unqueued::Capturing => Refused::Capturing.into(),
        Unqueued::CaptureInvalid { call, trouble } => Refused::CaptureInvalid { call, trouble }.into(),
        Unqueued::Failed(fault) => Error::Fault(fault),
    })
}
