//! An axis in powers: from where to where it goes, and where it has ticks.

/// One of both.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    /// Where, and what is written there.
    pub ticks: Vec<(f64, String)>,
}

/// Labels of sizes need so much room: a part of the axis.
const APART: f64 = 0.09;

impl Axis {
    /// A tick at each size, as far as labels have room.
    pub fn of_sizes(sizes: impl Iterator<Item = u64>) -> Self {
        let mut sizes: Vec<u64> = sizes.filter(|&bytes| bytes > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let first = sizes.first().copied().unwrap_or(1) as f64;
        let last = sizes.last().copied().unwrap_or(1) as f64;
        let mut axis = Self {
            low: first / 1.4,
            high: last * 1.4,
            ticks: vec![],
        };
        let mut taken = f64::NEG_INFINITY;
        for bytes in sizes {
            let share = axis.share(bytes as f64);
            let label = if share - taken >= APART {
                size(bytes)
            } else {
                String::new()
            };
            if !label.is_empty() {
                taken = share;
            }
            axis.ticks.push((bytes as f64, label));
        }
        axis
    }

    /// A tick at 1, 2 and 5 of each power of ten; at powers alone where there are many.
    pub fn of_times(times: impl Iterator<Item = Option<f64>>) -> Self {
        let known = times.flatten().filter(|us| us.is_finite() && *us > 0.0);
        let (low, high) = known.fold((f64::INFINITY, 0.0_f64), |(low, high), us| (low.min(us), high.max(us)));
        let (low, high) = if low <= high {
            (low / 1.2, high * 1.2)
        } else {
            (0.5, 20.0)
        };
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let steps: &[f64] = if high / low > 1e4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        let within = all.filter(|us| (low..=high).contains(us));
        Self {
            low,
            high,
            ticks: within.map(|us| (us, number(us))).collect(),
        }
    }

    /// Where a value lies: 0 at the beginning of the axis, 1 at its end.
    pub fn share(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// `42 KiB`
fn size(bytes: u64) -> String {
    for (unit, many) in [("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes.is_multiple_of(many) {
            return format!("{} {unit}", bytes / many);
        }
    }
    format!("{bytes} B")
}

/// `0.05`, `2`, `5,000`
fn number(us: f64) -> String {
    if us < 1.0 {
        let places = (-us.log10()).ceil().max(0.0) as usize;
        return format!("{us:.places$}");
    }
    crate::progress::grouped(us.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_ticks_and_near_ones_no_label() {
        let axis = Axis::of_sizes([1 << 20, 1 << 10, 1 << 10, 1088].into_iter());
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["1 KiB", "", "1 MiB"]);
        assert!(axis.share(1024.0) > 0.0 && axis.share((1 << 20) as f64) < 1.0);
        assert_eq!(axis.share(0.0), 0.0);
    }

    #[test]
    fn times_have_ticks_at_one_two_and_five() {
        let axis = Axis::of_times([Some(0.06), None, Some(3.0)].into_iter());
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0.05", "0.1", "0.2", "0.5", "1", "2"]);
        let wide = Axis::of_times([Some(0.3), Some(9000.0)].into_iter());
        let labels: Vec<&str> = wide.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["1", "10", "100", "1,000", "10,000"]);
        assert!(Axis::of_times([None].into_iter()).ticks.len() > 2);
    }
}
