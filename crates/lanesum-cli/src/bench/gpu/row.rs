//! What the ranks found, put together: one row for everything that was timed.

use lanesum_plan::{Dtype, Gpus, Path};
use serde::Serialize;

use super::job::Job;
use super::message::{Effort, Kind, Point, Timed};
use super::peers::PeerRow;
use crate::bench::record::without_folders;
use crate::bench::statistics::quantiles;
use crate::errors::CliError;
use crate::ranks::copy_engines;
use crate::ranks::message::Quantiles;

/// The name under which our own rows stand beside those of peers.
pub const OURS: &str = "lanesum";

/// What a line of JSON is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// Our sums.
    Row,
    /// Our sums without some guard.
    Guard,
    /// What no sum can be faster than.
    Floor,
    /// Sums of other people.
    Peer,
    /// What was not timed.
    Missing,
}

impl LineKind {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Lanesum => Self::Row,
            Kind::NoHeader | Kind::NoDeadline | Kind::Bare => Self::Guard,
            Kind::FlagRound | Kind::EmptyNode => Self::Floor,
        }
    }
}

/// One thing at one size: an object of the JSON lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub kind: LineKind,
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
    /// Calls of a replay.
    pub calls: u32,
    /// Replays that count.
    pub replays: u32,
    /// Microseconds a call.
    pub us: Quantiles,
    /// The median flag round of the same run and size, for what comes from a graph.
    pub floor_us: Option<f64>,
    /// The median over it.
    pub ratio_to_floor: Option<f64>,
    /// What the copy engines would take for the bytes, as a part of this time; for our sums through host memory.
    pub copy_engine_share: Option<f64>,
    /// Whether all results were right, before and after they were timed; nothing where there are none.
    pub checked: Option<bool>,
    /// The largest error of a peer, as a part of the magnitudes that were added. Ours has none.
    pub max_error: Option<f64>,
    /// Whether something stood in for the CUDA driver. Times mean nothing then.
    pub stand_in: bool,
}

/// Something that was not timed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What it is.
    pub kind: LineKind,
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
    /// How much was made of each size, by its bytes.
    pub efforts: Vec<(u64, Effort)>,
    /// What was timed.
    pub rows: Vec<Row>,
    /// What was not.
    pub missing: Vec<Missing>,
    /// The first of our results that is not the oracle's: of which rank, and how it differs.
    pub wrong: Option<(usize, String)>,
}

impl Found {
    /// Before anything was found.
    pub fn new(ranks: usize) -> Self {
        Self {
            ranks,
            gpus: Gpus::new(vec![]),
            efforts: vec![],
            rows: vec![],
            missing: vec![],
            wrong: None,
        }
    }

    /// Whether anything was found.
    pub fn is_something(&self) -> bool {
        !self.rows.is_empty() || !self.missing.is_empty()
    }

    /// Adds a row of a peer, whose floor is ours.
    pub fn add_peer(&mut self, job: &Job, effort: &Effort, row: PeerRow) {
        let floor_us = self.floor(row.bytes, row.graph);
        self.rows.push(of_peer(job, (self.ranks, effort), floor_us, row));
    }

    /// Adds what was not timed of a peer. The reason may name files of this machine, which nobody else has.
    pub fn lacks_peer(&mut self, peer: &str, bytes: Option<u64>, reason: &str) {
        self.missing.push(Missing {
            kind: LineKind::Missing,
            peer: peer.to_owned(),
            variant: None,
            ranks: self.ranks,
            bytes,
            missing: without_folders(reason),
        });
    }

    /// The median flag round at a size; without a graph nothing of the kind is measured.
    fn floor(&self, bytes: u64, graph: bool) -> Option<f64> {
        let floor = |row: &&Row| row.variant == Some(Kind::FlagRound) && row.bytes == bytes;
        self.rows.iter().find(floor).filter(|_| graph).map(|row| row.us.p50)
    }

