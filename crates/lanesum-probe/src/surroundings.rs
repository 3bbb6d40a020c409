//! What stands between this system and the hardware: a virtual machine, Windows' subsystem for Linux, an IOMMU. Each can keep GPUs
//! from each other's memory, or lose what they write there.
use std::path::Path;

use crate::{first_of, read};

/// Whether this is a virtual machine: processors tell of a hypervisor on x86, and some hypervisors of themselves. Not known elsewhere.
pub(crate) fn virtualised(root: &Path, cpuinfo: &str) -> Option<bool> {
    if read(&root.join("sys/hypervisor/type")).is_some() {
        return Some(true);
    }
    let flags = first_of(cpuinfo, "flags")?;
    Some(flags.split(' ').any(|flag| flag == "hypervisor"))
}

/// Whether this is Windows' subsystem for Linux, whose kernels say so.
pub(crate) fn wsl(root: &Path) -> Option<bool> {
    let release = read(&root.join("proc/sys/kernel/osrelease"))?;
    Some(release.to_ascii_lowercase().contains("microsoft"))
}

/// Whether an IOMMU is in use. A virtual machine may be behind one that it does not see.
pub(crate) fn iommu(root: &Path) -> Option<bool> {
    let mut units = std::fs::read_dir(root.join("sys/class/iommu")).ok()?;
    Some(units.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Root;

    #[test]
    fn processors_tell_of_a_hypervisor() {
        for (flags, expected) in [
            ("flags\t\t: fpu vme hypervisor lahf_lm\n", Some(true)),
            ("flags\t\t: fpu vme hypervisor_of_old\n", Some(false)),
            ("Features\t: fp asimd\n", None),
        ] {
            let root = Root::with(&[]);
            assert_eq!(virtualised(root.path(), flags), expected, "{flags}");
        }
        let xen = Root::with(&[("sys/hypervisor/type", "xen\n")]);
        assert_eq!(virtualised(xen.path(), ""), Some(true));
    }

    #[test]
    fn kernels_tell_of_windows() {
        for (release, expected) in [
            ("5.15.90.1-microsoft-standard-WSL2\n", true),
            ("4.4.0-19041-Microsoft\n", true),
            ("6.8.0-45-generic\n", false),
        ] {
            let root = Root::with(&[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(wsl(root.path()), Some(expected), "{release}");
        }
    }

    #[test]
    fn units_of_an_iommu_are_listed_where_it_is_used() {
        let root = Root::with(&[]);
        assert_eq!(iommu(root.path()), None);
        std::fs::create_dir_all(root.path().join("sys/class/iommu")).unwrap();
        assert_eq!(iommu(root.path()), Some(false));
        root.link("sys/class/iommu", &[("dmar0", "../../devices/virtual/iommu/dmar0")]);
        assert_eq!(iommu(root.path()), Some(true));
    }
}
