//! Files as kernels write them, as nobody writes them, and this machine's own.
use super::*;
use crate::fixture::Root;
use crate::slot::{link_below, numa_node_below, slot_below};
use lanesum_plan::{PcieLink, Relation};

#[test]
fn this_machine_tells_at_least_page_and_processors() {
    let facts = host();
    assert!(
        facts
            .page
            .is_some_and(|page| page.get().is_power_of_two() && page.get() >= 4096)
    );
    let cpus = cpus();
    let allowed = std::thread::available_parallelism().unwrap().get();
    assert!(cpus.len() >= allowed, "{cpus}, at least {allowed}");
}

#[test]
fn the_mask_of_this_thread_counts() {
    let one = cpus().iter().next().unwrap();
    let found = std::thread::spawn(move || {
        let mut mask = rustix::thread::CpuSet::new();
        mask.set(one);
        rustix::thread::sched_setaffinity(None, &mask).unwrap();
        cpus()
    });
    assert_eq!(found.join().unwrap(), [one].into_iter().collect());
}

#[test]
fn processors_are_named_as_they_name_themselves() {
    let cases = [
        (
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: AMD EPYC 9654 96-Core\nmodel name\t: other\n",
            Some("AMD EPYC 9654 96-Core"),
        ),
        (
            "processor\t: 0\nCPU part\t: 0xd0b\nModel\t\t: Raspberry Pi 5\n",
            Some("Raspberry Pi 5"),
        ),
        ("processor\t: 0\nCPU part\t: 0xd0b\n", None),
        ("model name\t:\n", None),
        ("", None),
    ];
    for (text, expected) in cases {
        let root = Root::with(&[("proc/cpuinfo", text)]);
        assert_eq!(host_below(root.path()).cpu_model.as_deref(), expected, "{text:?}");
    }
}

#[test]
fn numa_nodes_are_counted() {
    for (text, expected) in [
        ("0\n", Some(1)),
        ("0-1\n", Some(2)),
        ("0,2-3\n", Some(3)),
        ("\n", None),
        ("x", None),
    ] {
        let root = Root::with(&[("sys/devices/system/node/online", text)]);
        assert_eq!(host_below(root.path()).numa_nodes, expected, "{text:?}");
    }
}

#[test]
fn the_node_of_a_slot_is_found_whatever_the_case_of_its_name() {
    let root = Root::with(&[
        ("sys/bus/pci/devices/0000:c1:00.0/numa_node", "1\n"),
        ("sys/bus/pci/devices/0000:03:00.0/numa_node", "-1\n"),
        ("sys/bus/pci/numa_node", "7\n"),
    ]);
    for (name, expected) in [
        ("0000:C1:00.0", Some(1)),
        ("0000:c1:00.0", Some(1)),
        ("0000:03:00.0", None),
        ("0000:04:00.0", None),
        ("..", None),
        ("", None),
        ("0000:c1:00.0/../0000:c1:00.0", None),
    ] {
        assert_eq!(numa_node_below(root.path(), name), expected, "{name}");
    }
}

#[test]
fn an_empty_root_tells_nothing() {
    let root = Root::with(&[]);
    assert_eq!(host_below(root.path()), HostFacts::default());
    assert_eq!(host_below(Path::new("/no/such/root")), HostFacts::default());
}

#[test]
fn files_that_are_folders_or_huge_or_no_text_do_no_harm() {
    let huge = "x".repeat(1 << 20);
    let root = Root::with(&[
        ("proc/cpuinfo/folder", ""),
        ("sys/devices/system/node/online", &huge),
        ("proc/self/cgroup", &huge),
    ]);
    std::fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
    std::fs::write(root.path().join("sys/fs/cgroup/memory.max"), [0xff, 0xfe, 0x00]).unwrap();
    assert_eq!(host_below(root.path()), HostFacts::default());
}

