//! Time in which this process itself ran.
//!
//! A suspended process sees nothing, and when it goes on, its queue may still be empty. It must not conclude anything
//! from the time it missed. That time shows as a gap between two looks, which are otherwise never far apart.

use std::time::{Duration, Instant};

/// The parent looks at least this often.
pub const TICK: Duration = Duration::from_millis(500);
/// A gap between two looks counts for this much at most.
const GAP: Duration = Duration::from_secs(1);

/// Counts the time between looks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    looked: Instant,
    ran: Duration,
}

impl Clock {
    /// Starts at zero.
    pub fn new(now: Instant) -> Self {
        Self {
            looked: now,
            ran: Duration::ZERO,
        }
    }

    /// Looks.
    pub fn at(&mut self, now: Instant) -> Moment {
        self.ran += now.saturating_duration_since(self.looked).min(GAP);
        self.looked = self.looked.max(now);
        Moment { at: now, ran: self.ran }
    }

    /// What was counted at the last look.
    pub fn ran(&self) -> Duration {
        self.ran
    }
}

/// When something happened, by the world's time and by ours.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The world's, for what is told.
    pub at: Instant,
    /// Ours, for patience.
    pub ran: Duration,
}
