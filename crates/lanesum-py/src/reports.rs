//! What the library tells of itself, as Python's dictionaries.

use std::time::Duration;

use lanesum::{Buffers, Counters, Dtype, Elements, Error, Operation, Rank, Request};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::Serialize;

use crate::options;
use crate::refusal::Refusal;
use crate::tensor::{Place, Tensor, python_name};

/// The request to explain: that of a tensor, or of so many elements of a dtype.
pub fn request(
    tensor: &Bound<'_, PyAny>,
    operation: Operation,
    dtype: Option<&str>,
    buffers: Option<&Bound<'_, PyString>>,
) -> PyResult<Request> {
    let (elements, dtype, buffers) = match (tensor.extract::<u64>(), dtype) {
        (Ok(elements), Some(name)) => {
            let buffers = buffers.map_or(Ok(Buffers::Private), |buffers| options::word(buffers))?;
            (elements, dtype_named(name)?, buffers)
        }
        (Err(_), None) => {
            let tensor = Tensor::read(tensor, None)?;
            let buffers = match tensor.place {
                Place::Host => Buffers::Private,
                Place::Gpu { .. } => Buffers::Device,
            };
            (tensor.elements, tensor.dtype, buffers)
        }
        (Ok(_), None) | (Err(_), Some(_)) => {
            return Err(PyTypeError::new_err(
                "a number of elements needs a `dtype`, and a tensor has its own; hint: write explain(tensor), or explain(7168, \
                 dtype=\"bfloat16\")",
            ));
        }
    };
    Ok(Request {
        operation,
        dtype,
        elements: Elements::new(elements),
        buffers,
        label: None,
    })
}

/// Requests of any length for GPU memory.
pub fn on_device(operation: Operation, dtype: &str) -> Result<Request, Refusal> {
    Ok(Request {
        operation,
        dtype: dtype_named(dtype)?,
        elements: Elements::new(1),
        buffers: Buffers::Device,
        label: None,
    })
}

/// A dtype by the library's word or by NumPy's.
fn dtype_named(name: &str) -> Result<Dtype, Refusal> {
    let named = Dtype::ALL
        .into_iter()
        .find(|&dtype| dtype.name() == name || python_name(dtype) == name);
    named.ok_or_else(|| Refusal::Dtype { found: name.to_owned() })
}

/// Counters; times in seconds, by rank.
pub fn counters<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("calls", counters.calls)?;
    told.set_item("chunks", counters.chunks)?;
    told.set_item("bytes", counters.bytes)?;
    let by_algorithm = PyDict::new(py);
    for (algorithm, calls) in counters.by_algorithm.iter().filter(|(_, calls)| *calls > 0) {
        by_algorithm.set_item(algorithm.name(), calls)?;
    }
    told.set_item("by_algorithm", by_algorithm)?;
    told.set_item("waited", waited(py, &counters.waited)?)?;
    told.set_item("naps", counters.naps)?;
    let device = match &counters.device {
        Some(counters) => {
            let told = PyDict::new(py);
            told.set_item("calls", counters.calls)?;
            told.set_item("exchanges", counters.exchanges)?;
            told.set_item("waited", waited(py, &counters.waited)?)?;
            Some(told)
        }
        None => None,
    };
    told.set_item("device", device)?;
    Ok(told)
}

fn waited<'py>(py: Python<'py>, times: &[(Rank, Duration)]) -> PyResult<Bound<'py, PyDict>> {
    let waited = PyDict::new(py);
    for (rank, time) in times {
        waited.set_item(rank.index(), time.as_secs_f64())?;
    }
    Ok(waited)
}

/// The library's own JSON of a report.
pub fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|source| Error::System {
        what: "writing a report",
        source: source.into(),
    })
}

/// JSON as Python's objects.
pub fn loads<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "json"))?
        .call_method1(intern!(py, "loads"), (json,))
}
