//! What was found: points, one a turn, and rows, which put the rounds of one regime together.

use std::collections::BTreeMap;

use lanesum_plan::{Buffers, Dtype, Path};
use serde::Serialize;

use super::peers::NAMES;
use super::round_trip::Regime;
use super::said::Timed;
use crate::bench::statistics::{Spread, in_tenths};

/// The name under which our own rows stand beside those of peers.
pub const OURS: &str = "lanesum";

/// What had a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct What {
    /// Whose.
    pub peer: &'static str,
    /// Where elements lie.
    pub buffers: Buffers,
    /// Their type.
    pub dtype: Dtype,
    /// Bytes that each rank brings.
    pub bytes: u64,
}

/// One turn that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Whose it was.
    pub what: What,
    /// In which round, from 1 on.
    pub round: u32,
    /// Where the cores were.
    pub regime: Regime,
    /// Before and after it.
    pub round_trip_ns: [Option<f64>; 2],
    /// Timed calls.
    pub calls: u32,
    /// How long they took.
    pub timed: Timed,
}

/// Microseconds a call: the middle of the rounds' medians, and how they lie around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Us {
    /// The median over the rounds of their medians.
    pub p50: f64,
    /// The median over the rounds of their 99th percentiles.
    pub p99: f64,
    /// The least median of a round.
    pub min: f64,
    /// A quarter of the rounds have at most this median.
    pub q1: f64,
    /// Three quarters have.
    pub q3: f64,
    /// The largest median of a round.
    pub max: f64,
}

/// One engine at one size in one regime: an object of the JSON lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    kind: &'static str,
    /// What executed the sums.
    engine: &'static str,
    /// Whose they are.
    pub peer: &'static str,
    path: Path,
    /// Which algorithm ran, where the engine tells.
    pub algorithm: Option<String>,
    /// Where the elements were.
    pub buffers: Buffers,
    /// How many ranks.
    pub ranks: usize,
    /// Bytes that each brings.
    pub bytes: u64,
    /// The type of an element.
    pub dtype: Dtype,
    /// Where the cores of ranks 0 and 1 were.
    pub regime: Regime,
    /// How long it took.
    pub us: Us,
    /// Rounds in this regime.
    pub rounds: usize,
    /// Timed calls of all these rounds.
    pub calls: u64,
    /// The median of the flag round trips before and after these turns.
    pub round_trip_ns: Option<f64>,
    /// The median over that of the fastest peer in the same regime.
    pub ratio_to_best_peer: Option<f64>,
    /// Sums are checked before and after each turn; what is wrong has no row.
    checked: bool,
}

/// Something that was not timed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    kind: &'static str,
    engine: &'static str,
    /// Whose.
    pub peer: &'static str,
    /// How many ranks.
    pub ranks: usize,
    /// Of which type, if not of all.
    pub dtype: Option<Dtype>,
    /// At which size, if not at all.
    pub bytes: Option<u64>,
    /// Why.
    pub missing: String,
}

impl Missing {
    /// With so many ranks.
    pub fn new(peer: &'static str, ranks: usize, of: Option<(Dtype, Option<u64>)>, missing: String) -> Self {
        Self {
            kind: "missing",
            engine: "host",
            peer,
            ranks,
            dtype: of.map(|(dtype, _)| dtype),
            bytes: of.and_then(|(_, bytes)| bytes),
            missing,
        }
    }
}

