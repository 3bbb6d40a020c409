//! What the environment says to engines that ask before they make a communicator.

use lanesum::environment;
use pyo3::prelude::*;

use crate::error::exception;

/// Whether the user lets lanesum run.
#[pyfunction]
pub fn enabled(py: Python<'_>) -> PyResult<bool> {
    environment::enabled(&|name| std::env::var_os(name)).map_err(|error| exception(py, &error.into()))
}

/// What may carry messages where an engine leaves it to lanesum; None where the user does not say.
#[pyfunction]
pub fn policy(py: Python<'_>) -> PyResult<Option<&'static str>> {
    let said = environment::policy(&|name| std::env::var_os(name)).map_err(|error| exception(py, &error.into()))?;
    Ok(said.map(lanesum::Preference::name))
}

/// The longest wait in seconds that the user asks for; None where the user does not say.
#[pyfunction]
pub fn deadline(py: Python<'_>) -> PyResult<Option<f64>> {
    let said = environment::deadline(&|name| std::env::var_os(name)).map_err(|error| exception(py, &error.into()))?;
    Ok(said.map(|deadline| deadline.as_secs_f64()))
}
