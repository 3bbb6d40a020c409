//! `nvidia-smi topo -p2p r|w|n|a|p`: whether the driver lets GPUs reach each other.

use std::fmt;

use super::error::{DumpError, Fault, Vocabulary};
use super::grid::{Cell, Grid};
use super::pairs::Pairs;

/// What `nvidia-smi topo -p2p` tells of a host. Which capability it was asked for is not in what it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// The GPUs' numbers in the tool, in the order of their rows.
    pub gpus: Vec<u32>,
    /// What the driver says of each ordered pair, by places in [`Peers::gpus`]. It is a claim: data can be lost all the same.
    pub statuses: Pairs<PeerStatus>,
}

/// What the driver says of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerStatus {
    /// `OK`: it can be had.
    Granted,
    /// `CNS`: the chipset is not on the driver's list.
    Chipset,
    /// `GNS`: the GPU, or its driver, has no such thing.
    Gpu,
    /// `TNS`: not where the GPUs are plugged in.
    Topology,
    /// `NS`: not supported, without a reason.
    Unsupported,
    /// `DR`: switched off in the registry.
    Registry,
    /// `U`: the driver does not know.
    Unknown,
}

/// The statuses with their words and what the tool's legend says of them.
const STATUSES: [(PeerStatus, &str, &str); 7] = [
    (PeerStatus::Granted, "OK", "granted"),
    (PeerStatus::Chipset, "CNS", "chipset not supported"),
    (PeerStatus::Gpu, "GNS", "GPU not supported"),
    (PeerStatus::Topology, "TNS", "topology not supported"),
    (PeerStatus::Unsupported, "NS", "not supported"),
    (PeerStatus::Registry, "DR", "disabled in the registry"),
    (PeerStatus::Unknown, "U", "unknown"),
];

impl PeerStatus {
    /// The word that the tool writes.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// What it means.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (PeerStatus, &'static str, &'static str) {
        let row = STATUSES.into_iter().find(|(status, ..)| *status == self);
        row.unwrap_or((PeerStatus::Unknown, "U", "unknown"))
    }
}

impl fmt::Display for PeerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Cell for PeerStatus {
    const VOCABULARY: Vocabulary = Vocabulary::Statuses;

    fn read(word: &str) -> Option<PeerStatus> {
        let row = STATUSES.into_iter().find(|(_, known, _)| *known == word);
        row.map(|(status, ..)| status)
    }
}

impl Peers {
    pub(super) fn read(grid: &Grid<'_, '_>) -> Result<Peers, DumpError> {
        let statuses = grid.pairs::<PeerStatus>()?;
        let columns = grid.header.columns.len();
        for row in &grid.rows {
            if let Some(word) = row.tail.first() {
                let gpu = row.gpu;
                return Err(row.line.refuse(*word, Fault::RowLong { gpu, columns }));
            }
        }
        Ok(Peers {
            gpus: grid.header.gpus(),
            statuses,
        })
    }

    /// Whether these are answers on peers, not relations: by the first cell that is either, else by the legend.
    pub(super) fn are_in(grid: &Grid<'_, '_>) -> bool {
        let mut cells = grid.rows.iter().flat_map(|row| &row.cells);
        let relation = |word: &str| <lanesum_plan::Relation as Cell>::read(word).is_some();
        let told = cells.find(|cell| relation(cell.text) || PeerStatus::read(cell.text).is_some());
        match told {
            Some(cell) => !relation(cell.text),
            None => grid.after.iter().any(|line| {
                let words: Vec<&str> = line.words().take(2).map(|word| word.text).collect();
                words == ["OK", "="]
            }),
        }
    }
}
