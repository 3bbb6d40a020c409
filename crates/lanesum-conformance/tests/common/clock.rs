//! The monotonic clock: the same in all processes of the host.

use std::time::Duration;

/// Time since some fixed moment, the same for all processes.
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
