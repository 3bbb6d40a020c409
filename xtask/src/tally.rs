//! How many tests ran, read from the own summary lines of Rust's test harness and of pytest.

use std::fmt;
use std::ops::AddAssign;

/// Counted tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Tally {
    pub const ONE_PASSED: Tally = Tally {
        passed: 1,
        failed: 0,
        skipped: 0,
    };
    pub const ONE_FAILED: Tally = Tally {
        passed: 0,
        failed: 1,
        skipped: 0,
    };

    /// Reads the summary of either harness; any other line is `None`.
    pub fn from_line(line: &str) -> Option<Tally> {
        Self::from_cargo(line).or_else(|| Self::from_pytest(line))
    }

    /// Reads pytest's `1 failed, 68 passed, 4 skipped, 1 deselected in 14.93s`; any other line is `None`.
    pub fn from_pytest(line: &str) -> Option<Tally> {
        let (counts, time) = line.trim().split_once(" in ")?;
        let seconds = time.split(' ').next()?.strip_suffix('s')?;
        seconds.parse::<f64>().ok()?;
        let mut tally = Tally::default();
        for count in counts.split(", ") {
            let (number, what) = count.split_once(' ')?;
            let number = number.parse::<u64>().ok()?;
            match what {
                "passed" | "xfailed" => tally.passed += number,
                "failed" | "error" | "errors" | "xpassed" => tally.failed += number,
                "skipped" => tally.skipped += number,
                "deselected" | "warning" | "warnings" => {}
                _ => return None,
            }
        }
        Some(tally)
    }

    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`; any other line is `None`.
    fn from_cargo(line: &str) -> Option<Tally> {
        let summary = line.trim_start().strip_prefix("test result: ")?;
        let (_, counts) = summary.split_once(". ")?;
        let mut tally = Tally::default();
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            match what {
                "passed" => tally.passed = number,
                "failed" => tally.failed = number,
                "ignored" => tally.skipped = number,
                // Measured, filtered out and the time are no tests that ran.
                _ => {}
            }
        }
        Some(tally)
    }

    /// Tests that were executed, well or not.
    pub fn executed(self) -> u64 {
        self.passed + self.failed
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The closing line of a test run, as CI reads it: skipped ones only where there are any.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered \
                    out; finished in 0.52s";
        assert_eq!(
            Tally::from_line(line),
            Some(Tally {
                passed: 12,
                failed: 3,
                skipped: 1
            })
        );
    }

    #[test]
    fn summaries_of_pytest_are_read() {
        for (line, (passed, failed, skipped)) in [
            ("3 passed in 0.01s", (3, 0, 0)),
            (
                "2 failed, 68 passed, 4 skipped, 1 deselected, 2 warnings in 75.93s (0:01:15)",
                (68, 2, 4),
            ),
            ("1 passed, 2 errors in 1.5s", (1, 2, 0)),
        ] {
            let tally = Tally {
                passed,
                failed,
                skipped,
            };
            assert_eq!(Tally::from_line(line), Some(tally), "{line}");
        }
    }

    #[test]
    fn other_lines_are_not() {
        for line in [
            "",
            "test result",
            "running 3 tests",
            "test a ... ok",
            "3 passed",
            "3 passed in time",
            "3 ranks in 0.5s",
        ] {
            assert_eq!(Tally::from_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_closing_line_names_skipped_tests_only_where_there_are_any() {
        let mut tally = Tally::ONE_PASSED;
        assert_eq!(tally.to_string(), "1 passed, 0 failed");
        tally += Tally {
            passed: 0,
            failed: 1,
            skipped: 2,
        };
        assert_eq!(tally.to_string(), "1 passed, 1 failed, 2 skipped");
    }
}
