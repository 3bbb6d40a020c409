//! What could not be read and does not matter enough to refuse a text: it stays unknown, and is told.

use std::fmt;

use super::error::Place;

/// Something that stays unknown although the text has, or should have, words on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Where.
    pub place: Place,
    /// What.
    pub about: About,
}

/// What a remark is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// The columns after those of devices can't be told apart, so affinities stay unknown.
    Columns,
    /// It can't be told which cells of a GPU's row are empty, so its affinities stay unknown.
    Affinity {
        /// The GPU's number.
        gpu: u32,
    },
    /// A cell that is no list of processors or nodes; that of this GPU stays unknown.
    Cell {
        /// The GPU's number.
        gpu: u32,
    },
    /// Rows of so many devices beside GPUs are missing; what they are to GPUs is known from the GPUs' rows.
    OtherRows {
        /// How many.
        missing: usize,
        /// The first of them.
        first: String,
    },
    /// The row of a device beside GPUs can't be read, or does not say what the GPUs' rows say; these count.
    OtherRow {
        /// The device's label.
        label: String,
    },
    /// Rows of a matrix whose beginning is missing are left out.
    Headless,
    /// A matrix that ends before its last row is left out.
    Cut,
    /// A UUID that is blanked or cut stays unknown.
    Uuid,
    /// The tool could not look at a GPU; what it says of it.
    Tool {
        /// Its words.
        words: String,
    },
    /// A value that is not understood stays unknown.
    Value {
        /// Its name.
        key: String,
    },
    /// Capabilities of devices were hidden from who asked.
    Denied,
    /// More GPUs are there than are described.
    Attached {
        /// GPUs there are.
        attached: u32,
        /// GPUs described.
        described: usize,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match &self.about {
            About::Columns => f.write_str("the columns of affinities can't be told apart; affinities stay unknown"),
            About::Affinity { gpu } => write!(
                f,
                "the affinities of GPU{gpu} can't be told apart, as cells are empty; they stay unknown"
            ),
            About::Cell { gpu } => write!(f, "an affinity of GPU{gpu} is no list like 0-3,8; it stays unknown"),
            About::OtherRows { missing: 1, first } => {
                write!(
                    f,
                    "the row of {first} is missing; the rows of GPUs tell what it is to them"
                )
            }
            About::OtherRows { missing, first } => write!(
                f,
                "rows of {missing} devices are missing, from {first} on; the rows of GPUs tell what they are to them"
            ),
            About::OtherRow { label } => write!(
                f,
                "the row of {label} can't be read, or says something else than the rows of GPUs; these count"
            ),
            About::Headless => f.write_str("the beginning of a matrix is missing; its rows are left out"),
            About::Cut => f.write_str("this matrix ends before its last row; it is left out"),
            About::Uuid => f.write_str("the UUID is blanked or cut; it stays unknown"),
            About::Tool { words } => write!(f, "the tool could not look at a GPU: {words}"),
            About::Value { key } => write!(f, "\"{}\" is not understood; it stays unknown", key.escape_debug()),
            About::Denied => f.write_str("capabilities are hidden and stay unknown; run lspci as root"),
            About::Attached { attached, described } => {
                write!(f, "{attached} GPUs are attached and {described} are described")
            }
        }
    }
}
