//! Which stream a call on GPU memory is ordered by: handles are integers here, 0 the legacy default stream.

use pyo3::intern;
use pyo3::prelude::*;

use crate::refusal::Refusal;
use crate::tensor::type_name;

/// What the caller gave as `stream`: an integer, or an object of torch, CuPy or cuda.core.
pub fn handle(stream: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = stream.py();
    if let Ok(handle) = stream.extract::<usize>() {
        return Ok(handle);
    }
    for attribute in [intern!(py, "cuda_stream"), intern!(py, "ptr")] {
        if let Some(handle) = stream.getattr_opt(attribute)? {
            return handle.extract().map_err(|_| unnamed(stream));
        }
    }
    if let Some(protocol) = stream.getattr_opt(intern!(py, "__cuda_stream__"))? {
        let answer = if protocol.is_callable() {
            protocol.call0()?
        } else {
            protocol
        };
        let (_version, handle): (u32, usize) = answer.extract().map_err(|_| unnamed(stream))?;
        return Ok(handle);
    }
    Err(unnamed(stream))
}

fn unnamed(stream: &Bound<'_, PyAny>) -> PyErr {
    let found = type_name(stream);
    Refusal::NoStream { found }.into()
}
