//! One rank of a soak on GPU memory: calls drawn from a seed that all ranks share, enqueued in stretches, judged.
//!
//! Calls take windows of one input, each at another place, so that what an earlier call has left somewhere is wrong for a later
//! one. Consecutive calls change dtype, operation, length, label and stream; small staging makes several exchanges of the longer
//! ones, so lanes differ in how many epochs they are on.

use std::time::{Duration, Instant};

use lanesum::cuda::{DeviceBuffer, Stream};
use lanesum::{AllReduce, Communicator, Element, EngineChoice, Error, Receipt, bf16, f16};
use lanesum_conformance::Sample;
use lanesum_plan::{Bytes, Operation};

use super::driver;
use super::puppet::whole;
use super::soak::drawn;

/// Calls that are enqueued before anybody waits.
const STRETCH: usize = 64;
const LONGEST: usize = 30_000;

/// What a rank is to do.
pub struct Task {
    pub rank: usize,
    pub world: usize,
    pub name: String,
    pub first_epoch: u64,
    pub calls: usize,
    /// Ends earlier, where the machine is slow.
    pub time: Duration,
}

pub fn soak(task: &Task) -> Result<(), String> {
    let words = |error: Error| format!("rank {}: {error}", task.rank);
    let communicator = Communicator::builder(task.rank, task.world, task.name.as_str())
        .engine(EngineChoice::Cuda)
        .deadline(Duration::from_secs(30))
        .staging(Bytes::new(64 << 10))
        .first_epoch(task.first_epoch)
        .join()
        .map_err(words)?;
    let device = communicator.device().ok_or("no device")?;
    let streams = [Stream::new(device), Stream::new(device), Stream::new(device)];
    let [a, b, c] = streams.map(|stream| stream.map_err(|error| words(error.into())));
    let streams = [a?, b?, c?];
    let mut desks = (
        Desk::<f32>::new(&communicator, &streams[0]).map_err(words)?,
        Desk::<f16>::new(&communicator, &streams[0]).map_err(words)?,
        Desk::<bf16>::new(&communicator, &streams[0]).map_err(words)?,
    );
    let (start, mut seed, mut made) = (Instant::now(), 0x5EED_u64, 0);
    while made < task.calls && !any(&communicator, start.elapsed() > task.time).map_err(words)? {
        let draws: Vec<Draw> = (0..STRETCH)
            .map(|at| Draw::next(&mut seed, (made + at) as u64))
            .collect();
        let mut last = None;
        for (place, draw) in draws.iter().enumerate() {
            let stream = &streams[draw.stream];
            last = Some(
                match draw.dtype {
                    0 => desks.0.enqueue(&communicator, place, draw, stream),
                    1 => desks.1.enqueue(&communicator, place, draw, stream),
                    _ => desks.2.enqueue(&communicator, place, draw, stream),
                }
                .map_err(words)?,
            );
        }
        // Calls follow each other, whatever their streams: the last one's end is everybody's.
        last.map_or(Ok(()), |receipt| receipt.wait().map(|_| ()))
            .map_err(words)?;
        let judged = if driver::is_real() { STRETCH - 1 } else { 0 };
        for (place, draw) in draws.iter().enumerate().skip(judged) {
            let well = match draw.dtype {
                0 => desks.0.is_right(task.world, place, draw, &streams[0]),
                1 => desks.1.is_right(task.world, place, draw, &streams[0]),
                _ => desks.2.is_right(task.world, place, draw, &streams[0]),
            };
            if !well.map_err(words)? {
                return Err(format!(
                    "rank {}, call {}: a wrong result of {draw:?}",
                    task.rank,
                    made + place
                ));
            }
        }
        made += STRETCH;
    }
    if task.rank == 0 {
        let each = start.elapsed().as_secs_f64() * 1e6 / made.max(1) as f64;
        println!(
            "[{} ranks from epoch {:#x}: {made} calls, {each:.1} us each]",
            task.world, task.first_epoch
        );
    }
    drop(desks);
    communicator.close().map_err(words)?;
    if made < task.calls.min(4 * STRETCH) {
        return Err(format!("only {made} calls in {:?}", task.time));
    }
    Ok(())
}

