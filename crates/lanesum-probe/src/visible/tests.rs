//! What people write into the variables, and what comes of it on machines with equal and unequal GPUs.
use super::*;
use crate::nvml::NvmlGpu;
use proptest::prelude::*;

fn gpu(index: u32, name: &str, bus: u8) -> NvmlGpu {
    NvmlGpu {
        index,
        uuid: Some(format!("GPU-{index}a{index}b-{name}")),
        pci_bus_id: format!("0000:{bus:02x}:00.0").parse().ok(),
        name: Some(name.to_owned()),
        mig: Some(false),
        ..NvmlGpu::default()
    }
}

/// Listed otherwise than they are plugged in.
fn alike() -> Vec<NvmlGpu> {
    vec![gpu(0, "x", 0xc1), gpu(1, "x", 0x41), gpu(2, "x", 0x81)]
}

fn unlike() -> Vec<NvmlGpu> {
    vec![gpu(0, "x", 0x41), gpu(1, "y", 0x81)]
}

fn visible(devices: Option<&str>, gpus: &[NvmlGpu]) -> Visible {
    Wanted::read(devices, None).resolve(Some(gpus))
}

fn buses(visible: &Visible) -> Vec<Option<u8>> {
    let gpus = visible.gpus.as_ref().unwrap();
    gpus.iter().map(|gpu| Some(gpu.pci_bus_id?.bus)).collect()
}

#[test]
fn equal_gpus_are_numbered_by_their_places() {
    for (devices, expected) in [
        (None, vec![0x41, 0x81, 0xc1]),
        (Some("0,1,2"), vec![0x41, 0x81, 0xc1]),
        (Some("2, 0"), vec![0xc1, 0x41]),
        (Some("1,"), vec![0x81]),
        (Some("0,2,-1,1"), vec![0x41, 0xc1]),
        (Some("-1"), vec![]),
        (Some("NoDevFiles"), vec![]),
        (Some(""), vec![]),
        (Some(" "), vec![]),
        (Some("1,+2"), vec![0x81, 0xc1]),
        (Some("GPU-1a1b-x,GPU-0"), vec![0x41, 0xc1]),
    ] {
        let visible = visible(devices, &alike());
        let expected: Vec<Option<u8>> = expected.into_iter().map(Some).collect();
        assert_eq!((buses(&visible), &visible.troubles), (expected, &vec![]), "{devices:?}");
    }
}

#[test]
fn unequal_gpus_are_numbered_by_the_driver_unless_it_is_asked_for_their_places() {
    let gpus = unlike();
    assert_eq!(buses(&visible(Some("1"), &gpus)), [None]);
    // All are seen, whatever their order.
    assert_eq!(buses(&visible(None, &gpus)), [Some(0x41), Some(0x81)]);
    assert_eq!(buses(&visible(Some("GPU-1"), &gpus)), [Some(0x81)]);
    let placed = Wanted::read(Some("1"), Some("PCI_BUS_ID")).resolve(Some(&gpus));
    assert_eq!((buses(&placed), placed.order), (vec![Some(0x81)], Order::PciBusId));
    let wrong = Wanted::read(Some("1"), Some("pci_bus_id")).resolve(Some(&gpus));
    assert!(matches!(wrong.troubles.as_slice(), [Trouble::Order { text }] if text == "pci_bus_id"));
    assert_eq!(wrong.order, Order::FastestFirst);
}

#[test]
fn a_list_ends_where_it_is_wrong() {
    for (devices, seen, wanted) in [
        (
            "0,3,1",
            1,
            "entry 2 of CUDA_VISIBLE_DEVICES, \"3\", names no GPU, of which there are 3",
        ),
        ("9", 0, "no GPU can be seen"),
        ("99999999999999999999", 0, "names no GPU"),
        ("0,x,1", 1, "neither a number nor the name"),
        ("0,,1", 1, "entry 2"),
        ("all", 0, "neither a number"),
        ("0;1", 1, "counts as 0"),
        ("0 1", 1, "counts as 0"),
        ("0x1", 1, "counts as 0"),
        ("1gpu,+2", 2, "\"1gpu\", counts as 1"),
        ("GPU-", 0, "neither"),
        ("GPU-7", 0, "names no GPU"),
        ("gpu-0", 0, "neither"),
        ("0,GPU-1", 1, "another kind"),
        ("GPU-0,1", 1, "another kind"),
        ("MIG-1", 0, "names no GPU"),
        ("MIG-GPU-0a0b-x/1/0", 0, "names no GPU"),
        ("MIG-GPU-0a0b-x/1", 0, "neither"),
        ("MIG-GPU-0a0b-x/1/0/0", 0, "neither"),
        ("MIG-GPU-0a0b-x/+1/0", 0, "neither"),
        // The first thing wrong is what counts.
        ("0,9,x", 1, "\"9\""),
    ] {
        let visible = visible(Some(devices), &alike());
        assert_eq!(visible.gpus.as_ref().map(Vec::len), Some(seen), "{devices}");
        let told: Vec<String> = visible.troubles.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), usize::from(!wanted.is_empty()), "{devices}: {told:?}");
        assert!(told.iter().all(|told| told.contains(wanted)), "{devices}: {told:?}");
        assert!(visible.troubles.iter().all(|trouble| !trouble.remedy().is_empty()));
    }
    let twins = [gpu(0, "x", 1), gpu(0, "y", 2)];
    let ambiguous = visible(Some("GPU-0a"), &twins);
    assert!(matches!(
        ambiguous.troubles.as_slice(),
        [Trouble::Ambiguous { entry: 1, gpus: 2, .. }]
    ));
}