/// Two sockets; on the first a switch below a switch, and a root port of a virtual machine.
fn tree() -> Root {
    const GPU: &str = "max_link_speed";
    let host = "sys/devices/pci0000:00";
    let upper = format!("{host}/0000:00:01.1/0000:01:00.0");
    let lower = format!("{upper}/0000:02:00.0/0000:03:00.0");
    let places = [
        ("0000:05:00.0", format!("{lower}/0000:04:00.0/0000:05:00.0")),
        ("0000:06:00.0", format!("{lower}/0000:04:01.0/0000:06:00.0")),
        ("0000:07:00.0", format!("{upper}/0000:02:01.0/0000:07:00.0")),
        ("0000:09:00.0", format!("{host}/0000:00:07.1/0000:09:00.0")),
        (
            "0000:41:00.0",
            "sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0".to_owned(),
        ),
        (
            "0000:81:00.0",
            "sys/devices/pci0000:80/0000:80:01.1/0000:81:00.0".to_owned(),
        ),
    ];
    let mut files = vec![];
    for (name, folder) in &places {
        let node = if name.starts_with("0000:8") { "1\n" } else { "0\n" };
        files.push((format!("{folder}/numa_node"), node));
        files.push((format!("{folder}/{GPU}"), "32.0 GT/s PCIe\n"));
        files.push((format!("{folder}/max_link_width"), "16\n"));
    }
    // A slot of eight lanes; and a port whose words on its link are made up.
    let resting = "sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0";
    files.push((format!("{resting}/current_link_speed"), "2.5 GT/s PCIe\n"));
    files.push((format!("{resting}/current_link_width"), "8\n"));
    files.push((
        "sys/devices/pci0000:40/0000:40:01.1/max_link_speed".to_owned(),
        "16.0 GT/s PCIe\n",
    ));
    files.push(("sys/devices/pci0000:40/0000:40:01.1/max_link_width".to_owned(), "8\n"));
    files.push((
        format!("{host}/0000:00:07.1/0000:09:00.0/current_link_speed"),
        "8.0 GT/s PCIe\n",
    ));
    files.push((format!("{host}/0000:00:07.1/0000:09:00.0/current_link_width"), "16\n"));
    files.push((format!("{host}/0000:00:07.1/max_link_speed"), "2.5 GT/s PCIe\n"));
    files.push((format!("{host}/0000:00:07.1/max_link_width"), "1\n"));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let root = Root::with(&files);
    let links: Vec<(&str, String)> = places
        .iter()
        .map(|(name, folder)| (*name, format!("../../../../{folder}")))
        .collect();
    let links: Vec<(&str, &str)> = links.iter().map(|(name, target)| (*name, target.as_str())).collect();
    root.link("sys/bus/pci/devices", &links);
    root
}

#[test]
fn slots_lie_to_each_other_as_the_tree_says() {
    let root = tree();
    let slot = |name: &str| slot_below(root.path(), name).unwrap();
    let first = slot("0000:05:00.0");
    assert_eq!(
        first.bridges,
        [
            "0000:04:00.0",
            "0000:03:00.0",
            "0000:02:00.0",
            "0000:01:00.0",
            "0000:00:01.1"
        ]
    );
    assert_eq!(first.host_bridge, "pci0000:00");
    for (other, expected) in [
        ("0000:06:00.0", Relation::Pix),
        ("0000:07:00.0", Relation::Pxb),
        ("0000:09:00.0", Relation::Phb),
        ("0000:41:00.0", Relation::Node),
        ("0000:81:00.0", Relation::Sys),
    ] {
        let other = slot(other);
        assert_eq!(
            (first.relation(&other), other.relation(&first)),
            (Some(expected), Some(expected))
        );
    }
    assert_eq!(slot_below(root.path(), "0000:99:00.0"), None);
    assert_eq!(slot_below(root.path(), "../../0000:05:00.0"), None);
}

#[test]
fn the_narrower_end_of_a_link_counts_but_not_a_virtual_one() {
    let root = tree();
    let link = |name: &str| slot_below(root.path(), name).unwrap().link;
    let of = |generation, width| Some(PcieLink { generation, width });
    assert_eq!(link("0000:05:00.0"), of(5, 16));
    assert_eq!(link("0000:09:00.0"), of(5, 16));
    assert_eq!(link("0000:41:00.0"), of(4, 8));
    // The link above a device is told of bridges, too, and not above a root port.
    let above = |name: &str| link_below(root.path(), name);
    assert_eq!((above("0000:41:00.0"), above("0000:05:00.0")), (of(4, 8), of(5, 16)));
    let switch = root.path().join("sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0");
    std::fs::write(switch.join("max_link_speed"), "16.0 GT/s PCIe\n").unwrap();
    std::fs::write(switch.join("max_link_width"), "8\n").unwrap();
    root.link(
        "sys/bus/pci/devices",
        &[(
            "0000:01:00.0",
            "../../../../sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0",
        )],
    );
    assert_eq!(above("0000:01:00.0"), of(4, 8));
    assert_eq!(above("0000:02:00.0"), None);
    let folder = root.path().join("sys/devices/pci0000:80/0000:80:01.1/0000:81:00.0");
    for (speed, width) in [
        ("Unknown", "16"),
        ("32.0 GT/s PCIe", "0"),
        ("32.0 GT/s PCIe", "255"),
        ("", ""),
    ] {
        std::fs::write(folder.join("max_link_speed"), speed).unwrap();
        std::fs::write(folder.join("max_link_width"), width).unwrap();
        assert_eq!(link("0000:81:00.0"), None, "{speed} {width}");
    }
}

/// Without nodes, GPUs of two host bridges may be near or far; on a machine with one node they are in it.
#[test]
fn a_machine_with_one_node_needs_no_numbers() {
    let root = tree();
    for folder in [
        "sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0",
        "sys/devices/pci0000:80/0000:80:01.1/0000:81:00.0",
    ] {
        std::fs::write(root.path().join(folder).join("numa_node"), "-1\n").unwrap();
    }
    let relation = || {
        let slot = |name: &str| slot_below(root.path(), name).unwrap();
        slot("0000:41:00.0").relation(&slot("0000:81:00.0"))
    };
    assert_eq!(relation(), None);
    std::fs::create_dir_all(root.path().join("sys/devices/system/node")).unwrap();
    std::fs::write(root.path().join("sys/devices/system/node/online"), "0\n").unwrap();
    assert_eq!(relation(), Some(Relation::Node));
}
