//! Each host predicted with its own rows left out, and what is asked of the predictions.

use std::fmt::Write;

use lanesum_plan::{Habits, Method};
use serde::Serialize;

use super::published::Row;

/// From this length on, a prediction may be wrong by [`FACTOR`].
const LONG: u64 = 64 << 10;
const FACTOR: f64 = 2.0;
/// By how much a shorter row may undercut what is taken for the least.
const UNDERCUT: f64 = 1.15;
/// From which ratio on the order of two figures counts.
const APART: f64 = 1.3;
/// Figures that contradict their neighbours, by host, algorithm, bytes and microseconds: why is argued in docs/decisions/0019-simulator.md.
const DOUBTFUL: [(&str, &str, u64, f64); 2] = [
    ("pro6000x2-roots", "one_shot_push_ll", 65_536, 12.2),
    ("pro6000x8-switches", "nccl", 262_144, 28.0),
];

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Pairs of figures of one host, mode and length that lie apart, and in how many of them the order is foretold.
    pub order_right: Share,
    /// Rows from 64 KiB on, and how many are foretold within a factor of two; doubtful ones apart.
    pub within_2x: Share,
    /// Shorter rows, and how many do not undercut the least by more than 15 %.
    pub bound_holds: Share,
    /// The factor by which the worst row from 64 KiB on is wrong, doubtful ones apart.
    pub worst: f64,
    pub rows: Vec<Judged>,
    /// The pairs whose order is not foretold.
    pub wrong_orders: Vec<String>,
}

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    pub right: usize,
    pub all: usize,
}

impl Share {
    fn count(&mut self, right: bool) {
        self.all += 1;
        self.right += usize::from(right);
    }
}

/// A row with what is foretold of it.
#[derive(Debug, Serialize)]
pub struct Judged {
    pub host: String,
    pub algorithm: String,
    pub bytes: u64,
    pub published_us: f64,
    /// None where the fabric isn't stated.
    pub predicted_us: Option<f64>,
    /// What no implementation can undercut, as the model has it.
    pub least_us: Option<f64>,
    pub doubtful: bool,
}

impl Judged {
    /// By which factor the prediction is wrong.
    fn off(&self) -> Option<f64> {
        let ratio = self.predicted_us? / self.published_us;
        Some(ratio.max(1.0 / ratio))
    }
}

impl Verdict {
    /// Whether all that is asked holds.
    pub fn passed(&self) -> bool {
        [self.order_right, self.within_2x, self.bound_holds]
            .iter()
            .all(|share| share.right == share.all)
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).unwrap_or_default();
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "{:<20}{:<24}{:>10}{:>14}{:>14}{:>10}{:>8}",
            "host", "algorithm", "bytes", "published us", "predicted us", "least us", "off by"
        )?;
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
        for row in &self.rows {
            writeln!(
                text,
                "{:<20}{:<24}{:>10}{:>14.1}{:>14}{:>10}{:>8}{}",
                row.host,
                row.algorithm,
                row.bytes,
                row.published_us,
                us(row.predicted_us),
                us(row.least_us),
                row.off().map_or_else(|| "-".to_owned(), |off| format!("{off:.2}")),
                if row.doubtful { "  doubtful" } else { "" }
            )?;
        }
        let of = |share: Share| format!("{} of {}", share.right, share.all);
        writeln!(
            text,
            "\norder_right  {}: figures more than 30 % apart",
            of(self.order_right)
        )?;
        for wrong in &self.wrong_orders {
            writeln!(text, "             not {wrong}")?;
        }
        writeln!(text, "within_2x    {} from 64 KiB on", of(self.within_2x))?;
        writeln!(text, "worst        {:.2}", self.worst)?;
        writeln!(text, "bound_holds  {} below 64 KiB", of(self.bound_holds))
    }
}

