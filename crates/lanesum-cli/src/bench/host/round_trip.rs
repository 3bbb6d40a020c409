//! The flag round trip between the cores that ranks 0 and 1 run on.
//!
//! The virtual cores of a rented machine move on the host. When they share a cache the round trip
//! is some 130 ns, when they do not some 480, and that moves results up to five-fold and reverses
//! rankings. So it is measured around every point, and only points of one state are compared.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cores;
use crate::errors::CliError;

/// Round trips in one measurement: some milliseconds.
const ROUNDS: u64 = 20_000;

/// Below this the cores are near.
const NEAR_NS: f64 = 250.0;

/// Above this something else had one of the cores meanwhile.
const BUSY_NS: f64 = 1000.0;

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

    /// The regime of a point from the round trips before and after it, in nanoseconds.
    pub fn around(before: Option<f64>, after: Option<f64>) -> Regime {
        let (Some(before), Some(after)) = (before, after) else {
            return Regime::OneCore;
        };
        if before.max(after) > BUSY_NS {
            return Regime::Busy;
        }
        match (before < NEAR_NS, after < NEAR_NS) {
            (true, true) => Regime::Near,
            (false, false) => Regime::Far,
            (true, false) | (false, true) => Regime::Moved,
        }
    }
}

/// The round trip between the first two of these CPUs in nanoseconds; `None` where there is one only.
///
/// # Errors
/// A thread could not be pinned, or its partner did not answer.
pub fn measure(cpus: &[usize]) -> Result<Option<f64>, CliError> {
    let [first, second, ..] = *cpus else {
        return Ok(None);
    };
    let ping = Line::default();
    let pong = Line::default();
    std::thread::scope(|scope| {
        let partner = scope.spawn(|| {
            pin(second)?;
            bounce(&ping, &pong)
        });
        let nanoseconds = scope.spawn(|| {
            pin(first)?;
            serve(&ping, &pong)
        });
        let nanoseconds = nanoseconds.join().unwrap_or_else(|_| Err(silent()));
        partner.join().unwrap_or_else(|_| Err(silent()))?;
        nanoseconds.map(Some)
    })
}

/// A flag alone on its cache line, and on the line that a prefetcher may bring with it.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

fn serve(ping: &Line, pong: &Line) -> Result<f64, CliError> {
    // The first trip waits for the partner to be pinned and is not counted.
    ping.0.store(1, Ordering::Release);
    await_value(pong, 1)?;
    let started = Instant::now();
    for round in 2..=ROUNDS + 1 {
        // Pairs with the acquire load in `bounce`, as the flag of an all-reduce would.
        ping.0.store(round, Ordering::Release);
        await_value(pong, round)?;
    }
    Ok(started.elapsed().as_nanos() as f64 / ROUNDS as f64)
}

fn bounce(ping: &Line, pong: &Line) -> Result<(), CliError> {
    for round in 1..=ROUNDS + 1 {
        await_value(ping, round)?;
        // Pairs with the acquire load in `serve`.
        pong.0.store(round, Ordering::Release);
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

    #[test]
    fn a_point_has_the_state_of_both_its_sides() {
        assert_eq!(Regime::around(Some(130.0), Some(140.0)), Regime::Near);
        assert_eq!(Regime::around(Some(480.0), Some(470.0)), Regime::Far);
        assert_eq!(Regime::around(Some(130.0), Some(470.0)), Regime::Moved);
        assert_eq!(Regime::around(Some(130.0), Some(9000.0)), Regime::Busy);
        assert_eq!(Regime::around(None, None), Regime::OneCore);
    }

    #[test]
    fn the_round_trip_is_measured() {
        let cpus = cores::usable().expect("can be asked");
        let round_trip = measure(&cpus).expect("cores to pin to");
        assert_eq!(measure(&[0]).expect("needs no pin"), None);
        assert!(round_trip.is_none_or(|nanoseconds| nanoseconds > 0.0));
    }
}
