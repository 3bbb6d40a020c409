//! The captures that a communicator has met: which it is, which call of it comes next, and on which stream the last one was.
//!
//! Ranks number captures in the order in which they meet them, and calls in the order in which they are recorded: that is what
//! peers compare when a graph runs.

use crate::stream::{RawStream, Stream};

/// The most captures that are told apart at a time. Should more be open at once, the one that was longest without a call begins
/// anew, under another number: its calls are not ordered between its streams then, which shows when it runs.
const OPEN_MAX: usize = 16;
/// The bits of a capture's number in the word of a call.
const NUMBER: u32 = u32::MAX >> 1;

/// The stream of a call; what comes on another one waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Last {
    pub(crate) stream: RawStream,
    /// Of a block; 0 if it is not enqueued yet, and behind an event.
    pub(crate) threads: u32,
    pub(crate) _keep: Option<Stream>,
}

/// A capture that may still be open.
#[derive(Debug)]
pub(crate) struct Open {
    /// The driver's number, never used again in this process.
    id: u64,
    /// Whether a call was recorded into it: only then has it taken its number.
    counts: bool,
    pub(crate) number: u32,
    /// Of the next call.
    pub(crate) position: u32,
    pub(crate) last: Last,
}

/// By their last call, the latest at the end.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    open: Vec<Open>,
    met: u32,
}

impl Captures {
    /// The capture of this number of the driver's, if it is known; it becomes the latest.
    pub(crate) fn find(&mut self, id: u64) -> Option<&mut Open> {
        let place = self.open.iter().rposition(|open| open.id == id)?;
        self.open.get_mut(place..)?.rotate_left(1);
        let open = self.open.last_mut()?;
        if !open.counts {
            open.number = self.met & NUMBER;
        }
        Some(open)
    }

    /// Takes up a capture that is not known. It gets its number when its first call is recorded: an attempt that came to nothing
    /// before that leaves the number to the next.
    pub(crate) fn begin(&mut self, id: u64, last: Last) {
        if self.open.len() == OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(Open {
            id,
            counts: false,
            number: self.met & NUMBER,
            position: 0,
            last,
        });
    }

    /// The last call of the capture that was found last.
    pub(crate) fn last(&self) -> Option<&Last> {
        Some(&self.open.last()?.last)
    }

    /// Counts a call of so many threads a block that was recorded into the capture that was found last.
    pub(crate) fn recorded(&mut self, threads: u32) {
        let Some(open) = self.open.last_mut() else { return };
        open.last.threads = threads;
        open.position = open.position.wrapping_add(1);
        if !open.counts {
            open.counts = true;
            self.met = self.met.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> Last {
        Last {
            stream: RawStream(core::ptr::null_mut()),
            threads: 0,
            _keep: None,
        }
    }

    fn place(captures: &mut Captures, id: u64) -> Option<(u32, u32)> {
        captures.find(id).map(|open| (open.number, open.position))
    }

    #[test]
    fn calls_are_numbered_within_captures_that_alternate() {
        let mut captures = Captures::default();
        assert_eq!(place(&mut captures, 70), None);
        captures.begin(70, last());
        captures.begin(71, last());
        for position in 0..3 {
            for (id, number) in [(70, 0), (71, 1)] {
                assert_eq!(place(&mut captures, id), Some((number, position)));
                captures.recorded(32);
            }
        }
    }

    #[test]
    fn a_call_that_was_not_recorded_leaves_its_place_to_the_next() {
        let mut captures = Captures::default();
        captures.begin(5, last());
        assert_eq!(place(&mut captures, 5), Some((0, 0)));
        assert_eq!(place(&mut captures, 5), Some((0, 0)));
        captures.recorded(32);
        assert_eq!(place(&mut captures, 5), Some((0, 1)));
    }

    #[test]
    fn a_capture_into_which_nothing_was_recorded_leaves_its_number_to_the_next() {
        let mut captures = Captures::default();
        captures.begin(5, last());
        assert_eq!(place(&mut captures, 5), Some((0, 0)));
        captures.begin(6, last());
        assert_eq!(place(&mut captures, 6), Some((0, 0)));
        captures.recorded(32);
        assert_eq!(place(&mut captures, 5), Some((1, 0)));
        assert_eq!(place(&mut captures, 6), Some((0, 1)));
    }

    #[test]
    fn the_capture_that_was_longest_without_a_call_is_forgotten_first() {
        let mut captures = Captures::default();
        let most = OPEN_MAX as u64;
        for id in 0..most {
            captures.begin(id, last());
            captures.recorded(32);
        }
        assert_eq!(place(&mut captures, 0), Some((0, 1)));
        captures.begin(most, last());
        captures.recorded(32);
        assert_eq!(place(&mut captures, 1), None);
        for id in (0..=most).filter(|&id| id != 1) {
            assert_eq!(place(&mut captures, id), Some((id as u32, 1)));
        }
    }

    #[test]
    fn each_capture_knows_how_wide_its_last_call_was() {
        let mut captures = Captures::default();
        let threads = |captures: &Captures| captures.last().map(|last| last.threads);
        captures.begin(1, last());
        assert_eq!(threads(&captures), Some(0));
        captures.recorded(256);
        captures.begin(2, last());
        captures.recorded(64);
        assert_eq!(place(&mut captures, 1), Some((0, 1)));
        assert_eq!(threads(&captures), Some(256));
    }

    #[test]
    fn numbers_of_captures_stay_within_their_bits() {
        let mut captures = Captures {
            open: Vec::new(),
            met: NUMBER,
        };
        captures.begin(1, last());
        captures.recorded(32);
        captures.begin(2, last());
        assert_eq!(place(&mut captures, 1), Some((NUMBER, 1)));
        assert_eq!(place(&mut captures, 2), Some((0, 0)));
    }
}
