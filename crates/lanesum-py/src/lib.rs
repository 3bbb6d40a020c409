//! The extension module of the Python package `lanesum`: what Python says becomes a call of the Rust library, and what that answers
//! becomes Python's. Nothing is decided here.
//!
//! Three rules shape it:
//!
//! 1. The GIL is released while a call runs, for it may wait for other ranks.
//! 2. A communicator has one caller at a time. A second thread that comes meanwhile gets an exception and does not wait: which of two
//!    calls goes first is for the caller to order, as it must be the same on all ranks.
//! 3. Whatever is wrong with a tensor is found before the library is called.
#![deny(unsafe_code)]

mod call;
mod communicator;
mod dlpack;
mod environment;
mod error;
mod exchange;
mod issued;
mod options;
mod refusal;
mod reports;
mod stream;
mod tensor;
mod torch;

/// Sums tensors over the ranks of one host.
#[pyo3::pymodule]
mod _lanesum {
    #[pymodule_export]
    use crate::communicator::Communicator;
    #[pymodule_export]
    use crate::issued::Issued;

    #[pymodule_export]
    use crate::environment::{deadline, enabled, policy};

    /// The version of library and package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
