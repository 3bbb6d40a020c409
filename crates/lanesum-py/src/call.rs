//! A call in addresses, which code without the GIL may have.

use std::ffi::c_void;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use lanesum::cuda::RawStream;
use lanesum::{Dtype, Elements, Label, Operation, RawCall, RawMemory};

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
