//! Errors of the library as Python's exceptions. The classes are those of python/lanesum/_errors.py.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lanesum::{Error, ErrorClass, Rank};
use pyo3::exceptions::{PyAttributeError, PyImportError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Which exception, and the word by which programs tell its cases apart.
struct Name {
    class: &'static str,
    kind: &'static str,
}

const fn name(class: &'static str, kind: &'static str) -> Name {
    Name { class, kind }
}

/// Whether the caller of a communicator has got an exception that says that it is spent. What a call on a stream meets is often told
/// by a later call: the first to tell raises the fault itself, the others that there was one.
#[derive(Debug, Clone, Default)]
pub struct Told(Arc<AtomicBool>);

impl Told {
    /// Whether it is so.
    pub fn already(&self) -> bool {
        // Pairs with nothing: who has the exception is told by it, and other threads come by a hand-over of their own.
        self.0.load(Ordering::Relaxed)
    }

    /// The exception for an error of this communicator's.
    pub fn exception(&self, py: Python<'_>, error: Error) -> PyErr {
        let spent = matches!(error, Error::Fault(_) | Error::Poisoned { .. });
        let before = spent && self.0.swap(true, Ordering::Relaxed);
        if let (Error::Poisoned { first }, false) = (&error, before) {
            return exception(py, &Error::Fault(first.clone()));
        }
        exception(py, &error)
    }
}

/// The exception for an error of the library.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let ranks: Vec<usize> = error.failed_ranks().into_iter().map(Rank::index).collect();
    raise(
        py,
        &name(class_name(error.class()), error.kind()),
        &error.to_string(),
        error.hint().as_deref(),
        &ranks,
    )
}

/// An exception of the package: what, why, and what to do.
pub fn refused(py: Python<'_>, class: &'static str, kind: &'static str, cause: &str, hint: &str) -> PyErr {
    raise(py, &name(class, kind), cause, Some(hint), &[])
}

/// The class of python/lanesum/_errors.py.
const fn class_name(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Environment => "EnvironmentVariableError",
        ErrorClass::Rendezvous => "RendezvousError",
        ErrorClass::Plan => "PlanError",
        ErrorClass::Segment => "SegmentError",
        ErrorClass::Resource => "ResourceError",
        ErrorClass::Cuda => "CudaError",
        ErrorClass::PeerDevice => "PeerDeviceError",
        ErrorClass::Fault => "FaultError",
        ErrorClass::RankLost => "RankLostError",
        ErrorClass::Late => "LateError",
        ErrorClass::Mismatch => "MismatchError",
        ErrorClass::Poisoned => "PoisonedError",
        ErrorClass::Refused => "RefusedError",
        ErrorClass::Forked => "ForkedError",
        ErrorClass::Buffer => "TensorError",
        ErrorClass::Device => "DeviceError",
    }
}

fn raise(py: Python<'_>, name: &Name, cause: &str, hint: Option<&str>, ranks: &[usize]) -> PyErr {
    match instance(py, name, cause, hint, ranks) {
        Ok(instance) => PyErr::from_value(instance),
        // A signal's handler has run meanwhile and raised, as Ctrl-C's does: that comes first.
        Err(raised) if !is_missing(py, &raised) => raised,
        // The package's own module is missing, as where the extension was copied alone.
        Err(broken) => {
            let error = PyRuntimeError::new_err(cause.to_owned());
            error.set_cause(py, Some(broken));
            error
        }
    }
}

/// Whether a part of the package could not be found.
fn is_missing(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyImportError>(py) || error.is_instance_of::<PyAttributeError>(py)
}

fn instance<'py>(
    py: Python<'py>,
    name: &Name,
    cause: &str,
    hint: Option<&str>,
    ranks: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let words = PyDict::new(py);
    words.set_item(intern!(py, "hint"), hint)?;
    words.set_item(intern!(py, "kind"), name.kind)?;
    words.set_item(intern!(py, "ranks"), PyTuple::new(py, ranks)?)?;
    py.import(intern!(py, "lanesum._errors"))?
        .getattr(name.class)?
        .call((cause,), Some(&words))
}