/// Rows by type, size and regime; within these ours first.
pub fn summarised(ranks: usize, points: &[Point]) -> Vec<Row> {
    let mut groups: BTreeMap<_, Vec<&Point>> = BTreeMap::new();
    for point in points {
        let peer = NAMES.iter().position(|name| *name == point.what.peer);
        let place = (peer, point.what.buffers != Buffers::Private);
        let dtype = Dtype::ALL.iter().position(|dtype| *dtype == point.what.dtype);
        let key = (dtype, point.what.bytes, point.regime, place);
        groups.entry(key).or_default().push(point);
    }
    let mut rows: Vec<Row> = groups.values().filter_map(|points| row(ranks, points)).collect();
    let peers: Vec<(Dtype, u64, Regime, f64)> = rows
        .iter()
        .filter(|row| row.peer != OURS && row.regime.compares())
        .map(|row| (row.dtype, row.bytes, row.regime, row.us.p50))
        .collect();
    for row in &mut rows {
        let same = |peer: &&(Dtype, u64, Regime, f64)| (peer.0, peer.1, peer.2) == (row.dtype, row.bytes, row.regime);
        let best = peers.iter().filter(same).map(|peer| peer.3).reduce(f64::min);
        row.ratio_to_best_peer = best.map(|best| row.us.p50 / best);
    }
    rows
}

fn row(ranks: usize, points: &[&Point]) -> Option<Row> {
    let first = points.first()?;
    let medians = Spread::of(points.iter().map(|point| point.timed.p50))?;
    let tails = Spread::of(points.iter().map(|point| point.timed.p99))?;
    let flags = points.iter().flat_map(|point| point.round_trip_ns).flatten();
    Some(Row {
        kind: "row",
        engine: "host",
        peer: first.what.peer,
        path: Path::SharedMemory,
        algorithm: first.timed.algorithm.clone(),
        buffers: first.what.buffers,
        ranks,
        bytes: first.what.bytes,
        dtype: first.what.dtype,
        regime: first.regime,
        us: Us {
            p50: in_tenths(medians.median),
            p99: in_tenths(tails.median),
            min: in_tenths(medians.min),
            q1: in_tenths(medians.q1),
            q3: in_tenths(medians.q3),
            max: in_tenths(medians.max),
        },
        rounds: points.len(),
        calls: points.iter().map(|point| u64::from(point.calls)).sum(),
        round_trip_ns: Spread::of(flags).map(|flags| flags.median.round()),
        ratio_to_best_peer: None,
        checked: true,
    })
}

#[cfg(test)]
impl Point {
    /// Of 42 KiB in private buffers, 100 calls, with a tail twice as long as the median.
    pub fn made_up(peer: &'static str, regime: Regime, p50: f64) -> Self {
        Self {
            what: What {
                peer,
                buffers: Buffers::Private,
                dtype: Dtype::F32,
                bytes: 43_008,
            },
            round: 1,
            regime,
            round_trip_ns: [Some(130.0), Some(140.0)],
            calls: 100,
            timed: Timed {
                p50,
                p99: 2.0 * p50,
                algorithm: (peer == OURS).then(|| "one_shot_pull".into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rounds_of_one_regime_are_put_together_and_compared() {
        let rows = summarised(
            2,
            &[
                Point::made_up(OURS, Regime::Near, 4.0),
                Point::made_up(OURS, Regime::Near, 6.0),
                Point::made_up("impi", Regime::Near, 10.0),
                Point::made_up("mpich", Regime::Near, 20.0),
                Point::made_up(OURS, Regime::Far, 9.0),
                Point::made_up("impi", Regime::Moved, 1.0),
                Point::made_up(OURS, Regime::Moved, 1.0),
            ],
        );
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.peer, row.regime, row.us.p50, row.ratio_to_best_peer))
            .collect();
        assert_eq!(
            found,
            [
                (OURS, Regime::Near, 5.0, Some(0.5)),
                ("mpich", Regime::Near, 20.0, Some(2.0)),
                ("impi", Regime::Near, 10.0, Some(1.0)),
                (OURS, Regime::Far, 9.0, None),
                (OURS, Regime::Moved, 1.0, None),
                ("impi", Regime::Moved, 1.0, None),
            ]
        );
        let first = &rows[0];
        assert_eq!((first.rounds, first.calls, first.round_trip_ns), (2, 200, Some(135.0)));
        assert_eq!((first.us.min, first.us.max, first.us.p99), (4.0, 6.0, 10.0));
    }
}
