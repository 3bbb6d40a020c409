//! What a sum of files says in the end.

use std::path::Path;
use std::time::Duration;

use lanesum_plan::{AlgorithmName, Dtype, Engine, Operation};
use serde::Serialize;

use super::header::Header;
use super::message::RankReport;
use crate::progress::grouped;

/// What was summed, and how.
#[derive(Debug, Serialize)]
pub struct Report {
    output: String,
    operation: Operation,
    ranks: usize,
    tensors: u64,
    elements: u64,
    dtypes: Vec<Dtype>,
    /// Of the tensors of one file.
    bytes: u64,
    seconds: f64,
    gb_per_s: f64,
    engine: Engine,
    isa: String,
    algorithms: Vec<AlgorithmName>,
    calls: u64,
    tree: String,
}

impl Report {
    /// Of what rank 0 found; the others found the same.
    pub fn new(output: &Path, operation: Operation, header: &Header, ranks: &[RankReport], time: Duration) -> Self {
        let first = ranks.first();
        let tensors = &header.tensors;
        let bytes = tensors.iter().map(|tensor| tensor.end - tensor.begin).sum();
        let elements = |dtype: Dtype| {
            let of = tensors.iter().filter(move |tensor| tensor.dtype == dtype);
            of.map(move |tensor| (tensor.end - tensor.begin) / dtype.size() as u64)
        };
        let seconds = time.as_secs_f64();
        Self {
            output: output.display().to_string(),
            operation,
            ranks: ranks.len(),
            tensors: tensors.len() as u64,
            elements: Dtype::ALL.into_iter().flat_map(elements).sum(),
            dtypes: Dtype::ALL
                .into_iter()
                .filter(|&dtype| tensors.iter().any(|tensor| tensor.dtype == dtype))
                .collect(),
            bytes,
            seconds,
            gb_per_s: bytes as f64 * ranks.len() as f64 / 1e9 / seconds.max(f64::MIN_POSITIVE),
            engine: Engine::Host,
            isa: first.map(|report| report.isa.clone()).unwrap_or_default(),
            algorithms: first.map_or_else(Vec::new, |report| report.ran.iter().map(|ran| ran.algorithm).collect()),
            calls: first.map_or(0, |report| report.calls),
            tree: first.map(|report| report.tree.clone()).unwrap_or_default(),
        }
    }

    /// For people.
    pub fn lines(&self) -> String {
        let of = match self.operation {
            Operation::Sum => "sum",
            Operation::Max => "maximum",
            Operation::Min => "minimum",
        };
        let listed = |words: Vec<&str>| match words.is_empty() {
            true => "none: there was nothing to sum".to_owned(),
            false => words.join(", "),
        };
        let algorithms = self.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        let dtypes: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
        let dtypes = if dtypes.is_empty() {
            String::new()
        } else {
            format!(" of {}", dtypes.join(", "))
        };
        format!(
            "{}: the {of} of {} files\n\n  tensors     {}, {} elements{dtypes}, {} B\n  took        {:.2} s, {:.2} GB/s\n  \
             engine      {} ({}), shared buffers\n  algorithm   {}\n  order       {}\n",
            self.output,
            self.ranks,
            grouped(self.tensors),
            grouped(self.elements),
            grouped(self.bytes),
            self.seconds,
            self.gb_per_s,
            self.engine,
            self.isa,
            listed(algorithms),
            self.tree,
        )
    }
}
