//! The options of the builder, as keywords of Python.

use std::time::Duration;

use lanesum::{Builder, Bytes};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::exception;

/// Every keyword.
const NAMES: [&str; 11] = [
    "deadline",
    "setup_deadline",
    "engine",
    "device",
    "algorithm",
    "path",
    "staging",
    "shared_capacity",
    "tree",
    "isa",
    "directory",
];

/// Sets what the keywords say; None leaves the default, as a missing one does.
pub fn apply(builder: Builder, options: Option<&Bound<'_, PyDict>>) -> PyResult<Builder> {
    let Some(options) = options else { return Ok(builder) };
    let mut builder = builder;
    for (name, value) in options {
        let name: String = name.extract()?;
        if !NAMES.contains(&name.as_str()) {
            let known = NAMES.join(", ");
            return Err(PyTypeError::new_err(format!(
                "there is no option `{name}`; hint: those there are: {known}"
            )));
        }
        if !value.is_none() {
            builder = set(builder, &name, &value)?;
        }
    }
    Ok(builder)
}

fn set(builder: Builder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Builder> {
    Ok(match name {
        "deadline" => builder.deadline(seconds(value)?),
        "setup_deadline" => builder.setup_deadline(seconds(value)?),
        "engine" => builder.engine(word(value)?),
        "device" => builder.device(value.extract()?),
        "algorithm" => builder.algorithm(word(value)?),
        "path" => builder.path(word(value)?),
        "staging" => builder.staging(Bytes::new(value.extract()?)),
        "shared_capacity" => builder.shared_capacity(Bytes::new(value.extract()?)),
        "tree" => builder.tree(word(value)?),
        "isa" => builder.isa(value.extract::<String>()?),
        // The last of the names, which were compared before.
        _directory => builder.directory(value.extract::<std::path::PathBuf>()?),
    })
}

/// One of a closed set of words, or a tree.
pub fn word<T: std::str::FromStr<Err: Into<lanesum::PlanError>>>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    let text: String = value.extract()?;
    text.parse()
        .map_err(|error: T::Err| exception(value.py(), &lanesum::Error::Plan(error.into())))
}

/// A time in seconds.
pub fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!(
            "a deadline of {seconds} s can't be counted; hint: give seconds, from 0.001 to 24 days"
        ))
    })
}
