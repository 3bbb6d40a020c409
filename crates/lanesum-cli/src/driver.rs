//! Asks the GPU driver what it is, in a process of its own.

use std::process::ExitCode;

use lanesum::cuda::DriverFacts;
use lanesum::{CudaError, EngineChoice};
use serde::{Deserialize, Serialize};

use crate::asked::{self, Asked, PATIENCE, Told};
use crate::engines::Found;
use crate::errors::CliError;

/// What became of the question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Nobody asked: the host's memory is to do.
    NotAsked,
    /// It is there, and shows GPUs.
    There(#[serde(with = "Facts")] DriverFacts),
    /// No GPU can be had from it.
    Without {
        /// Which kind of reason.
        lack: Lack,
        /// What is wrong.
        error: String,
        /// What to do.
        hint: String,
    },
}

/// Why no GPU can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// There is no driver.
    Driver,
    /// It shows no GPU to this process.
    Device,
    /// There is a driver that can't be used.
    Use,
}

/// How the facts are told.
#[derive(Serialize, Deserialize)]
#[serde(remote = "DriverFacts")]
struct Facts {
    version: u32,
    stand_in: bool,
    devices: usize,
}

impl Driver {
    /// Asks, where the choice leaves room for GPUs.
    pub fn ask(choice: EngineChoice) -> Result<Self, CliError> {
        if choice == EngineChoice::Host {
            return Ok(Self::NotAsked);
        }
        Ok(match Asked::start("ask-driver")?.told()? {
            Told::Answer(driver) => driver,
            Told::Silence => broken(
                &format!("the GPU driver does not say what it is within {} s", PATIENCE.as_secs()),
                "see whether nvidia-smi answers and what dmesg says of Xid errors; GPUs that nobody uses may take long to wake (nvidia-smi -pm 1), and one that has fallen off the bus wants a restart of the machine",
            ),
            Told::Ended(ending) => broken(
                &format!("the CUDA driver library ended the process that loaded it, with {ending}"),
                "install the NVIDIA driver anew; in a container, look whose libcuda.so.1 is found first (LD_LIBRARY_PATH)",
            ),
            Told::Closed => broken(
                "the CUDA driver library closed the output of the process that loaded it, which then had to be killed",
                "see whether nvidia-smi answers and what dmesg says of Xid errors",
            ),
        })
    }

    /// What ranks are to join with.
    pub fn engine(&self, choice: EngineChoice) -> Found {
        match self {
            Self::NotAsked => Found::host(None),
            Self::There(facts) => Found {
                choice,
                driver: Some(*facts),
                without: None,
            },
            Self::Without { error, .. } => Found::host(Some(error.clone())),
        }
    }
}

fn broken(error: &str, hint: &str) -> Driver {
    Driver::Without {
        lack: Lack::Use,
        error: error.to_owned(),
        hint: hint.to_owned(),
    }
}

/// The process that asks; `parent` started it.
pub fn answer(parent: u32) -> ExitCode {
    asked::answer(parent, || {
        lanesum::cuda::driver().map_or_else(|error| refused(&error), Driver::There)
    })
}

fn refused(error: &CudaError) -> Driver {
    // A file that is there and can't be loaded is another matter.
    let lack = if matches!(error, CudaError::NoLibrary { reason } if reason.starts_with("libcuda.so.1: cannot open")) {
        Lack::Driver
    } else if *error == CudaError::NoDevice {
        Lack::Device
    } else {
        Lack::Use
    };
    Driver::Without {
        lack,
        error: error.to_string(),
        hint: error.hint(),
    }
}
