//! `lspci`, with `-v` to `-vvv` or without: a line for each device, and below it what it can.

use lanesum_plan::Bytes;

use super::super::error::{DumpError, Fault};
use super::super::remark::{About, Remark};
use super::super::text::Line;
use super::{Acs, Buses, Lanes, MOST_DEVICES, Pci, PciAddress, PciDevice, Region};

/// What the tool writes to those who may not read capabilities.
const DENIED: &str = "<access denied>";

/// Address, class and name of `06:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)`, if a line is so.
pub(in super::super) fn device_line<'l>(line: &'l Line<'_>) -> Option<(PciAddress, &'l str, &'l str)> {
    let (address, rest) = line.trimmed().split_once(' ')?;
    let (class, name) = rest.split_once(": ")?;
    // With -n numbers stand behind words.
    let class = class.split_once(" [").map_or(class, |(class, _)| class);
    Some((address.parse().ok()?, class, name.trim()))
}

pub(in super::super) fn read(lines: &[Line<'_>]) -> Result<Pci, DumpError> {
    let mut pci = Pci::default();
    let mut addresses = std::collections::BTreeSet::new();
    let mut denied = None;
    for line in lines {
        let Some(first) = line.first() else { continue };
        if let Some((address, class, name)) = device_line(line) {
            if pci.devices.len() >= MOST_DEVICES {
                return Err(line.refuse(first, Fault::TooManyDevices));
            }
            if !addresses.insert(address) {
                return Err(line.refuse(first, Fault::Twice));
            }
            pci.devices.push(PciDevice {
                class: Some(class.to_owned()),
                name: Some(name.to_owned()),
                ..PciDevice::new(address)
            });
            continue;
        }
        if denied.is_none() && line.text.contains(DENIED) {
            denied = Some(line.place(first.at));
        }
        let understood = detail(&mut pci, line.trimmed());
        if !understood {
            pci.remarks.push(Remark {
                place: line.place(first.at),
                about: About::Value {
                    key: line.trimmed().chars().take(60).collect(),
                },
            });
        }
    }
    pci.remarks.extend(denied.map(|place| Remark {
        place,
        about: About::Denied,
    }));
    Ok(pci)
}

/// Takes what a line tells of the last device; false if it should be understood and is not.
fn detail(pci: &mut Pci, text: &str) -> bool {
    let place = pci.devices.len().wrapping_sub(1);
    let Some(device) = pci.devices.last_mut() else {
        return true;
    };
    let Some((key, value)) = text.split_once(':') else {
        return true;
    };
    let value = value.trim();
    match key {
        "NUMA node" => number(&mut device.numa_node, value),
        "IOMMU group" => number(&mut device.iommu_group, value),
        "Kernel driver in use" => {
            device.driver = Some(value.to_owned());
            true
        }
        "LnkCap" => lanes(&mut device.link_max, value),
        "LnkSta" => lanes(&mut device.link, value),
        "ACSCtl" => {
            device.acs = acs(value);
            device.acs.is_some()
        }
        "Capabilities" => {
            device.port = device.port.take().or_else(|| port(value));
            true
        }
        "Bus" => match buses(value) {
            Some(buses) => {
                pci.bridge(place, buses);
                true
            }
            None => false,
        },
        _ => {
            device.regions.extend(region(key, value));
            true
        }
    }
}

fn number(place: &mut Option<u32>, value: &str) -> bool {
    *place = value.parse().ok();
    place.is_some()
}

/// Of `Port #0, Speed 32GT/s, Width x16, ...`; words may follow each, such as `(downgraded)`.
fn lanes(place: &mut Option<Lanes>, value: &str) -> bool {
    let after = |name: &str| {
        let rest = value.split(", ").find_map(|part| part.strip_prefix(name))?;
        rest.split_whitespace().next()
    };
    let generation = match after("Speed ") {
        Some("2.5GT/s") => Some(1),
        Some("5GT/s") => Some(2),
        Some("8GT/s") => Some(3),
        Some("16GT/s") => Some(4),
        Some("32GT/s") => Some(5),
        Some("64GT/s") => Some(6),
        // What the tool writes of devices inside a chip.
        Some("unknown") => return true,
        Some(_) | None => None,
    };
    let width = after("Width x").and_then(|width| width.parse().ok());
    *place = generation
        .zip(width)
        .map(|(generation, width)| Lanes { generation, width });
    place.is_some()
}

/// Of `SrcValid+ TransBlk- ReqRedir- ...`.
fn acs(value: &str) -> Option<Acs> {
    let flag = |name: &str| {
        let sign = value.split_whitespace().find_map(|word| word.strip_prefix(name))?;
        match sign {
            "+" => Some(true),
            "-" => Some(false),
            _ => None,
        }
    };
    Some(Acs {
        request_redirect: flag("ReqRedir")?,
        completion_redirect: flag("CmpltRedir")?,
        upstream_forwarding: flag("UpstreamFwd")?,
        egress_control: flag("EgressCtrl")?,
        direct_translated: flag("DirectTrans")?,
    })
}

/// Of `[58] Express (v2) Root Port (Slot+), MSI 00`.
fn port(value: &str) -> Option<String> {
    let (_, rest) = value.split_once("] Express ")?;
    let kind = rest.split_once(") ").map_or(rest, |(_, kind)| kind);
    let end = kind.find([',', '(']).unwrap_or(kind.len());
    let kind = kind.get(..end)?.trim();
    (!kind.is_empty()).then(|| kind.to_owned())
}

/// Of `primary=01, secondary=02, subordinate=08, sec-latency=0`.
fn buses(value: &str) -> Option<Buses> {
    let bus = |name: &str| {
        let digits = value.split(", ").find_map(|part| part.strip_prefix(name))?;
        u8::from_str_radix(digits, 16).ok()
    };
    Some(Buses {
        secondary: bus("secondary=")?,
        subordinate: bus("subordinate=")?,
    })
}

/// Of `Region 1: Memory at 76000000000 (64-bit, prefetchable) [size=128G]`.
fn region(key: &str, value: &str) -> Option<Region> {
    let number = key.strip_prefix("Region ")?.parse().ok()?;
    let (_, size) = value.strip_prefix("Memory at ")?.rsplit_once("[size=")?;
    let size = size.strip_suffix(']')?;
    let unit = size.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(size.len());
    let (count, unit) = size.split_at(unit);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let size = count.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    Some(Region {
        number,
        size: Bytes::new(size),
    })
}
