//! The flag round trip between the cores that ranks 0 and 1 run on.
//!
//! The virtual cores of a rented machine move on the host. When they share a cache the round trip
//! is some 130 ns, when they do not some 480, and that moves results up to five-fold and reverses
//! rankings. So it is measured around every point, and only points of one state are compared.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use crate::error::XtaskError;

/// Round trips in one measurement: about ten milliseconds.
const ROUNDS: u64 = 40_000;

/// Below this the cores are near.
const NEAR_NS: f64 = 250.0;

/// Above this something else had one of the cores meanwhile.
const BUSY_NS: f64 = 1000.0;

/// A partner that does not answer for this long is not running.
const DEADLINE: Duration = Duration::from_secs(10);

/// Polls between two looks at the clock.
const POLLS: u64 = 1 << 16;

/// Where the two cores were, around one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    Near,
    Far,
    /// Near on one side of the point and far on the other: compared with nothing.
    Moved,
    /// Something else ran on the cores: compared with nothing.
    Busy,
    /// There is one core only.
    OneCore,
}

impl Distance {
    pub fn name(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
            Distance::Moved => "moved",
            Distance::Busy => "busy",
            Distance::OneCore => "one_core",
        }
    }

    /// The state of a point from the round trips before and after it, in nanoseconds.
    pub fn around(before: Option<f64>, after: Option<f64>) -> Distance {
        let (Some(before), Some(after)) = (before, after) else {
            return Distance::OneCore;
        };
        if before.max(after) > BUSY_NS {
            return Distance::Busy;
        }
        match (before < NEAR_NS, after < NEAR_NS) {
            (true, true) => Distance::Near,
            (false, false) => Distance::Far,
            (true, false) | (false, true) => Distance::Moved,
        }
    }
}

/// The round trip in nanoseconds; `None` where this process may use one core only.
///
/// # Errors
/// A thread could not be pinned, or its partner did not answer.
pub fn measure() -> Result<Option<f64>, XtaskError> {
    let allowed = sched_getaffinity(None).map_err(|errno| machine("ask for the cores", errno))?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let [first, second, ..] = cores[..] else {
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

fn serve(ping: &Line, pong: &Line) -> Result<f64, XtaskError> {
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

fn bounce(ping: &Line, pong: &Line) -> Result<(), XtaskError> {
    for round in 1..=ROUNDS + 1 {
        await_value(ping, round)?;
        // Pairs with the acquire load in `serve`.
        pong.0.store(round, Ordering::Release);
    }
    Ok(())
}

fn await_value(line: &Line, wanted: u64) -> Result<(), XtaskError> {
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

fn pin(core: usize) -> Result<(), XtaskError> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(|errno| machine("pin a thread to a core", errno))
}

fn machine(action: &'static str, errno: rustix::io::Errno) -> XtaskError {
    XtaskError::Machine {
        action,
        source: errno.into(),
    }
}

fn silent() -> XtaskError {
    XtaskError::Machine {
        action: "measure the flag round trip",
        source: std::io::ErrorKind::TimedOut.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_the_state_of_both_its_sides() {
        assert_eq!(Distance::around(Some(130.0), Some(140.0)), Distance::Near);
        assert_eq!(Distance::around(Some(480.0), Some(470.0)), Distance::Far);
        assert_eq!(Distance::around(Some(130.0), Some(470.0)), Distance::Moved);
        assert_eq!(Distance::around(Some(130.0), Some(9000.0)), Distance::Busy);
        assert_eq!(Distance::around(None, None), Distance::OneCore);
    }

    #[test]
    fn the_round_trip_is_measured() {
        let round_trip = measure().expect("cores to pin to");
        assert!(round_trip.is_none_or(|nanoseconds| nanoseconds > 0.0));
    }
}
