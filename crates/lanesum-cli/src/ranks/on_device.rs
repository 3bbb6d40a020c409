//! A rank's inputs and outputs in GPU memory, the stream that its calls go to, and the graphs that were recorded of them.
//!
//! Times are the device's own: from an event before the first of some work to one after the last. A stream stays busy between
//! two pieces of work that were enqueued together, so an event between them marks the end of the one and the begin of the other.
#![expect(
    unsafe_code,
    reason = "a graph names memory by address; here it lies in the same value"
)]

use std::time::Duration;

use lanesum::bench::Variant;
use lanesum::cuda::{Device, DeviceBuffer, Event, Graph, Stream};
use lanesum::{AllReduce, Communicator, Error, Issued, Refused};
use lanesum_plan::Refusal;

use super::patterns::Number;
use super::speech::RankError;

/// A wait for the device takes at most its bounded kernels' time; beyond this something else is wrong with it.
const MARGIN: Duration = Duration::from_secs(10);

/// Inputs, outputs and graphs of this rank on its GPU.
pub struct DeviceDesk<T: Number> {
    /// First, so that they are gone before the memory that their calls name.
    graphs: Vec<Graph>,
    inputs: Vec<DeviceBuffer<T>>,
    outputs: Vec<DeviceBuffer<T>>,
    poison: Vec<T>,
    stream: Stream,
    start: Event,
    end: Event,
    longest: Duration,
}

/// How a variant of a call is enqueued, for elements that have any.
pub type Unguarded<T> = unsafe fn(&Communicator, Variant, &AllReduce<'_, T>) -> Result<(), Error>;

/// One call: which input it takes, and which output gets its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errand {
    /// The index of the pattern.
    pub pattern: usize,
    /// The index of the output.
    pub slot: usize,
}

/// A graph of the desk that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded(usize);

impl<T: Number> DeviceDesk<T> {
    /// Brings the inputs to the communicator's GPU, and makes room for so many results.
    pub fn new(communicator: &Communicator, inputs: &[Vec<T>], outputs: usize) -> Result<Self, Error> {
        let device = communicator.device().ok_or(Refused::Decision(Refusal::NoDevice))?;
        let stream = Stream::new(device)?;
        let elements = inputs.first().map_or(0, Vec::len);
        let outputs = (0..outputs).map(|_| DeviceBuffer::new(device, elements));
        Ok(Self {
            graphs: Vec::new(),
            inputs: inputs
                .iter()
                .map(|input| brought(device, input, &stream))
                .collect::<Result<_, _>>()?,
            outputs: outputs.collect::<Result<_, _>>()?,
            poison: vec![T::POISON; elements],
            start: Event::new(device)?,
            end: Event::new(device)?,
            longest: communicator.deadline() + MARGIN,
            stream,
        })
    }

    /// Writes over what was left in the outputs, and returns when that is done.
    pub fn poison(&mut self) -> Result<(), Error> {
        for output in &mut self.outputs {
            output.copy_from(&self.poison, &self.stream)?;
        }
        self.finish()
    }

    /// Waits until all that was enqueued is done.
    pub fn finish(&self) -> Result<(), Error> {
        Ok(self.stream.synchronize(self.longest)?)
    }

    /// Copies results to the host.
    pub fn fetch(&self, results: &mut [Vec<T>]) -> Result<(), Error> {
        for (output, result) in self.outputs.iter().zip(results) {
            output.copy_to(result, &self.stream)?;
        }
        Ok(())
    }

    /// Copies one result to the host.
    pub fn read(&self, slot: usize, result: &mut [T]) -> Result<(), Error> {
        self.outputs[slot].copy_to(result, &self.stream)?;
        Ok(())
    }

