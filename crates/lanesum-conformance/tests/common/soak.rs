//! One rank of a soak: calls drawn from a seed that all ranks share, every result judged.
//!
//! Consecutive calls change communicator, algorithm, dtype, operation, length, buffers and label, so that every call
//! meets what every other may have left behind.

use std::time::{Duration, Instant};

use lanesum::{AllReduce, Communicator, Error, SharedBuffer, bf16, f16};
use lanesum_conformance::{Choice, Pattern, Sample, Tables};
use lanesum_plan::{Bytes, Operation};

/// The longest message, in elements.
const LONGEST: usize = 200_000;

/// The longest in a shared buffer.
const LONGEST_SHARED: usize = 20_000;

/// The communicators: small staging makes chunks of most messages.
const KINDS: [(Choice, u64); 4] = [
    (Choice::Auto, 1 << 20),
    (Choice::OneShotPull, 4 << 10),
    (Choice::TwoShotPull, 4 << 10),
    (Choice::Auto, 16 << 10),
];

/// How many calls are made between two looks at the clock.
const STRETCH: u32 = 1 << 12;

/// Makes the calls as one of the ranks that meet under `name`, or as many as the slowest rank can make in `time`; rank 0
/// prints how many. On a machine with nothing else to do a call takes microseconds, so the time is for busy ones.
pub fn soak(rank: usize, world: usize, name: &str, calls: u32, time: Duration) -> Result<(), String> {
    let mut communicators = Vec::new();
    for (kind, (choice, staging)) in KINDS.into_iter().enumerate() {
        let joined = Communicator::builder(rank, world, format!("{name}-{kind}"))
            .deadline(Duration::from_secs(30))
            .algorithm(choice.policy())
            .staging(Bytes::new(staging))
            .join();
        communicators.push(joined.map_err(|error| error.to_string())?);
    }
    let mut desks = Desks::new(&communicators).map_err(|error| error.to_string())?;
    let (start, mut seed, mut made) = (Instant::now(), 0x5EED_u64, 0);
    while made < calls && !any(&communicators[0], start.elapsed() > time).map_err(|error| error.to_string())? {
        for _ in 0..STRETCH.min(calls - made) {
            let draw = Draw::next(&mut seed, made);
            let communicator = &communicators[draw.kind];
            desks
                .call(communicator, &draw)
                .map_err(|error| format!("rank {rank}, {draw:?}: {error}"))?;
            made += 1;
        }
    }
    if rank == 0 {
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(made.max(1));
        println!("[{world} ranks: {made} calls, {each:.1} us each]");
    }
    if made < calls.min(STRETCH) {
        return Err(format!("only {made} calls in {time:?}"));
    }
    drop(desks);
    communicators
        .into_iter()
        .try_for_each(Communicator::close)
        .map_err(|error| error.to_string())
}

/// Whether it holds on any rank; all get the same answer.
fn any(communicator: &Communicator, here: bool) -> Result<bool, Error> {
    let mut answer = [f32::from(u8::from(here))];
    let issued = communicator.all_reduce(AllReduce::in_place(&mut answer).operation(Operation::Max))?;
    assert!(issued.receipt().is_some());
    Ok(answer[0] > 0.0)
}

/// The next number below `bound`: xorshift (Marsaglia 2003).
pub fn drawn(seed: &mut u64, bound: usize) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 20) as usize % bound
}

/// What one call is: the same on all ranks.
#[derive(Debug)]
struct Draw {
    call: u32,
    word: u64,
    kind: usize,
    dtype: usize,
    operation: usize,
    elements: usize,
    buffers: usize,
    label: Option<u64>,
}

