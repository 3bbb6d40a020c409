//! The rows as a picture: a panel for each regime of each number of ranks and each type.

use lanesum_plan::Dtype;

use super::round_trip::Regime;
use super::row::{OURS, Row};
use crate::bench::plot::{Dot, Form, Line, Panel, Picture};
use crate::bench::record::{cpu_model, today};

/// All rows of regimes that compare; of the others what is nowhere else.
pub fn of(rows: &[Row]) -> Picture {
    let key = |row: &Row| (row.ranks, row.dtype, row.bytes, row.peer, row.buffers);
    let elsewhere = |row: &Row| {
        let same = |other: &Row| other.regime.compares() && key(other) == key(row);
        rows.iter().any(same)
    };
    let mut panels: Vec<((usize, Dtype, Regime), Panel)> = Vec::new();
    for row in rows.iter().filter(|row| row.regime.compares() || !elsewhere(row)) {
        let key = (row.ranks, row.dtype, row.regime);
        let place = panels.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            panels.push((
                key,
                Panel {
                    title: format!("{} ranks, {}, {}", row.ranks, row.dtype, words(row.regime)),
                    lines: vec![],
                },
            ));
            panels.len() - 1
        });
        add(&mut panels[place].1, row);
    }
    panels.sort_by_key(|(key, _)| *key);
    Picture {
        title: "All-reduce in the host's memory, by sum, in place".into(),
        subtitle: format!(
            "{}, {}; bars: from the fastest to the slowest round",
            cpu_model().unwrap_or_else(|| "a CPU without a name".into()),
            today()
        ),
        values: "us a call, median of the slowest rank".into(),
        panels: panels.into_iter().map(|(_, panel)| panel).collect(),
    }
}

fn words(regime: Regime) -> &'static str {
    match regime {
        Regime::Near => "cores near each other",
        Regime::Far => "cores far from each other",
        Regime::Moved => "cores that moved",
        Regime::Busy => "busy cores",
        Regime::OneCore => "one core",
    }
}

fn add(panel: &mut Panel, row: &Row) {
    let name = match row.peer {
        OURS => format!("{OURS}, {} buffers", row.buffers),
        peer => peer.to_owned(),
    };
    let dot = Dot {
        bytes: row.bytes,
        us: row.us.p50,
        spread: Some((row.us.min, row.us.max)),
    };
    match panel.lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(dot),
        None => panel.lines.push(Line {
            name,
            form: Form::Course,
            points: vec![dot],
        }),
    }
}
