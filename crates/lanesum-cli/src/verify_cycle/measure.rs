//! Times cycles of all-reduces and checks every result, without letting the one disturb the other.
//!
//! A cycle is made in batches of as many calls as there are outputs: call, call, call, back to back under the clock;
//! then, off the clock, compare, poison the outputs again, and meet in a barrier, so that a rank that compared for
//! longer is not waited for on the clock. A cycle's time is the sum of its batches' times. On a GPU the calls of a batch
//! are enqueued, and the time of each is the batch's divided by its calls.

use std::time::{Duration, Instant};

use lanesum::{AllReduce, Communicator, Issued, SharedBuffer};
use lanesum_plan::Buffers;

use super::histogram::Histogram;
use super::message::Ran;
use super::on_device::DeviceDesk;
use super::patterns::{Number, Patterns, folded};
use super::rank::RankError;

/// The inputs where an all-reduce on the host takes them from.
enum Inputs<'a, T: Number> {
    Private(&'a [Vec<T>]),
    Shared(Vec<SharedBuffer<T>>),
}

/// Where the calls find their buffers. Outputs of the host are the series' own.
enum Desk<'a, T: Number> {
    Host(Inputs<'a, T>),
    Device(DeviceDesk<T>),
}

/// All calls of one size.
pub struct Series<'a, T: Number> {
    communicator: &'a Communicator,
    patterns: &'a Patterns<T>,
    desk: Desk<'a, T>,
    /// The results, on a GPU once they are fetched.
    outputs: Vec<Vec<T>>,
    spans: Vec<Duration>,
    made: u64,
    tally: Tally,
}

/// What came out of a series.
pub struct Tally {
    /// One call.
    pub calls: Histogram,
    /// One cycle.
    pub cycles: Histogram,
    /// Results that are not the oracle's.
    pub wrong: u64,
    /// The first of them.
    pub first_wrong: Option<String>,
    /// A digest of all results.
    pub digest: u64,
    /// What the receipts name.
    pub ran: Option<Ran>,
}

impl<'a, T: Number> Series<'a, T> {
    /// Gets the buffers ready.
    pub fn new(communicator: &'a Communicator, patterns: &'a Patterns<T>, buffers: Buffers) -> Result<Self, RankError> {
        let desk = match buffers {
            Buffers::Private => Desk::Host(Inputs::Private(&patterns.inputs)),
            Buffers::Shared => Desk::Host(Inputs::Shared(shared_copies(communicator, &patterns.inputs)?)),
            Buffers::Device => Desk::Device(DeviceDesk::new(communicator, &patterns.inputs, patterns.elements())?),
        };
        Ok(Self {
            communicator,
            patterns,
            desk,
            outputs: vec![vec![T::POISON; patterns.elements()]; patterns.count()],
            spans: vec![Duration::ZERO; patterns.count()],
            made: 0,
            tally: Tally {
                calls: Histogram::new(),
                cycles: Histogram::new(),
                wrong: 0,
                first_wrong: None,
                digest: 0,
                ran: None,
            },
        })
    }

    /// Makes one cycle off the record: its results are checked, its times forgotten.
    pub fn warm_up(&mut self, sums: u32) -> Result<(), RankError> {
        self.run(sums)?;
        self.tally.calls = Histogram::new();
        self.tally.cycles = Histogram::new();
        Ok(())
    }

    /// Makes and checks one cycle of this many calls.
    pub fn cycle(&mut self, sums: u32) -> Result<(), RankError> {
        let time = self.run(sums)?;
        self.tally.cycles.record(time);
        Ok(())
    }

    /// What came out.
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    fn run(&mut self, sums: u32) -> Result<Duration, RankError> {
        let mut time = Duration::ZERO;
        let mut left = sums as usize;
        while left > 0 {
            let batch = left.min(self.outputs.len());
            self.poison()?;
            proven(&self.communicator.barrier()?)?;
            time += self.batch(batch)?;
            if let Desk::Device(desk) = &self.desk {
                desk.fetch(&mut self.outputs)?;
            }
            self.check(batch);
            left -= batch;
        }
        Ok(time)
    }

