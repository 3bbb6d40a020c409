//! What a puppet does with GPU memory: enqueues, waits for receipts, fetches, and judges.

use std::time::Duration;

use lanesum::cuda::{DeviceBuffer, Stream};
use lanesum::{AllReduce, Communicator, Error, Receipt};
use lanesum_conformance::Sample;
use lanesum_plan::Dtype;
use serde::{Deserialize, Serialize};

use super::puppet::{Did, Shape, failed, input, is_nan, is_right};

/// Equal all-reduces on GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceCalls {
    pub shape: Shape,
    /// How many, unless one fails.
    pub calls: u64,
    /// How many are enqueued before the first is waited for.
    pub ahead: usize,
    /// Slept before each stretch of calls.
    pub pause_ms: u64,
    /// The deadline that is set once the first stretch is enqueued.
    pub then_deadline_ms: Option<u64>,
}

impl DeviceCalls {
    /// One call.
    pub const fn one(shape: Shape) -> DeviceCalls {
        DeviceCalls {
            shape,
            calls: 1,
            ahead: 1,
            pause_ms: 0,
            then_deadline_ms: None,
        }
    }

    /// Call after call, until one fails.
    pub const fn endless(shape: Shape) -> DeviceCalls {
        DeviceCalls {
            calls: u64::MAX,
            ..DeviceCalls::one(shape)
        }
    }

    /// So many in a row, enqueued before the first is waited for.
    pub const fn burst(shape: Shape, calls: usize) -> DeviceCalls {
        DeviceCalls {
            calls: calls as u64,
            ahead: calls,
            ..DeviceCalls::one(shape)
        }
    }
}

pub fn make(communicator: &Communicator, calls: &DeviceCalls) -> Did {
    let did = match calls.shape.dtype {
        Dtype::F32 => Desk::<f32>::new(communicator, calls).and_then(|mut desk| desk.run()),
        Dtype::F16 => Desk::<lanesum::f16>::new(communicator, calls).and_then(|mut desk| desk.run()),
        Dtype::Bf16 => Desk::<lanesum::bf16>::new(communicator, calls).and_then(|mut desk| desk.run()),
    };
    did.unwrap_or_else(|error| Did::Erred {
        message: format!("beside the calls: {error}"),
    })
}

/// A buffer for each call of a stretch.
struct Desk<'a, T: Sample> {
    communicator: &'a Communicator,
    calls: &'a DeviceCalls,
    stream: Stream,
    input: Vec<T>,
    buffers: Vec<DeviceBuffer<T>>,
}

impl<'a, T: Sample> Desk<'a, T> {
    fn new(communicator: &'a Communicator, calls: &'a DeviceCalls) -> Result<Desk<'a, T>, Error> {
        let device = communicator.device().expect("joined with a GPU");
        let buffers = (0..calls.ahead).map(|_| DeviceBuffer::new(device, calls.shape.elements));
        Ok(Desk {
            communicator,
            calls,
            stream: Stream::new(device)?,
            input: input(communicator, &calls.shape),
            buffers: buffers.collect::<Result<_, _>>()?,
        })
    }

    fn run(&mut self) -> Result<Did, Error> {
        let mut made = 0;
        while made < self.calls.calls {
            if let Some(did) = self.stretch(made == 0)? {
                return Ok(did);
            }
            made += self.calls.ahead as u64;
        }
        Ok(Did::Well)
    }

    /// All inputs are brought before the first call: a copy from pageable memory may wait for the stream.
    fn stretch(&mut self, first: bool) -> Result<Option<Did>, Error> {
        std::thread::sleep(Duration::from_millis(self.calls.pause_ms));
        for buffer in &mut self.buffers {
            buffer.copy_from(&self.input, &self.stream)?;
        }
        let mut issued = Vec::new();
        for buffer in &mut self.buffers {
            issued.push(enqueue(self.communicator, &self.calls.shape, buffer, &self.stream));
        }
        if let Some(ms) = self.calls.then_deadline_ms.filter(|_| first) {
            self.communicator.set_deadline(Duration::from_millis(ms))?;
        }
        let ended: Vec<Result<(), Error>> = issued
            .into_iter()
            .map(|call| call.and_then(|receipt| receipt.wait().map(drop)))
            .collect();
        self.judge(ended)
    }

    /// What ended well holds the result, what failed holds NaN, and nothing ends well behind a failure.
    fn judge(&self, ended: Vec<Result<(), Error>>) -> Result<Option<Did>, Error> {
        // That a receipt gave up says nothing of its call.
        if let Some(error) = ended
            .iter()
            .filter_map(|ended| ended.as_ref().err())
            .find(|error| matches!(error, Error::Cuda(_)))
        {
            return Ok(Some(failed(error, None)));
        }
        let mut first = None;
        let mut all_nan = true;
        for (buffer, ended) in self.buffers.iter().zip(ended) {
            let mut output = self.input.clone();
            buffer.copy_to(&mut output, &self.stream)?;
            match ended {
                Ok(()) if first.is_some() || !is_right(self.communicator, &self.calls.shape, &output) => {
                    return Ok(Some(Did::Wrong));
                }
                Ok(()) => {}
                Err(error) => {
                    all_nan &= output.iter().all(|element| is_nan(*element));
                    first.get_or_insert(error);
                }
            }
        }
        Ok(first.map(|error| failed(&error, Some(all_nan))))
    }
}

fn enqueue<T: Sample + lanesum::Element>(
    communicator: &Communicator,
    shape: &Shape,
    buffer: &mut DeviceBuffer<T>,
    stream: &Stream,
) -> Result<Receipt, Error> {
    let call = AllReduce::device(buffer, stream).operation(shape.operation);
    let issued = communicator.all_reduce(match shape.label {
        Some(label) => call.label(label),
        None => call,
    })?;
    match issued {
        lanesum::Issued::Enqueued(receipt) => Ok(receipt),
        other @ (lanesum::Issued::Done(_) | lanesum::Issued::Captured(_)) => panic!("not enqueued: {other:?}"),
    }
}
