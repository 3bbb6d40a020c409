//! A call in addresses, which code without the GIL may have.

use std::ffi::c_void;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use lanesum::cuda::RawStream;
use lanesum::{Dtype, Elements, Label, Operation, RawCall, RawMemory, Refused};
use pyo3::prelude::*;

use crate::error::exception;
use crate::refusal::Refusal;
use crate::tensor::{Place, Tensor};

/// What a call is given, of tensors that were checked.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Address of the input.
    pub input: usize,
    /// Address of the output: the input's, or another.
    pub output: usize,
    /// How many elements both have.
    pub elements: u64,
    /// Their type.
    pub dtype: Dtype,
    /// How they are combined.
    pub operation: Operation,
    /// The caller's mark.
    pub label: Option<Label>,
    /// The stream, for GPU memory.
    pub stream: Option<usize>,
}

impl Addresses {
    /// Those of a tensor and of `out`, if they can be reduced by a communicator whose GPU, if any, is `own`: a sum without a label.
    /// `stream` is the caller's own.
    pub fn of(
        py: Python<'_>,
        (tensor, out): (&Tensor<'_>, Option<&Tensor<'_>>),
        stream: Option<usize>,
        own: Option<usize>,
    ) -> PyResult<Self> {
        reached(tensor.place, own)?;
        match out {
            None => tensor.writable("tensor")?,
            Some(out) => {
                reached(out.place, own)?;
                tensor.fits(out)?;
                out.writable("tensor `out`")?;
                same_length(tensor.elements, out.elements).map_err(|refused| exception(py, &refused.into()))?;
            }
        }
        if tensor.place == Place::Host && stream.is_some() {
            return Err(Refusal::HostStream.into());
        }
        Ok(Self {
            input: tensor.address,
            output: out.map_or(tensor.address, |out| out.address),
            elements: tensor.elements,
            dtype: tensor.dtype,
            operation: Operation::Sum,
            label: None,
            stream: tensor.stream(),
        })
    }

    /// The same in pointers.
    pub fn raw(&self) -> RawCall {
        RawCall {
            input: with_exposed_provenance(self.input),
            output: with_exposed_provenance_mut(self.output),
            elements: Elements::new(self.elements),
            dtype: self.dtype,
            operation: self.operation,
            label: self.label,
            memory: match self.stream {
                None => RawMemory::Host,
                Some(stream) => RawMemory::Device(RawStream(with_exposed_provenance_mut::<c_void>(stream))),
            },
        }
    }
}

/// Whether memory is where a communicator reduces. Without a GPU of its own, the library says why it has none.
fn reached(place: Place, own: Option<usize>) -> Result<(), Refusal> {
    match (place, own) {
        (
            Place::Gpu {
                ordinal: Some(found), ..
            },
            Some(own),
        ) if found != own => Err(Refusal::Foreign { found, own }),
        (Place::Gpu { .. } | Place::Host, _) => Ok(()),
    }
}

/// Lengths that differ are the library's refusal, with its words.
fn same_length(input: u64, output: u64) -> Result<(), Refused> {
    let length = |elements| usize::try_from(elements).unwrap_or(usize::MAX);
    match input == output {
        true => Ok(()),
        false => Err(Refused::Lengths {
            input: length(input),
            output: length(output),
        }),
    }
}
