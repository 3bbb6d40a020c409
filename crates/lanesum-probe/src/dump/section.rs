//! Tells by its content what a text is, and where in a text that holds several dumps each begins.

use super::error::{DumpError, Fault, Found, Place};
use super::grid::{gpu_label, is_cell};
use super::text::{Line, Word};
use super::{bandwidth, list, pci, query};

/// Which reader lines are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A matrix of `nvidia-smi topo`.
    Grid,
    /// Matrices of p2pBandwidthLatencyTest.
    Bandwidth,
    /// `nvidia-smi -L`.
    List,
    /// `nvidia-smi -q`.
    Query,
    /// `lspci`, with `-v` or without.
    Listing,
    /// `lspci -t`.
    Tree,
}

/// The lines of one dump, from the one that it was known by.
#[derive(Debug)]
pub(super) struct Section<'l, 't> {
    pub(super) kind: Kind,
    pub(super) lines: &'l [Line<'t>],
}

/// Words that only the tool for AMD's GPUs writes.
const AMD: [&str; 4] = [
    "ROCm System Management",
    "Link Type between two GPUs",
    "Hops between two GPUs",
    "Weight between two GPUs",
];

/// What a line begins with where a tool failed.
const FAILED: [&str; 6] = [
    "ERROR:",
    "NVIDIA-SMI has failed",
    "Failed to initialize NVML",
    "No devices were found",
    "Unable to determine the device handle",
    "'nvidia-smi' is not recognized",
];

/// All dumps of a text, at least one.
pub(super) fn sections<'l, 't>(lines: &'l [Line<'t>]) -> Result<Vec<Section<'l, 't>>, DumpError> {
    if let Some((line, word)) = first_with(lines, |line| AMD.iter().any(|words| line.text.contains(words))) {
        return Err(refuse(line, word, Fault::Amd));
    }
    let begins = begins(lines)?;
    let ends = begins.iter().skip(1).map(|(begin, _)| *begin).chain([lines.len()]);
    let pieces = begins.iter().zip(ends);
    let found: Vec<Section<'l, 't>> = pieces
        .filter_map(|((begin, kind), end)| {
            let lines = lines.get(*begin..end)?;
            Some(Section { kind: *kind, lines })
        })
        .collect();
    if found.is_empty() {
        Err(nothing(lines))
    } else {
        Ok(found)
    }
}

/// The first line of each dump.
fn begins(lines: &[Line<'_>]) -> Result<Vec<(usize, Kind)>, DumpError> {
    let mut begins: Vec<(usize, Kind)> = Vec::new();
    // A line of labels that no row follows, or of a GPU without its UUID. Both stand in many texts; if there is nothing
    // else, they are all that is left of a dump that was cut.
    let mut bare = None;
    for (place, line) in lines.iter().enumerate() {
        let within = begins.last().map(|(_, kind)| *kind);
        if is_header(line) {
            let next = lines.iter().skip(place + 1).find(|line| !line.is_blank());
            if next
                .and_then(Line::first)
                .is_some_and(|first| gpu_label(first.text).is_some())
            {
                begins.push((place, Kind::Grid));
            } else {
                bare = bare.or(Some((place, Kind::Grid)));
            }
        } else if let Some(label) = row(line).filter(|_| within != Some(Kind::Grid)) {
            return Err(line.refuse(label, Fault::HeaderMissing));
        } else if let Some(kind) = kind(line, within).filter(|kind| within != Some(*kind)) {
            begins.push((place, kind));
        } else if list::index(line).is_some() {
            bare = bare.or(Some((place, Kind::List)));
        }
    }
    if begins.is_empty() {
        begins.extend(bare);
    }
    Ok(begins)
}

/// What a line alone tells, if it is not of a matrix of `nvidia-smi topo`.
fn kind(line: &Line<'_>, within: Option<Kind>) -> Option<Kind> {
    if line.text.contains("NVSMI LOG") || query::address(line).is_some() {
        Some(Kind::Query)
    } else if within != Some(Kind::Query) && list::index(line).is_some() && line.text.contains("(UUID:") {
        Some(Kind::List)
    } else if bandwidth::is_title(line) || (within != Some(Kind::Query) && bandwidth::is_line(line)) {
        Some(Kind::Bandwidth)
    } else if pci::is_tree(line) {
        Some(Kind::Tree)
    } else if pci::device_line(line).is_some() {
        Some(Kind::Listing)
    } else {
        None
    }
}

/// Whether a line begins with labels of columns. Labels that have run together count, to be refused where they stand.
fn is_header(line: &Line<'_>) -> bool {
    let mut words = line.words().map(|word| word.text);
    let label = |word: &str| {
        word.strip_prefix("GPU")
            .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let device = |word: &str| ["NIC", "mlx"].iter().any(|first| word.starts_with(first)) || word.contains('_');
    let fact = |word: &str| ["CPU", "NUMA", "GPU"].iter().any(|first| word.starts_with(first));
    match (words.next(), words.next()) {
        (Some(first), None) => label(first),
        (Some(first), Some(next)) => label(first) && (label(next) || device(next) || fact(next)),
        (None, _) => false,
    }
}

/// The label of a row.
fn row<'l>(line: &'l Line<'_>) -> Option<Word<'l>> {
    let mut words = line.words();
    let label = words.next().filter(|label| gpu_label(label.text).is_some())?;
    words.next().filter(|cell| is_cell(cell.text)).map(|_| label)
}

/// Why there is no dump in a text.
fn nothing(lines: &[Line<'_>]) -> DumpError {
    let failed = |line: &Line<'_>| {
        let text = line.trimmed();
        FAILED.iter().any(|words| text.starts_with(words)) || text.ends_with("nvidia-smi: command not found")
    };
    let told = |what: Fault, found: Option<(&Line<'_>, Word<'_>)>| found.map(|(line, word)| refuse(line, word, what));
    told(Fault::ToolFailed, first_with(lines, failed))
        .or_else(|| told(Fault::Unknown, first_with(lines, |_| true)))
        .unwrap_or_else(|| DumpError::new(Place { line: 1, column: 1 }, Found::EndOfText, Fault::Unknown))
}

/// The first line that is so, and its first word.
fn first_with<'l, 't>(lines: &'l [Line<'t>], so: impl Fn(&Line<'t>) -> bool) -> Option<(&'l Line<'t>, Word<'l>)> {
    let words = lines.iter().filter_map(|line| Some((line, line.first()?)));
    words.into_iter().find(|(line, _)| so(line))
}

/// A refusal because of a whole line.
fn refuse(line: &Line<'_>, first: Word<'_>, fault: Fault) -> DumpError {
    DumpError::new(line.place(first.at), Found::text(line.trimmed()), fault)
}
