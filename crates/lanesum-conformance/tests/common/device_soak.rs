//! One rank of a soak on GPU memory: calls drawn from a seed that all ranks share, made eagerly and by replays of graphs, judged.
//!
//! Calls take windows of one input, which changes from stretch to stretch, so that what an earlier call or replay has left somewhere
//! is wrong for a later one. Consecutive calls change dtype, operation, length, label and stream; small staging makes several
//! exchanges of the longer ones, so lanes differ in how many epochs they are on. Graphs hold an odd or an even number of calls, and
//! are captured anew now and then.

use std::time::{Duration, Instant};

use lanesum::cuda::{DeviceBuffer, Stream};
use lanesum::{AllReduce, Communicator, Element, EngineChoice, Error, bf16, f16};
use lanesum_conformance::{Choice, Sample};
use lanesum_plan::{Bytes, Operation, PathChoice};

use super::device_songs::Songs;
use super::puppet::whole;
use super::soak::drawn;
use super::{driver, paths};

/// Calls and replays that are enqueued before anybody waits.
const STRETCH: usize = 64;
const LONGEST: usize = 30_000;
/// On a GPU, one eager result in so many is looked at: to fetch it takes longer than to make it.
const JUDGED: usize = 8;

/// What a rank is to do.
pub struct Task {
    pub rank: usize,
    pub world: usize,
    pub name: String,
    pub choice: Choice,
    pub path: PathChoice,
    pub first_epoch: u64,
    pub calls: usize,
    /// Ends earlier, where the machine is slow; a GPU must not be.
    pub time: Duration,
}

pub fn soak(task: &Task) -> Result<(), String> {
    let words = |error: Error| format!("rank {}: {error}", task.rank);
    let communicator = Communicator::builder(task.rank, task.world, task.name.as_str())
        .engine(EngineChoice::Cuda)
        .algorithm(task.choice.policy())
        .path(task.path)
        .deadline(Duration::from_secs(30))
        .staging(Bytes::new(16 << 10))
        .first_epoch(task.first_epoch)
        .join()
        .map_err(words)?;
    paths::is_kept(&communicator, task.path);
    let device = communicator.device().ok_or("no device")?;
    let streams = [Stream::new(device), Stream::new(device), Stream::new(device)];
    let [a, b, c] = streams.map(|stream| stream.map_err(|error| words(error.into())));
    let streams = [a?, b?, c?];
    let mut desks = Desks::new(&communicator, STRETCH).map_err(words)?;
    let mut songs = Songs::default();
    let (start, mut seed, mut made) = (Instant::now(), 0x5EED_u64, 0);
    let mut stretch = 0;
    while made < task.calls && !any(&communicator, start.elapsed() > task.time).map_err(words)? {
        songs
            .renew(&communicator, &streams[0], &mut seed, stretch)
            .map_err(words)?;
        desks.turn(&communicator, stretch, &streams[0]).map_err(words)?;
        songs.turn(&communicator, stretch, &streams[0]).map_err(words)?;
        let draws: Vec<Draw> = (0..STRETCH)
            .map(|at| Draw::next(&mut seed, (made + at) as u64))
            .collect();
        for (place, draw) in draws.iter().enumerate() {
            // All on one stream where a graph comes in between: who orders graphs and calls is the caller.
            let sung = drawn(&mut seed, 4) == 0;
            let stream = &streams[if songs.any() { 0 } else { draw.stream }];
            if sung {
                made += songs.play(&mut seed, stream).map_err(words)?;
            }
            desks.issue(&communicator, place, draw, stream).map_err(words)?;
        }
        made += STRETCH;
        for stream in &streams {
            let done = stream.synchronize(Duration::from_secs(60));
            done.map_err(|error| words(error.into()))?;
        }
        communicator.check().map_err(words)?;
        for (place, draw) in draws.iter().enumerate() {
            if is_judged(place, stretch) && !desks.is_right(task.world, place, draw, &streams[0]).map_err(words)? {
                return Err(format!(
                    "rank {}, call {}: a wrong result of {draw:?}",
                    task.rank,
                    made + place
                ));
            }
        }
        if let Some(draw) = songs.wrong(task.world, &streams[0]).map_err(words)? {
            return Err(format!(
                "rank {}, stretch {stretch}: a wrong result in a graph, of {draw:?}",
                task.rank
            ));
        }
        stretch += 1;
    }
    let counted = communicator.counters().device.ok_or("no counters")?;
    if task.rank == 0 {
        let each = start.elapsed().as_secs_f64() * 1e6 / made.max(1) as f64;
        println!(
            "[{:?}, path {}, {} ranks from epoch {:#x}: {made} calls, {} exchanges of the first lane, {each:.1} us each]",
            task.choice, task.path, task.world, task.first_epoch, counted.exchanges
        );
    }
    if counted.calls != made as u64 {
        return Err(format!(
            "{made} calls were made, the device has counted {}",
            counted.calls
        ));
    }
    drop((desks, songs));
    communicator.close().map_err(words)?;
    let least = if driver::is_real() {
        task.calls
    } else {
        task.calls.min(4 * STRETCH)
    };
    if made < least {
        return Err(format!("only {made} calls in {:?}, and not {least}", task.time));
    }
    Ok(())
}

