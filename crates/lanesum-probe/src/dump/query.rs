//! `nvidia-smi -q`: what the driver knows of each GPU.
//!
//! The tool says with blanks at the beginning of a line what belongs to what, and many names come several times, so a value is
//! known by the names of all that it stands below.

use lanesum_plan::Bytes;

use super::error::{DumpError, Fault};
use super::grid::MOST_GPUS;
use super::list::identity;
use super::pci::PciAddress;
use super::remark::{About, Remark};
use super::text::{Line, Word};

/// What `nvidia-smi -q` tells of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// The driver's version.
    pub driver: Option<String>,
    /// The version of CUDA that it supports.
    pub cuda: Option<String>,
    /// How many GPUs there are, described here or not.
    pub attached: Option<u32>,
    /// Those that are described, in the order of the text.
    pub gpus: Vec<QueriedGpu>,
    /// What could not be read.
    pub remarks: Vec<Remark>,
}

/// A GPU of a query. What is `None` was not told, or as not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueriedGpu {
    /// Where it is plugged in.
    pub address: PciAddress,
    /// Its model.
    pub model: Option<String>,
    /// Its architecture.
    pub architecture: Option<String>,
    /// What tells it from all others; `None` where somebody blanked it.
    pub uuid: Option<String>,
    /// Its number among the driver's device files.
    pub minor: Option<u32>,
    /// Its link to the next bridge.
    pub link: QueriedLink,
    /// Its memory.
    pub memory: Option<Bytes>,
    /// The window through which others reach its memory.
    pub bar1: Option<Bytes>,
    /// Whether it is cut into MIG instances.
    pub mig: Option<bool>,
    /// How it is given to a virtual machine, such as `Pass-Through`; `None` is the tool's word on a real one.
    pub virtualization: Option<String>,
    /// Whether a display is on it.
    pub display_active: Option<bool>,
    /// Who may use it: `Default` for all.
    pub compute_mode: Option<String>,
}

/// A PCIe link. An idle one goes down to generation 1, and that means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueriedLink {
    /// The generation now.
    pub generation: Option<u32>,
    /// The highest generation that GPU and slot can both.
    pub generation_max: Option<u32>,
    /// The highest generation that the GPU can.
    pub device_generation_max: Option<u32>,
    /// The highest generation that the slot can.
    pub host_generation_max: Option<u32>,
    /// The lanes now.
    pub width: Option<u32>,
    /// The most lanes.
    pub width_max: Option<u32>,
}

/// What `GPU 00000000:C1:00.0` names, if a line is so.
pub(super) fn address(line: &Line<'_>) -> Option<PciAddress> {
    let mut words = line.words();
    let (first, second) = (words.next()?, words.next()?);
    let alone = first.text == "GPU" && words.next().is_none();
    second.text.parse().ok().filter(|_| alone)
}

/// Deeper than the tool writes; what is deeper is not looked at.
const DEEPEST: usize = 8;

/// The names that a line stands below, each with the blanks before it.
struct Above<'l>(Vec<(usize, &'l str)>);

impl<'l> Above<'l> {
    /// Goes to a line: false if it is too deep.
    fn enter(&mut self, blanks: usize, name: &'l str) -> bool {
        while self.0.last().is_some_and(|(above, _)| *above >= blanks) {
            self.0.pop();
        }
        let room = self.0.len() < DEEPEST;
        if room {
            self.0.push((blanks, name));
        }
        room
    }

    /// The names below the GPU, this line's last.
    fn names(&self) -> Vec<&'l str> {
        self.0.iter().map(|(_, name)| *name).collect()
    }
}

