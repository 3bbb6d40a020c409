//! Where a PCI device is plugged in, by what the kernel shows below /sys.

use std::path::Path;

use lanesum_plan::{PcieLink, Slot};

use crate::{numa_nodes, read, read_bytes};

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
    let above = device.parent()?.ancestors().map(|folder| (folder, folder.file_name()));
    let mut bridges = Vec::new();
    for (folder, name) in above {
        let name = name?.to_str()?;
        if name.starts_with("pci") {
            let only_one = || (numa_nodes(root) == Some(1)).then_some(0);
            return Some(Slot {
                host_bridge: name.to_owned(),
                numa_node: numa_node_below(root, bus_id).or_else(only_one),
                link: uplink(&device),
                redirecting: redirecting(&bridges),
                bridges: bridges.iter().map(|(_, bridge)| (*bridge).to_owned()).collect(),
            });
        }
        bridges.push((folder, name));
    }
    None
}

/// What the link above a device can at most. A folder that is no device's has no files of a link.
fn uplink(device: &Path) -> Option<PcieLink> {
    let port = device.parent().and_then(|port| link(port, "max"));
    Some(link(device, "max")?.narrower(port, link(device, "current")))
}

/// Those of the bridges whose access control sends requests, or answers, up to the root; `None` where the kernel does not show the
/// registers of one, as it does to root alone.
fn redirecting(bridges: &[(&Path, &str)]) -> Option<Vec<String>> {
    let told = bridges.iter().map(|(folder, bridge)| {
        let redirects = acs_redirects(&read_bytes(&folder.join("config"))?)?;
        Some((redirects, *bridge))
    });
    let told: Option<Vec<(bool, &str)>> = told.collect();
    let redirecting = told?.into_iter().filter(|(redirects, _)| *redirects);
    Some(redirecting.map(|(_, bridge)| bridge.to_owned()).collect())
}

/// Whether the access control of a device redirects, by its configuration space: a list of capabilities starts at 0x100, of which each
/// begins with its kind, and the place of the next; that of access control has the number 13, and its control word 6 bytes in. `None`
/// where only the beginning is there.
fn acs_redirects(config: &[u8]) -> Option<bool> {
    const FIRST: usize = 0x100;
    const ACCESS_CONTROL: u32 = 13;
    const REDIRECTS: u8 = 0b1100;
    if config.len() < FIRST {
        return None;
    }
    let mut at = FIRST;
    // There is no room for more.
    for _ in 0..1024 {
        let Some(head) = config.get(at..at + 4) else { break };
        let head = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        if head & 0xFFFF == ACCESS_CONTROL {
            return config.get(at + 6).map(|control| control & REDIRECTS != 0);
        }
        at = (head >> 20) as usize & !3;
        if at < FIRST || head == u32::MAX {
            break;
        }
    }
    // None has none.
    Some(false)
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

#[cfg(test)]
mod tests {
    use super::acs_redirects;

    /// A configuration space with these capabilities: where, kind, next, control word of access control.
    fn config(capabilities: &[(usize, u32, u32, u8)]) -> Vec<u8> {
        let mut config = vec![0; 4096];
        for (at, kind, next, control) in capabilities {
            config[*at..at + 4].copy_from_slice(&(kind | 1 << 16 | next << 20).to_le_bytes());
            config[at + 6] = *control;
        }
        config
    }

    #[test]
    fn access_control_is_found_among_the_capabilities() {
        let behind = |control| config(&[(0x100, 1, 0x148, 0xFF), (0x148, 13, 0, control)]);
        assert_eq!(acs_redirects(&behind(0b0000)), Some(false));
        assert_eq!(acs_redirects(&behind(0b0100)), Some(true));
        assert_eq!(acs_redirects(&behind(0b1000)), Some(true));
        // Source validation and forwarding redirect nothing between ports.
        assert_eq!(acs_redirects(&behind(0b1_0011)), Some(false));
        // None, a loop, a device that is gone, the part that everybody may read.
        assert_eq!(acs_redirects(&config(&[(0x100, 1, 0, 0xFF)])), Some(false));
        assert_eq!(acs_redirects(&config(&[(0x100, 1, 0x100, 0xFF)])), Some(false));
        assert_eq!(acs_redirects(&[0xFF; 4096]), Some(false));
        assert_eq!(acs_redirects(&[0; 64]), None);
        assert_eq!(acs_redirects(&config(&[(0xFF8, 13, 0, 0)])[..0x100]), Some(false));
    }
}
