//! The rows as a picture: a panel for graphs and one for calls without, of each number of ranks.

use super::job::Job;
use super::message::Kind;
use super::row::{Found, OURS, Row};
use crate::bench::plot::{Dot, Form, Line, Panel, Picture};
use crate::bench::record::today;
use crate::engines::STAND_IN;

/// Our sums, those of peers and the flag round beneath them. What lacks guards is in the table.
pub fn of(job: &Job, all: &[Found]) -> Picture {
    let mut names: Vec<&str> = all
        .iter()
        .flat_map(|found| &found.gpus.ranks)
        .map(|gpu| gpu.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let names = if job.stand_in {
        STAND_IN.to_owned()
    } else {
        names.join(", ")
    };
    Picture {
        title: format!("All-reduce on GPUs, {}, by sum", job.dtype),
        subtitle: format!("{names}, {}; bars: to the 99th percentile", today()),
        values: "us a call, median of the slowest rank".into(),
        panels: all.iter().flat_map(panels).collect(),
    }
}

fn panels(found: &Found) -> impl Iterator<Item = Panel> {
    [(true, "graph"), (false, "eager")]
        .into_iter()
        .filter_map(|(graph, way)| {
            let mut panel = Panel {
                title: format!("{} ranks, {way}", found.ranks),
                lines: vec![],
            };
            let rows = found.rows.iter().filter(|row| row.graph == graph);
            rows.for_each(|row| add(&mut panel, row));
            (!panel.lines.is_empty()).then_some(panel)
        })
}

fn add(panel: &mut Panel, row: &Row) {
    let name = match row.variant {
        None if row.peer == OURS => OURS,
        None => &row.peer,
        Some(Kind::FlagRound) => Kind::FlagRound.words(),
        Some(Kind::Lanesum | Kind::NoHeader | Kind::NoDeadline | Kind::Bare | Kind::EmptyNode) => return,
    };
    let dot = Dot {
        bytes: row.bytes,
        us: row.us.p50,
        spread: Some((row.us.p50, row.us.p99)),
    };
    match panel.lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(dot),
        None => panel.lines.push(Line {
            name: name.to_owned(),
            form: Form::Course,
            points: vec![dot],
        }),
    }
}