/// Whether it holds on any rank; all get the same answer.
fn any(communicator: &Communicator, here: bool) -> Result<bool, Error> {
    let mut answer = [f32::from(u8::from(here))];
    let issued = communicator.all_reduce(AllReduce::in_place(&mut answer).operation(Operation::Max))?;
    assert!(issued.receipt().is_some());
    Ok(answer[0] > 0.0)
}

/// What one call is: the same on all ranks.
#[derive(Debug)]
struct Draw {
    dtype: usize,
    operation: Operation,
    from: usize,
    elements: usize,
    stream: usize,
    label: Option<u64>,
}

impl Draw {
    fn next(seed: &mut u64, call: u64) -> Draw {
        let mut below = |bound: usize| drawn(seed, bound);
        let most = match below(200) {
            0 => LONGEST,
            1..10 => 9000,
            10..50 => 1500,
            _ => 70,
        };
        let elements = below(most);
        Draw {
            dtype: below(3),
            operation: Operation::ALL[below(3)],
            from: below(LONGEST - elements),
            elements,
            stream: below(3),
            label: (below(2) == 0).then_some(call),
        }
    }
}

/// Small whole numbers, whose sums are exact in every dtype.
fn number(i: usize) -> usize {
    i * 7 % 13
}

/// Buffers of one dtype: an input, and an output for each call of a stretch.
struct Desk<T: Sample> {
    input: DeviceBuffer<T>,
    outputs: Vec<DeviceBuffer<T>>,
    fetched: Vec<T>,
}

impl<T: Sample + Element> Desk<T> {
    fn new(communicator: &Communicator, stream: &Stream) -> Result<Desk<T>, Error> {
        let device = communicator.device().expect("checked before");
        let rank = communicator.rank().index();
        let numbers: Vec<T> = (0..LONGEST).map(|i| whole(number(i) + rank)).collect();
        let mut input = DeviceBuffer::new(device, LONGEST)?;
        input.copy_from(&numbers, stream)?;
        stream.synchronize(Duration::from_secs(10))?;
        let outputs = (0..STRETCH).map(|_| DeviceBuffer::new(device, LONGEST));
        Ok(Desk {
            input,
            outputs: outputs.collect::<Result<_, _>>()?,
            fetched: numbers,
        })
    }

    fn enqueue(
        &mut self,
        communicator: &Communicator,
        place: usize,
        draw: &Draw,
        on: &Stream,
    ) -> Result<Receipt, Error> {
        let input = self
            .input
            .slice(draw.from..draw.from + draw.elements)
            .expect("drawn so");
        let output = self.outputs[place].slice_mut(0..draw.elements).expect("drawn so");
        let call = AllReduce::device_to(input, output, on).operation(draw.operation);
        let issued = communicator.all_reduce(match draw.label {
            Some(label) => call.label(label),
            None => call,
        })?;
        match issued {
            lanesum::Issued::Enqueued(receipt) => Ok(receipt),
            other @ (lanesum::Issued::Done(_) | lanesum::Issued::Captured(_)) => panic!("not enqueued: {other:?}"),
        }
    }

    fn is_right(&mut self, world: usize, place: usize, draw: &Draw, stream: &Stream) -> Result<bool, Error> {
        self.outputs[place].copy_to(&mut self.fetched, stream)?;
        let right = |i: usize| match draw.operation {
            Operation::Sum => world * number(draw.from + i) + world * (world - 1) / 2,
            Operation::Max => number(draw.from + i) + world - 1,
            Operation::Min => number(draw.from + i),
        };
        let output = &self.fetched[..draw.elements];
        Ok((0..draw.elements).all(|i| output[i].bits() == whole::<T>(right(i)).bits()))
    }
}
