//! Whether this process is in a container: told by what container engines leave behind, or by namespaces that are the
//! host's own. With neither it is not known: some engines leave no trace, and a sandbox is not always a container.
use std::path::Path;

use crate::read;

/// Files that Docker, Podman and systemd-nspawn (in this order) make in every container.
const MARKERS: [&str; 3] = [".dockerenv", "run/.containerenv", "run/systemd/container"];

/// What container engines call their control groups.
const GROUPS: [&str; 6] = ["docker", "kubepods", "cri", "libpod", "lxc", "crio"];

/// Namespaces that container engines make new, with the numbers of the host's own (fixed in the kernel's sources).
const FIRST: [(&str, &str); 3] = [
    ("pid", "pid:[4026531836]"),
    ("uts", "uts:[4026531838]"),
    ("ipc", "ipc:[4026531839]"),
];

pub(crate) fn inside(root: &Path) -> Option<bool> {
    let marked = MARKERS.iter().any(|marker| root.join(marker).exists());
    if marked || read(&root.join("proc/self/cgroup")).is_some_and(|groups| in_a_group(&groups)) {
        return Some(true);
    }
    let namespaces = root.join("proc/self/ns");
    let first = |(name, number): &(&str, &str)| {
        namespaces
            .join(name)
            .read_link()
            .is_ok_and(|link| link.to_str() == Some(*number))
    };
    FIRST.iter().all(first).then_some(false)
}

/// Whether a part of a group's path is called as an engine calls them (`docker-<id>.scope`, `kubepods.slice`, `lxc`).
/// The engine's own service (`docker.service`) runs on the host.
fn in_a_group(groups: &str) -> bool {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut parts = paths.flat_map(|path| path.split('/'));
    parts.any(|part| {
        !part.ends_with(".service") && GROUPS.contains(&part.split(['-', '.', ':']).next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Root;

    #[test]
    fn engines_are_known_by_their_files_and_groups() {
        for marker in MARKERS {
            assert_eq!(inside(Root::with(&[(marker, "")]).path()), Some(true), "{marker}");
        }
        let groups = [
            "0::/system.slice/docker-ab.scope\n",
            "4:memory:/kubepods/pod1/ab\n",
            "0::/lxc/web\n",
            "0::/kubepods.slice/x\n",
        ];
        for group in groups {
            assert_eq!(
                inside(Root::with(&[("proc/self/cgroup", group)]).path()),
                Some(true),
                "{group}"
            );
        }
    }

    #[test]
    fn the_service_of_an_engine_is_no_container() {
        let root = Root::with(&[("proc/self/cgroup", "0::/system.slice/docker.service\n")]);
        root.link("proc/self/ns", &FIRST);
        assert_eq!(inside(root.path()), Some(false));
    }

    #[test]
    fn without_evidence_it_is_not_known() {
        assert_eq!(inside(Root::with(&[]).path()), None);
        let root = Root::with(&[("proc/self/cgroup", "0::/\n")]);
        root.link(
            "proc/self/ns",
            &[
                ("pid", "pid:[4026532001]"),
                ("uts", "uts:[4026531838]"),
                ("ipc", "ipc:[4026531839]"),
            ],
        );
        assert_eq!(inside(root.path()), None);
    }
}
