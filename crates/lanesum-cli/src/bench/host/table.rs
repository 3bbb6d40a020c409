//! The rows for people: for each size and regime, ours and then the peers from the fastest on.

use std::fmt::Write;

use super::job::Job;
use super::ledger::Found;
use super::round_trip::Regime;
use super::row::{OURS, Row};
use crate::bench::record::cpu_model;
use crate::progress::grouped;

/// The table of one number of ranks.
pub fn of(job: &Job, found: &Found, rows: &[Row], versions: &[(&str, String)]) -> String {
    let mut text = head(job, found, rows);
    for dtype in &job.dtypes {
        let of_dtype: Vec<&Row> = rows.iter().filter(|row| row.dtype == *dtype).collect();
        if !of_dtype.is_empty() && job.dtypes.len() > 1 {
            writeln!(text, "  {dtype}").unwrap_or_default();
        }
        for &bytes in &job.sizes {
            for regime in Regime::ALL {
                let of = |row: &&&Row| row.bytes == bytes && row.regime == regime;
                section(&mut text, &of_dtype.iter().filter(of).copied().collect::<Vec<_>>());
            }
        }
    }
    foot(&mut text, found, versions);
    text
}

fn head(job: &Job, found: &Found, rows: &[Row]) -> String {
    let mut text = format!(
        "bench: {} ranks in the host's memory, {}, {} rounds\n",
        found.ranks,
        job.dtypes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" and "),
        job.rounds
    );
    if let Some(without) = &job.without {
        writeln!(text, "not on GPUs: {without}").unwrap_or_default();
    }
    let model = cpu_model().unwrap_or_else(|| "a CPU without a name".into());
    let place = if job.pins(found.ranks) {
        "each rank on a CPU of its own"
    } else {
        "more ranks than CPUs"
    };
    writeln!(text, "{model}, {place}{}", flags(rows)).unwrap_or_default();
    text.push_str("us a call on the slowest rank, the median of the rounds in which the cores of ranks 0 and 1 were so far apart\n");
    writeln!(
        text,
        "\n  {:>11}  {:<8} {:<34} {:>9} {:>9}  {:<19} {:>6} {:>7}",
        "bytes", "cores", "", "p50 us", "p99 us", "p50 of the rounds", "rounds", "x peer"
    )
    .unwrap_or_default();
    text
}

/// `; flag round trip near 130 ns, far 480 ns`
fn flags(rows: &[Row]) -> String {
    let of = |regime: Regime| {
        let mut row = rows.iter().filter(|row| row.regime == regime);
        let flag = row.find_map(|row| row.round_trip_ns)?;
        Some(format!("{} {flag:.0} ns", regime.name()))
    };
    let told: Vec<String> = [Regime::Near, Regime::Far].into_iter().filter_map(of).collect();
    match told.as_slice() {
        [] => String::new(),
        told => format!("; flag round trip {}", told.join(", ")),
    }
}

/// What was timed at one size in one regime.
fn section(text: &mut String, rows: &[&Row]) {
    let (ours, mut peers): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.peer == OURS);
    peers.sort_by(|one, other| one.us.p50.total_cmp(&other.us.p50));
    for (index, row) in ours.iter().chain(&peers).enumerate() {
        let (bytes, regime) = match index {
            0 => (grouped(row.bytes), row.regime.name()),
            _ => (String::new(), ""),
        };
        let ratio = row.ratio_to_best_peer.map(|ratio| format!("{ratio:.2}"));
        let line = format!(
            "  {bytes:>11}  {regime:<8} {:<34} {:>9.2} {:>9.2}  {:<19} {:>6} {:>7}",
            name(row),
            row.us.p50,
            row.us.p99,
            format!("{:.2}..{:.2}", row.us.min, row.us.max),
            row.rounds,
            ratio.unwrap_or_default(),
        );
        writeln!(text, "{}", line.trim_end()).unwrap_or_default();
    }
}

fn name(row: &Row) -> String {
    match (&row.algorithm, row.peer) {
        (Some(algorithm), OURS) => format!("{OURS}, {} ({algorithm})", row.buffers),
        (Some(algorithm), peer) => format!("{peer} ({algorithm})"),
        (None, peer) => peer.to_owned(),
    }
}

fn foot(text: &mut String, found: &Found, versions: &[(&str, String)]) {
    text.push('\n');
    for (name, version) in versions.iter().filter(|(name, _)| *name != OURS) {
        writeln!(text, "  {name}: {version}").unwrap_or_default();
    }
    for missing in &found.missing {
        let dtype = missing.dtype.map_or_else(String::new, |dtype| format!(", {dtype}"));
        let bytes = missing
            .bytes
            .map_or_else(String::new, |bytes| format!(", {} bytes", grouped(bytes)));
        writeln!(text, "  not timed: {}{dtype}{bytes}: {}", missing.peer, missing.missing).unwrap_or_default();
    }
    text.push_str("  checked: every element of a sum before and after each turn, on every rank\n");
    text.push_str("  x peer: the median over that of the fastest peer, among rounds that are all near or all far\n\n");
}
