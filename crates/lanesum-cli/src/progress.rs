//! Numbers for people: a bar on stderr for runs that take more than a second, where a person looks at a terminal, and large
//! numbers as people read them.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter runs need no bar.
const QUIET: Duration = Duration::from_secs(1);

/// The progress of one run.
pub struct Progress {
    label: &'static str,
    total: u64,
    since: Instant,
    bar: Option<ProgressBar>,
    visible: bool,
}

impl Progress {
    /// A bar for `total` steps, not shown yet.
    pub fn new(label: &'static str, total: u64) -> Self {
        Self {
            label,
            total,
            since: Instant::now(),
            bar: None,
            visible: std::io::stderr().is_terminal(),
        }
    }

    /// Shows how far the run is.
    pub fn at(&mut self, done: u64) {
        if !self.visible || self.since.elapsed() < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(self.total)
                .with_message(self.label)
                .with_elapsed(self.since.elapsed());
            match ProgressStyle::with_template("{msg} [{bar:32}] {pos}/{len}, {eta} left") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        bar.set_position(done.min(self.total));
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `43,008`
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
