//! What the parent gives a rank to do, and what the rank finds.

use lanesum::bench::Variant;
use lanesum_plan::{AlgorithmChoice, Dtype, RankGpu};
use serde::{Deserialize, Serialize};

use crate::ranks::message::Ran;

/// The work of one rank: its only argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The process that started the rank.
    pub parent: u32,
    /// Which rank.
    pub rank: usize,
    /// Of how many.
    pub world: usize,
    /// Elements of a sum, for each size.
    pub elements: Vec<usize>,
    /// Their type.
    pub dtype: Dtype,
    /// Who chooses the algorithm.
    pub algorithm: AlgorithmChoice,
    /// Whether to time graphs.
    pub graph: bool,
    /// Whether to time calls one after the other.
    pub eager: bool,
    /// Timed replays.
    pub replays: u32,
    /// Calls of a graph, and of what is timed without one.
    pub calls: u32,
    /// The CPU to stay on.
    pub cpu: Option<usize>,
}

/// What was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Sums as users get them.
    Lanesum,
    /// Sums without headers.
    NoHeader,
    /// Sums without a deadline.
    NoDeadline,
    /// Sums without any guard.
    Bare,
    /// A word to each peer and one from each.
    FlagRound,
    /// A kernel that does nothing.
    EmptyNode,
}

impl Kind {
    /// Everything but the sums themselves.
    pub const VARIANTS: [(Kind, Variant); 5] = [
        (Kind::NoHeader, Variant::NoHeader),
        (Kind::NoDeadline, Variant::NoDeadline),
        (Kind::Bare, Variant::Bare),
        (Kind::FlagRound, Variant::FlagRound),
        (Kind::EmptyNode, Variant::Empty),
    ];

    /// Whether its results are sums.
    pub fn sums(self) -> bool {
        match self {
            Self::Lanesum | Self::NoHeader | Self::NoDeadline | Self::Bare => true,
            Self::FlagRound | Self::EmptyNode => false,
        }
    }

    /// In a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Lanesum => "lanesum",
            Self::NoHeader => "no header",
            Self::NoDeadline => "no deadline",
            Self::Bare => "no guard",
            Self::FlagRound => "flag round (floor)",
            Self::EmptyNode => "empty node",
        }
    }
}

/// One kind at one size on one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// What.
    pub kind: Kind,
    /// Whether from a graph.
    pub graph: bool,
    /// Microseconds a call, of each replay.
    pub us: Vec<f64>,
    /// The first result that is not the oracle's.
    pub wrong: Option<String>,
}

/// One size on one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes of a sum.
    pub bytes: u64,
    /// What ran, by the receipts.
    pub ran: Ran,
    /// What was timed, in the same order on every rank.
    pub timed: Vec<Timed>,
    /// Why some of it could not be timed.
    pub missing: Vec<(Kind, String)>,
}

/// What one rank found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Its GPU.
    pub gpu: Option<RankGpu>,
    /// Each size.
    pub points: Vec<Point>,
}