    /// The objects behind so many rows and missing things, one a line.
    pub fn lines_from(&self, (rows, missing): (usize, usize)) -> Result<Vec<String>, CliError> {
        let rows = self.rows.iter().skip(rows).map(serde_json::to_string);
        let missing = self.missing.iter().skip(missing).map(serde_json::to_string);
        Ok(rows.chain(missing).collect::<Result<_, _>>()?)
    }
}

fn of_peer(job: &Job, (ranks, effort): (usize, &Effort), floor_us: Option<f64>, row: PeerRow) -> Row {
    let replays = u32::try_from(row.us.len()).unwrap_or(u32::MAX);
    let us = quantiles(row.us);
    Row {
        kind: LineKind::Peer,
        engine: "cuda",
        peer: row.peer,
        path: None,
        algorithm: row.choice,
        graph: row.graph,
        variant: None,
        ranks,
        bytes: row.bytes,
        dtype: job.dtype,
        calls: effort.calls,
        replays,
        us,
        floor_us,
        ratio_to_floor: floor_us.map(|floor| us.p50 / floor),
        copy_engine_share: None,
        checked: Some(true),
        max_error: Some(row.max_error),
        stand_in: job.stand_in,
    }
}

impl Found {
    /// Puts together what all ranks have found of one size; if that is of different things, says how.
    pub fn add_size(&mut self, job: &Job, effort: &Effort, points: &[Point]) -> Result<(), String> {
        let Some((first, others)) = points.split_first() else {
            return Err("there are no ranks".into());
        };
        let what = |point: &Point| (point.ran, point.bytes);
        if let Some(other) = others.iter().find(|other| what(other) != what(first)) {
            return Err(format!("{:?} and {:?}", what(first), what(other)));
        }
        let begin = self.rows.len();
        let copy_rate = points.iter().filter_map(|point| point.copy_rate).reduce(f64::min);
        for (index, timed) in first.timed.iter().enumerate() {
            let mut slowest = vec![0.0; effort.replays as usize];
            let mut wrong = None;
            for (rank, point) in points.iter().enumerate() {
                let same = |other: &&Timed| {
                    (other.kind, other.graph, other.us.len()) == (timed.kind, timed.graph, slowest.len())
                };
                let one = point.timed.get(index).filter(same);
                let one = one.ok_or_else(|| format!("rank {rank} did not time {:?} as often", timed.kind))?;
                let pairs = slowest.iter_mut().zip(&one.us);
                pairs.for_each(|(all, one): (&mut f64, &f64)| *all = all.max(*one));
                wrong = wrong.or(one.wrong.as_ref().map(|what| (rank, what)));
            }
            if let Some((rank, what)) = wrong {
                let way = if timed.graph { "graph" } else { "eager" };
                let told = format!(
                    "{} bytes, {way}, {}, rank {rank}: {what}",
                    first.bytes,
                    timed.kind.words()
                );
                self.wrong.get_or_insert((rank, told));
            }
            let us = quantiles(slowest);
            self.rows.push(Row {
                kind: LineKind::of(timed.kind),
                engine: "cuda",
                peer: OURS.into(),
                path: Some(first.ran.path).filter(|_| timed.kind != Kind::EmptyNode),
                algorithm: Some(first.ran.algorithm.to_string()).filter(|_| timed.kind.sums()),
                graph: timed.graph,
                variant: Some(timed.kind).filter(|kind| *kind != Kind::Lanesum),
                ranks: self.ranks,
                bytes: first.bytes,
                dtype: job.dtype,
                calls: effort.calls,
                replays: effort.replays,
                us,
                floor_us: None,
                ratio_to_floor: None,
                copy_engine_share: copy_rate
                    .filter(|_| timed.kind.sums())
                    .map(|rate| copy_engines::share((first.bytes, self.ranks), us.p50, rate)),
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
            kind: LineKind::Missing,
            peer: OURS.into(),
            variant: Some(*kind),
            ranks: self.ranks,
            bytes: Some(first.bytes),
            missing: without_folders(reason),
        }));
        Ok(())
    }
}
