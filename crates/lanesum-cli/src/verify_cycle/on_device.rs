//! The buffers of a series in GPU memory, and the batch of calls on a stream.
//!
//! A batch is enqueued back to back and waited for once, by its last receipt: that is how an engine would call. So one call
//! has no time of its own; it gets its part of the batch's.

use std::time::{Duration, Instant};

use lanesum::cuda::{Device, DeviceBuffer, Stream};
use lanesum::{AllReduce, Communicator, Error, Issued, Refused};
use lanesum_plan::Refusal;

use super::patterns::Number;
use super::rank::RankError;

/// Inputs and outputs of this rank on its GPU.
pub struct DeviceDesk<T: Number> {
    inputs: Vec<DeviceBuffer<T>>,
    outputs: Vec<DeviceBuffer<T>>,
    poison: Vec<T>,
    stream: Stream,
}

impl<T: Number> DeviceDesk<T> {
    /// Brings the inputs to the communicator's GPU, and makes room for as many results.
    pub fn new(communicator: &Communicator, inputs: &[Vec<T>], elements: usize) -> Result<Self, Error> {
        let device = communicator.device().ok_or(Refused::Decision(Refusal::NoDevice))?;
        let stream = Stream::new(device)?;
        let outputs = inputs.iter().map(|_| DeviceBuffer::new(device, elements));
        Ok(Self {
            inputs: inputs
                .iter()
                .map(|input| brought(device, input, &stream))
                .collect::<Result<_, _>>()?,
            outputs: outputs.collect::<Result<_, _>>()?,
            poison: vec![T::POISON; elements],
            stream,
        })
    }

    /// Writes over what the last batch left, and returns when that is done.
    pub fn poison(&mut self, longest: Duration) -> Result<(), Error> {
        for output in &mut self.outputs {
            output.copy_from(&self.poison, &self.stream)?;
        }
        Ok(self.stream.synchronize(longest)?)
    }

    /// Enqueues a call for each of these patterns, waits for the last, and returns the time of all and what was issued.
    /// Every receipt has said that its call has completed.
    pub fn batch(
        &mut self,
        communicator: &Communicator,
        patterns: &[usize],
    ) -> Result<(Duration, Vec<Issued>), RankError> {
        let mut issued = Vec::with_capacity(patterns.len());
        let start = Instant::now();
        for (&pattern, output) in patterns.iter().zip(&mut self.outputs) {
            let call = AllReduce::device_to(&self.inputs[pattern], output, &self.stream);
            issued.push(communicator.all_reduce(call)?);
        }
        issued.last().map_or(Ok(()), await_completion)?;
        let time = start.elapsed();
        // The others have ended before the last; their receipts must know.
        issued.iter().try_for_each(await_completion)?;
        Ok((time, issued))
    }

    /// Copies the results to the host.
    pub fn fetch(&self, results: &mut [Vec<T>]) -> Result<(), Error> {
        for (output, result) in self.outputs.iter().zip(results) {
            output.copy_to(result, &self.stream)?;
        }
        Ok(())
    }
}

fn brought<T: Number>(device: &Device, input: &[T], stream: &Stream) -> Result<DeviceBuffer<T>, Error> {
    let mut buffer = DeviceBuffer::new(device, input.len())?;
    buffer.copy_from(input, stream)?;
    Ok(buffer)
}

/// A call on a stream is enqueued, never done at once; it has completed when its receipt says so.
fn await_completion(issued: &Issued) -> Result<(), RankError> {
    match issued {
        Issued::Enqueued(receipt) => {
            let _completed = receipt.wait()?;
            Ok(())
        }
        Issued::Done(_) | Issued::Captured(_) => Err(RankError::NotEnqueued),
    }
}