    /// Enqueues, or records, a call for each errand, in whatever way `call` makes one.
    pub fn enqueue<C>(
        &mut self,
        errands: &[Errand],
        mut call: impl FnMut(AllReduce<'_, T>) -> Result<C, RankError>,
    ) -> Result<Vec<C>, RankError> {
        let mut made = Vec::with_capacity(errands.len());
        for errand in errands {
            let output = &mut self.outputs[errand.slot];
            made.push(call(AllReduce::device_to(
                &self.inputs[errand.pattern],
                output,
                &self.stream,
            ))?);
        }
        Ok(made)
    }

    /// Records what `enqueue` would run.
    pub fn record<C>(
        &mut self,
        errands: &[Errand],
        call: impl FnMut(AllReduce<'_, T>) -> Result<C, RankError>,
    ) -> Result<(Recorded, Vec<C>), RankError> {
        let stream = self.stream.clone();
        let capture = stream.begin_capture()?;
        let made = self.enqueue(errands, call)?;
        Ok((self.keep(capture.finish()?), made))
    }

    /// Enqueues or records one variant in place of every call.
    pub fn enqueue_variant(
        &mut self,
        communicator: &Communicator,
        variant: (Variant, Unguarded<T>),
        errands: &[Errand],
    ) -> Result<(), RankError> {
        let (variant, unguarded) = variant;
        self.enqueue(errands, |call| {
            // SAFETY: the buffers are of this value, whose stream is waited for before it ends, and only what is enqueued there
            // uses them; the communicator outlives it. All ranks do the same in the same order.
            Ok(unsafe { unguarded(communicator, variant, &call) }?)
        })
        .map(drop)
    }

    /// Records one variant in place of every call.
    pub fn record_variant(
        &mut self,
        communicator: &Communicator,
        variant: (Variant, Unguarded<T>),
        errands: &[Errand],
    ) -> Result<Recorded, RankError> {
        let stream = self.stream.clone();
        let capture = stream.begin_capture()?;
        self.enqueue_variant(communicator, variant, errands)?;
        Ok(self.keep(capture.finish()?))
    }

    fn keep(&mut self, graph: Graph) -> Recorded {
        self.graphs.push(graph);
        Recorded(self.graphs.len() - 1)
    }

    /// Runs a graph of this desk on its stream.
    pub fn replay(&self, recorded: Recorded) -> Result<(), Error> {
        // SAFETY: the graph's calls name buffers of this value, which outlive it (see the order of the fields) and which nothing
        // uses but what is enqueued on this one stream, as everything in this module is.
        unsafe { self.graphs[recorded.0].launch(&self.stream)? };
        Ok(())
    }

    /// The device's time for what `work` enqueues. It is waited for.
    pub fn timed<R>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<R, RankError>,
    ) -> Result<(Duration, R), RankError> {
        self.start.record(&self.stream)?;
        let result = work(self)?;
        self.end.record(&self.stream)?;
        self.finish()?;
        Ok((self.end.elapsed_since(&self.start)?, result))
    }

    /// The device's time for a replay that begins on all ranks when the last call of the replay before it has brought them
    /// together.
    pub fn timed_replay(&mut self, recorded: Recorded) -> Result<Duration, RankError> {
        self.replay(recorded)?;
        let (time, ()) = self.timed(|desk| Ok(desk.replay(recorded)?))?;
        Ok(time)
    }
}

impl<T: Number> Drop for DeviceDesk<T> {
    fn drop(&mut self) {
        // Whoever gives up with work under way has a better reason than this could give.
        self.finish().ok();
    }
}

fn brought<T: Number>(device: &Device, input: &[T], stream: &Stream) -> Result<DeviceBuffer<T>, Error> {
    let mut buffer = DeviceBuffer::new(device, input.len())?;
    buffer.copy_from(input, stream)?;
    Ok(buffer)
}

/// A call on a stream is enqueued, never done at once; it has completed when its receipt says so.
pub fn await_completion(issued: &Issued) -> Result<(), RankError> {
    match issued {
        Issued::Enqueued(receipt) => {
            let _completed = receipt.wait()?;
            Ok(())
        }
        Issued::Done(_) | Issued::Captured(_) => Err(RankError::Elsewhere { wanted: "enqueued" }),
    }
}
