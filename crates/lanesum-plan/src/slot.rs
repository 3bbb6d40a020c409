//! Where a PCI device is plugged in, and how two slots lie to each other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{PlanError, Relation};

/// A PCIe link, as lanes negotiate it at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PcieLink {
    /// The generation, 1 to 7: each carries twice what the one before does.
    pub generation: u8,
    /// The lanes, 1 to 16.
    pub width: u8,
}

impl PcieLink {
    /// What is assumed of links that nobody has described.
    pub const ASSUMED: PcieLink = PcieLink {
        generation: 5,
        width: 16,
    };

    /// What it carries, of what Gen5 x16 does.
    pub(crate) fn share(self) -> f64 {
        let generations = f64::from(1_u32 << (self.generation.clamp(1, 7) - 1)) / 16.0;
        f64::from(self.width.clamp(1, 16)) / 16.0 * generations
    }

    /// What a device's link can, by what both of its ends can. `now` is what it does at present: a port that claims to be slower than
    /// that makes it up, as those of virtual machines do, and does not count.
    #[must_use]
    pub fn narrower(self, port: Option<PcieLink>, now: Option<PcieLink>) -> PcieLink {
        let believed =
            |port: &PcieLink| now.is_none_or(|now| port.generation >= now.generation && port.width >= now.width);
        let port = port.filter(believed).unwrap_or(self);
        PcieLink {
            generation: self.generation.min(port.generation),
            width: self.width.min(port.width),
        }
    }
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gen{} x{}", self.generation, self.width)
    }
}

/// `gen5x16`, or as it is displayed, in capital letters or small ones: generation 1 to 7, and 1, 2, 4, 8 or 16 lanes.
impl FromStr for PcieLink {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<PcieLink, PlanError> {
        let parsed = || {
            let text = text.to_ascii_lowercase();
            let (generation, width) = text.strip_prefix("gen")?.split_once('x')?;
            let generation = generation.strip_suffix(' ').unwrap_or(generation);
            let number = |known: &[u8], word: &str| known.iter().copied().find(|number| number.to_string() == word);
            Some(PcieLink {
                generation: number(&[1, 2, 3, 4, 5, 6, 7], generation)?,
                width: number(&[1, 2, 4, 8, 16], width)?,
            })
        };
        parsed().ok_or_else(|| PlanError::PcieLink {
            text: text.chars().take(100).collect(),
        })
    }
}

/// The way from a device up to the processor, as the kernel or `lspci` shows it. A virtual machine shows its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slot {
    /// The bridges above the device, from its own port up to the root port.
    pub bridges: Vec<String>,
    /// The host bridge above all of them.
    pub host_bridge: String,
    /// The NUMA node, also where there is only one; `None` where it isn't known.
    pub numa_node: Option<u32>,
    /// What the device's link can at most.
    pub link: Option<PcieLink>,
    /// Those of the bridges whose access control (ACS) sends requests up to the root instead of straight to a peer; `None` where that
    /// can't be read, as by others than root.
    #[serde(default)]
    pub redirecting: Option<Vec<String>>,
}

impl Slot {
    /// Whether a bridge on the way to another slot, below what both have in common, sends requests up to the root; `None` where that isn't
    /// known. Slots that have no bridge in common reach each other by the root anyway.
    #[must_use]
    pub fn redirects(&self, other: &Slot) -> Option<bool> {
        let Some(common) = self.bridges.iter().find(|bridge| other.bridges.contains(bridge)) else {
            return Some(false);
        };
        let redirects = |slot: &Slot| {
            let mut below = slot.bridges.iter().take_while(|bridge| *bridge != common);
            slot.redirecting
                .as_ref()
                .map(|redirecting| below.any(|bridge| redirecting.contains(bridge)))
        };
        match (redirects(self), redirects(other)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            (None, _) | (_, None) => None,
        }
    }

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
