//! What to sum, and where.

use std::marker::PhantomData;

use lanesum_cuda::{DeviceOperands, DeviceSlice, DeviceSliceMut, Stream};
use lanesum_host::{Input, Operands};
use lanesum_plan::{Buffers, Elements, Label, Operation, Request};
use lanesum_segment::Segment;
use std::sync::Arc;

use crate::element::Element;
use crate::refusals::Refused;
use crate::shared::SharedBuffer;

/// The memory of a call, by where it is.
#[derive(Debug, Clone)]
pub(crate) enum Memory {
    Host(Operands),
    /// On the heap, so that a call on the host stays a few words.
    Device(Box<DeviceOperands>),
}

/// One all-reduce: buffers, operation and label. Every rank gives the same number of elements.
#[must_use = "describes a call; give it to `Communicator::all_reduce`"]
#[derive(Debug)]
pub struct AllReduce<'a, T: Element> {
    memory: Memory,
    input_length: usize,
    output_length: usize,
    first: Option<usize>,
    operation: Operation,
    label: Option<Label>,
    /// The segment that a shared input lies in.
    segment: Option<&'a Arc<Segment>>,
    /// The devices that input, output and stream are on.
    devices: Option<[usize; 3]>,
    buffers: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> AllReduce<'a, T> {
    /// Sums `buffer` over the ranks into itself. Any alignment, any length, 0 too.
    pub fn in_place(buffer: &'a mut [T]) -> Self {
        let output = buffer.as_mut_ptr().cast::<u8>();
        Self::new(
            Input::Private(output.cast_const()),
            output,
            buffer.len(),
            buffer.len(),
            None,
        )
    }

    /// Sums `input` over the ranks into `output`, which has the same length.
    pub fn out_of_place(input: &'a [T], output: &'a mut [T]) -> Self {
        let source = Input::Private(input.as_ptr().cast::<u8>());
        Self::new(
            source,
            output.as_mut_ptr().cast::<u8>(),
            input.len(),
            output.len(),
            None,
        )
    }

    /// Sums a shared buffer over the ranks into itself; peers read it in place.
    pub fn shared(buffer: &'a mut SharedBuffer<T>) -> Self {
        let output = buffer.as_mut_ptr().cast::<u8>();
        let (offset, length) = (buffer.offset(), buffer.len());
        Self::new(Input::Shared(offset), output, length, length, Some(buffer.segment()))
    }

    /// Sums a shared buffer over the ranks into `output`, which has the same length. The input is borrowed
    /// exclusively: peers read it until the call returns.
    pub fn shared_to(input: &'a mut SharedBuffer<T>, output: &'a mut [T]) -> Self {
        let (offset, length) = (input.offset(), input.len());
        let target = output.as_mut_ptr().cast::<u8>();
        Self::new(
            Input::Shared(offset),
            target,
            length,
            output.len(),
            Some(input.segment()),
        )
    }

    /// Sums GPU memory over the ranks into itself, in the order of the stream. The call is done when
    /// [`Receipt::wait`](crate::Receipt::wait) says so; work enqueued behind it on the stream sees the result.
    pub fn device(buffer: impl Into<DeviceSliceMut<'a, T>>, stream: &Stream) -> Self {
        let buffer = buffer.into();
        let (address, length, on) = (buffer.address(), buffer.len(), buffer.device());
        Self::on_device([address; 2], [length; 2], [on; 2], stream)
    }

    /// Sums GPU memory over the ranks into `output`, which has the same length, in the order of the stream.
    pub fn device_to(
        input: impl Into<DeviceSlice<'a, T>>,
        output: impl Into<DeviceSliceMut<'a, T>>,
        stream: &Stream,
    ) -> Self {
        let (input, output) = (input.into(), output.into());
        Self::on_device(
            [input.address(), output.address()],
            [input.len(), output.len()],
            [input.device(), output.device()],
            stream,
        )
    }

    fn on_device(
        [input, output]: [u64; 2],
        [input_length, output_length]: [usize; 2],
        [from, to]: [usize; 2],
        stream: &Stream,
    ) -> Self {
        let operands = DeviceOperands {
            input,
            output,
            stream: stream.raw(),
            keep: Some(stream.clone()),
        };
        Self {
            memory: Memory::Device(Box::new(operands)),
            input_length,
            output_length,
            first: None,
            operation: Operation::Sum,
            label: None,
            segment: None,
            devices: Some([from, to, stream.device().ordinal()]),
            buffers: PhantomData,
        }
    }

    fn new(input: Input, output: *mut u8, from: usize, to: usize, segment: Option<&'a Arc<Segment>>) -> Self {
        Self {
            memory: Memory::Host(Operands { input, output }),
            input_length: from,
            output_length: to,
            first: None,
            operation: Operation::Sum,
            label: None,
            segment,
            devices: None,
            buffers: PhantomData,
        }
    }

    /// Takes this operation instead of the sum.
    pub fn operation(mut self, operation: Operation) -> Self {
        self.operation = operation;
        self
    }

    /// Marks the call: ranks whose calls of one epoch carry different labels fail with both named, so that
    /// equal calls in another order are found out.
    pub fn label(mut self, label: u64) -> Self {
        self.label = Some(Label::new(label));
        self
    }

    /// Takes only the first `elements` of the buffers.
    pub fn first(mut self, elements: usize) -> Self {
        self.first = Some(elements);
        self
    }

    /// Checks the call against a communicator's segment and device.
    #[inline]
    pub(crate) fn check(&self, segment: &Arc<Segment>, device: Option<usize>) -> Result<(Request, &Memory), Refused> {
        let elements = match self.first {
            None if self.input_length != self.output_length => {
                return Err(Refused::Lengths {
                    input: self.input_length,
                    output: self.output_length,
                });
            }
            None => self.input_length,
            Some(asked) if asked > self.input_length.min(self.output_length) => {
                return Err(Refused::TooMany {
                    asked,
                    length: self.input_length.min(self.output_length),
                });
            }
            Some(asked) => asked,
        };
        let buffers = match self.segment {
            None => match self.devices {
                None => Buffers::Private,
                Some(devices) => on_own_device(&devices, device)?,
            },
            Some(of) if Arc::ptr_eq(of, segment) => Buffers::Shared,
            Some(_) => return Err(Refused::ForeignBuffer),
        };
        let request = Request {
            operation: self.operation,
            dtype: T::DTYPE,
            elements: Elements::new(elements as u64),
            buffers,
            label: self.label,
        };
        Ok((request, &self.memory))
    }
}

/// Where the communicator has no GPU, the plan says why.
fn on_own_device(devices: &[usize; 3], own: Option<usize>) -> Result<Buffers, Refused> {
    let foreign = |own: usize| {
        devices
            .iter()
            .find(|&&on| on != own)
            .map(|&found| Refused::ForeignDevice { found, own })
    };
    own.and_then(foreign).map_or(Ok(Buffers::Device), Err)
}
