//! A span of time that a wait may take, and the one place that polls.
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// Longer spans are cut to this: `Instant` cannot hold every `Duration`.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// No wait sleeps longer than this without looking at its deadline and its cancel condition.
pub(crate) const SLICE: Duration = Duration::from_millis(20);

/// When a wait ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    started: Instant,
    span: Duration,
}

impl Deadline {
    pub(crate) fn after(span: Duration) -> Self {
        Self {
            started: Instant::now(),
            span: span.min(LONGEST),
        }
    }

    pub(crate) fn waited(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.span.saturating_sub(self.waited())
    }

    pub(crate) fn passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// How long one poll may sleep.
    pub(crate) fn slice(&self) -> Duration {
        self.remaining().min(SLICE)
    }

    /// The span in milliseconds, for errors.
    pub(crate) fn span_ms(&self) -> u64 {
        u64::try_from(self.span.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Waits until a descriptor is ready, but no longer than `at_most`. An interrupted wait counts as one without an event.
pub(crate) fn poll_for(descriptors: &mut [PollFd<'_>], at_most: Duration) -> Result<usize, Errno> {
    let span = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(descriptors, Some(&span)) {
        Err(Errno::INTR) => {
            for descriptor in descriptors {
                descriptor.clear_revents();
            }
            Ok(0)
        }
        other => other,
    }
}
