//! The matrices of NVIDIA's sample p2pBandwidthLatencyTest: rates and latencies of copies between GPUs.
//!
//! The numbers are CUDA's, which need not be those of `nvidia-smi`. A matrix that was cut is left out with a remark, as the others are
//! good without it; one whose rows are wrong refuses the text.

mod reader;

use super::error::DumpError;
use super::pairs::Pairs;
use super::pci::PciAddress;
use super::remark::Remark;
use super::text::{Line, Word};

/// What p2pBandwidthLatencyTest tells of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Bandwidth {
    /// The GPUs' numbers in CUDA, in the order of rows.
    pub gpus: Vec<u32>,
    /// Where they are plugged in and what they are called, if the beginning of the output is there.
    pub devices: Vec<TestedDevice>,
    /// Whether the driver grants peer access, by places in [`Bandwidth::gpus`], if that matrix is there.
    pub granted: Option<Pairs<bool>>,
    /// The matrices of measurements, in the order of the text.
    pub tables: Vec<Table>,
    /// What could not be read.
    pub remarks: Vec<Remark>,
}

/// A GPU as the test names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedDevice {
    /// Its number in CUDA.
    pub index: u32,
    /// Its model.
    pub model: String,
    /// Where it is plugged in.
    pub address: PciAddress,
}

/// One matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What was measured.
    pub measure: Measure,
    /// Whether with peer access switched on, where there is any.
    pub peer: bool,
    /// Whether kernels wrote or read, if the title tells.
    pub kernels: Option<Kernels>,
    /// GB/s or us of each ordered pair.
    pub values: Pairs<f64>,
    /// The same of each GPU with itself.
    pub own: Vec<f64>,
}

/// What a matrix holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// GB/s of copies in one direction at a time.
    Unidirectional,
    /// GB/s of copies in both directions at once, together.
    Bidirectional,
    /// Microseconds that a small copy takes on the GPU.
    Latency,
    /// Microseconds that the processor takes to issue it.
    IssueLatency,
}

/// Who moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The source writes.
    Write,
    /// The destination reads.
    Read,
}

impl Bandwidth {
    /// The matrix of a measure, with peer access switched on or off.
    #[must_use]
    pub fn table(&self, measure: Measure, peer: bool) -> Option<&Table> {
        self.tables
            .iter()
            .find(|table| table.measure == measure && table.peer == peer)
    }

    pub(super) fn read(lines: &[Line<'_>]) -> Result<Bandwidth, DumpError> {
        reader::read(lines)
    }
}

/// What a title says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Title {
    Granted,
    Measured(Measure, bool, Option<Kernels>),
}

/// Whether a line is the title of a matrix.
pub(super) fn is_title(line: &Line<'_>) -> bool {
    title(line).is_some()
}

fn title(line: &Line<'_>) -> Option<Title> {
    let text = line.trimmed();
    if text == "P2P Connectivity Matrix" {
        return Some(Title::Granted);
    }
    let has = |words: &str| text.contains(words);
    let peer = match (has("P2P=Enabled"), has("P2P=Disabled")) {
        (true, false) => true,
        (false, true) => false,
        (true, true) | (false, false) => return None,
    };
    let measure = match (has("Unidirectional"), has("Bidirectional"), has("Latency")) {
        (true, false, false) => Measure::Unidirectional,
        (false, true, false) => Measure::Bidirectional,
        (false, false, true) => Measure::Latency,
        _ => return None,
    };
    let kernels = match (has("P2P Writes"), has("P2P Reads")) {
        (true, false) => Some(Kernels::Write),
        (false, true) => Some(Kernels::Read),
        (true, true) | (false, false) => None,
    };
    has("Matrix").then_some(Title::Measured(measure, peer, kernels))
}

/// Whether a line is of such a test, if nothing else is known: one on a device, or a row that has lost its title.
pub(super) fn is_line(line: &Line<'_>) -> bool {
    let text = line.trimmed();
    let begins = ["[P2P (Peer-to-Peer)", "D\\D "]
        .iter()
        .any(|first| text.starts_with(first));
    let words: Vec<Word<'_>> = line.words().take(3).collect();
    let row = match words.as_slice() {
        [index, first, second] => {
            let decimal = |word: &Word<'_>| word.text.contains('.') && number(word.text).is_some();
            small(index.text).is_some() && decimal(first) && decimal(second)
        }
        _ => false,
    };
    begins || row || device(text).is_some()
}

/// `Device: 0, NVIDIA GeForce RTX 3090, pciBusID: c1, pciDeviceID: 0, pciDomainID:0`.
fn device(text: &str) -> Option<TestedDevice> {
    let (index, rest) = text.strip_prefix("Device: ")?.split_once(", ")?;
    let (model, ids) = rest.split_once(", pciBusID: ")?;
    let (bus, ids) = ids.split_once(", pciDeviceID: ")?;
    let (slot, domain) = ids.split_once(", pciDomainID:")?;
    let number = |text: &str| u32::from_str_radix(text.trim(), 16).ok();
    let (bus, slot, domain) = (number(bus)?, number(slot)?, number(domain)?);
    Some(TestedDevice {
        index: small(index)?,
        model: model.to_owned(),
        address: format!("{domain:04x}:{bus:02x}:{slot:02x}.0").parse().ok()?,
    })
}

/// A number of a GPU.
fn small(text: &str) -> Option<u32> {
    let plain = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// A measurement as the test writes it: digits, and a point among them.
fn number(text: &str) -> Option<f64> {
    let plain = text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}
