//! What `lspci` tells of the ways between GPUs: the tree that the labels of a matrix are only a reading of.

use std::collections::BTreeMap;

use lanesum_plan::{PcieLink, Slot};
use lanesum_probe::dump::{Lanes, Pci, PciDevice};

/// NVIDIA's GPUs, by places in the list, in the order in which `nvidia-smi` numbers them.
pub fn gpus(pci: &Pci) -> Vec<usize> {
    let mut gpus: Vec<usize> = pci.gpus().collect();
    gpus.sort_by_key(|gpu| pci.devices[*gpu].address);
    gpus
}

/// The link of a device at most, by what both of its ends can.
fn link(pci: &Pci, device: usize) -> Option<PcieLink> {
    let known = |lanes: Option<Lanes>| {
        let Lanes { generation, width } = lanes?;
        Some(PcieLink {
            generation: generation.try_into().ok()?,
            width: width.try_into().ok()?,
        })
    };
    let own = &pci.devices[device];
    let port = pci.above(device).and_then(|port| known(pci.devices[port].link_max));
    Some(known(own.link_max)?.narrower(port, known(own.link)))
}

/// Where a device is plugged in.
pub fn slot(pci: &Pci, gpu: usize) -> Slot {
    let path = pci.path(gpu);
    let root = pci.devices[path.last().copied().unwrap_or(gpu)].address;
    Slot {
        bridges: path
            .iter()
            .map(|bridge| pci.devices[*bridge].address.to_string())
            .collect(),
        host_bridge: format!("{:04x}:{:02x}", root.domain, root.bus),
        numa_node: pci.devices[gpu].numa_node,
        link: link(pci, gpu),
        redirecting: redirecting(pci, &path),
    }
}

/// The links above the bridges over these GPUs, by the bridges' names in slots.
pub fn uplinks(pci: &Pci, gpus: &[usize]) -> BTreeMap<String, PcieLink> {
    let bridges = gpus.iter().flat_map(|gpu| pci.path(*gpu));
    let known = |bridge: usize| Some((pci.devices[bridge].address.to_string(), link(pci, bridge)?));
    bridges.filter_map(known).collect()
}

/// Those of the ports above a device that send requests, or answers, up to the root. A device of which the list tells capabilities and
/// no access control has none; of trees, and of lists that others than root made, nothing is known.
fn redirecting(pci: &Pci, path: &[usize]) -> Option<Vec<String>> {
    let told = path.iter().any(|port| pci.devices[*port].acs.is_some());
    let ports = path.iter().map(|port| &pci.devices[*port]);
    let redirects = |port: &&PciDevice| {
        port.acs
            .is_some_and(|acs| acs.request_redirect || acs.completion_redirect)
    };
    told.then(|| ports.filter(redirects).map(|port| port.address.to_string()).collect())
}
