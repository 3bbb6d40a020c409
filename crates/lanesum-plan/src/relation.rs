//! How two GPUs of a host lie to each other, in the words of `nvidia-smi topo -m`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::PlanError;

/// What lies on the way between two GPUs, from near to far; among NVLinks the order means nothing. A label is what a driver says of the slots; a virtual machine may hide
/// what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Relation {
    /// So many bonded NVLinks, at least one.
    Nvlink(u8),
    /// At most one PCIe bridge: a switch that both are plugged into.
    Pix,
    /// Several PCIe bridges, but not the host's.
    Pxb,
    /// A host bridge: mostly the processor.
    Phb,
    /// Host bridges of one NUMA node, and what connects them.
    Node,
    /// NUMA nodes, and what connects them.
    Sys,
}

impl Relation {
    /// Those by PCIe, from near to far.
    pub const PCIE: [Relation; 5] = [
        Relation::Pix,
        Relation::Pxb,
        Relation::Phb,
        Relation::Node,
        Relation::Sys,
    ];
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relation::Nvlink(bonds) => f.pad(&format!("NV{bonds}")),
            Relation::Pix => f.pad("PIX"),
            Relation::Pxb => f.pad("PXB"),
            Relation::Phb => f.pad("PHB"),
            Relation::Node => f.pad("NODE"),
            Relation::Sys => f.pad("SYS"),
        }
    }
}

impl FromStr for Relation {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pcie = Self::PCIE.into_iter().find(|relation| relation.to_string() == text);
        let bonds = || {
            let digits = text
                .strip_prefix("NV")
                .filter(|digits| !digits.starts_with(['+', '0']))?;
            digits.parse().ok()
        };
        pcie.or_else(|| bonds().map(Relation::Nvlink))
            .ok_or_else(|| PlanError::UnknownWord {
                kind: "relation",
                word: text.to_owned(),
                known: &["NV#", "PIX", "PXB", "PHB", "NODE", "SYS"],
            })
    }
}

impl TryFrom<String> for Relation {
    type Error = PlanError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Relation> for String {
    fn from(relation: Relation) -> String {
        relation.to_string()
    }
}
