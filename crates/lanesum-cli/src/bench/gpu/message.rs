//! What the parent gives a rank to do, and what the rank finds.

use lanesum::bench::Variant;
use lanesum_plan::{AlgorithmChoice, Dtype, PathChoice, RankGpu};
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
    /// Who chooses the path.
    pub path: PathChoice,
    /// Whether to time graphs.
    pub graph: bool,
    /// Whether to time calls one after the other.
    pub eager: bool,
    /// The CPU to stay on.
    pub cpu: Option<usize>,
}

/// How much is made of one size: the parent's answer once all ranks have told a [`Pilot`] of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// Calls of a graph, and of what is timed without one. Each has an output of its own.
    pub calls: u32,
    /// Replays off the record before those that count.
    pub warm_ups: u32,
    /// Timed replays.
    pub replays: u32,
    /// Why no rank is to time floors and guards, if one of them cannot.
    pub without_variants: Option<String>,
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
    /// The first result that is not the oracle's, before or after it was timed.
    pub wrong: Option<String>,
}

/// The first calls of one size on one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// Its GPU.
    pub gpu: Option<RankGpu>,
    /// Microseconds a call.
    pub us: f64,
    /// Why this rank cannot run floors and guards, if it cannot.
    pub without_variants: Option<String>,
}

/// One size on one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes of a sum.
    pub bytes: u64,
    /// What ran, by the receipts.
    pub ran: Ran,
    /// Bytes a microsecond that copy engines carry each way, where bytes go through host memory.
    pub copy_rate: Option<f64>,
    /// What was timed, in the same order on every rank.
    pub timed: Vec<Timed>,
    /// Why some of it could not be timed.
    pub missing: Vec<(Kind, String)>,
}

/// What one rank tells: of each size a pilot and then the point, and that it is through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// How long a call takes. The rank waits for the [`Effort`].
    Pilot(Pilot),
    /// A size is done.
    Point(Point),
    /// All are.
    Through,
}
