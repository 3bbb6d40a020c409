//! The rows for people: for each size and regime, ours and then the peers from the fastest on.

use std::fmt::Write;

use super::job::Job;
use super::ledger::{Found, Met};
use super::round_trip::Regime;
use super::row::{OURS, Row};
use crate::bench::record::cpu_model;
use crate::progress::grouped;

/// The table of one number of ranks.
pub fn of(job: &Job, found: &Found, rows: &[Row], engines: &[Met]) -> String {
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
    foot(&mut text, found, engines);
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
    text.push_str("us a call, the largest of the ranks' medians; of that the median of the rounds in which the cores of ranks 0 and 1 were so far apart\n");
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
        let places = |ratio: f64| if ratio < 0.1 { 4 } else { 2 };
        let ratio = row.ratio_to_best_peer.map(|ratio| format!("{ratio:.*}", places(ratio)));
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

fn foot(text: &mut String, found: &Found, engines: &[Met]) {
    text.push('\n');
    for met in engines.iter().filter(|met| met.name != OURS) {
        writeln!(text, "  {}: {}", met.name, met.version).unwrap_or_default();
    }
    for missing in &found.missing {
        let dtype = missing.dtype.map_or_else(String::new, |dtype| format!(", {dtype}"));
        let bytes = missing
            .bytes
            .map_or_else(String::new, |bytes| format!(", {} bytes", grouped(bytes)));
        writeln!(text, "  not timed: {}{dtype}{bytes}: {}", missing.peer, missing.missing).unwrap_or_default();
    }
    text.push_str("  checked: every element of a sum before and after each turn, on every rank\n");
    text.push_str("  x peer: the median over that of the fastest peer, among rounds of the same cores: all near, all far or all on one_core\n\n");
}

#[cfg(test)]
mod tests {
    use lanesum_plan::Dtype;

    use super::*;
    use crate::bench::host::row::{Missing, Point};

    #[test]
    fn ours_stand_first_and_peers_from_the_fastest_on() {
        let found = Found {
            ranks: 3,
            points: vec![
                Point::made_up("mpich", Regime::Near, 8.0),
                Point::made_up("impi", Regime::Near, 4.0),
                Point::made_up(OURS, Regime::Near, 5.0),
                Point::made_up(OURS, Regime::Busy, 50.0),
            ],
            missing: vec![Missing::new(
                "gloo",
                3,
                Some((Dtype::F32, Some(43_008))),
                "it hangs".into(),
            )],
        };
        let engines = [Met {
            name: "impi",
            version: "Intel(R) MPI 1".into(),
            started: "mpiexec".into(),
        }];
        let text = of(&Job::made_up(), &found, &found.rows(), &engines);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let at = |words: &[&str]| {
            lines
                .iter()
                .position(|line| line[..] == *words)
                .unwrap_or_else(|| panic!("{text}"))
        };
        let ours = at(&[
            "43,008",
            "near",
            "lanesum,",
            "private",
            "(one_shot_pull)",
            "5.00",
            "10.00",
            "5.00..5.00",
            "1",
            "1.25",
        ]);
        assert_eq!(
            at(&["impi", "4.00", "8.00", "4.00..4.00", "1", "1.00"]),
            ours + 1,
            "{text}"
        );
        assert_eq!(
            at(&["mpich", "8.00", "16.00", "8.00..8.00", "1", "2.00"]),
            ours + 2,
            "{text}"
        );
        at(&[
            "43,008",
            "busy",
            "lanesum,",
            "private",
            "(one_shot_pull)",
            "50.00",
            "100.00",
            "50.00..50.00",
            "1",
        ]);
        for words in [
            "flag round trip near 135 ns",
            "more ranks than CPUs",
            "  impi: Intel(R) MPI 1\n",
            "not timed: gloo, f32, 43,008 bytes: it hangs",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
