//! The few statistics that the benches need.

use serde::Serialize;

use crate::ranks::message::Quantiles;

/// Nearest ranks: the least value that half, or 99 of 100, do not exceed.
pub fn quantiles(mut values: Vec<f64>) -> Quantiles {
    values.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let index = (values.len() * percent).div_ceil(100).max(1) - 1;
        values.get(index).copied().unwrap_or_default()
    };
    Quantiles {
        p50: at(50),
        p99: at(99),
    }
}

/// To a tenth of a nanosecond, as all engines tell it.
pub fn in_tenths(us: f64) -> f64 {
    (us * 1e4).round() / 1e4
}

/// The median, and how the values lie around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// A quarter are at most this.
    pub q1: f64,
    /// Half are at most this; the mean of the middle two of an even number.
    pub median: f64,
    /// Three quarters are at most this.
    pub q3: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Nothing of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let between = |quarters: usize| {
            let place = (values.len() - 1) * quarters;
            let (below, part) = (place / 4, (place % 4) as f64 / 4.0);
            let low = *values.get(below)?;
            let high = *values.get(below + 1).unwrap_or(&low);
            Some(low + (high - low) * part)
        };
        Some(Self {
            min: *values.first()?,
            q1: between(1)?,
            median: between(2)?,
            q3: between(3)?,
            max: *values.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantiles(hundred), Quantiles { p50: 50.0, p99: 99.0 });
        assert_eq!(quantiles(vec![3.0]), Quantiles { p50: 3.0, p99: 3.0 });
        assert_eq!(quantiles(vec![]), Quantiles { p50: 0.0, p99: 0.0 });
    }

    #[test]
    fn the_spread_is_interpolated_between_values() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).expect("is something");
        assert_eq!((spread.min, spread.q1, spread.median), (1.0, 1.75, 2.5));
        assert_eq!((spread.q3, spread.max), (3.25, 4.0));
        let one = Spread::of([7.0]).expect("is something");
        assert_eq!((one.min, one.q1, one.q3, one.max), (7.0, 7.0, 7.0, 7.0));
        assert_eq!(Spread::of([]), None);
    }
}