/// Whether a stretch looks at the result of the eager call in that place: each stretch at other ones, and those in which a graph is
/// captured anew, sixteen apart, too.
fn is_judged(place: usize, stretch: usize) -> bool {
    !driver::is_real() || (place + stretch + stretch / 16).is_multiple_of(JUDGED)
}

/// Whether it holds on any rank; all get the same answer.
fn any(communicator: &Communicator, here: bool) -> Result<bool, Error> {
    let mut answer = [f32::from(u8::from(here))];
    let issued = communicator.all_reduce(AllReduce::in_place(&mut answer).operation(Operation::Max))?;
    assert!(issued.receipt().is_some());
    Ok(answer[0] > 0.0)
}

/// What one call is: the same on all ranks.
#[derive(Debug, Clone)]
pub struct Draw {
    dtype: usize,
    operation: Operation,
    from: usize,
    elements: usize,
    stream: usize,
    label: Option<u64>,
}

impl Draw {
    pub fn next(seed: &mut u64, call: u64) -> Draw {
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

/// Small whole numbers, whose sums are exact in every dtype; others in each turn.
fn number(i: usize, turn: usize) -> usize {
    (i * 7 + turn * 5) % 13
}

/// Buffers of all dtypes.
pub struct Desks(Desk<f32>, Desk<f16>, Desk<bf16>);

impl Desks {
    /// With room for the results of so many calls.
    pub fn new(communicator: &Communicator, calls: usize) -> Result<Desks, Error> {
        Ok(Desks(
            Desk::new(communicator, calls)?,
            Desk::new(communicator, calls)?,
            Desk::new(communicator, calls)?,
        ))
    }

    /// Brings other inputs.
    pub fn turn(&mut self, communicator: &Communicator, turn: usize, stream: &Stream) -> Result<(), Error> {
        let rank = communicator.rank().index();
        self.0.turn(rank, turn, stream)?;
        self.1.turn(rank, turn, stream)?;
        self.2.turn(rank, turn, stream)?;
        // Calls on other streams read them too.
        Ok(stream.synchronize(Duration::from_secs(10))?)
    }

    /// Makes a call, or records it.
    pub fn issue(&mut self, communicator: &Communicator, place: usize, draw: &Draw, on: &Stream) -> Result<(), Error> {
        match draw.dtype {
            0 => self.0.issue(communicator, place, draw, on),
            1 => self.1.issue(communicator, place, draw, on),
            _ => self.2.issue(communicator, place, draw, on),
        }
    }

    pub fn is_right(&mut self, world: usize, place: usize, draw: &Draw, stream: &Stream) -> Result<bool, Error> {
        match draw.dtype {
            0 => self.0.is_right(world, place, draw, stream),
            1 => self.1.is_right(world, place, draw, stream),
            _ => self.2.is_right(world, place, draw, stream),
        }
    }
}

/// Buffers of one dtype: an input, and an output for each call.
struct Desk<T: Sample> {
    input: DeviceBuffer<T>,
    outputs: Vec<DeviceBuffer<T>>,
    host: Vec<T>,
    turn: usize,
}

impl<T: Sample + Element> Desk<T> {
    fn new(communicator: &Communicator, calls: usize) -> Result<Desk<T>, Error> {
        let device = communicator.device().expect("checked before");
        let outputs = (0..calls).map(|_| DeviceBuffer::new(device, LONGEST));
        Ok(Desk {
            input: DeviceBuffer::new(device, LONGEST)?,
            outputs: outputs.collect::<Result<_, _>>()?,
            host: vec![whole(0); LONGEST],
            turn: 0,
        })
    }

    fn turn(&mut self, rank: usize, turn: usize, stream: &Stream) -> Result<(), Error> {
        self.turn = turn;
        for (i, element) in self.host.iter_mut().enumerate() {
            *element = whole(number(i, turn) + rank);
        }
        Ok(self.input.copy_from(&self.host, stream)?)
    }

    fn issue(&mut self, communicator: &Communicator, place: usize, draw: &Draw, on: &Stream) -> Result<(), Error> {
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
        assert!(!matches!(issued, lanesum::Issued::Done(_)), "not enqueued: {issued:?}");
        Ok(())
    }

    fn is_right(&mut self, world: usize, place: usize, draw: &Draw, stream: &Stream) -> Result<bool, Error> {
        self.outputs[place].copy_to(&mut self.host, stream)?;
        let number = |i: usize| number(draw.from + i, self.turn);
        let right = |i: usize| match draw.operation {
            Operation::Sum => world * number(i) + world * (world - 1) / 2,
            Operation::Max => number(i) + world - 1,
            Operation::Min => number(i),
        };
        let output = &self.host[..draw.elements];
        Ok((0..draw.elements).all(|i| output[i].bits() == whole::<T>(right(i)).bits()))
    }
}
