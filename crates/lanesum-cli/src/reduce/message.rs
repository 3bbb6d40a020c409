//! What the parent gives a rank to do, and what the rank finds.

use std::ffi::OsString;

use lanesum_plan::Operation;
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
    /// The file whose order counts. Names of files need not be text.
    pub first: OsString,
    /// The file of this rank.
    pub own: OsString,
    /// The file to write to, which is there and begins with the first file's header.
    pub part: OsString,
    /// What the user calls it.
    pub output: OsString,
    /// How values become one.
    pub operation: Operation,
}

/// What one rank found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// What ran, each once, in the order in which it was first met; nothing where there was nothing to sum.
    pub ran: Vec<Ran>,
    /// Calls.
    pub calls: u64,
    /// The instructions that summed.
    pub isa: String,
    /// The order of the sums.
    pub tree: String,
}
