//! Why a text is refused: where, what stands there, what should, and what to do.

use std::fmt;

use lanesum_plan::Relation;
use thiserror::Error;

use super::grid::{MOST_GPUS, MOST_OTHERS};
use super::pci::MOST_DEVICES;
use super::text::{MOST_BYTES, MOST_LINE, MOST_LINES};

/// A place in a text, both counted from 1. Columns are characters of the text as it was given, a tab is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A text that can't be read rightly, and so is not read at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {found} instead of {}", fault.expected())]
pub struct DumpError {
    /// Where reading ended.
    pub place: Place,
    /// What stands there.
    pub found: Found,
    /// What is wrong with it.
    pub fault: Fault,
}

impl DumpError {
    pub(super) fn new(place: Place, found: Found, fault: Fault) -> DumpError {
        DumpError { place, found, fault }
    }

    /// What should stand there.
    #[must_use]
    pub fn expected(&self) -> String {
        self.fault.expected()
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        self.fault.hint()
    }
}

/// What stands where something else should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This, or its beginning.
    Text(String),
    /// Nothing more in the line.
    EndOfLine,
    /// Nothing more in the text.
    EndOfText,
    /// So many bytes.
    Bytes(usize),
    /// So many lines.
    Lines(usize),
}

/// More of what was found is not repeated.
const MOST_QUOTED: usize = 60;

impl Found {
    pub(super) fn text(text: &str) -> Found {
        let cut = text
            .char_indices()
            .nth(MOST_QUOTED)
            .and_then(|(end, _)| text.get(..end));
        Found::Text(cut.map_or_else(|| text.to_owned(), |cut| format!("{cut}...")))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Text(text) => write!(f, "\"{}\"", text.escape_debug().to_string().replace("\\'", "'")),
            Found::EndOfLine => f.write_str("the end of the line"),
            Found::EndOfText => f.write_str("the end of the text"),
            Found::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Found::Lines(lines) => write!(f, "{lines} lines"),
        }
    }
}

/// What a cell of a matrix may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vocabulary {
    /// Relations, as of `topo -m`.
    Relations,
    /// Answers, as of `topo -p2p`.
    Statuses,
}

impl Vocabulary {
    fn words(self) -> &'static str {
        match self {
            Vocabulary::Relations => "X, NV#, PIX, PXB, PHB, NODE, SYS",
            Vocabulary::Statuses => "X, OK, CNS, GNS, TNS, NS, DR, U",
        }
    }
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is longer than anything that the tools write.
    TooLong,
    /// It is nothing that can be read.
    Unknown,
    /// It holds more than the one dump that was asked for.
    Several,
    /// The tool has failed, and these are its words.
    ToolFailed,
    /// It tells of AMD's GPUs.
    Amd,
    /// A row comes without a header above it.
    HeaderMissing,
    /// A word of the header is no label, or two that have run together.
    Label,
    /// A label, index, bus id or UUID, or a whole matrix, comes a second time.
    Twice,
    /// There are more GPUs or columns than any host has.
    TooMany,
    /// The row of a GPU is missing.
    RowMissing {
        /// Its number in the header.
        gpu: u32,
    },
    /// A row of a GPU that has no column, or a second row of one.
    RowUnexpected,
    /// A row has fewer cells than the header has columns.
    RowShort {
        /// The number of its GPU.
        gpu: u32,
        /// Cells it has.
        cells: usize,
        /// Columns there are.
        columns: usize,
    },
    /// A row has more cells than the header has columns.
    RowLong {
        /// The number of its GPU.
        gpu: u32,
        /// Columns there are.
        columns: usize,
    },
    /// A cell says something unknown.
    Cell(Vocabulary),
    /// A cell holds words that have run together.
    RunTogether(Vocabulary),
    /// A GPU and itself are described as two, or two as one.
    Diagonal {
        /// Whether the place is on the diagonal.
        own: bool,
    },
    /// What one GPU is to another is not what the other is to it.
    Asymmetric {
        /// The GPU of the row.
        from: u32,
        /// The GPU of the column.
        to: u32,
        /// What the other says.
        there: Relation,
        /// Where it says so.
        other: Place,
    },
    /// A number can't be read.
    Number,
    /// A matrix is of other GPUs than one before it.
    OtherGpus,
    /// No matrix is complete.
    NoneComplete,
    /// There are more devices than any host has.
    TooManyDevices,
    /// The drawing of a tree is broken here.
    Branch,
    /// A tree has no device.
    NoDevice,
    /// No GPU is described.
    NoGpu,
    /// A line of `nvidia-smi -L` ends before the UUID does.
    Uuid,
}