    /// Nothing of an earlier batch may pass for a result of this one.
    fn poison(&mut self) -> Result<(), RankError> {
        for output in &mut self.outputs {
            output.fill(T::POISON);
        }
        match &mut self.desk {
            Desk::Host(_) => Ok(()),
            Desk::Device(desk) => Ok(desk.poison(self.communicator.deadline())?),
        }
    }

    /// The calls under the clock. Which pattern goes to which output shifts from batch to batch.
    fn batch(&mut self, calls: usize) -> Result<Duration, RankError> {
        let patterns: Vec<usize> = (0..calls).map(|slot| self.pattern_of(slot)).collect();
        match &mut self.desk {
            Desk::Host(inputs) => {
                let start = Instant::now();
                let mut last = start;
                for (slot, &pattern) in patterns.iter().enumerate() {
                    let issued = inputs.reduce(self.communicator, pattern, &mut self.outputs[slot])?;
                    let now = Instant::now();
                    self.spans[slot] = now - last;
                    last = now;
                    self.tally.note(&issued)?;
                }
                Ok(last - start)
            }
            Desk::Device(desk) => {
                let (time, issued) = desk.batch(self.communicator, &patterns)?;
                issued.iter().try_for_each(|issued| self.tally.note(issued))?;
                self.spans[..calls].fill(time / calls.max(1) as u32);
                Ok(time)
            }
        }
    }

    fn check(&mut self, calls: usize) {
        for slot in 0..calls {
            let judgement = self.patterns.judge(self.pattern_of(slot), &self.outputs[slot]);
            self.tally.calls.record(self.spans[slot]);
            self.tally.digest = folded(self.tally.digest, judgement.digest);
            if let Some(difference) = judgement.difference {
                self.tally.wrong += 1;
                let call = self.made + slot as u64;
                self.tally
                    .first_wrong
                    .get_or_insert_with(|| format!("call {call}: {difference}"));
            }
        }
        self.made += calls as u64;
    }

    fn pattern_of(&self, slot: usize) -> usize {
        ((self.made + slot as u64) % self.patterns.count() as u64) as usize
    }
}

impl<T: Number> Inputs<'_, T> {
    fn reduce(&mut self, communicator: &Communicator, pattern: usize, output: &mut [T]) -> Result<Issued, RankError> {
        let call = match self {
            Self::Private(inputs) => AllReduce::out_of_place(&inputs[pattern], output),
            Self::Shared(inputs) => AllReduce::shared_to(&mut inputs[pattern], output),
        };
        Ok(communicator.all_reduce(call)?)
    }
}

impl Tally {
    /// Every receipt of a series names the same.
    fn note(&mut self, issued: &Issued) -> Result<(), RankError> {
        let ran = proven(issued)?;
        if *self.ran.get_or_insert(ran) == ran {
            return Ok(());
        }
        Err(RankError::SeveralDecisions {
            first: self.ran,
            then: ran,
        })
    }
}

fn shared_copies<T: Number>(communicator: &Communicator, inputs: &[Vec<T>]) -> Result<Vec<SharedBuffer<T>>, RankError> {
    let copy = |input: &Vec<T>| {
        let mut buffer = communicator.allocate_shared::<T>(input.len())?;
        buffer.copy_from_slice(input);
        Ok(buffer)
    };
    inputs.iter().map(copy).collect()
}

/// What a receipt proves to have run.
fn proven(issued: &Issued) -> Result<Ran, RankError> {
    let receipt = issued.receipt().ok_or(RankError::NoReceipt)?;
    Ok(Ran {
        engine: receipt.engine(),
        path: receipt.path(),
        algorithm: receipt.algorithm(),
    })
}
