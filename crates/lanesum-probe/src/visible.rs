//! Which GPUs `CUDA_VISIBLE_DEVICES` leaves to a process, found out without asking the driver: by what the variable says and NVML shows.
//!
//! The driver reads the list entry by entry and ends it, without a word, at the first that it can't use; of entries that come twice it
//! makes no GPU at all. A typing error so becomes "fewer GPUs than there are", far away from its cause. The rules are NVIDIA's (CUDA
//! programming guide, environment variables), and for what it leaves open those that PyTorch found by trying: numbers are read as by
//! `strtoul`, so that what follows their digits does not count, and all entries are of the kind of the first.

mod resolve;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dump::PciAddress;

/// What CUDA lets a process see.
pub const DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// By what CUDA numbers GPUs.
pub const ORDER: &str = "CUDA_DEVICE_ORDER";

/// By what GPUs are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By how fast they are, as the driver sees it.
    FastestFirst,
    /// By where they are plugged in.
    PciBusId,
}

/// What the two variables ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    order: Order,
    /// The entries up to where the list ends; `None` where all GPUs are to be seen.
    entries: Option<Vec<Entry>>,
    troubles: Vec<Trouble>,
}

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    text: String,
    name: Name,
}

/// What an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// A GPU by its number.
    Index(u32),
    /// A GPU by the beginning of its UUID.
    Gpu(String),
    /// A MIG instance by its UUID.
    Instance(String),
    /// A MIG instance by its GPU's UUID and its two numbers there.
    InstanceOf(String, [u32; 2]),
}

/// What processes of this environment will see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visible {
    /// By what GPUs are numbered.
    pub order: Order,
    /// The GPUs in CUDA's order; `None` where nothing tells which GPUs there are.
    pub gpus: Option<Vec<VisibleGpu>>,
    /// What is wrong.
    pub troubles: Vec<Trouble>,
}

/// A GPU, or an instance of one, that can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisibleGpu {
    /// The entry that names it, if there is a list.
    pub entry: Option<String>,
    /// What tells the GPU from all others; `None` where only the driver knows which one it is.
    pub uuid: Option<String>,
    /// Where the GPU is plugged in; `None` likewise.
    pub pci_bus_id: Option<PciAddress>,
}

/// What is wrong with the variables. Entries are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "trouble", rename_all = "snake_case")]
pub enum Trouble {
    /// An entry is neither a number nor the name of a GPU or an instance; the list ends before it.
    Unreadable {
        /// Its place.
        entry: usize,
        /// Its text.
        text: String,
    },
    /// An entry is of another kind than the first; the list ends before it.
    OtherKind {
        /// Its place.
        entry: usize,
        /// Its text.
        text: String,
    },
    /// An entry names what is not there; the list ends before it.
    NoSuchGpu {
        /// Its place.
        entry: usize,
        /// Its text.
        text: String,
        /// How many GPUs there are.
        gpus: usize,
    },
    /// An entry is the beginning of several UUIDs; the list ends before it.
    Ambiguous {
        /// Its place.
        entry: usize,
        /// Its text.
        text: String,
        /// How many GPUs it may mean.
        gpus: usize,
    },
    /// An entry names what another named before, so that no GPU can be seen.
    Twice {
        /// Its place.
        entry: usize,
        /// Its text.
        text: String,
        /// The place of the one before.
        first: usize,
    },
    /// An entry begins with a number, and what follows is passed over.
    Trailing {
        /// Its place.
        entry: usize,
        /// Its text.
        text: String,
        /// The number.
        index: u32,
    },
    /// The word for the order is none, so that the fastest come first.
    Order {
        /// The word.
        text: String,
    },
}

/// More of an entry is not repeated.
const MOST_SHOWN: usize = 64;

impl Wanted {
    /// What these values of `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` ask for; `None` is a variable that isn't set.
    #[must_use]
    pub fn read(devices: Option<&str>, order: Option<&str>) -> Wanted {
        let mut troubles = Vec::new();
        let order = match order {
            Some("PCI_BUS_ID") => Order::PciBusId,
            None | Some("FASTEST_FIRST" | "") => Order::FastestFirst,
            Some(other) => {
                troubles.push(Trouble::Order { text: shown(other) });
                Order::FastestFirst
            }
        };
        let entries = devices.map(|devices| {
            let (entries, found) = listed(devices);
            troubles.extend(found);
            entries
        });
        Wanted {
            order,
            entries,
            troubles,
        }
    }
}

/// The entries up to where the list ends, and what is not as it should be, why it ends there last.
fn listed(devices: &str) -> (Vec<Entry>, Vec<Trouble>) {
    let mut entries: Vec<Entry> = Vec::new();
    let mut troubles = Vec::new();
    let texts: Vec<&str> = devices.split(',').collect();
    for (place, text) in texts.iter().enumerate() {
        let (entry, text) = (place + 1, text.trim());
        // An empty list, or a comma behind the last entry.
        if text.is_empty() && entry == texts.len() {
            break;
        }
        let name = match read_name(text) {
            Read::Name(name) => name,
            // The documented way to end a list.
            Read::End => break,
            Read::Nothing => {
                let text = shown(text);
                troubles.push(Trouble::Unreadable { entry, text });
                break;
            }
        };
        if entries.first().is_some_and(|first| first.name.kind() != name.kind()) {
            let text = shown(text);
            troubles.push(Trouble::OtherKind { entry, text });
            break;
        }
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if let Name::Index(index) = name
            && !digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            let text = shown(text);
            troubles.push(Trouble::Trailing { entry, text, index });
        }
        let text = text.to_owned();
        entries.push(Entry { text, name });
    }
    (entries, troubles)
}

