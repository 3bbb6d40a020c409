//! Which engine a run gets. The driver is asked before any rank is started, so that a missing one is one clear error; no
//! context is made for it, and whether the GPUs work together is for the ranks to find out.

use lanesum::cuda::DriverFacts;
use lanesum::{CudaError, EngineChoice};
use lanesum_plan::DEVICE_WORLD_MAX;

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
    settle(choice, lanesum::cuda::driver).map_err(CliError::from)
}

fn settle(choice: EngineChoice, ask: impl FnOnce() -> Result<DriverFacts, CudaError>) -> Result<Found, CudaError> {
    let with = |driver| Found {
        choice,
        driver: Some(driver),
        without: None,
    };
    match choice {
        EngineChoice::Host => Ok(Found::host(None)),
        EngineChoice::Cuda => ask().map(with),
        EngineChoice::Auto => Ok(ask().map_or_else(|error| Found::host(Some(error.to_string())), with)),
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

    const DRIVER: DriverFacts = DriverFacts {
        version: 13_000,
        stand_in: true,
        devices: 2,
    };

    #[test]
    fn the_host_asks_no_driver() {
        let found = settle(EngineChoice::Host, || panic!("was asked")).expect("needs none");
        assert_eq!(found, Found::host(None));
    }

    #[test]
    fn auto_takes_the_host_and_keeps_the_drivers_words() {
        let found = settle(EngineChoice::Auto, || Err(CudaError::NoDevice)).expect("falls back");
        assert_eq!(found, Found::host(Some(CudaError::NoDevice.to_string())));
        let found = settle(EngineChoice::Auto, || Ok(DRIVER)).expect("is there");
        assert_eq!((found.choice, found.stand_in()), (EngineChoice::Auto, true));
    }

    #[test]
    fn cuda_without_a_driver_is_an_error() {
        assert_eq!(
            settle(EngineChoice::Cuda, || Err(CudaError::NoDevice)),
            Err(CudaError::NoDevice)
        );
        assert!(check_world(EngineChoice::Cuda, 8).is_ok() && check_world(EngineChoice::Auto, 16).is_ok());
        assert!(check_world(EngineChoice::Cuda, 9).is_err());
    }
}
