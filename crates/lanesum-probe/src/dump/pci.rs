//! `lspci -vvv` and `lspci -tv`: the tree of bridges that the words of `nvidia-smi topo` are only a reading of.

mod listing;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use lanesum_plan::Bytes;
use serde::{Deserialize, Serialize};

pub(super) use listing::{device_line, read as read_listing};
pub(super) use tree::{is_tree, read as read_tree};

use super::remark::Remark;

/// The most devices that are read.
pub const MOST_DEVICES: usize = 4096;

/// What `lspci` tells of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pci {
    /// The devices in the order of the text.
    pub devices: Vec<PciDevice>,
    /// What could not be read.
    pub remarks: Vec<Remark>,
    /// Which device leads to a bus.
    bridges: BTreeMap<(u32, u8), usize>,
}

/// A device. What is `None` was not told: a tree tells of bridges and names alone, and capabilities need root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciDevice {
    /// Where it is.
    pub address: PciAddress,
    /// What it is, such as `PCI bridge`.
    pub class: Option<String>,
    /// Who made it, and what.
    pub name: Option<String>,
    /// The buses behind it, if it is a bridge.
    pub buses: Option<Buses>,
    /// Its place in the fabric, such as `Root Port` or `Downstream Port`, in the tool's words.
    pub port: Option<String>,
    /// The NUMA node that it belongs to.
    pub numa_node: Option<u32>,
    /// Its IOMMU group.
    pub iommu_group: Option<u32>,
    /// Its link now, which at rest means nothing: of ports that lead down to what is below, of all others to what is above.
    pub link: Option<Lanes>,
    /// What that link can at most, for all that this end of it knows.
    pub link_max: Option<Lanes>,
    /// The windows to its memory.
    pub regions: Vec<Region>,
    /// Access control, if it has any.
    pub acs: Option<Acs>,
    /// Its driver.
    pub driver: Option<String>,
}

/// Where a device is, as the kernel writes it: `0000:c1:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    /// The domain, mostly 0.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device on the bus, below 32.
    pub device: u8,
    /// The function of the device, below 8.
    pub function: u8,
}

/// The buses behind a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buses {
    /// The one next to it.
    pub secondary: u8,
    /// The last of those behind that.
    pub subordinate: u8,
}

/// Generation and width of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    /// The generation of PCIe that runs at this speed.
    pub generation: u32,
    /// The lanes.
    pub width: u32,
}

/// A window to a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its number; a GPU's large one is 1, or 2 in some models.
    pub number: u8,
    /// Its size.
    pub size: Bytes,
}

/// What access control does with requests from one device below a bridge to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acs {
    /// Requests are sent up to the root.
    pub request_redirect: bool,
    /// Answers are sent up to the root.
    pub completion_redirect: bool,
    /// Requests that come from below for what is below are sent up.
    pub upstream_forwarding: bool,
    /// Each pair of ports has a gate of its own.
    pub egress_control: bool,
    /// Requests with translated addresses go the direct way all the same.
    pub direct_translated: bool,
}

impl Pci {
    /// The device that this one is below, by places in [`Pci::devices`]; `None` for one on a root bus, or whose bridge is not in
    /// the text.
    #[must_use]
    pub fn above(&self, place: usize) -> Option<usize> {
        let address = self.devices.get(place)?.address;
        let above = *self.bridges.get(&(address.domain, address.bus))?;
        // A bridge that leads to its own bus is no bridge.
        (self.devices.get(above)?.address < address).then_some(above)
    }

    /// The bridges above a device, from its own up to the root port.
    #[must_use]
    pub fn path(&self, place: usize) -> Vec<usize> {
        // Addresses descend, so this ends.
        std::iter::successors(self.above(place), |place| self.above(*place)).collect()
    }

    /// NVIDIA's GPUs, by places in [`Pci::devices`]: by class in a list, in a tree the first functions of NVIDIA's devices that are
    /// no bridges. A tree without names (`lspci -t`) tells of none.
    pub fn gpus(&self) -> impl Iterator<Item = usize> {
        let gpu = |device: &PciDevice| {
            let nvidia = device.name.as_ref().is_some_and(|name| name.starts_with("NVIDIA"));
            let display = match &device.class {
                Some(class) => class == "3D controller" || class == "VGA compatible controller",
                None => device.address.function == 0 && device.buses.is_none(),
            };
            nvidia && display
        };
        let devices = self.devices.iter().enumerate();
        devices.filter(move |(_, device)| gpu(device)).map(|(place, _)| place)
    }

    /// The device at an address.
    #[must_use]
    pub fn find(&self, address: PciAddress) -> Option<usize> {
        self.devices.iter().position(|device| device.address == address)
    }

    /// Notes that this device leads to these buses.
    fn bridge(&mut self, place: usize, buses: Buses) {
        if let Some(device) = self.devices.get_mut(place) {
            device.buses = Some(buses);
            let bus = (device.address.domain, buses.secondary);
            self.bridges.entry(bus).or_insert(place);
        }
    }
}

impl PciDevice {
    fn new(address: PciAddress) -> PciDevice {
        PciDevice {
            address,
            class: None,
            name: None,
            buses: None,
            port: None,
            numa_node: None,
            iommu_group: None,
            link: None,
            link_max: None,
            regions: Vec::new(),
            acs: None,
            driver: None,
        }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress {
            domain,
            bus,
            device,
            function,
        } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

/// As `lspci`, the kernel or the driver write it: domain 0 may be left out, and domains may have four to eight digits.
impl FromStr for PciAddress {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<PciAddress, NoAddress> {
        let (buses, slot) = text.rsplit_once(':').ok_or(NoAddress)?;
        let (domain, bus) = buses.rsplit_once(':').unwrap_or(("0000", buses));
        let (device, function) = slot.split_once('.').ok_or(NoAddress)?;
        let number = |text: &str, digits: std::ops::RangeInclusive<usize>| {
            let plain = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(text, 16).ok().filter(|_| plain).ok_or(NoAddress)
        };
        let byte = |text: &str, digits: usize, most: u8| {
            let value = u8::try_from(number(text, digits..=digits)?).map_err(|_| NoAddress)?;
            if value <= most { Ok(value) } else { Err(NoAddress) }
        };
        Ok(PciAddress {
            domain: number(domain, 4..=8)?,
            bus: byte(bus, 2, u8::MAX)?,
            device: byte(device, 2, 31)?,
            function: byte(function, 1, 7)?,
        })
    }
}

impl TryFrom<String> for PciAddress {
    type Error = NoAddress;

    fn try_from(text: String) -> Result<PciAddress, NoAddress> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> String {
        address.to_string()
    }
}

/// A text is no address of a PCI device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no address of a PCI device like 0000:c1:00.0")]
pub struct NoAddress;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_their_forms() {
        for (text, kernel) in [
            ("c1:00.0", "0000:c1:00.0"),
            ("0000:C1:1f.7", "0000:c1:1f.7"),
            ("00000000:C1:00.0", "0000:c1:00.0"),
            ("10000:e1:00.0", "10000:e1:00.0"),
        ] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), kernel);
        }
        for text in [
            "",
            "c1",
            "c1:00",
            "c1:20.0",
            "c1:00.8",
            "1:00.0",
            "000:c1:00.0",
            "+1:00.0",
            "0:0:0:0.0",
            "c1:00.0x",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
