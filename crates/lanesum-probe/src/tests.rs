//! Files as kernels write them, as nobody writes them, and this machine's own.
use super::*;
use crate::fixture::Root;

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
        assert_eq!(pci_numa_node_below(root.path(), name), expected, "{name}");
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
