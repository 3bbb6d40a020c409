//! Where a PCI device is plugged in, and how two slots lie to each other.

use serde::{Deserialize, Serialize};

use crate::{PcieLink, Relation};

/// The way from a device up to the processor, as the kernel or `lspci` shows it. A virtual machine shows its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slot {
    /// The bridges above the device, from its own port up to the root port.
    pub bridges: Vec<String>,
    /// The host bridge above all of them.
    pub host_bridge: String,
    /// The NUMA node; `None` where it isn't known.
    pub numa_node: Option<u32>,
    /// What the device's link can at most.
    pub link: Option<PcieLink>,
}

impl Slot {
    /// How devices in two slots lie to each other, in the words of `nvidia-smi topo -m`; `None` where nothing tells whether they have a
    /// node in common.
    #[must_use]
    pub fn relation(&self, other: &Slot) -> Option<Relation> {
        let common = self.bridges.iter().find(|bridge| other.bridges.contains(bridge));
        if let Some(common) = common {
            let below = |slot: &Slot| slot.bridges.iter().position(|bridge| bridge == common);
            // A port of the switch each, and then the switch.
            let near = below(self).max(below(other)) <= Some(1);
            return Some(if near { Relation::Pix } else { Relation::Pxb });
        }
        if self.host_bridge == other.host_bridge {
            return Some(Relation::Phb);
        }
        match (self.numa_node?, other.numa_node?) {
            (one, other) if one == other => Some(Relation::Node),
            _ => Some(Relation::Sys),
        }
    }
}
