//! What NVML shows, for people and for programs.

use std::fmt::{Result, Write};

use lanesum_plan::{Bytes, NvlinkEnd, Nvlinks, PcieLink};
use lanesum_probe::nvml::{Nvml, NvmlGpu};
use lanesum_probe::visible::{DEVICES, ORDER, Order, VisibleGpu};
use serde::Serialize;

use super::{Management, Visibility};

/// More of a variable is not repeated to people.
const MOST_SHOWN: usize = 200;

/// What NVML shows.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// `there`, `absent`, `failing`, `unknown` (it did not answer) or `not_asked`.
    state: &'static str,
    /// Why nothing is shown.
    error: Option<String>,
    driver_version: Option<String>,
    cuda_version: Option<u32>,
    gpus: Vec<ShownGpu>,
}

#[derive(Debug, Serialize)]
struct ShownGpu {
    #[serde(flatten)]
    gpu: NvmlGpu,
    at_rest: Option<bool>,
}

/// What ranks will see.
#[derive(Debug, Serialize)]
pub struct SeenByRanks {
    cuda_visible_devices: Option<String>,
    cuda_device_order: Option<String>,
    #[serde(flatten)]
    visible: lanesum_probe::visible::Visible,
}

impl Shown {
    pub fn of(management: &Management) -> Self {
        let without = |state, error: Option<&String>| Self {
            state,
            error: error.cloned(),
            driver_version: None,
            cuda_version: None,
            gpus: vec![],
        };
        match management {
            Management::NotAsked => without("not_asked", None),
            Management::Silent(why) => without("unknown", Some(why)),
            Management::Told(Nvml::Absent) => without("absent", None),
            Management::Told(Nvml::Failing { error, .. }) => without("failing", Some(error)),
            Management::Told(Nvml::There(facts)) => Self {
                state: "there",
                error: None,
                driver_version: facts.driver.clone(),
                cuda_version: facts.cuda,
                gpus: facts.gpus.iter().map(ShownGpu::of).collect(),
            },
        }
    }

    /// A table; nothing where no GPU is shown.
    pub fn write(&self, text: &mut String) -> Result {
        if self.gpus.is_empty() {
            return Ok(());
        }
        let driver = self.driver_version.as_deref().unwrap_or("unknown");
        write!(text, "\nGPUs that NVML shows (driver {driver}")?;
        if let Some(cuda) = self.cuda_version {
            write!(text, ", for CUDA {}.{}", cuda / 1000, cuda % 1000 / 10)?;
        }
        writeln!(
            text,
            ")\n  {:>3}  {:<14} {:<20} {:<9} {:>12} {:>12}  {:<9} {:<4} NVLinks",
            "GPU", "bus id", "link now", "at most", "memory", "BAR1", "display", "MIG"
        )?;
        for shown in &self.gpus {
            shown.write(text)?;
        }
        Ok(())
    }
}

/// What stands where NVML tells nothing.
fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

impl ShownGpu {
    fn of(gpu: &NvmlGpu) -> Self {
        Self {
            gpu: gpu.clone(),
            at_rest: gpu.at_rest(),
        }
    }

    fn write(&self, text: &mut String) -> Result {
        let gpu = &self.gpu;
        if let Some(words) = &gpu.refused {
            return writeln!(text, "  {:>3}  can't be looked at: {words}", gpu.index);
        }
        writeln!(
            text,
            "  {:>3}  {:<14} {:<20} {:<9} {:>12} {:>12}  {:<9} {:<4} {}",
            gpu.index,
            or_dash(gpu.pci_bus_id),
            self.link(),
            or_dash(gpu.link_max),
            or_dash::<Bytes>(gpu.memory),
            or_dash::<Bytes>(gpu.bar1),
            self.display(),
            or_dash(gpu.mig.map(|on| if on { "on" } else { "off" })),
            nvlinks(gpu.nvlinks.as_deref())
        )?;
        let (name, uuid) = (or_dash(gpu.name.as_ref()), or_dash(gpu.uuid.as_ref()));
        writeln!(text, "  {:>3}  {name}, {uuid}", "")?;
        for instance in gpu.instances.iter().flatten() {
            writeln!(text, "  {:>3}  {instance}", "")?;
        }
        Ok(())
    }

    fn link(&self) -> String {
        let resting = |link: PcieLink| match self.at_rest {
            Some(true) => format!("{link}, at rest"),
            Some(false) | None => link.to_string(),
        };
        or_dash(self.gpu.link.map(resting))
    }

    fn display(&self) -> &'static str {
        match (self.gpu.display_active, self.gpu.display_attached) {
            (Some(true), _) => "active",
            (_, Some(true)) => "attached",
            (Some(false), Some(false)) => "none",
            (Some(false), None) => "inactive",
            (None, Some(false) | None) => "-",
        }
    }
}

fn nvlinks(links: Option<&[Nvlinks]>) -> String {
    let Some(links) = links else {
        return "-".to_owned();
    };
    let each = links.iter().map(|Nvlinks { to, count }| match to {
        NvlinkEnd::Gpu { pci_bus_id } => format!("{count} to {pci_bus_id}"),
        NvlinkEnd::Switch => format!("{count} to switches"),
        NvlinkEnd::Unknown => format!("{count} to what is not told"),
    });
    match links {
        [] => "none active".to_owned(),
        [..] => each.collect::<Vec<_>>().join(", "),
    }
}

impl SeenByRanks {
    pub fn of(visibility: &Visibility) -> Self {
        Self {
            cuda_visible_devices: visibility.devices.clone(),
            cuda_device_order: visibility.order.clone(),
            visible: visibility.visible.clone(),
        }
    }

    /// A line a GPU; nothing where no GPU is known and nobody has chosen among them.
    pub fn write(&self, text: &mut String) -> Result {
        let gpus = self.visible.gpus.as_deref();
        let Some(devices) = &self.cuda_visible_devices else {
            if gpus.is_some_and(|gpus| !gpus.is_empty()) {
                writeln!(text, "  {DEVICES} is not set: ranks see all of them")?;
            }
            return Ok(());
        };
        let devices: String = devices.chars().take(MOST_SHOWN).collect();
        write!(text, "\n{DEVICES}={devices:?}: ")?;
        let Some(gpus) = gpus else {
            return writeln!(text, "which GPUs these are is not known without NVML");
        };
        writeln!(
            text,
            "{}",
            match gpus {
                [] => "ranks see no GPU",
                [..] => "ranks see",
            }
        )?;
        for (number, gpu) in gpus.iter().enumerate() {
            writeln!(text, "  {number:>3}  {}", self.named(gpu))?;
        }
        Ok(())
    }

    fn named(&self, gpu: &VisibleGpu) -> String {
        if let (None, None) = (&gpu.pci_bus_id, &gpu.uuid) {
            let entry = gpu.entry.as_deref().unwrap_or_default();
            let why = match self.visible.order {
                Order::FastestFirst if !entry.contains('-') => {
                    format!("by the driver's own numbers: the fastest come first, as {ORDER} is not PCI_BUS_ID")
                }
                Order::FastestFirst | Order::PciBusId => "of which NVML does not tell where it is".to_owned(),
            };
            return format!("{}, {why}", entry.escape_debug());
        }
        let (place, uuid) = (or_dash(gpu.pci_bus_id), or_dash(gpu.uuid.as_ref()));
        format!("{place:<14} {uuid}")
    }
}
