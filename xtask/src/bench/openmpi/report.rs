//! What the points come to: medians by engine and state of the machine, and ratios within a state.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::Row;
use super::engine::Engine;
use crate::bench::round_trip::Distance;
use crate::bench::statistics::median;

/// One engine at one size in one state of the machine.
#[derive(Debug, PartialEq, Serialize)]
pub struct Line {
    pub ranks: u32,
    pub bytes: u64,
    pub distance: Distance,
    pub engine: Engine,
    pub points: usize,
    /// The median over the rounds of the slowest rank's median.
    pub median_us: f64,
    pub p99_us: f64,
    /// lanesum's median divided by this engine's: below one lanesum is faster. Null in the states
    /// `moved` and `busy`, and where lanesum has no point in this state.
    pub lanesum_ratio: Option<f64>,
}

/// Sorted by size, then state, then engine.
pub fn summarise(rows: &[Row]) -> Vec<Line> {
    let mut groups: BTreeMap<(u64, Distance, Engine), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = (row.bytes, row.distance, row.engine);
        groups.entry(key).or_default().push(row);
    }
    let lanesum_median = |bytes, distance| match distance {
        Distance::Moved | Distance::Busy => None,
        Distance::Near | Distance::Far | Distance::OneCore => groups
            .get(&(bytes, distance, Engine::Lanesum))
            .and_then(|rows| median(rows.iter().map(|row| row.median_us))),
    };
    groups
        .iter()
        .filter_map(|(&(bytes, distance, engine), rows)| {
            let median_us = median(rows.iter().map(|row| row.median_us))?;
            Some(Line {
                ranks: rows.first()?.ranks,
                bytes,
                distance,
                engine,
                points: rows.len(),
                median_us,
                p99_us: median(rows.iter().map(|row| row.p99_us))?,
                lanesum_ratio: lanesum_median(bytes, distance).map(|lanesum| lanesum / median_us),
            })
        })
        .collect()
}

/// The summary for people.
pub fn table(summary: &[Line]) -> String {
    let mut text = format!(
        "{:>5} {:>10}  {:<8} {:<14} {:>6} {:>10} {:>10}  {}\n",
        "ranks", "bytes", "cores", "engine", "points", "median us", "p99 us", "lanesum / engine"
    );
    for line in summary {
        let ratio = match line.lanesum_ratio {
            Some(ratio) => format!("{ratio:.2}"),
            None => "-".to_owned(),
        };
        // Writing to a string cannot fail.
        let _written = writeln!(
            text,
            "{:>5} {:>10}  {:<8} {:<14} {:>6} {:>10.2} {:>10.2}  {ratio}",
            line.ranks,
            line.bytes,
            line.distance.name(),
            line.engine.name(),
            line.points,
            line.median_us,
            line.p99_us,
        );
    }
    text
}

/// One point as it is measured.
pub fn progress(row: &Row, rounds: u32) -> String {
    let flag = match row.flag_round_trip_ns {
        [Some(before), Some(after)] => format!("flag {before:.0} and {after:.0} ns"),
        [_, _] => "one core".to_owned(),
    };
    format!(
        "round {}/{rounds}  {:>10} B  {:<14} {:>9.2} us  ({flag})",
        row.round + 1,
        row.bytes,
        row.engine.name(),
        row.median_us,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: Engine, distance: Distance, median_us: f64) -> Row {
        Row {
            round: 0,
            engine,
            ranks: 2,
            bytes: 43_008,
            distance,
            flag_round_trip_ns: [Some(130.0), Some(130.0)],
            calls: 1,
            median_us,
            p99_us: median_us,
            algorithm: None,
        }
    }

    #[test]
    fn only_points_of_one_state_are_compared() {
        let summary = summarise(&[
            row(Engine::Lanesum, Distance::Near, 4.0),
            row(Engine::Lanesum, Distance::Far, 9.0),
            row(Engine::OpenmpiUcx, Distance::Near, 8.0),
            row(Engine::OpenmpiUcx, Distance::Moved, 1.0),
        ]);
        let ratios: Vec<_> = summary
            .iter()
            .filter(|line| line.engine == Engine::OpenmpiUcx)
            .map(|line| (line.distance, line.lanesum_ratio))
            .collect();
        assert_eq!(ratios, [(Distance::Near, Some(0.5)), (Distance::Moved, None)]);
        assert!(table(&summary).contains("0.50"));
    }
}
