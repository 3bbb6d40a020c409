//! The bound of every wait that the user asked for, by flag or by LANESUM_DEADLINE_MS.
//!
//! The variable is read here too, before any rank is started, so that a bad value is one clear error, and so that this
//! process knows how long to wait for its ranks. The library does the reading: there is one set of rules for values.

use std::ffi::OsString;
use std::time::Duration;

use crate::errors::CliError;

const NAME: &str = "LANESUM_DEADLINE_MS";

/// The flag if it is there, else the variable, else nothing: the library has a default of its own.
pub fn wanted(flag_ms: Option<u64>) -> Result<Option<Duration>, CliError> {
    match flag_ms {
        Some(ms) => Ok(Some(Duration::from_millis(ms))),
        None => read(std::env::var_os(NAME)),
    }
}

fn read(value: Option<OsString>) -> Result<Option<Duration>, CliError> {
    lanesum::environment::deadline(&|name| value.clone().filter(|_| name == NAME)).map_err(|error| CliError::Usage {
        cause: error.to_string(),
        hint: error.hint().unwrap_or("unset it, or use --deadline-ms").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_by_value() {
        assert_eq!(read(None).expect("is nothing"), None);
        assert_eq!(
            read(Some("250".into())).expect("is a number"),
            Some(Duration::from_millis(250))
        );
        let error = read(Some("soon".into())).expect_err("is no number").to_string();
        assert!(error.contains(NAME) && error.contains("soon"), "{error}");
    }

    #[test]
    fn the_flag_wins() {
        assert_eq!(wanted(Some(5)).expect("is given"), Some(Duration::from_millis(5)));
    }
}