enum Read {
    Name(Name),
    End,
    Nothing,
}

fn read_name(text: &str) -> Read {
    if let Some(digits) = text.strip_prefix("GPU-") {
        return match digits {
            "" => Read::Nothing,
            _ => Read::Name(Name::Gpu(text.to_owned())),
        };
    }
    if let Some(instance) = text.strip_prefix("MIG-") {
        return read_instance(text, instance).map_or(Read::Nothing, Read::Name);
    }
    // What Slurm writes for jobs without GPUs.
    if text == "NoDevFiles" {
        return Read::End;
    }
    let (minus, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
    match digits.parse() {
        _ if digits.is_empty() => Read::Nothing,
        Ok(0) => Read::Name(Name::Index(0)),
        Ok(_) | Err(_) if minus => Read::End,
        Ok(index) => Read::Name(Name::Index(index)),
        // No machine has so many.
        Err(_) => Read::Name(Name::Index(u32::MAX)),
    }
}

fn read_instance(text: &str, instance: &str) -> Option<Name> {
    if !instance.starts_with("GPU-") {
        return (!instance.is_empty()).then(|| Name::Instance(text.to_owned()));
    }
    let mut parts = instance.split('/');
    let gpu = parts.next()?.to_owned();
    let mut number = || {
        let digits = parts.next()?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| plain)
    };
    let numbers = [number()?, number()?];
    parts.next().is_none().then_some(Name::InstanceOf(gpu, numbers))
}

impl Name {
    /// How entries of its kind begin.
    const fn kind(&self) -> &'static str {
        match self {
            Name::Index(_) => "",
            Name::Gpu(_) => "GPU-",
            Name::Instance(_) | Name::InstanceOf(..) => "MIG-",
        }
    }
}

/// The beginning of a text, to be repeated in a message.
fn shown(text: &str) -> String {
    text.chars().take(MOST_SHOWN).collect()
}

impl Trouble {
    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Trouble::Unreadable { .. } | Trouble::Trailing { .. } => {
                format!(
                    "write {DEVICES} as numbers (0,1) or as UUIDs that nvidia-smi -L prints, with commas between them"
                )
            }
            Trouble::OtherKind { .. } => format!("write all entries of {DEVICES} as numbers, or all as UUIDs"),
            Trouble::NoSuchGpu { gpus: 0, .. } => format!("unset {DEVICES}: there is no GPU to be chosen"),
            Trouble::NoSuchGpu { gpus, .. } => format!(
                "name GPUs by 0 to {}, or as nvidia-smi -L prints them",
                gpus.saturating_sub(1)
            ),
            Trouble::Ambiguous { .. } => "write more of the UUID (nvidia-smi -L prints it)".to_owned(),
            Trouble::Twice { .. } => format!("name each GPU once in {DEVICES}"),
            Trouble::Order { .. } => format!("set {ORDER} to PCI_BUS_ID or to FASTEST_FIRST, or unset it"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = |entry: &usize| match entry {
            1 => "no GPU can be seen".to_owned(),
            2 => "only the GPU of the entry before it can be seen".to_owned(),
            _ => format!("only the GPUs of the {} entries before it can be seen", entry - 1),
        };
        match self {
            Trouble::Unreadable { entry, text } => write!(
                f,
                "entry {entry} of {DEVICES}, {text:?}, is neither a number nor the name of a GPU: {}",
                before(entry)
            ),
            Trouble::OtherKind { entry, text } => write!(
                f,
                "entry {entry} of {DEVICES}, {text:?}, is of another kind than the first: {}",
                before(entry)
            ),
            Trouble::NoSuchGpu { entry, text, gpus } => write!(
                f,
                "entry {entry} of {DEVICES}, {text:?}, names no GPU, of which there {}: {}",
                match gpus {
                    1 => "is 1".to_owned(),
                    gpus => format!("are {gpus}"),
                },
                before(entry)
            ),
            Trouble::Ambiguous { entry, text, gpus } => write!(
                f,
                "entry {entry} of {DEVICES}, {text:?}, may mean any of {gpus} GPUs: {}",
                before(entry)
            ),
            Trouble::Twice { entry, text, first } => write!(
                f,
                "entry {entry} of {DEVICES}, {text:?}, names the GPU of entry {first} again: no GPU can be seen"
            ),
            Trouble::Trailing { entry, text, index } => write!(
                f,
                "entry {entry} of {DEVICES}, {text:?}, counts as {index}: what follows the digits is passed over"
            ),
            Trouble::Order { text } => write!(
                f,
                "{ORDER} is {text:?}, which means nothing to CUDA: it numbers the fastest GPUs first"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
