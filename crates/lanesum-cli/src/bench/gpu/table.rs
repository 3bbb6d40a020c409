//! The rows for people: for each size, our sum, what its guards cost, its floors, and the peers from the fastest on.

use std::fmt::Write;

use lanesum_plan::Path;

use super::job::Job;
use super::row::{Found, Missing, OURS, Row};
use crate::engines::STAND_IN;
use crate::progress::grouped;

/// The tables of one number of ranks.
pub fn of(job: &Job, found: &Found) -> String {
    let mut text = head(job, found);
    let mut sizes: Vec<u64> = found.rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        for graph in [true, false] {
            let of = |row: &&Row| row.bytes == bytes && row.graph == graph;
            section(&mut text, &found.rows.iter().filter(of).collect::<Vec<_>>());
        }
    }
    foot(&mut text, found);
    text
}

fn head(job: &Job, found: &Found) -> String {
    let mut text = String::new();
    if job.stand_in {
        text.push_str(&format!("{STAND_IN}\n"));
    }
    let mut names: Vec<&str> = found.gpus.ranks.iter().map(|gpu| gpu.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    text.push_str(&format!(
        "bench: {} ranks on {}, {}, {}\n",
        found.ranks,
        names.join(", "),
        job.dtype,
        efforts(found)
    ));
    text.push_str("us a call: the device's time for a replay on its slowest rank, divided by its calls\n");
    if found.gpus.shared() {
        text.push_str("ranks share a GPU: no link between GPUs is crossed, and without CUDA MPS they take turns of milliseconds\n");
    }
    text.push_str(&format!(
        "\n  {:>11}  {:<5}  {:<44} {:>9} {:>9} {:>8} {:>8}\n",
        "bytes", "", "", "p50 us", "p99 us", "x floor", "x peer"
    ));
    text
}

/// `122 calls a replay, 100 replays`, with the sizes where they differ.
fn efforts(found: &Found) -> String {
    let words = |calls: u32, replays: u32| format!("{calls} calls a replay, {replays} replays");
    let mut kinds: Vec<((u32, u32), Vec<String>)> = Vec::new();
    for (bytes, effort) in &found.efforts {
        let kind = (effort.calls, effort.replays);
        match kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, sizes)) => sizes.push(grouped(*bytes)),
            None => kinds.push((kind, vec![grouped(*bytes)])),
        }
    }
    match kinds.as_slice() {
        [((calls, replays), _)] => words(*calls, *replays),
        several => several
            .iter()
            .map(|((calls, replays), sizes)| format!("\n  {} at {}", words(*calls, *replays), sizes.join("; ")))
            .collect(),
    }
}

/// What was timed at one size in one way.
fn section(text: &mut String, rows: &[&Row]) {
    let (ours, mut peers): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.peer == OURS);
    peers.sort_by(|one, other| one.us.p50.total_cmp(&other.us.p50));
    let best = peers.first().map(|row| row.us.p50);
    for (index, row) in ours.iter().chain(&peers).enumerate() {
        let (bytes, way) = match (index, row.graph) {
            (0, true) => (grouped(row.bytes), "graph"),
            (0, false) => (grouped(row.bytes), "eager"),
            (_, _) => (String::new(), ""),
        };
        let against = best.filter(|_| row.peer == OURS && row.variant.is_none());
        let line = format!(
            "  {bytes:>11}  {way:<5}  {:<44} {:>9.2} {:>9.2} {:>8} {:>8}",
            name(row),
            row.us.p50,
            row.us.p99,
            ratio(row.ratio_to_floor),
            ratio(against.map(|best| row.us.p50 / best)),
        );
        writeln!(text, "{}", line.trim_end()).unwrap_or_default();
    }
}

fn name(row: &Row) -> String {
    let mut name = match (row.variant, &row.algorithm) {
        (Some(kind), _) => format!("  {}", kind.words()),
        (None, Some(algorithm)) if row.path == Some(Path::HostStaged) => {
            format!("{} ({algorithm}, {})", row.peer, Path::HostStaged)
        }
        (None, Some(algorithm)) if algorithm != "default" => format!("{} ({algorithm})", row.peer),
        (None, Some(_) | None) => row.peer.clone(),
    };
    if row.checked == Some(false) {
        name.push_str(" WRONG");
    }
    name
}

fn ratio(value: Option<f64>) -> String {
    value
        .filter(|value| value.is_finite())
        .map_or(String::new(), |value| format!("{value:.2}"))
}

fn foot(text: &mut String, found: &Found) {
    let lacks = |text: &mut String, what: &Missing, sizes: &str| {
        let whose = what.variant.map_or(what.peer.as_str(), |kind| kind.words());
        writeln!(text, "  not timed: {whose}{sizes}: {}", what.missing).unwrap_or_default();
    };
    text.push('\n');
    let shares = found.rows.iter().filter(|row| row.variant.is_none()).filter_map(|row| {
        let way = if row.graph { "graph" } else { "eager" };
        let percent = 100.0 * row.copy_engine_share?;
        Some(format!("{percent:.0} % at {}, {way}", grouped(row.bytes)))
    });
    let shares: Vec<String> = shares.collect();
    if !shares.is_empty() {
        writeln!(
            text,
            "  part of the time that copy engines would take: {}",
            shares.join("; ")
        )
        .unwrap_or_default();
    }
    let mut told: Vec<&Missing> = Vec::new();
    for missing in &found.missing {
        let same = |other: &&Missing| {
            (&other.peer, other.variant, &other.missing) == (&missing.peer, missing.variant, &missing.missing)
        };
        if told.iter().any(same) {
            continue;
        }
        told.push(missing);
        let sizes: Vec<String> = found
            .missing
            .iter()
            .filter(same)
            .filter_map(|other| other.bytes)
            .map(grouped)
            .collect();
        let sizes = if sizes.is_empty() {
            String::new()
        } else {
            format!(" at {}", sizes.join("; "))
        };
        lacks(text, missing, &sizes);
    }
    match &found.wrong {
        None => text.push_str(
            "  checked: all of our results have the oracle's bits, and peers are right to their own rounding\n\n",
        ),
        Some((_, what)) => text.push_str(&format!("  WRONG: {what}\n\n")),
    }
}

#[cfg(test)]
mod tests;
