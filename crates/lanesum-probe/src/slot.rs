//! Where a PCI device is plugged in, by what the kernel shows below /sys.

use std::path::Path;

use lanesum_plan::{PcieLink, Slot};

use crate::{numa_nodes, read};

/// The NUMA node of the slot of a PCI device, named as `0000:c1:00.0`; `None` where the kernel knows none, or none better than
/// another.
#[must_use]
pub fn pci_numa_node(bus_id: &str) -> Option<u32> {
    numa_node_below(Path::new("/"), bus_id)
}

/// The slot of a PCI device, named as `0000:c1:00.0`; `None` where the kernel does not show it.
#[must_use]
pub fn pci_slot(bus_id: &str) -> Option<Slot> {
    slot_below(Path::new("/"), bus_id)
}

/// What the link above a PCI device can at most, by both of its ends: of a bridge below a root port as of a GPU. `None` where the kernel
/// does not show it.
#[must_use]
pub fn pci_link(bus_id: &str) -> Option<PcieLink> {
    link_below(Path::new("/"), bus_id)
}

pub(crate) fn link_below(root: &Path, bus_id: &str) -> Option<PcieLink> {
    uplink(&std::fs::canonicalize(root.join("sys/bus/pci/devices").join(named(bus_id)?)).ok()?)
}

pub(crate) fn numa_node_below(root: &Path, bus_id: &str) -> Option<u32> {
    // -1 where there is none.
    let node = read(&root.join("sys/bus/pci/devices").join(named(bus_id)?).join("numa_node"))?;
    node.trim().parse().ok()
}

pub(crate) fn slot_below(root: &Path, bus_id: &str) -> Option<Slot> {
    let device = std::fs::canonicalize(root.join("sys/bus/pci/devices").join(named(bus_id)?)).ok()?;
    // .../pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:03.0/0000:06:00.0
    let mut bridges = Vec::new();
    for folder in device.parent()?.ancestors() {
        let name = folder.file_name()?.to_str()?;
        if name.starts_with("pci") {
            let only_one = || (numa_nodes(root) == Some(1)).then_some(0);
            return Some(Slot {
                host_bridge: name.to_owned(),
                numa_node: numa_node_below(root, bus_id).or_else(only_one),
                link: uplink(&device),
                bridges,
            });
        }
        bridges.push(name.to_owned());
    }
    None
}

/// What the link above a device can at most. A folder that is no device's has no files of a link.
fn uplink(device: &Path) -> Option<PcieLink> {
    let port = device.parent().and_then(|port| link(port, "max"));
    Some(link(device, "max")?.narrower(port, link(device, "current")))
}

/// What a device's link can at most, or does now: at rest it goes down, and that means nothing.
fn link(device: &Path, when: &str) -> Option<PcieLink> {
    let speed = read(&device.join(format!("{when}_link_speed")))?;
    let generation = match speed.trim().split(' ').next()? {
        "2.5" => 1,
        "5.0" | "5" => 2,
        "8.0" | "8" => 3,
        "16.0" | "16" => 4,
        "32.0" | "32" => 5,
        "64.0" | "64" => 6,
        "128.0" | "128" => 7,
        _ => return None,
    };
    let width = read(&device.join(format!("{when}_link_width")))?.trim().parse().ok()?;
    (1..=16).contains(&width).then_some(PcieLink { generation, width })
}

/// The kernel's name of a device: drivers write letters in upper case, the kernel in lower case.
fn named(bus_id: &str) -> Option<String> {
    let name = bus_id.to_ascii_lowercase();
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.');
    (!name.is_empty() && plain && !name.contains("..")).then_some(name)
}
