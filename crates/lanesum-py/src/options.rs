//! The options of the builder, as keywords of Python.

use std::time::Duration;

use lanesum::{Builder, Bytes};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::error::exception;
use crate::tensor::type_name;

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
        "device" => builder.device(number(value, name, "GPUs count from 0")?),
        "algorithm" => builder.algorithm(word(value)?),
        "path" => builder.path(word(value)?),
        "staging" => builder.staging(Bytes::new(number(value, name, "give bytes")?)),
        "shared_capacity" => builder.shared_capacity(Bytes::new(number(value, name, "give bytes")?)),
        "tree" => builder.tree(word(value)?),
        "isa" => builder.isa(text(value, name)?),
        // The last of the names, which were compared before.
        directory => builder.directory(
            value
                .extract::<std::path::PathBuf>()
                .map_err(|_| no_text(value, directory))?,
        ),
    })
}

/// One of a closed set of words, or a tree.
pub fn word<T: std::str::FromStr<Err: Into<lanesum::PlanError>>>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    let text = text(value, "an option with words")?;
    text.parse()
        .map_err(|error: T::Err| exception(value.py(), &lanesum::Error::Plan(error.into())))
}

/// A time in seconds.
pub fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract().map_err(|_| {
        let found = type_name(value);
        PyTypeError::new_err(format!(
            "a deadline is a number, not a {found}; hint: give seconds, from 0.001 to 24 days"
        ))
    })?;
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!(
            "a deadline of {seconds:?} s can't be counted; hint: give seconds, from 0.001 to 24 days"
        ))
    })
}

/// This rank's number.
pub fn rank(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number(value, "rank", "ranks count from 0")
}

/// The number of ranks.
pub fn world(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    number(value, "world", "give the number of ranks, 1 to 16")
}

/// The name by which ranks meet.
pub fn name(value: &Bound<'_, PyAny>) -> PyResult<String> {
    text(value, "name")
}

/// The caller's mark of a call, if there is one.
pub fn label(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    optional(value, |value| {
        number(value, "label", "labels are numbers from 0 that fit 64 bits")
    })
}

/// The group of a split, if the rank is in one.
pub fn color(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    let hint = "colours are numbers from 0 that fit 32 bits; None takes no part";
    optional(value, |value| number(value, "color", hint))
}

/// The place in a group.
pub fn key(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    number(value, "key", "keys are numbers from 0 that fit 32 bits")
}

fn optional<T>(value: &Bound<'_, PyAny>, read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Option<T>> {
    match value.is_none() {
        true => Ok(None),
        false => read(value).map(Some),
    }
}

/// A whole number that the type can hold.
fn number<'py, T: for<'a> FromPyObject<'a, 'py>>(value: &Bound<'py, PyAny>, name: &str, hint: &str) -> PyResult<T> {
    value.extract().map_err(|_| {
        // Of Python's own numbers only, whose words are their own.
        match value.cast::<PyInt>().map(|number| number.str()) {
            Ok(Ok(number)) => PyValueError::new_err(format!("`{name}` can't be {number}; hint: {hint}")),
            Ok(Err(raised)) => raised,
            Err(_) => {
                let found = type_name(value);
                PyTypeError::new_err(format!("`{name}` is a whole number, not a {found}; hint: {hint}"))
            }
        }
    })
}

fn text(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    value.extract().map_err(|_| no_text(value, name))
}

fn no_text(value: &Bound<'_, PyAny>, name: &str) -> PyErr {
    if value.is_instance_of::<PyString>() {
        return PyValueError::new_err(format!("`{name}` can't be written in UTF-8; hint: give other letters"));
    }
    let found = type_name(value);
    PyTypeError::new_err(format!("`{name}` is text, not a {found}; hint: give a str"))
}
