//! The memory limit of the control group that this process is in.
//!
//! A limit of any group above holds too, so the smallest on the way up counts. In a container the path that the kernel
//! tells may be one of the host's and not exist here; going up then arrives at the container's own root, which has the
//! limit. Groups are looked for at the usual mount points.
use std::path::{Component, Path, PathBuf};

use crate::read;

/// Version 1 says "no limit" by the largest multiple of the page size that fits 63 bits.
const UNLIMITED: u64 = 1 << 62;

/// None where there is no limit or none can be read.
pub(crate) fn memory_limit(root: &Path) -> Option<u64> {
    let groups = read(&root.join("proc/self/cgroup"))?;
    groups.lines().filter_map(|line| limit_of(root, line)).min()
}

/// One line of /proc/self/cgroup: `hierarchy:controllers:path`; version 2 names no controllers.
fn limit_of(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let version_2 = hierarchy == "0" && controllers.is_empty();
    if version_2 {
        let mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
        mounts
            .iter()
            .filter_map(|mount| smallest(&root.join(mount), path, "memory.max"))
            .min()
    } else if controllers.split(',').any(|controller| controller == "memory") {
        smallest(&root.join("sys/fs/cgroup/memory"), path, "memory.limit_in_bytes")
    } else {
        None
    }
}

fn smallest(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let inside = Path::new(path)
        .components()
        .filter(|part| matches!(part, Component::Normal(_)));
    let inside: PathBuf = inside.collect();
    let limits = inside
        .ancestors()
        .filter_map(|group| read(&mount.join(group).join(file)));
    limits
        .filter_map(|text| text.trim().parse().ok())
        .filter(|limit| *limit < UNLIMITED)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Root;

    #[test]
    fn version_2_takes_the_smallest_on_the_way_up() {
        let root = Root::with(&[
            ("proc/self/cgroup", "0::/user.slice/job\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/user.slice/job/memory.max", "max\n"),
        ]);
        assert_eq!(memory_limit(root.path()), Some(1 << 30));
    }

    #[test]
    fn version_1_in_a_container_without_a_namespace_of_its_own() {
        let root = Root::with(&[
            (
                "proc/self/cgroup",
                "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n0::/\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ]);
        assert_eq!(memory_limit(root.path()), Some(512 << 20));
    }

    #[test]
    fn no_limit_is_none() {
        let root = Root::with(&[
            ("proc/self/cgroup", "4:memory:/\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/unified/memory.max", "max\n"),
        ]);
        assert_eq!(memory_limit(root.path()), None);
        assert_eq!(memory_limit(Root::with(&[]).path()), None);
    }

    #[test]
    fn odd_files_are_none_and_paths_stay_below_the_mount() {
        for odd in [
            "",
            ":",
            "::",
            "0:",
            "0::/../../../..",
            "0::/../x\u{0}y",
            "4:memory:",
            "4:memory:relative\n\u{fffd}",
        ] {
            let root = Root::with(&[
                ("proc/self/cgroup", odd),
                ("memory.max", "1"),
                ("sys/fs/cgroup/memory.max", "many"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "-1"),
            ]);
            assert_eq!(memory_limit(root.path()), None, "{odd:?}");
        }
    }
}
