//! The NVLinks of a GPU, as the machine's management library shows them, and what those of two GPUs make of each other.

use serde::{Deserialize, Serialize};

use crate::{RankGpu, Relation};

/// Active NVLinks of a GPU that lead to one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvlinks {
    /// Where they lead.
    pub to: NvlinkEnd,
    /// How many they are.
    pub count: u8,
}

/// Where NVLinks of a GPU lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum NvlinkEnd {
    /// To another GPU of the host.
    Gpu {
        /// Where it is plugged in.
        pci_bus_id: String,
    },
    /// To switches, and by them to all GPUs that have NVLinks to switches, too.
    Switch,
    /// It is not told.
    Unknown,
}

impl Relation {
    /// By what NVLinks two GPUs reach each other, if both tell of them: directly, or by switches, the lesser number.
    pub(crate) fn by_nvlinks(one: &RankGpu, other: &RankGpu) -> Option<Relation> {
        let direct = || Some(leading(one, |end| is(end, other))?.min(leading(other, |end| is(end, one))?));
        let switched = || Some(leading(one, to_switches)?.min(leading(other, to_switches)?));
        direct().or_else(switched).map(Relation::Nvlink)
    }
}

/// How many NVLinks of a GPU lead to such a place, if any do.
fn leading(gpu: &RankGpu, wanted: impl Fn(&NvlinkEnd) -> bool) -> Option<u8> {
    let there = gpu.nvlinks.iter().flatten().filter(|links| wanted(&links.to));
    let count = there.fold(0_u8, |count, links| count.saturating_add(links.count));
    (count > 0).then_some(count)
}

fn is(end: &NvlinkEnd, gpu: &RankGpu) -> bool {
    match end {
        // Drivers write letters in either case.
        NvlinkEnd::Gpu { pci_bus_id } => pci_bus_id.eq_ignore_ascii_case(&gpu.pci_bus_id),
        NvlinkEnd::Switch | NvlinkEnd::Unknown => false,
    }
}

fn to_switches(end: &NvlinkEnd) -> bool {
    *end == NvlinkEnd::Switch
}
