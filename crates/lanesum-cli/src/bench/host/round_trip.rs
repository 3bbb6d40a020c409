//! The flag round trip between the cores that ranks 0 and 1 run on.
//!
//! The virtual cores of a rented machine move on the host. When they share a cache the round trip
//! is some 130 ns, when they do not some 480, and that moves results up to five-fold and reverses
//! rankings. So it is measured around every point, and only points of one state are compared.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bench::statistics::Spread;
use crate::cores;
use crate::errors::CliError;

/// Round trips in one measurement: some milliseconds. The median of the batches says where the cores are, whatever interrupted a few
/// of them; the mean says whether anything did.
const BATCHES: u64 = 100;
const BATCH: u64 = 200;

/// Below this the cores are near.
const NEAR_NS: f64 = 250.0;

/// No cores of a machine are farther apart: above this something else had one of them meanwhile.
const BUSY_NS: f64 = 700.0;

/// A mean so many times the median is of cores that were taken away in between: on quiet ones it is 1.0 to 1.2.
const UNSTEADY: f64 = 1.5;

/// A partner that does not answer for this long is not running.
const DEADLINE: Duration = Duration::from_secs(10);

/// Polls between two looks at the clock.
const POLLS: u64 = 1 << 16;

/// Where the two cores were, around one point. Only times of one regime are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Regime {
    /// They share a cache.
    Near,
    /// They share none.
    Far,
    /// Near on one side of the point and far on the other: compared with nothing.
    Moved,
    /// Something else ran on the cores: compared with nothing.
    Busy,
    /// There is one core only.
    OneCore,
}

