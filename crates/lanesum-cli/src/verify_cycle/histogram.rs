//! Durations counted in fixed memory, so that a soak of any length is timed without allocating.
//!
//! Buckets are exact below 256 ns and then 256 to each doubling: a quantile is at most 0.4 % above the true one.

use std::time::Duration;

const PER_DOUBLING: u64 = 256;
const SHIFT: u32 = PER_DOUBLING.trailing_zeros();
const BUCKETS: usize = ((64 - SHIFT + 1) as usize) * PER_DOUBLING as usize;

/// How often which duration was seen.
#[derive(Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket_of(nanoseconds)) {
            *count += 1;
            self.total += 1;
        }
    }

    /// The smallest duration that at least `percent` of all do not exceed; zero if none was seen.
    pub fn at_most(&self, percent: u64) -> Duration {
        let wanted = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper_end(bucket));
            }
        }
        Duration::ZERO
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    let doublings = nanoseconds.max(1).ilog2().saturating_sub(SHIFT);
    let within = nanoseconds >> doublings;
    (u64::from(doublings) * PER_DOUBLING + within) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PER_DOUBLING {
        return bucket;
    }
    let doublings = bucket / PER_DOUBLING - 1;
    let within = bucket % PER_DOUBLING + PER_DOUBLING;
    (within << doublings) + ((1 << doublings) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_ends_where_it_says() {
        for nanoseconds in (0..2000).chain([65_535, 65_536, 1_000_003, u64::from(u32::MAX), u64::MAX]) {
            let bucket = bucket_of(nanoseconds);
            let end = upper_end(bucket);
            assert!(bucket < BUCKETS, "{nanoseconds}");
            assert_eq!(bucket_of(end), bucket, "{nanoseconds}");
            assert!(end >= nanoseconds, "{nanoseconds}");
            assert!(
                (end - nanoseconds) as f64 <= nanoseconds as f64 * 0.004,
                "{nanoseconds} {end}"
            );
            if end < u64::MAX {
                assert_eq!(bucket_of(end + 1), bucket + 1, "{nanoseconds}");
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.at_most(50), Duration::ZERO);
        for nanoseconds in 1..=200 {
            histogram.record(Duration::from_nanos(nanoseconds));
        }
        assert_eq!(histogram.at_most(50), Duration::from_nanos(100));
        assert_eq!(histogram.at_most(99), Duration::from_nanos(198));
        assert_eq!(histogram.at_most(100), Duration::from_nanos(200));
    }
}
