//! Times cycles of all-reduces and checks every result, without letting the one disturb the other.
//!
//! A cycle is made in batches of as many calls as there are outputs: call, call, call, back to back under the clock;
//! then, off the clock, compare, poison the outputs again, and meet in a barrier, so that a rank that compared for
//! longer is not waited for on the clock. A cycle's time is the sum of its batches' times. On a GPU the calls of a batch
//! are enqueued, or replayed from a graph that was recorded of them once, behind others that bring the ranks to the same point; the
//! time of each is the device's time for the batch divided by its calls. A graph has room for all results of a cycle, unless they
//! are large: then a cycle has several graphs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lanesum::{AllReduce, Communicator, Issued, SharedBuffer};
use lanesum_plan::Buffers;

use super::histogram::Histogram;
use crate::ranks::message::Ran;
use crate::ranks::on_device::{DeviceDesk, Errand, Recorded, await_completion};
use crate::ranks::patterns::{Number, Patterns, folded};
use crate::ranks::speech::{RankError, ran};

/// Up to this many bytes of results are kept of one graph.
const ROOM: usize = 64 << 20;

/// Where inputs lie, and how calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the host, in memory of this rank or of all.
    Host(Buffers),
    /// On a GPU, one call after the other.
    Eager,
    /// On a GPU, from graphs.
    Graph {
        /// Calls of a cycle.
        sums: u32,
    },
}

/// The inputs where an all-reduce on the host takes them from.
enum Inputs<'a, T: Number> {
    Private(&'a [Vec<T>]),
    Shared(Vec<SharedBuffer<T>>),
}

/// Where the calls find their buffers. Outputs of the host are the series' own.
enum Desk<'a, T: Number> {
    Host(Inputs<'a, T>),
    Device(DeviceDesk<T>),
    Graphs(DeviceDesk<T>, Graphs),
}

/// The graph of each batch that was met: by its calls and the pattern of the first.
type Graphs = HashMap<(usize, usize), Recorded>;

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
    pub fn new(communicator: &'a Communicator, patterns: &'a Patterns<T>, place: Place) -> Result<Self, RankError> {
        let slots = match place {
            Place::Host(_) | Place::Eager => patterns.count(),
            Place::Graph { sums } => room::<T>(patterns).min(sums as usize).max(1),
        };
        // One output more, for calls off the record.
        let on_device = || DeviceDesk::new(communicator, &patterns.inputs, slots + 1);
        let desk = match place {
            Place::Host(Buffers::Private) => Desk::Host(Inputs::Private(&patterns.inputs)),
            Place::Host(Buffers::Shared) => Desk::Host(Inputs::Shared(shared_copies(communicator, &patterns.inputs)?)),
            Place::Host(Buffers::Device) | Place::Eager => Desk::Device(on_device()?),
            Place::Graph { .. } => Desk::Graphs(on_device()?, Graphs::new()),
        };
        Ok(Self {
            communicator,
            patterns,
            desk,
            outputs: vec![vec![T::POISON; patterns.elements()]; slots],
            spans: vec![Duration::ZERO; slots],
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

    /// Makes a cycle off the record: its results are checked, its times forgotten. With graphs, as many cycles as it takes to
    /// meet each that there will be.
    pub fn warm_up(&mut self, sums: u32) -> Result<(), RankError> {
        let cycles = match self.desk {
            Desk::Host(_) | Desk::Device(_) => 1,
            Desk::Graphs(..) => self.patterns.count(),
        };
        for _ in 0..cycles {
            self.run(sums)?;
        }
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
            ran(&self.communicator.barrier()?)?;
            time += self.batch(batch)?;
            match &self.desk {
                Desk::Host(_) => {}
                Desk::Device(desk) | Desk::Graphs(desk, _) => desk.fetch(&mut self.outputs[..batch])?,
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
            Desk::Device(desk) | Desk::Graphs(desk, _) => Ok(desk.poison()?),
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
                let aligning = aligning(&patterns, self.patterns.count(), self.outputs.len());
                let (time, issued) = eager(desk, self.communicator, (&aligning, &errands(&patterns)))?;
                issued.iter().try_for_each(|issued| self.tally.note(issued))?;
                self.spans[..calls].fill(time / calls.max(1) as u32);
                Ok(time)
            }
            Desk::Graphs(desk, graphs) => {
                let key = (calls, patterns.first().copied().unwrap_or_default());
                let recorded = match graphs.get(&key) {
                    Some(recorded) => *recorded,
                    None => {
                        let call = |call: AllReduce<'_, T>| Ok(self.communicator.all_reduce(call)?);
                        let (recorded, issued) = desk.record(&errands(&patterns), call)?;
                        issued.iter().try_for_each(captured)?;
                        issued.iter().try_for_each(|issued| self.tally.note(issued))?;
                        *graphs.entry(key).or_insert(recorded)
                    }
                };
                let time = desk.timed_replay(recorded)?;
                // Calls of a graph have no receipts: what went wrong with one is known to the communicator.
                self.communicator.check()?;
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
        let then = ran(issued)?;
        if *self.ran.get_or_insert(then) == then {
            return Ok(());
        }
        Err(RankError::SeveralDecisions { first: self.ran, then })
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

/// How many results fit, but never fewer than there are patterns.
fn room<T: Number>(patterns: &Patterns<T>) -> usize {
    (ROOM / (patterns.elements() * size_of::<T>()).max(1)).max(patterns.count())
}

/// Each pattern to the next output.
fn errands(patterns: &[usize]) -> Vec<Errand> {
    let pairs = patterns.iter().enumerate();
    pairs.map(|(slot, &pattern)| Errand { pattern, slot }).collect()
}

/// Every pattern once, all to an output that nobody looks at, the one of a batch's first call longest ago: what these calls leave
/// behind passes for no result of the batch.
fn aligning(batch: &[usize], count: usize, slot: usize) -> Vec<Errand> {
    let first = batch.first().copied().unwrap_or_default();
    let pattern = |call| (first + call) % count;
    (0..count)
        .map(|call| Errand {
            pattern: pattern(call),
            slot,
        })
        .collect()
}

/// Enqueues a batch back to back, as an engine would, behind calls that bring the ranks to the same point. Every receipt has said in
/// the end that its call has completed.
fn eager<T: Number>(
    desk: &mut DeviceDesk<T>,
    communicator: &Communicator,
    (aligning, batch): (&[Errand], &[Errand]),
) -> Result<(Duration, Vec<Issued>), RankError> {
    let call = |call: AllReduce<'_, T>| Ok(communicator.all_reduce(call)?);
    let before = desk.enqueue(aligning, call)?;
    let (time, issued) = desk.timed(|desk| desk.enqueue(batch, call))?;
    before.iter().chain(&issued).try_for_each(await_completion)?;
    Ok((time, issued))
}

fn captured(issued: &Issued) -> Result<(), RankError> {
    match issued {
        Issued::Captured(_) => Ok(()),
        Issued::Done(_) | Issued::Enqueued(_) => Err(RankError::Elsewhere { wanted: "recorded" }),
    }
}
