//! The machine's own management library, NVML: which GPUs there are, whether this process may use them or not, and what their links do.
//!
//! It comes with the driver and is loaded at run time; most machines have none. Unlike the rest of this room it runs code of others,
//! which may hang or crash: [`observe`] belongs into a process that somebody can do without, and [`own`], for ranks that have loaded
//! the driver anyway, waits in another thread and not for long. What NVML does not tell of a GPU, or has no function for, is `None`.

mod gpu;
mod links;

use std::sync::mpsc::channel;
use std::time::Duration;

use lanesum_plan::{Bytes, Nvlinks, PcieLink};
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};

use crate::dump::{MOST_GPUS, PciAddress};

/// How long a rank waits to be told of its GPU's NVLinks.
const PATIENCE: Duration = Duration::from_secs(2);
/// What the loader says of a library that isn't there, and not of one that can't be loaded.
const ABSENT: &str = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory";

/// What became of asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "nvml", rename_all = "snake_case")]
pub enum Nvml {
    /// There is no such library.
    Absent,
    /// It is there, and does not work.
    Failing {
        /// What is wrong.
        error: String,
        /// What to do.
        hint: String,
    },
    /// It works.
    There(NvmlFacts),
}

/// What NVML tells of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NvmlFacts {
    /// The driver's version.
    pub driver: Option<String>,
    /// The version of CUDA that it supports, such as 12040.
    pub cuda: Option<u32>,
    /// The GPUs, in NVML's order.
    pub gpus: Vec<NvmlGpu>,
}

/// A GPU that NVML shows. What is `None` was not told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NvmlGpu {
    /// Its number in NVML, which `nvidia-smi` prints.
    pub index: u32,
    /// Why nothing is known of it; `None` where NVML lets this process look at it.
    pub refused: Option<String>,
    /// What tells it from all others, such as `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`.
    pub uuid: Option<String>,
    /// Where it is plugged in.
    pub pci_bus_id: Option<PciAddress>,
    /// Its model.
    pub name: Option<String>,
    /// Its memory.
    pub memory: Option<Bytes>,
    /// The window through which others on the bus reach its memory.
    pub bar1: Option<Bytes>,
    /// Its link now.
    pub link: Option<PcieLink>,
    /// The same at most, by what the GPU and the system can both.
    pub link_max: Option<PcieLink>,
    /// Its performance state, from 0, which is the fastest, to 15.
    pub performance_state: Option<u8>,
    /// The part of the last moments, in percent, in which a kernel ran.
    pub utilisation_percent: Option<u32>,
    /// Whether a display is plugged into it.
    pub display_attached: Option<bool>,
    /// Whether a display uses it, plugged in or not.
    pub display_active: Option<bool>,
    /// Whether it is cut into MIG instances.
    pub mig: Option<bool>,
    /// What tells each of these instances from all others.
    pub instances: Option<Vec<String>>,
    /// Its active NVLinks.
    pub nvlinks: Option<Vec<Nvlinks>>,
}

impl NvmlGpu {
    /// Whether it is at rest, by its performance state, or else by whether a kernel ran; `None` where neither is known. A link goes down to
    /// generation 1 with its GPU, and that means nothing; GPUs that keep to P0 keep their links up, whether kernels run or not.
    #[must_use]
    pub fn at_rest(&self) -> Option<bool> {
        // Kernels run in P2 on many models.
        let by_state = self.performance_state.map(|state| state > 2);
        by_state.or_else(|| self.utilisation_percent.map(|percent| percent == 0))
    }
}

/// Asks NVML of all there is, once. It may hang, crash, print, or end the process.
#[must_use]
pub fn observe() -> Nvml {
    match Library::init() {
        Ok(library) => Nvml::There(facts(&library)),
        Err(NvmlError::LibloadingError(error)) if error.to_string().starts_with(ABSENT) => Nvml::Absent,
        Err(error) => failing(&error),
    }
}

/// What a rank asks NVML of its own GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnGpu {
    /// Its active NVLinks. With MIG there are none to tell of: its instances do not reach them.
    pub nvlinks: Option<Vec<Nvlinks>>,
    /// Whether it is cut into MIG instances.
    pub mig: Option<bool>,
    /// The window through which others on the bus reach its memory.
    pub bar1: Option<Bytes>,
}