impl Draw {
    fn next(seed: &mut u64, call: u32) -> Draw {
        let mut below = |bound: usize| drawn(seed, bound);
        let buffers = below(4);
        let most = match below(1000) {
            0 => LONGEST,
            1..50 => 9000,
            50..300 => 1100,
            _ => 70,
        };
        let elements = below(most).min(if buffers < 2 { LONGEST } else { LONGEST_SHARED });
        let (kind, dtype, operation) = (below(KINDS.len()), below(3), below(3));
        let label = (below(2) == 0).then_some(u64::from(call));
        Draw {
            call,
            word: below(1 << 30) as u64,
            kind,
            dtype,
            operation,
            elements,
            buffers,
            label,
        }
    }
}

/// A desk for each dtype.
struct Desks {
    f32s: Desk<f32>,
    f16s: Desk<f16>,
    bf16s: Desk<bf16>,
}

impl Desks {
    fn new(communicators: &[Communicator]) -> Result<Desks, Error> {
        Ok(Desks {
            f32s: Desk::new(communicators)?,
            f16s: Desk::new(communicators)?,
            bf16s: Desk::new(communicators)?,
        })
    }

    fn call(&mut self, communicator: &Communicator, draw: &Draw) -> Result<(), String> {
        if draw.word.is_multiple_of(1000) {
            let issued = communicator.barrier().map_err(|error| error.to_string())?;
            assert!(issued.receipt().is_some());
        }
        match draw.dtype {
            0 => self.f32s.call(communicator, draw),
            1 => self.f16s.call(communicator, draw),
            _ => self.bf16s.call(communicator, draw),
        }
    }
}

/// Buffers and right results of one dtype.
struct Desk<T: Sample> {
    tables: Vec<Tables<T>>,
    input: Vec<T>,
    output: Vec<T>,
    shared: Vec<SharedBuffer<T>>,
}

impl<T: Sample> Desk<T> {
    fn new(communicators: &[Communicator]) -> Result<Desk<T>, Error> {
        let tree = communicators[0].tree();
        let patterns = [Pattern::Wide, Pattern::Bits, Pattern::Ties];
        let tables = Operation::ALL
            .iter()
            .zip(patterns)
            .map(|(operation, pattern)| Tables::new(pattern, *operation, tree, 11));
        Ok(Desk {
            tables: tables.collect(),
            input: vec![T::of_bits(0); LONGEST],
            output: vec![T::of_bits(0); LONGEST],
            shared: communicators
                .iter()
                .map(|one| one.allocate_shared(LONGEST_SHARED))
                .collect::<Result<_, _>>()?,
        })
    }

    fn call(&mut self, communicator: &Communicator, draw: &Draw) -> Result<(), String> {
        let tables = &self.tables[draw.operation];
        let rank = communicator.rank().index();
        let elements = draw.elements;
        let shared = &mut self.shared[draw.kind];
        let input = if draw.buffers < 2 {
            &mut self.input[..elements]
        } else {
            &mut shared[..elements]
        };
        tables.fill(rank, draw.call, input);
        let output = &mut self.output[..elements];
        output.fill(T::of_bits(0));
        let call = match draw.buffers {
            0 => AllReduce::in_place(&mut self.input[..elements]),
            1 => AllReduce::out_of_place(&self.input[..elements], output),
            2 => AllReduce::shared(shared).first(elements),
            _ => AllReduce::shared_to(shared, output).first(elements),
        };
        let call = call.operation(Operation::ALL[draw.operation]);
        let issued = communicator
            .all_reduce(match draw.label {
                Some(label) => call.label(label),
                None => call,
            })
            .map_err(|error| error.to_string())?;
        let bytes = issued.receipt().map(|receipt| receipt.bytes().get());
        if bytes != Some((elements * T::DTYPE.size()) as u64) {
            return Err(format!("the receipt says {bytes:?} bytes"));
        }
        let output = match draw.buffers {
            0 => &self.input[..elements],
            2 => &shared[..elements],
            _ => &self.output[..elements],
        };
        tables
            .judge(draw.call, output)
            .map_or(Ok(()), |difference| Err(format!("{difference:?}")))
    }
}
