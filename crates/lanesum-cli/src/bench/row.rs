//! What the ranks found, put together: one row for everything that was timed.

use lanesum_plan::{Dtype, Gpus, Path};
use serde::Serialize;

use super::job::Job;
use super::message::{BenchReport, Kind, Point};
use super::peers::{PeerRow, PeersFound};
use crate::errors::CliError;
use crate::ranks::message::Quantiles;

/// The name under which our own rows stand beside those of peers.
pub const OURS: &str = "lanesum";

/// One thing at one size: an object of the JSON lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What executed the sums.
    pub engine: &'static str,
    /// Whose they are.
    pub peer: String,
    /// How bytes reach the other ranks, where we know.
    pub path: Option<Path>,
    /// Which algorithm ran; of a peer, which of its own ways.
    pub algorithm: Option<String>,
    /// Whether from a graph.
    pub graph: bool,
    /// Which variant of ours, if it is one.
    pub variant: Option<Kind>,
    /// How many ranks.
    pub ranks: usize,
    /// Bytes that each brings.
    pub bytes: u64,
    /// The type of an element.
    pub dtype: Dtype,
    /// Microseconds a call.
    pub us: Quantiles,
    /// The median flag round of the same run and size, for what comes from a graph.
    pub floor_us: Option<f64>,
    /// The median over it.
    pub ratio_to_floor: Option<f64>,
    /// Whether all results were right; nothing where there are none.
    pub checked: Option<bool>,
    /// The largest error of a peer, as a part of the magnitudes that were added. Ours has none.
    pub max_error: Option<f64>,
    /// Whether something stood in for the CUDA driver. Times mean nothing then.
    pub stand_in: bool,
}

/// Something that was not timed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Whose it is.
    pub peer: String,
    /// Which variant of ours, if it is one.
    pub variant: Option<Kind>,
    /// How many ranks.
    pub ranks: usize,
    /// At which size, if not at all.
    pub bytes: Option<u64>,
    /// Why.
    pub missing: String,
}

/// Everything about one number of ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// How many ranks.
    pub ranks: usize,
    /// The GPU of each.
    pub gpus: Gpus,
    /// What was timed.
    pub rows: Vec<Row>,
    /// What was not.
    pub missing: Vec<Missing>,
    /// The first of our results that is not the oracle's.
    pub wrong: Option<String>,
}

impl Found {
    /// Adds the peers, whose floor is ours.
    pub fn add(&mut self, job: &Job, peers: PeersFound) {
        for row in peers.rows {
            let floor_us = self.floor(row.bytes, row.graph);
            self.rows.push(of_peer(job, self.ranks, floor_us, row));
        }
        self.missing.extend(peers.missing);
    }

    /// The median flag round at a size; without a graph nothing of the kind is measured.
    fn floor(&self, bytes: u64, graph: bool) -> Option<f64> {
        let floor = |row: &&Row| row.variant == Some(Kind::FlagRound) && row.bytes == bytes;
        self.rows.iter().find(floor).filter(|_| graph).map(|row| row.us.p50)
    }

    /// The objects, one a line.
    pub fn lines(&self) -> Result<Vec<String>, CliError> {
        let rows = self.rows.iter().map(serde_json::to_string);
        let missing = self.missing.iter().map(serde_json::to_string);
        Ok(rows.chain(missing).collect::<Result<_, _>>()?)
    }
}

fn of_peer(job: &Job, ranks: usize, floor_us: Option<f64>, row: PeerRow) -> Row {
    let us = quantiles(row.us);
    Row {
        engine: "cuda",
        peer: row.peer,
        path: None,
        algorithm: row.choice,
        graph: row.graph,
        variant: None,
        ranks,
        bytes: row.bytes,
        dtype: job.dtype,
        us,
        floor_us,
        ratio_to_floor: floor_us.map(|floor| us.p50 / floor),
        checked: Some(true),
        max_error: Some(row.max_error),
        stand_in: job.stand_in,
    }
}