impl Query {
    pub(super) fn read(lines: &[Line<'_>]) -> Result<Query, DumpError> {
        let mut query = Query::default();
        let mut above = Above(Vec::new());
        for line in lines {
            let Some(first) = line.first() else { continue };
            if let Some(address) = address(line) {
                above = Above(Vec::new());
                query.begin(line, first, address)?;
                continue;
            }
            let (name, value) = name_and_value(line);
            if above.enter(first.at, name)
                && let Some(value) = value
            {
                query.value(line, &above.names(), value);
            }
        }
        match (query.attached, query.gpus.len(), lines.first()) {
            (_, 0, Some(line)) => Err(line.refuse_end(Fault::NoGpu)),
            (Some(attached), described, Some(line)) if usize::try_from(attached).is_ok_and(|all| all > described) => {
                query.remarks.push(Remark {
                    place: line.place(0),
                    about: About::Attached { attached, described },
                });
                Ok(query)
            }
            (_, _, Some(_) | None) => Ok(query),
        }
    }

    fn begin(&mut self, line: &Line<'_>, first: Word<'_>, address: PciAddress) -> Result<(), DumpError> {
        if self.gpus.len() >= MOST_GPUS {
            return Err(line.refuse(first, Fault::TooMany));
        }
        if self.gpus.iter().any(|gpu| gpu.address == address) {
            let id = line.words().nth(1).unwrap_or(first);
            return Err(line.refuse(id, Fault::Twice));
        }
        self.gpus.push(QueriedGpu::new(address));
        Ok(())
    }

    /// Takes one value. One that is there and not understood is remarked on.
    fn value(&mut self, line: &Line<'_>, names: &[&str], value: &str) {
        let understood = match self.gpus.last_mut() {
            None => self.of_host(names, value),
            Some(gpu) => gpu.value(names, value),
        };
        let about = match (understood, names) {
            (true, _) => return,
            (false, ["GPU UUID"]) => About::Uuid,
            (false, names) => About::Value { key: names.join(", ") },
        };
        let at = line.first().map_or(0, |word| word.at);
        let place = line.place(at);
        self.remarks.push(Remark { place, about });
    }

    fn of_host(&mut self, names: &[&str], value: &str) -> bool {
        match names {
            ["Driver Version"] => text(&mut self.driver, value),
            ["CUDA Version"] => text(&mut self.cuda, value),
            ["Attached GPUs"] => number(&mut self.attached, value),
            _ => true,
        }
    }
}

impl QueriedGpu {
    fn new(address: PciAddress) -> QueriedGpu {
        QueriedGpu {
            address,
            model: None,
            architecture: None,
            uuid: None,
            minor: None,
            link: QueriedLink::default(),
            memory: None,
            bar1: None,
            mig: None,
            virtualization: None,
            display_active: None,
            compute_mode: None,
        }
    }

    fn value(&mut self, names: &[&str], value: &str) -> bool {
        match names {
            ["Product Name"] => text(&mut self.model, value),
            ["Product Architecture"] => text(&mut self.architecture, value),
            ["GPU UUID"] => {
                self.uuid = identity(value, "GPU-");
                self.uuid.is_some() || untold(value)
            }
            ["Minor Number"] => number(&mut self.minor, value),
            ["MIG Mode", "Current"] => flag(&mut self.mig, value),
            ["GPU Virtualization Mode", "Virtualization Mode"] => text(&mut self.virtualization, value),
            ["Display Active"] => flag(&mut self.display_active, value),
            ["Compute Mode"] => text(&mut self.compute_mode, value),
            ["FB Memory Usage", "Total"] => size(&mut self.memory, value),
            ["BAR1 Memory Usage", "Total"] => size(&mut self.bar1, value),
            ["PCI", "GPU Link Info", rest @ ..] => self.link.value(rest, value),
            _ => true,
        }
    }
}

impl QueriedLink {
    fn value(&mut self, names: &[&str], value: &str) -> bool {
        let lanes = value.strip_suffix('x').unwrap_or(value);
        match names {
            ["PCIe Generation", "Current"] => number(&mut self.generation, value),
            ["PCIe Generation", "Max"] => number(&mut self.generation_max, value),
            ["PCIe Generation", "Device Max"] => number(&mut self.device_generation_max, value),
            ["PCIe Generation", "Host Max"] => number(&mut self.host_generation_max, value),
            ["Link Width", "Current"] => number(&mut self.width, lanes),
            ["Link Width", "Max"] => number(&mut self.width_max, lanes),
            _ => true,
        }
    }
}

/// A line's name, and its value if it has one.
fn name_and_value<'l>(line: &'l Line<'_>) -> (&'l str, Option<&'l str>) {
    let text = line.trimmed();
    let parts = text.split_once(" : ").or_else(|| text.split_once(": "));
    match parts {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (text.trim_end_matches(':').trim(), None),
    }
}

/// Whether the tool says that it knows nothing.
fn untold(value: &str) -> bool {
    ["N/A", "[N/A]", "", "Requested functionality has been deprecated"].contains(&value)
}

/// These take a value that is told; false if it is not understood.
fn text(place: &mut Option<String>, value: &str) -> bool {
    *place = (!untold(value)).then(|| value.to_owned());
    true
}

fn number(place: &mut Option<u32>, value: &str) -> bool {
    *place = value.parse().ok();
    place.is_some() || untold(value)
}

fn flag(place: &mut Option<bool>, value: &str) -> bool {
    *place = match value {
        "Enabled" | "Yes" => Some(true),
        "Disabled" | "No" => Some(false),
        _ => None,
    };
    place.is_some() || untold(value)
}

fn size(place: &mut Option<Bytes>, value: &str) -> bool {
    let mebibytes = value
        .strip_suffix(" MiB")
        .and_then(|count| count.trim().parse::<u64>().ok());
    *place = mebibytes.and_then(|count| count.checked_mul(1 << 20)).map(Bytes::new);
    place.is_some() || untold(value)
}