impl Fault {
    fn expected(&self) -> String {
        match self {
            Fault::TooLong => {
                format!("at most {MOST_LINE} bytes a line, {MOST_LINES} lines and {MOST_BYTES} bytes in all")
            }
            Fault::Unknown | Fault::ToolFailed | Fault::Amd => {
                "the output of nvidia-smi topo -m, -mp or -p2p, nvidia-smi -L or -q, p2pBandwidthLatencyTest or lspci"
                    .to_owned()
            }
            Fault::Several => "the end of the only dump".to_owned(),
            Fault::HeaderMissing => "a header with the labels of the columns, above the rows".to_owned(),
            Fault::Label => "the label of one column".to_owned(),
            Fault::Twice => "something that has not come before".to_owned(),
            Fault::TooMany => format!("at most {MOST_GPUS} GPUs and {MOST_OTHERS} other columns"),
            Fault::RowMissing { gpu } => format!("the row of GPU{gpu}"),
            Fault::RowUnexpected => {
                "a row of something else than a GPU, as all GPUs of the header have theirs".to_owned()
            }
            Fault::RowShort { gpu, cells, columns } => {
                format!("another cell of the row of GPU{gpu}, which has {cells} for {columns} columns")
            }
            Fault::RowLong { gpu, columns } => format!("the end of the {columns} cells of the row of GPU{gpu}"),
            Fault::Cell(words) => format!("one of {}", words.words()),
            Fault::RunTogether(words) => format!("only one of {}", words.words()),
            Fault::Diagonal { own: true } => "X, which a GPU is to itself".to_owned(),
            Fault::Diagonal { own: false } => "what one GPU is to another".to_owned(),
            Fault::Asymmetric { from, to, there, other } => {
                format!("{there} between GPU{from} and GPU{to}, as {other} has it")
            }
            Fault::Number => "a number like 26.41".to_owned(),
            Fault::OtherGpus => "the GPUs of the matrices above".to_owned(),
            Fault::NoneComplete => "at least one complete matrix".to_owned(),
            Fault::TooManyDevices => format!("at most {MOST_DEVICES} devices"),
            Fault::Branch => "a bus in brackets, or a device on a bus that is drawn".to_owned(),
            Fault::NoDevice => "at least one device".to_owned(),
            Fault::NoGpu => "lines on at least one GPU below it".to_owned(),
            Fault::Uuid => "(UUID: GPU-...) at the end of the line".to_owned(),
        }
    }

    fn hint(&self) -> String {
        let hint = match self {
            Fault::TooLong => "give the output of one of these tools alone",
            Fault::Unknown => "give what one of these tools prints, whole, with its header",
            Fault::Several => "put each dump into a file of its own",
            Fault::ToolFailed => {
                "the tool itself failed: mend that first; on Windows, driver 591 has no topo -m, and 610 has"
            }
            Fault::Amd => "this is of rocm-smi, and lanesum knows NVIDIA's GPUs only",
            Fault::HeaderMissing => "paste the whole output, from the line that begins with the labels on",
            Fault::Label | Fault::RunTogether(_) | Fault::RowLong { .. } => {
                "a blank was lost where a terminal broke the line: write into a file, as in nvidia-smi topo -m > topo.txt"
            }
            Fault::Twice | Fault::RowUnexpected | Fault::OtherGpus => "give the output of one run on one host",
            Fault::TooMany | Fault::TooManyDevices => "no host has as many: give the output of one run on one host",
            Fault::RowMissing { .. } | Fault::RowShort { .. } => {
                "the text was cut: write the output into a file, as in nvidia-smi topo -m > topo.txt, and give that"
            }
            Fault::Cell(_) | Fault::Diagonal { .. } | Fault::Asymmetric { .. } | Fault::Number => {
                "give the output as the tool wrote it, without edits"
            }
            Fault::NoneComplete => "the text was cut: give the whole output, or one matrix with its title and all rows",
            Fault::Branch | Fault::NoDevice => {
                "blanks count in this drawing: write it into a file, as in lspci -tv > tree.txt, or give lspci -vvv"
            }
            Fault::NoGpu => "the text was cut: give the whole output of nvidia-smi -q",
            Fault::Uuid => "the line was cut: give the whole output of nvidia-smi -L",
        };
        hint.to_owned()
    }
}
