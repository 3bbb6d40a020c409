//! Which engine a run gets. The driver is asked before any rank is started, so that a missing or broken one is one clear error; no
//! context is made for it, and whether the GPUs work together is for the ranks to find out.

use lanesum::EngineChoice;
use lanesum::cuda::DriverFacts;
use lanesum_plan::DEVICE_WORLD_MAX;

use crate::driver::Driver;
use crate::errors::CliError;

/// What stands first in a report of a run that no GPU took part in though the engine is `cuda`.
pub const STAND_IN: &str =
    "ON A STAND-IN for the CUDA driver: kernels ran on the CPU, no GPU took part, and times mean nothing";

/// What the ranks are to join with, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The engine to ask the library for.
    pub choice: EngineChoice,
    /// The driver, where ranks may take a GPU.
    pub driver: Option<DriverFacts>,
    /// Why it is the host although nobody insisted on that.
    pub without: Option<String>,
}

impl Found {
    /// The host's memory alone; with the reason where nobody insisted on it.
    pub fn host(without: Option<String>) -> Self {
        Self {
            choice: EngineChoice::Host,
            driver: None,
            without,
        }
    }

    /// Whether the driver is the tests' stand-in.
    pub fn stand_in(&self) -> bool {
        self.driver.is_some_and(|driver| driver.stand_in)
    }
}

/// Looks for a driver where the choice leaves room for one.
pub fn look(choice: EngineChoice) -> Result<Found, CliError> {
    settle(choice, Driver::ask(choice)?)
}

fn settle(choice: EngineChoice, driver: Driver) -> Result<Found, CliError> {
    match (choice, driver) {
        (EngineChoice::Cuda, Driver::Without { error, hint, .. }) => Err(CliError::Driver { cause: error, hint }),
        (_, driver) => Ok(driver.engine(choice)),
    }
}

/// Refuses more ranks than kernels serve where nothing but GPUs will do.
pub fn check_world(choice: EngineChoice, ranks: usize) -> Result<(), CliError> {
    if choice != EngineChoice::Cuda || ranks <= DEVICE_WORLD_MAX {
        return Ok(());
    }
    Err(CliError::Usage {
        cause: format!("--ranks {ranks} with the engine cuda: its kernels serve at most {DEVICE_WORLD_MAX} ranks"),
        hint: format!("take --ranks {DEVICE_WORLD_MAX}, or --engine host"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Lack;

    const DRIVER: DriverFacts = DriverFacts {
        version: 13_000,
        stand_in: true,
        devices: 2,
    };

    fn refusals() -> [Driver; 3] {
        [Lack::Driver, Lack::Device, Lack::Use].map(|lack| Driver::Without {
            lack,
            error: "no such driver".to_owned(),
            hint: "install one".to_owned(),
        })
    }

    #[test]
    fn the_host_asks_no_driver() {
        let asked = Driver::ask(EngineChoice::Host).expect("asks nobody");
        let found = settle(EngineChoice::Host, asked).expect("needs none");
        assert_eq!(found, Found::host(None));
    }

    #[test]
    fn auto_takes_the_host_and_keeps_the_drivers_words() {
        for driver in refusals() {
            let found = settle(EngineChoice::Auto, driver).expect("falls back");
            assert_eq!(found, Found::host(Some("no such driver".to_owned())));
        }
        let found = settle(EngineChoice::Auto, Driver::There(DRIVER)).expect("is there");
        assert_eq!((found.choice, found.stand_in()), (EngineChoice::Auto, true));
    }

    #[test]
    fn cuda_without_a_driver_is_an_error() {
        for driver in refusals() {
            let error = settle(EngineChoice::Cuda, driver).expect_err("insists");
            assert_eq!((error.to_string().as_str(), error.exit_code()), ("no such driver", 1));
            assert_eq!(error.hint().as_deref(), Some("install one"));
        }
        assert!(check_world(EngineChoice::Cuda, 8).is_ok() && check_world(EngineChoice::Auto, 16).is_ok());
        assert!(check_world(EngineChoice::Cuda, 9).is_err());
    }
}