/// Puts the reports of all ranks together; if they are of different things, says how.
pub fn rows_of(job: &Job, ranks: usize, reports: &[BenchReport]) -> Result<Found, String> {
    let mut found = Found {
        ranks,
        gpus: Gpus {
            ranks: reports.iter().filter_map(|report| report.gpu.clone()).collect(),
            peers: vec![],
        },
        rows: vec![],
        missing: vec![],
        wrong: None,
    };
    for size in 0..job.sizes.len() {
        let points: Option<Vec<&Point>> = reports.iter().map(|report| report.points.get(size)).collect();
        let points = points.ok_or_else(|| format!("a rank left out size {size}"))?;
        found.add_size(job, &points)?;
    }
    Ok(found)
}

impl Found {
    fn add_size(&mut self, job: &Job, points: &[&Point]) -> Result<(), String> {
        let Some((first, others)) = points.split_first() else {
            return Err("there are no ranks".into());
        };
        if let Some(other) = others.iter().find(|other| other.ran != first.ran) {
            return Err(format!("{:?} and {:?}", first.ran, other.ran));
        }
        let begin = self.rows.len();
        for (index, timed) in first.timed.iter().enumerate() {
            let mut slowest = timed.us.clone();
            let mut wrong = timed.wrong.as_ref().map(|what| (0, what));
            for (rank, other) in others.iter().enumerate() {
                let other = other
                    .timed
                    .get(index)
                    .filter(|other| (other.kind, other.graph) == (timed.kind, timed.graph));
                let other = other.ok_or_else(|| format!("rank {} did not time {:?}", rank + 1, timed.kind))?;
                slowest = slowest
                    .iter()
                    .zip(&other.us)
                    .map(|(one, other)| one.max(*other))
                    .collect();
                wrong = wrong.or(other.wrong.as_ref().map(|what| (rank + 1, what)));
            }
            if let Some((rank, what)) = wrong {
                let told = || format!("{} bytes, {}, rank {rank}: {what}", first.bytes, timed.kind.words());
                self.wrong.get_or_insert_with(told);
            }
            let plain = timed.kind == Kind::Lanesum;
            self.rows.push(Row {
                engine: "cuda",
                peer: OURS.into(),
                path: Some(first.ran.path).filter(|_| timed.kind != Kind::EmptyNode),
                algorithm: Some(first.ran.algorithm.to_string()).filter(|_| timed.kind.sums()),
                graph: timed.graph,
                variant: Some(timed.kind).filter(|_| !plain),
                ranks: self.ranks,
                bytes: first.bytes,
                dtype: job.dtype,
                us: quantiles(slowest),
                floor_us: None,
                ratio_to_floor: None,
                checked: timed.kind.sums().then_some(wrong.is_none()),
                max_error: None,
                stand_in: job.stand_in,
            });
        }
        let floor = self.floor(first.bytes, true);
        for row in self.rows[begin..].iter_mut().filter(|row| row.graph) {
            row.floor_us = floor;
            row.ratio_to_floor = floor.map(|floor| row.us.p50 / floor);
        }
        self.missing.extend(first.missing.iter().map(|(kind, reason)| Missing {
            peer: OURS.into(),
            variant: Some(*kind),
            ranks: self.ranks,
            bytes: Some(first.bytes),
            missing: reason.clone(),
        }));
        Ok(())
    }
}

/// Nearest ranks: the least value that half, or 99 of 100, do not exceed.
fn quantiles(mut values: Vec<f64>) -> Quantiles {
    values.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let index = (values.len() * percent).div_ceil(100).max(1) - 1;
        values.get(index).copied().unwrap_or_default()
    };
    Quantiles {
        p50: at(50),
        p99: at(99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantiles(hundred), Quantiles { p50: 50.0, p99: 99.0 });
        assert_eq!(quantiles(vec![3.0]), Quantiles { p50: 3.0, p99: 3.0 });
        assert_eq!(quantiles(vec![]), Quantiles { p50: 0.0, p99: 0.0 });
    }
}
