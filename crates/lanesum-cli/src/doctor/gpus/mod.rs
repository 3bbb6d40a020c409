//! What the GPUs' management library (NVML) shows of this machine, and which of its GPUs the ranks will see.
//!
//! | module | role |
//! |---|---|
//! | `findings` | what of it is to be remarked, and what is not known |
//! | `table` | what is said of it in the end |

mod findings;
mod table;

use std::process::ExitCode;

use lanesum::EngineChoice;
use lanesum_probe::nvml::{self, Nvml, NvmlGpu};
use lanesum_probe::visible::{DEVICES, ORDER, Visible, Wanted};

use crate::asked::{self, Asked, PATIENCE, Told};
use crate::errors::CliError;
pub use table::{SeenByRanks, Shown};

/// What became of asking NVML.
#[derive(Debug, Clone, PartialEq)]
pub enum Management {
    /// Nobody asked: the host's memory is to do.
    NotAsked,
    /// It has answered.
    Told(Nvml),
    /// It has not; what it did instead.
    Silent(String),
}

/// The variables that say what CUDA shows to ranks, and what follows from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Visibility {
    /// `CUDA_VISIBLE_DEVICES`, if it is set.
    pub devices: Option<String>,
    /// `CUDA_DEVICE_ORDER`, if it is set.
    pub order: Option<String>,
    /// What ranks of this environment will see.
    pub visible: Visible,
}

/// NVML, while it is asked.
pub struct Asking(Option<Asked>);

impl Asking {
    /// Asks, where the choice leaves room for GPUs.
    pub fn start(choice: EngineChoice) -> Result<Self, CliError> {
        Ok(Self(match choice {
            EngineChoice::Host => None,
            EngineChoice::Auto | EngineChoice::Cuda => Some(Asked::start("ask-nvml")?),
        }))
    }

    /// Waits for the answer.
    pub fn told(self) -> Result<Management, CliError> {
        let Some(asked) = self.0 else {
            return Ok(Management::NotAsked);
        };
        Ok(match asked.told()? {
            Told::Answer(nvml) => Management::Told(nvml),
            Told::Silence => Management::Silent(format!("it does not answer within {} s", PATIENCE.as_secs())),
            Told::Ended(ending) => Management::Silent(format!("it ended the process that loaded it, with {ending}")),
            Told::Closed => Management::Silent(
                "it closed the output of the process that loaded it, which then had to be killed".to_owned(),
            ),
        })
    }
}

/// The process that asks; `parent` started it.
pub fn answer(parent: u32) -> ExitCode {
    asked::answer(parent, nvml::observe)
}

impl Management {
    /// The GPUs, where NVML has shown them.
    pub fn gpus(&self) -> Option<&[NvmlGpu]> {
        match self {
            Management::Told(Nvml::There(facts)) => Some(&facts.gpus),
            Management::NotAsked | Management::Told(Nvml::Absent | Nvml::Failing { .. }) | Management::Silent(_) => {
                None
            }
        }
    }

    /// What ranks of this environment will see; `None` where nobody looks for GPUs.
    pub fn visibility(&self) -> Option<Visibility> {
        if *self == Management::NotAsked {
            return None;
        }
        // What is no text names no GPU either way.
        let value = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let (devices, order) = (value(DEVICES), value(ORDER));
        Some(Visibility {
            visible: Wanted::read(devices.as_deref(), order.as_deref()).resolve(self.gpus()),
            devices,
            order,
        })
    }
}