/// What is foretold of these rows, each host by what others tell.
pub fn judge(rows: &[Row]) -> Verdict {
    let judged: Vec<Judged> = rows.iter().map(|row| judged(row, rows)).collect();
    let mut verdict = Verdict {
        order_right: Share::default(),
        within_2x: Share::default(),
        bound_holds: Share::default(),
        worst: 1.0,
        rows: vec![],
        wrong_orders: vec![],
    };
    for row in &judged {
        match (row.off(), row.least_us) {
            (Some(off), _) if row.bytes >= LONG && !row.doubtful => {
                verdict.within_2x.count(off <= FACTOR);
                verdict.worst = verdict.worst.max(off);
            }
            (Some(_), Some(least_us)) if row.bytes < LONG => {
                verdict.bound_holds.count(row.published_us * UNDERCUT >= least_us);
            }
            (Some(_) | None, _) => {}
        }
    }
    for (at, one) in judged.iter().enumerate() {
        for (other_at, other) in judged.iter().enumerate().skip(at + 1) {
            let comparable = one.host == other.host
                && one.bytes == other.bytes
                && one.algorithm != other.algorithm
                && rows[at].mode == rows[other_at].mode;
            let ratio = one.published_us / other.published_us;
            let apart = ratio.max(1.0 / ratio) > APART;
            if let (true, true, Some(first_us), Some(second_us)) =
                (comparable, apart, one.predicted_us, other.predicted_us)
            {
                let right = (one.published_us < other.published_us) == (first_us < second_us);
                verdict.order_right.count(right);
                if !right {
                    verdict.wrong_orders.push(format!(
                        "{} and {} on {} at {} B",
                        one.algorithm, other.algorithm, one.host, one.bytes
                    ));
                }
            }
        }
    }
    verdict.rows = judged;
    verdict
}

fn judged(row: &Row, rows: &[Row]) -> Judged {
    let message = row.message();
    let predict = |habits| {
        let estimate = row.fabric.as_ref()?.estimate_with(row.method, &message, habits)?;
        Some(estimate.total_us())
    };
    let doubtful = |row: &Row| DOUBTFUL.contains(&(row.host.as_str(), row.algorithm.as_str(), row.bytes, row.us));
    let others: Vec<&Row> = rows
        .iter()
        .filter(|other| other.host != row.host && other.algorithm_is_like(row) && !doubtful(other))
        .collect();
    Judged {
        host: row.host.clone(),
        algorithm: row.algorithm.clone(),
        bytes: row.bytes,
        published_us: row.us,
        predicted_us: predict(habits(&others).unwrap_or(Habits::of(row.method))),
        least_us: predict(Habits::NONE),
        doubtful: doubtful(row),
    }
}

impl Row {
    /// Whether two rows are of one implementation: NCCL is one, however it is tuned; kernels are where they have one name.
    fn algorithm_is_like(&self, other: &Row) -> bool {
        let both_nccl = self.method == Method::Nccl && other.method == Method::Nccl;
        (both_nccl || self.algorithm == other.algorithm) && self.mode == other.mode
    }
}

/// The habits that fit these rows best, by the sum of the logarithms that predictions are off; `None` without rows that can be
/// predicted. Steps of half a microsecond suffice for figures that differ by tenths.
fn habits(rows: &[&Row]) -> Option<Habits> {
    let known: Vec<&&Row> = rows.iter().filter(|row| row.fabric.is_some()).collect();
    let first = known.first()?;
    let steps = |most: u32| (0..=most).map(|halves| f64::from(halves) / 2.0);
    let raw_steps: Vec<f64> = match first.method {
        Method::Nccl => steps(16).collect(),
        Method::OneShotPush
        | Method::TwoShotPush
        | Method::OneShotPull
        | Method::TwoShotPull
        | Method::TwoShotStaged
        | Method::IslandTwoShot
        | Method::CopyEngine => vec![0.0],
    };
    let off = |habits: &Habits| -> f64 {
        let offs = known.iter().filter_map(|row| {
            let estimate = row
                .fabric
                .as_ref()?
                .estimate_with(row.method, &row.message(), *habits)?;
            Some((estimate.total_us() / row.us).ln().abs())
        });
        offs.sum()
    };
    let all = steps(40).flat_map(|start_us| {
        raw_steps.iter().map(move |raw_step_us| Habits {
            start_us,
            raw_step_us: *raw_step_us,
        })
    });
    all.map(|habits| (off(&habits), habits))
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, habits)| habits)
}
