//! One request for an all-reduce: everything the decision may depend on, and nothing else.

use serde::{Deserialize, Serialize};

use crate::{Buffers, Bytes, Dtype, Elements, Label, Operation};

/// What one rank asks for. All ranks of a communicator must ask for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// How values are combined.
    pub operation: Operation,
    /// The type of an element.
    pub dtype: Dtype,
    /// How many elements each rank brings; 0 is a request like any other.
    pub elements: Elements,
    /// Where the input lies.
    pub buffers: Buffers,
    /// The caller's mark, compared among ranks.
    pub label: Option<Label>,
}

impl Request {
    /// The size of one rank's input. Saturates where no memory could hold it.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> Bytes {
        Bytes::new(self.elements.get().saturating_mul(self.dtype.size() as u64))
    }
}
