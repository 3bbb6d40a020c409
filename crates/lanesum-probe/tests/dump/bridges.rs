//! What `lspci` tells of the tree, as a list and as a drawing.
use lanesum_probe::dump::{About, Dump, Fault, Lanes, Pci, PciAddress, Place, read};

use crate::tables::dumps;

fn pci(text: &str) -> Pci {
    match read(text) {
        Ok(Dump::Pci(pci)) => pci,
        other => panic!("{other:?}"),
    }
}

fn named(beginning: &str) -> Pci {
    let (_, text) = dumps()
        .into_iter()
        .find(|(name, _)| name.starts_with(beginning))
        .unwrap();
    pci(&text)
}

/// Each device with those above it.
fn paths(pci: &Pci) -> Vec<(PciAddress, Vec<PciAddress>)> {
    let path = |place: usize| {
        pci.path(place)
            .iter()
            .map(|above| pci.devices[*above].address)
            .collect()
    };
    pci.devices
        .iter()
        .enumerate()
        .map(|(place, device)| (device.address, path(place)))
        .collect()
}

#[test]
fn the_drawing_tells_the_same_tree_as_the_list() {
    let (list, tree) = (named("hw-02-lspci-vvv"), named("hw-02-lspci-tv"));
    let sorted = |pci: &Pci| {
        let mut paths = paths(pci);
        paths.sort();
        paths
    };
    assert_eq!(sorted(&list), sorted(&tree));
    let gpus = |pci: &Pci| pci.gpus().map(|place| pci.devices[place].address).collect::<Vec<_>>();
    assert_eq!(gpus(&list), gpus(&tree));
    for device in &list.devices {
        let drawn = tree.find(device.address).unwrap();
        assert_eq!(tree.devices[drawn].buses, device.buses, "{}", device.address);
    }
    assert_eq!(list.gpus().count(), 8);
    let known = list.devices.iter().filter(|device| device.acs.is_some()).count();
    assert_eq!((list.devices.len(), known), (60, 38));
}

#[test]
fn gpus_behind_one_switch_share_their_way_up() {
    let pci = named("hw-02-lspci-vvv");
    let up = |address: &str| {
        let place = pci.find(address.parse().unwrap()).unwrap();
        let above = pci.path(place);
        above
            .iter()
            .map(|place| pci.devices[*place].address.to_string())
            .collect::<Vec<String>>()
    };
    assert_eq!(up("06:00.0"), ["0000:02:03.0", "0000:01:00.0", "0000:00:01.1"]);
    assert_eq!(up("07:00.0"), ["0000:02:04.0", "0000:01:00.0", "0000:00:01.1"]);
    let gpu = &pci.devices[pci.find("06:00.0".parse().unwrap()).unwrap()];
    let lanes = |generation| Some(Lanes { generation, width: 16 });
    assert_eq!((gpu.link, gpu.link_max), (lanes(1), lanes(5)));
    assert_eq!(
        gpu.regions
            .iter()
            .map(|region| region.size.get() >> 20)
            .collect::<Vec<_>>(),
        [64, 128 << 10, 32]
    );
}

#[test]
fn values_that_are_hidden_or_odd_are_remarked_on() {
    let text = "01:00.0 PCI bridge [0604]: A B [1000:c030] (rev b0)\n\tNUMA node: x\n\tBus: primary=00\n\
                \tLnkSta:\tSpeed 128GT/s, Width x16\n\tACSCtl:\tSrcValid+\n\tCapabilities: <access denied>\n";
    let pci = pci(text);
    let device = &pci.devices[0];
    assert_eq!(
        (device.class.as_deref(), device.numa_node, device.link),
        (Some("PCI bridge"), None, None)
    );
    let hidden = pci
        .remarks
        .iter()
        .filter(|remark| remark.about == About::Denied)
        .count();
    assert_eq!((pci.remarks.len(), hidden), (5, 1));
}

#[test]
fn bridges_in_circles_do_no_harm() {
    let text = "02:00.0 PCI bridge: A\n\tBus: primary=01, secondary=03, subordinate=03\n\
                03:00.0 PCI bridge: A\n\tBus: primary=03, secondary=02, subordinate=03\n";
    let pci = pci(text);
    assert_eq!((pci.path(0), pci.path(1), pci.path(2)), (vec![], vec![0], vec![]));
}

#[test]
fn what_is_refused() {
    for (text, line, column, fault) in [
        ("01:00.0 PCI bridge: A\n01:00.0 PCI bridge: A\n", 2, 1, Fault::Twice),
        ("-[0000:00]-+-00.0\n           +-00.0\n", 2, 14, Fault::Twice),
        // Blanks were lost.
        ("-[0000:00]-+-00.0\n     \\-01.0  B\n", 2, 8, Fault::Branch),
        ("-[0000:00]-+-00.0\n           \\-x\n", 2, 14, Fault::Branch),
        ("-[0000:00]-+-00.0-[zz]\n", 1, 19, Fault::Branch),
        ("-[0000:00]-+-40.0\n", 1, 14, Fault::Branch),
        // The last of a bus has come.
        (
            "-[0000:00]-+-00.0\n           \\-01.0\n           +-02.0\n",
            3,
            14,
            Fault::Branch,
        ),
        ("-[0000:00]-\n", 1, 12, Fault::NoDevice),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(
            (error.place, &error.fault),
            (Place { line, column }, &fault),
            "{text} {error}"
        );
    }
}

#[test]
fn several_roots_and_one_device_a_bus() {
    let text = "-+-[0000:c0]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 14a4\n \
                |           \\-01.1-[c1]----00.0  NVIDIA Corporation AD102GL [L40S]\n \
                \\-[0001:00]---00.0-[01]--+-00.0  NVIDIA Corporation GA102\n                          \
                \\-00.1  NVIDIA Corporation GA102 Audio\n";
    let pci = pci(text);
    let gpus: Vec<String> = pci.gpus().map(|place| pci.devices[place].address.to_string()).collect();
    assert_eq!(gpus, ["0000:c1:00.0", "0001:01:00.0"]);
    assert_eq!(pci.devices[3].name, None);
    assert_eq!(pci.path(5), [3]);
}