impl Regime {
    /// In the order of tables.
    pub const ALL: [Regime; 5] = [Self::Near, Self::Far, Self::Moved, Self::Busy, Self::OneCore];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Regime::Near => "near",
            Regime::Far => "far",
            Regime::Moved => "moved",
            Regime::Busy => "busy",
            Regime::OneCore => "one_core",
        }
    }

    /// Whether times of this regime may be compared with each other.
    pub fn compares(self) -> bool {
        match self {
            Regime::Near | Regime::Far | Regime::OneCore => true,
            Regime::Moved | Regime::Busy => false,
        }
    }

    /// The regime of a point from the round trips before and after it.
    pub fn around(before: Option<RoundTrip>, after: Option<RoundTrip>) -> Regime {
        let (Some(before), Some(after)) = (before, after) else {
            return Regime::OneCore;
        };
        if before.busy || after.busy {
            return Regime::Busy;
        }
        match (before.ns < NEAR_NS, after.ns < NEAR_NS) {
            (true, true) => Regime::Near,
            (false, false) => Regime::Far,
            (true, false) | (false, true) => Regime::Moved,
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrip {
    /// Nanoseconds, the median of its batches.
    pub ns: f64,
    /// Whether something else had one of the cores in between.
    busy: bool,
}

impl RoundTrip {
    /// From the nanoseconds of a trip in each batch; of none there is none.
    fn of(batches: &[f64]) -> Option<Self> {
        let ns = Spread::of(batches.iter().copied())?.median;
        let mean = batches.iter().sum::<f64>() / batches.len() as f64;
        Some(Self {
            ns,
            busy: mean > UNSTEADY * ns || mean.max(ns) > BUSY_NS,
        })
    }
}

/// The round trip between the first two of these CPUs; `None` where there is one only.
///
/// # Errors
/// A thread could not be pinned, or its partner did not answer.
pub fn measure(cpus: &[usize]) -> Result<Option<RoundTrip>, CliError> {
    let [first, second, ..] = *cpus else {
        return Ok(None);
    };
    let ping = Line::default();
    let pong = Line::default();
    std::thread::scope(|scope| {
        let started = |source| CliError::System {
            what: "start a thread".into(),
            source,
        };
        let partner = Builder::new().spawn_scoped(scope, || {
            pin(second)?;
            bounce(&ping, &pong)
        });
        let partner = partner.map_err(started)?;
        let batches = Builder::new().spawn_scoped(scope, || {
            pin(first)?;
            serve(&ping, &pong)
        });
        let batches = batches.map_err(started)?;
        let batches = batches.join().unwrap_or_else(|_| Err(silent()));
        partner.join().unwrap_or_else(|_| Err(silent()))?;
        Ok(RoundTrip::of(&batches?))
    })
}

/// A flag alone on its cache line, and on the line that a prefetcher may bring with it.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The nanoseconds of a trip in each batch.
fn serve(ping: &Line, pong: &Line) -> Result<Vec<f64>, CliError> {
    // The first trip waits for the partner to be pinned and is not counted.
    ping.0.store(1, Ordering::Release);
    await_value(pong, 1)?;
    let batch = |index: u64| {
        let started = Instant::now();
        for trip in 0..BATCH {
            let value = 2 + index * BATCH + trip;
            // Pairs with the acquire load in `bounce`, as the flag of an all-reduce would.
            ping.0.store(value, Ordering::Release);
            await_value(pong, value)?;
        }
        Ok(started.elapsed().as_nanos() as f64 / BATCH as f64)
    };
    (0..BATCHES).map(batch).collect()
}

fn bounce(ping: &Line, pong: &Line) -> Result<(), CliError> {
    for value in 1..=BATCHES * BATCH + 1 {
        await_value(ping, value)?;
        // Pairs with the acquire load in `serve`.
        pong.0.store(value, Ordering::Release);
    }
    Ok(())
}

fn await_value(line: &Line, wanted: u64) -> Result<(), CliError> {
    let mut started = None;
    let mut polls = 0_u64;
    // Pairs with the partner's release store.
    while line.0.load(Ordering::Acquire) != wanted {
        polls += 1;
        if polls.is_multiple_of(POLLS) && started.get_or_insert_with(Instant::now).elapsed() > DEADLINE {
            return Err(silent());
        }
        std::hint::spin_loop();
    }
    Ok(())
}

fn pin(cpu: usize) -> Result<(), CliError> {
    cores::pin(cpu).map_err(|source| CliError::System {
        what: format!("keep a thread on CPU {cpu}"),
        source,
    })
}

fn silent() -> CliError {
    CliError::System {
        what: "measure the flag round trip between two cores".into(),
        source: std::io::ErrorKind::TimedOut.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a batch that was interrupted for 4 ms takes a trip.
    const INTERRUPTED: f64 = 4e6 / BATCH as f64;

    /// Quiet batches, and some that were interrupted.
    fn batches(quiet: f64, interrupted: usize) -> Option<RoundTrip> {
        let mut batches = vec![quiet; BATCHES as usize];
        batches[..interrupted].fill(INTERRUPTED);
        RoundTrip::of(&batches)
    }

    #[test]
    fn a_point_has_the_state_of_both_its_sides() {
        let (near, far) = (batches(130.0, 0), batches(480.0, 0));
        assert_eq!(Regime::around(near, batches(140.0, 0)), Regime::Near);
        assert_eq!(Regime::around(far, batches(470.0, 0)), Regime::Far);
        assert_eq!(Regime::around(near, far), Regime::Moved);
        assert_eq!(Regime::around(near, batches(9000.0, 0)), Regime::Busy);
        assert_eq!(Regime::around(batches(130.0, 1), near), Regime::Busy);
        assert_eq!(Regime::around(None, None), Regime::OneCore);
    }

    #[test]
    fn interruptions_make_cores_busy_and_not_far() {
        for (quiet, interrupted, wanted) in [
            (130.0, 0, Some((130.0, false))),
            (130.0, 1, Some((130.0, true))),
            (130.0, 10, Some((130.0, true))),
            (480.0, 0, Some((480.0, false))),
            (480.0, 2, Some((480.0, true))),
            (690.0, 0, Some((690.0, false))),
            (710.0, 0, Some((710.0, true))),
            (130.0, 60, Some((INTERRUPTED, true))),
        ] {
            let found = batches(quiet, interrupted).map(|trip| (trip.ns, trip.busy));
            assert_eq!(found, wanted, "{quiet}, {interrupted} interrupted");
        }
        // What differs a little from batch to batch is quiet.
        let uneven: Vec<f64> = (0..100).map(|index| 120.0 + f64::from(index)).collect();
        let found = RoundTrip::of(&uneven).map(|trip| (trip.ns, trip.busy));
        assert_eq!(found, Some((169.5, false)));
        assert_eq!(RoundTrip::of(&[]), None);
    }

    #[test]
    fn the_round_trip_is_measured() {
        let cpus = cores::usable().expect("can be asked");
        let round_trip = measure(&cpus).expect("cores to pin to");
        assert_eq!(measure(&[0]).expect("needs no pin"), None);
        assert_eq!(round_trip.is_some(), cpus.len() > 1);
        assert!(round_trip.is_none_or(|trip| trip.ns > 0.0));
    }
}
