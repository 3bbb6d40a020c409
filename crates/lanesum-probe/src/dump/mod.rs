//! Reads what people paste: the output of NVIDIA's tools and of `lspci`, as plain facts.
//!
//! What tools print is made for people, and it comes through terminals, editors and forums: with colours, without tabs, with
//! empty cells and lines that were broken or cut. A reader that goes by columns gets wrong topologies from such text, and
//! nobody notices. So it is read by words, and a text is either read rightly or refused with the place where reading ended.
//! What was there but could not be understood, and does not concern the ways between GPUs, is a [`Remark`]; what a text does not
//! tell is `None`.
//!
//! ```
//! use lanesum_probe::dump::{self, Dump};
//!
//! let text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-13\nGPU1\tPHB\t X \t0-13\n";
//! let Dump::Matrix(matrix) = dump::read(text)? else { panic!("it is a matrix") };
//! assert_eq!(matrix.relations.get(0, 1).map(ToString::to_string).as_deref(), Some("PHB"));
//!
//! let cut = dump::read("\tGPU0\tGPU1\nGPU0\t X \tPHB\n").unwrap_err();
//! assert_eq!(cut.to_string(), "line 3, column 1: the end of the text instead of the row of GPU1");
//! # Ok::<(), dump::DumpError>(())
//! ```

mod bandwidth;
mod error;
mod grid;
mod list;
mod matrix;
mod pairs;
mod pci;
mod peers;
mod query;
mod remark;
mod section;
mod text;

pub use bandwidth::{Bandwidth, Kernels, Measure, Table, TestedDevice};
pub use error::{DumpError, Fault, Found, Place, Vocabulary};
pub use grid::{MOST_GPUS, MOST_OTHERS};
pub use list::{Instance, List, ListedGpu};
pub use matrix::{Matrix, MatrixGpu, Other};
pub use pairs::Pairs;
pub use pci::{Acs, Buses, Lanes, MOST_DEVICES, NoAddress, Pci, PciAddress, PciDevice, Region};
pub use peers::{PeerStatus, Peers};
pub use query::{QueriedGpu, QueriedLink, Query};
pub use remark::{About, Remark};
pub use text::{MOST_BYTES, MOST_LINE, MOST_LINES, decode};

use grid::Grid;
use section::{Kind, Section, sections};

/// What a text turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Dump {
    /// `nvidia-smi topo -m` or `-mp`.
    Matrix(Matrix),
    /// `nvidia-smi topo -p2p`.
    Peers(Peers),
    /// p2pBandwidthLatencyTest.
    Bandwidth(Bandwidth),
    /// `nvidia-smi -L`.
    List(List),
    /// `nvidia-smi -q`.
    Query(Query),
    /// `lspci`, as a list or as a tree.
    Pci(Pci),
}

impl Dump {
    /// The command that prints such text.
    #[must_use]
    pub const fn tool(&self) -> &'static str {
        match self {
            Dump::Matrix(_) => "nvidia-smi topo -m",
            Dump::Peers(_) => "nvidia-smi topo -p2p",
            Dump::Bandwidth(_) => "p2pBandwidthLatencyTest",
            Dump::List(_) => "nvidia-smi -L",
            Dump::Query(_) => "nvidia-smi -q",
            Dump::Pci(_) => "lspci",
        }
    }

    /// What could not be read and stays unknown.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        match self {
            Dump::Matrix(matrix) => &matrix.remarks,
            Dump::Peers(_) => &[],
            Dump::Bandwidth(bandwidth) => &bandwidth.remarks,
            Dump::List(list) => &list.remarks,
            Dump::Query(query) => &query.remarks,
            Dump::Pci(pci) => &pci.remarks,
        }
    }
}

/// Reads the one dump that a text holds. Which it is, is told by its content; what stands around it does not matter.
///
/// # Errors
/// [`DumpError`] where the text is none of these, holds several, or describes its GPUs incompletely or wrongly.
pub fn read(text: &str) -> Result<Dump, DumpError> {
    let lines = text::lines(text)?;
    let sections = sections(&lines)?;
    if let Some(line) = sections.get(1).and_then(|second| second.lines.first()) {
        let at = line.first().map_or(0, |word| word.at);
        let found = Found::text(line.trimmed());
        return Err(DumpError::new(line.place(at), found, Fault::Several));
    }
    let first = sections.first().map(dump);
    first.unwrap_or_else(|| {
        Err(DumpError::new(
            Place { line: 1, column: 1 },
            Found::EndOfText,
            Fault::Unknown,
        ))
    })
}

/// Reads all dumps that a text holds, at least one, in their order: a whole session of a terminal, for example.
///
/// # Errors
/// [`DumpError`] where it holds none, or one describes its GPUs incompletely or wrongly.
pub fn read_all(text: &str) -> Result<Vec<Dump>, DumpError> {
    let lines = text::lines(text)?;
    sections(&lines)?.iter().map(dump).collect()
}

fn dump(section: &Section<'_, '_>) -> Result<Dump, DumpError> {
    let lines = section.lines;
    match section.kind {
        Kind::Bandwidth => Bandwidth::read(lines).map(Dump::Bandwidth),
        Kind::List => List::read(lines).map(Dump::List),
        Kind::Query => Query::read(lines).map(Dump::Query),
        Kind::Listing => pci::read_listing(lines).map(Dump::Pci),
        Kind::Tree => pci::read_tree(lines).map(Dump::Pci),
        Kind::Grid => {
            let grid = Grid::read(lines)?;
            if Peers::are_in(&grid) {
                Peers::read(&grid).map(Dump::Peers)
            } else {
                Matrix::read(&grid).map(Dump::Matrix)
            }
        }
    }
}