#[test]
fn what_comes_twice_leaves_nothing() {
    for (devices, entry, first) in [("0,1,0", 3, 1), ("1,01", 2, 1), ("GPU-1a,GPU-2,GPU-1", 3, 1)] {
        let visible = visible(Some(devices), &alike());
        assert_eq!(visible.gpus, Some(vec![]), "{devices}");
        assert!(
            matches!(visible.troubles.as_slice(), [Trouble::Twice { entry: found, first: before, .. }] if (*found, *before) == (entry, first)),
            "{visible:?}"
        );
    }
    // It is no use to look behind the end.
    assert_eq!(visible(Some("0,-1,0"), &alike()).troubles, []);
    // Also where only the driver knows which one it is.
    assert_eq!(visible(Some("1,1"), &unlike()).gpus, Some(vec![]));
}

#[test]
fn instances_are_of_the_gpu_that_has_them() {
    let mut gpus = alike();
    gpus[1].mig = Some(true);
    gpus[1].instances = Some(vec!["MIG-aa".to_owned(), "MIG-bb".to_owned()]);
    for devices in ["MIG-bb,MIG-aa", "MIG-GPU-1a1b-x/1/0,MIG-GPU-1a1b-x/2/0"] {
        let visible = visible(Some(devices), &gpus);
        assert_eq!((buses(&visible), &visible.troubles), (vec![Some(0x41); 2], &vec![]));
    }
    assert_eq!(visible(Some("MIG-aa,MIG-aa"), &gpus).gpus, Some(vec![]));
    assert_eq!(
        visible(Some("MIG-GPU-1a1b-x/1/0,MIG-GPU-1a1b-x/1/0"), &gpus).gpus,
        Some(vec![])
    );
    assert_eq!(visible(Some("MIG-cc"), &gpus).troubles.len(), 1);
    // What NVML doesn't show may be there.
    gpus[1].instances = None;
    assert_eq!(buses(&visible(Some("MIG-cc"), &gpus)), [None]);
    for gpu in &mut gpus {
        gpu.uuid = None;
    }
    assert_eq!(buses(&visible(Some("GPU-5,GPU-6"), &gpus)), [None, None]);
}

/// Then the words alone are judged.
#[test]
fn without_nvml_nothing_is_said_of_gpus() {
    for (devices, troubles) in [("0,9", 0), ("0,0", 1), ("0,x", 1), ("", 0)] {
        let visible = Wanted::read(Some(devices), None).resolve(None);
        assert_eq!((&visible.gpus, visible.troubles.len()), (&None, troubles), "{devices}");
    }
    let none = Wanted::read(Some("0"), None).resolve(Some(&[]));
    assert_eq!(
        none.troubles[0].remedy(),
        "unset CUDA_VISIBLE_DEVICES: there is no GPU to be chosen"
    );
}

proptest! {
    /// Whatever is written: no panic, no GPU twice, and no more of it is repeated than a line holds.
    #[test]
    fn no_text_does_harm(
        devices in proptest::option::of("([0-9]{1,3}|GPU-[0-9a-f]{0,3}|MIG-(GPU-)?[0-9ab/]{0,6}|-1|,| |\\PC{0,80}|x)*"),
        order in proptest::option::of("(PCI_BUS_ID|FASTEST_FIRST|\\PC{0,80})"),
        unequal in any::<bool>(),
    ) {
        let gpus = if unequal { unlike() } else { alike() };
        let wanted = Wanted::read(devices.as_deref(), order.as_deref());
        let (with, without) = (wanted.resolve(Some(&gpus)), wanted.resolve(None));
        let seen = with.gpus.unwrap();
        let mut buses: Vec<_> = seen.iter().filter_map(|gpu| gpu.pci_bus_id).collect();
        buses.sort_unstable();
        buses.dedup();
        prop_assert!(seen.iter().filter(|gpu| gpu.pci_bus_id.is_some()).count() == buses.len());
        for trouble in with.troubles.iter().chain(&without.troubles) {
            prop_assert!(trouble.to_string().len() < 1024 && !trouble.remedy().is_empty());
        }
    }
}
