//! What the user tells all programs that use lanesum at once: whether it runs at all, how long it waits, and what engines ask of it.

use std::time::Duration;

use lanesum_plan::Preference;

use super::{EnvironmentError, Lookup};

/// The variable that turns lanesum off.
pub const SWITCH: &str = "LANESUM";
pub(super) const SWITCH_VALUES: &str = "0, off, false or no to turn it off; 1, on, true, yes or empty count as not set";
/// The variable that says what may carry messages where an engine or torch.distributed leaves it to lanesum.
pub(super) const POLICY: &str = "LANESUM_POLICY";
pub(super) const POLICY_VALUES: &str = "exact or fastest; empty counts as not set";

/// The variable of the longest wait.
pub(super) const DEADLINE: &str = "LANESUM_DEADLINE_MS";

/// Whether the user lets lanesum run: not where `LANESUM` is 0. `lookup` gives a variable's value, as `std::env::var_os` does.
///
/// # Errors
/// [`EnvironmentError::Invalid`]: the value is neither yes nor no.
pub fn enabled(lookup: Lookup<'_>) -> Result<bool, EnvironmentError> {
    Ok(one_of(lookup, SWITCH, SWITCH_VALUES, |word| match word {
        "0" | "off" | "false" | "no" => Some(false),
        "1" | "on" | "true" | "yes" => Some(true),
        _ => None,
    })?
    .unwrap_or(true))
}

/// Refuses to go on where lanesum is turned off.
///
/// # Errors
/// [`EnvironmentError::Off`], or [`EnvironmentError::Invalid`] as [`enabled`].
pub(crate) fn on(lookup: Lookup<'_>) -> Result<(), EnvironmentError> {
    if enabled(lookup)? {
        return Ok(());
    }
    let value = lookup(SWITCH).unwrap_or_default().to_string_lossy().into_owned();
    Err(EnvironmentError::Off { value })
}

/// What may carry messages where an engine leaves it to lanesum, if the user says so: `exact` for lanesum alone, `fastest` for the
/// engine's own library where that is predicted to be faster.
///
/// # Errors
/// [`EnvironmentError::Invalid`]: the value is another word.
pub fn policy(lookup: Lookup<'_>) -> Result<Option<Preference>, EnvironmentError> {
    one_of(lookup, POLICY, POLICY_VALUES, |word| match word {
        "exact" => Some(Preference::Exact),
        "fastest" => Some(Preference::Fastest),
        _ => None,
    })
}

/// Deadlines that can be counted: 1 ms to 24 days, as everywhere.
pub(crate) const DEADLINES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_millis(LONGEST_MS);
const LONGEST_MS: u64 = 24 * 24 * 3600 * 1000;
/// What the deadline may be.
pub(super) const MILLISECONDS: &str = "a number of milliseconds from 1 to 2073600000 (24 days)";

/// The longest wait that the user asks for, if any. `lookup` gives a variable's value, as `std::env::var_os` does.
///
/// # Errors
/// [`EnvironmentError::Invalid`]: the value is no number of milliseconds, or out of range.
pub fn deadline(lookup: Lookup<'_>) -> Result<Option<Duration>, EnvironmentError> {
    let Some(value) = lookup(DEADLINE) else { return Ok(None) };
    let value = value.to_string_lossy();
    let millis = value
        .parse()
        .ok()
        .filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
    match millis.map(Duration::from_millis) {
        Some(deadline) if DEADLINES.contains(&deadline) => Ok(Some(deadline)),
        Some(_) | None => Err(EnvironmentError::Invalid {
            name: DEADLINE,
            value: value.into_owned(),
            expected: MILLISECONDS,
        }),
    }
}

/// A variable that has one of a few words, in letters of either case.
fn one_of<T>(
    lookup: Lookup<'_>,
    name: &'static str,
    expected: &'static str,
    meaning: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, EnvironmentError> {
    let Some(value) = lookup(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let word = value.to_string_lossy().to_ascii_lowercase();
    match meaning(&word) {
        Some(meant) => Ok(Some(meant)),
        None => Err(EnvironmentError::Invalid {
            name,
            value: value.to_string_lossy().into_owned(),
            expected,
        }),
    }
}
