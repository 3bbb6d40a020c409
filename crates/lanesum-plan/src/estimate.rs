//! What a call is predicted to take, by its parts.

use std::fmt;

use serde::Serialize;

/// Predicted microseconds of one call, by what takes them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Estimate {
    /// To launch kernels, and what a library does around them; none on the host.
    pub launch_us: f64,
    /// For words from other ranks to arrive, beside their bytes.
    pub waits_us: f64,
    /// For bytes to cross the busiest link; on the host, to be copied and to change caches.
    pub moves_us: f64,
    /// To add.
    pub sums_us: f64,
}

impl Estimate {
    /// All of it.
    #[must_use]
    pub fn total_us(&self) -> f64 {
        self.launch_us + self.waits_us + self.moves_us + self.sums_us
    }
}

/// The parts that take any time.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate {
            launch_us,
            waits_us,
            moves_us,
            sums_us,
        } = self;
        let parts = [
            ("launch", launch_us),
            ("waits", waits_us),
            ("bytes", moves_us),
            ("sums", sums_us),
        ];
        let there = parts.into_iter().filter(|(_, us)| **us > 0.0);
        let words: Vec<String> = there.map(|(what, us)| format!("{what} {us:.2}")).collect();
        f.write_str(&words.join(", "))
    }
}
