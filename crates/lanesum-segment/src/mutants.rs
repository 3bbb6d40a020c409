//! Deliberate faults, to prove that the tests would see them.
//!
//! Builds for loom carry all of them and switch one on by the environment variable `LANESUM_MUTANT`, so
//! that one build serves the whole list: `every_mutant_is_caught` in `tests/loom.rs` runs each and expects
//! a failure. `--cfg lanesum_mutant="..."` switches one on in any build. Otherwise they are constants.

use crate::sync::Ordering;

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident = $literal:literal;)*) => {
        $(
            $(#[$doc])*
            #[cfg(not(loom))]
            #[inline(always)]
            pub(crate) const fn $name() -> bool {
                cfg!(lanesum_mutant = $literal)
            }

            $(#[$doc])*
            #[cfg(loom)]
            pub(crate) fn $name() -> bool {
                cfg!(lanesum_mutant = $literal) || chosen($literal)
            }
        )*

        /// The names of all deliberate faults.
        #[cfg(loom)]
        pub const MUTANTS: &[&str] = &[$($literal),*];
    };
}

mutants! {
    /// The header is posted without release: payload may be read before it was written.
    relaxed_header = "relaxed_header";
    /// Headers are read without acquire.
    relaxed_header_look = "relaxed_header_look";
    /// The result flag is posted without release.
    relaxed_result = "relaxed_result";
    /// Result flags are read without acquire.
    relaxed_result_look = "relaxed_result_look";
    /// The closing flag is posted without release: a peer's reads may still run when the owner writes.
    relaxed_closing = "relaxed_closing";
    /// Closing flags are read without acquire.
    relaxed_closing_look = "relaxed_closing_look";
    /// A failure is told without release: its record may be read before it was written.
    relaxed_record = "relaxed_record";
    /// The status of a failed rank is read without acquire.
    relaxed_record_look = "relaxed_record_look";
    /// Departure is told without release: the last posts may not be seen by those who see it.
    relaxed_departure = "relaxed_departure";
    /// The status of a departed rank is read without acquire.
    relaxed_departure_look = "relaxed_departure_look";
    /// The watcher notes an ended process without release.
    relaxed_loss = "relaxed_loss";
    /// Waiters read the watcher's note without acquire.
    relaxed_loss_look = "relaxed_loss_look";
    /// Both parities use the same line: epoch e + 1 overwrites what a late peer still waits for in epoch e.
    single_line = "single_line";
    /// Ranks do not change places: epoch e + 1 overwrites what a late peer still reads of epoch e.
    kept_turns = "kept_turns";
    /// Ranks change places after two shots too: epoch e + 1 overwrites sums that a late peer still reads.
    passed_answers = "passed_answers";
    /// The words of an announcement are written after its header.
    header_before_words = "header_before_words";
    /// A call ends without having seen its peers' headers.
    missing_header = "missing_header";
    /// A header is believed whatever its epoch.
    any_tag = "any_tag";
    /// Result flags carry two bits of the epoch: they are not written each epoch, so the tag comes round.
    wrapped_result = "wrapped_result";
    /// Closing flags carry two bits of the epoch.
    wrapped_closing = "wrapped_closing";
    /// Lines are formatted with zeros, which the first epochs can be taken for.
    blank_lines = "blank_lines";
    /// A wait ends with the first peer: the rank runs ahead of the others.
    run_ahead = "run_ahead";
    /// Sums are copied before their owners have said that they are there.
    skipped_result = "skipped_result";
    /// A call on shared buffers returns while peers still read them.
    skipped_closing = "skipped_closing";
    /// Trouble is believed without another look at what the peer posted before it.
    hasty_trouble = "hasty_trouble";
    /// Reads of shared buffers are believed though their owner has failed.
    unconfirmed_reads = "unconfirmed_reads";
    /// A failed rank's later writes may be seen before its status.
    unfenced_failure = "unfenced_failure";
    /// Reads of shared buffers may happen after the look at their owner's status.
    unfenced_confirmation = "unfenced_confirmation";
}

#[cfg(loom)]
fn chosen(name: &str) -> bool {
    static CHOSEN: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("LANESUM_MUTANT").ok());
    CHOSEN.as_deref() == Some(name)
}

/// Release, but for the mutant.
#[inline(always)]
pub(crate) fn release(mutant: bool) -> Ordering {
    if mutant { Ordering::Relaxed } else { Ordering::Release }
}

/// Acquire, but for the mutant.
#[inline(always)]
pub(crate) fn acquire(mutant: bool) -> Ordering {
    if mutant { Ordering::Relaxed } else { Ordering::Acquire }
}
