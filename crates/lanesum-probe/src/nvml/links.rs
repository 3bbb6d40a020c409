//! The active NVLinks of a GPU, and where they lead.
//!
//! NVML names the PCI device at the other end. Whether that is a GPU or a switch is told by the kernel's class of the device; where it
//! shows none (in a container, or a virtual machine without the switches), by NVML, which knows GPUs, and by the number of links that the
//! driver counts to switches. `nvmlDeviceGetNvLinkRemoteDeviceType` would tell too, but the wrapper (0.13) throws its answer away.

use std::path::Path;

use lanesum_plan::{NvlinkEnd, Nvlinks};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT;
use nvml_wrapper::{Device, Nvml as Library};

use crate::dump::PciAddress;
use crate::read;

/// More links than GPUs have.
const MOST_LINKS: u32 = 32;

pub(super) fn of(library: &Library, device: &Device<'_>) -> Option<Vec<Nvlinks>> {
    let mut told = false;
    let mut ends = Vec::new();
    for number in 0..MOST_LINKS {
        let link = device.link_wrapper_for(number);
        match link.is_active() {
            Ok(active) => {
                told = true;
                if active {
                    ends.push(link.remote_pci_info().ok().and_then(|info| info.bus_id.parse().ok()));
                }
            }
            // There is no such link, or none at all.
            Err(NvmlError::NotSupported | NvmlError::InvalidArg) => {}
            // The GPU is lost, or there is no such function: what was counted so far would be too few.
            Err(_) => return None,
        }
    }
    let is_gpu = |address: PciAddress| library.device_by_pci_bus_id(address.to_string()).is_ok();
    told.then(|| {
        gathered(
            &ends,
            |address| classified(Path::new("/"), address, is_gpu),
            to_switches(device),
        )
    })
}

/// By the kernel's class of the device, or else by whether it is a GPU; `None` if neither tells.
fn classified(root: &Path, address: PciAddress, is_gpu: impl Fn(PciAddress) -> bool) -> Option<NvlinkEnd> {
    let class = read(&root.join(format!("sys/bus/pci/devices/{address}/class"))).unwrap_or_default();
    let gpu = || NvlinkEnd::Gpu {
        pci_bus_id: address.to_string(),
    };
    match class.trim().get(..6) {
        Some("0x0300" | "0x0302") => Some(gpu()),
        // "Other bridge", as NVSwitches are.
        Some("0x0680") => Some(NvlinkEnd::Switch),
        Some(_) | None => is_gpu(address).then(gpu),
    }
}

/// How many links the driver counts to switches.
fn to_switches(device: &Device<'_>) -> Option<u64> {
    let fields = device.field_values_for(&[FieldId(NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT)]);
    match fields.ok()?.pop()?.ok()?.value.ok()? {
        SampleValue::U32(count) => Some(count.into()),
        SampleValue::U64(count) => Some(count),
        SampleValue::F64(_) | SampleValue::I64(_) => None,
    }
}

/// The ends of all links, equal ones together. Those that nothing classifies lead to switches if the driver counts as many there.
fn gathered(
    ends: &[Option<PciAddress>],
    classified: impl Fn(PciAddress) -> Option<NvlinkEnd>,
    to_switches: Option<u64>,
) -> Vec<Nvlinks> {
    let mut all: Vec<Nvlinks> = Vec::new();
    for end in ends {
        let to = end.and_then(&classified).unwrap_or(NvlinkEnd::Unknown);
        match all.iter_mut().find(|links| links.to == to) {
            Some(links) => links.count = links.count.saturating_add(1),
            None => all.push(Nvlinks { to, count: 1 }),
        }
    }
    let count = |wanted: &NvlinkEnd| {
        let found = all.iter().find(|links| links.to == *wanted);
        found.map_or(0, |links| links.count)
    };
    let (unknown, switches) = (count(&NvlinkEnd::Unknown), count(&NvlinkEnd::Switch));
    let together = switches.saturating_add(unknown);
    if unknown > 0 && to_switches.is_some_and(|counted| counted >= together.into()) {
        all.retain(|links| !matches!(links.to, NvlinkEnd::Unknown | NvlinkEnd::Switch));
        all.push(Nvlinks {
            to: NvlinkEnd::Switch,
            count: together,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Root;

    fn at(bus: u8) -> PciAddress {
        format!("0000:{bus:02x}:00.0").parse().unwrap()
    }

    fn gpu(bus: u8) -> NvlinkEnd {
        NvlinkEnd::Gpu {
            pci_bus_id: at(bus).to_string(),
        }
    }

    #[test]
    fn the_other_end_is_what_the_kernel_says_or_nvml() {
        let root = Root::with(&[
            ("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n"),
            ("sys/bus/pci/devices/0000:02:00.0/class", "0x030000\n"),
            ("sys/bus/pci/devices/0000:03:00.0/class", "0x068000\n"),
            ("sys/bus/pci/devices/0000:04:00.0/class", "0x"),
        ]);
        let end = |bus, known| classified(root.path(), at(bus), |_| known);
        assert_eq!(end(1, false), Some(gpu(1)));
        assert_eq!(end(2, false), Some(gpu(2)));
        assert_eq!(end(3, false), Some(NvlinkEnd::Switch));
        for (known, expected) in [(false, None), (true, Some(4))] {
            assert_eq!(end(4, known), expected.map(gpu));
        }
        assert_eq!(end(5, true), Some(gpu(5)));
    }

    #[test]
    fn links_to_one_place_are_counted_together() {
        let classify = |address: PciAddress| match address.bus {
            1 => Some(gpu(1)),
            3 => Some(NvlinkEnd::Switch),
            _ => None,
        };
        let links = |to, count| Nvlinks { to, count };
        let ends = [Some(at(1)), Some(at(3)), Some(at(1)), None, Some(at(9))];
        for (counted, expected) in [
            (
                None,
                vec![
                    links(gpu(1), 2),
                    links(NvlinkEnd::Switch, 1),
                    links(NvlinkEnd::Unknown, 2),
                ],
            ),
            (
                Some(2),
                vec![
                    links(gpu(1), 2),
                    links(NvlinkEnd::Switch, 1),
                    links(NvlinkEnd::Unknown, 2),
                ],
            ),
            (Some(3), vec![links(gpu(1), 2), links(NvlinkEnd::Switch, 3)]),
        ] {
            assert_eq!(gathered(&ends, classify, counted), expected);
        }
        assert_eq!(gathered(&[], classify, Some(0)), []);
    }
}