/// What NVML tells of the GPU at this bus id; `None` where it does not answer within a moment, for whatever reason.
#[must_use]
pub fn own(bus_id: &str) -> Option<OwnGpu> {
    let (sender, answer) = channel();
    let bus_id = bus_id.to_owned();
    let ask = move || {
        let found = Library::init().ok().and_then(|library| {
            let device = library.device_by_pci_bus_id(bus_id).ok()?;
            let mig = gpu::mig(&device);
            Some(OwnGpu {
                nvlinks: links::of(&library, &device).filter(|_| mig != Some(true)),
                mig,
                bar1: gpu::bar1(&device),
            })
        });
        // Whoever asked may have given up.
        sender.send(found).ok();
    };
    let thread = std::thread::Builder::new().name("nvml".into()).spawn(ask).ok()?;
    // One that hangs is left behind.
    let found = answer.recv_timeout(PATIENCE).ok()?;
    thread.join().ok()?;
    found
}

fn facts(library: &Library) -> NvmlFacts {
    let count = library.device_count().unwrap_or(0).min(MOST_GPUS as u32);
    NvmlFacts {
        driver: library.sys_driver_version().ok(),
        cuda: library
            .sys_cuda_driver_version()
            .ok()
            .and_then(|version| version.try_into().ok()),
        gpus: (0..count).map(|index| gpu::of(library, index)).collect(),
    }
}

fn failing(error: &NvmlError) -> Nvml {
    let hint = if matches!(error, NvmlError::LibRmVersionMismatch) {
        "the driver was updated while it was loaded: restart the machine, or load the nvidia kernel modules anew; in a container, its library must be the host's"
    } else if matches!(error, NvmlError::DriverNotLoaded) {
        "load the kernel module (modprobe nvidia) and see what dmesg says of it; in a container, have the GPUs passed in (--gpus all)"
    } else if matches!(error, NvmlError::NoPermission) {
        "allow this user to open /dev/nvidiactl"
    } else if matches!(error, NvmlError::LibloadingError(_) | NvmlError::FailedToLoadSymbol(_)) {
        "install the NVIDIA driver anew; look whose libnvidia-ml.so.1 is found first (LD_LIBRARY_PATH)"
    } else {
        "see what nvidia-smi says, and dmesg of Xid errors"
    };
    Nvml::Failing {
        error: format!("the management library of the driver (NVML) does not start: {error}"),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rests_is_told_by_its_state_and_else_by_its_work() {
        for (performance_state, utilisation_percent, expected) in [
            (Some(0), Some(0), Some(false)),
            (Some(2), None, Some(false)),
            (Some(8), Some(90), Some(true)),
            (None, Some(0), Some(true)),
            (None, Some(1), Some(false)),
            (None, None, None),
        ] {
            let gpu = NvmlGpu {
                performance_state,
                utilisation_percent,
                ..NvmlGpu::default()
            };
            assert_eq!(gpu.at_rest(), expected, "{gpu:?}");
        }
    }

    #[test]
    fn what_fails_is_told_with_what_to_do() {
        for (error, wanted) in [
            (NvmlError::LibRmVersionMismatch, "updated"),
            (NvmlError::DriverNotLoaded, "modprobe"),
            (NvmlError::NoPermission, "nvidiactl"),
            (NvmlError::FailedToLoadSymbol("nvmlInit_v2".into()), "LD_LIBRARY_PATH"),
            (NvmlError::Unknown, "Xid"),
        ] {
            let words = error.to_string();
            let Nvml::Failing { error, hint } = failing(&error) else {
                panic!("{words} is a failure");
            };
            assert!(error.ends_with(&words) && hint.contains(wanted), "{error}: {hint}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let gpu = NvmlGpu {
            uuid: Some("GPU-1".into()),
            pci_bus_id: "0000:C1:00.0".parse().ok(),
            link: Some(PcieLink::ASSUMED),
            memory: Some(Bytes::new(80 << 30)),
            ..NvmlGpu::default()
        };
        let there = Nvml::There(NvmlFacts {
            gpus: vec![gpu],
            ..NvmlFacts::default()
        });
        for told in [there, Nvml::Absent, failing(&NvmlError::Unknown)] {
            let text = serde_json::to_string(&told).unwrap();
            assert_eq!(serde_json::from_str::<Nvml>(&text).unwrap(), told, "{text}");
        }
        assert!(serde_json::from_str::<PciAddress>("\"0000:c1:00.0\"").is_ok());
        assert!(serde_json::from_str::<PciAddress>("\"nowhere\"").is_err());
    }

    /// Whatever this machine has, it ends.
    #[test]
    fn a_gpu_that_is_not_there_has_no_nvlinks() {
        assert_eq!(own("7fff:ff:1f.0"), None);
    }
}
