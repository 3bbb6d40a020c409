//! Whose turn it is to write into a mailbox.
//!
//! Each pair of ranks has two mailboxes. **Who read a line of one last writes it next.** Lines move between the caches of
//! two cores when one of them reads what the other wrote. If the reader then writes them itself, they are already its own;
//! if the writer wrote them again, each line would first have to be taken back. So after an exchange in which each of the
//! two has read what the other wrote, they change places. An exchange in which the reader also answers in the same lines,
//! and the writer reads the answer, leaves the places as they are.
//!
//! Messages differ in length, so each block of a mailbox has a turn of its own. Blocks are short where short messages end
//! and long where only long ones come: a line each at first, then four from each power of two to the next.

use core::ops::Range;

use crate::layout::LINE;
use crate::mutants;

/// Who writes where, for the mailboxes of all pairs at once: what ranks exchange is the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turns {
    /// A bit for each block: set where the two of a pair have changed places.
    swapped: u128,
}

/// A part of every mailbox in which whose turn it is does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Bytes from the start of the mailbox.
    pub bytes: Range<usize>,
    /// Whether a rank writes into the mailbox *from its peer* here, and reads from its own.
    pub swapped: bool,
}

impl Run {
    /// The ranks between which the mailbox is that `own` writes into for `peer` to read: from, to.
    #[inline]
    pub const fn outgoing(&self, own: usize, peer: usize) -> (usize, usize) {
        if self.swapped { (peer, own) } else { (own, peer) }
    }

    /// The ranks between which the mailbox is that `own` reads, and `peer` has written into: from, to.
    #[inline]
    pub const fn incoming(&self, own: usize, peer: usize) -> (usize, usize) {
        self.outgoing(peer, own)
    }
}

/// Lines that are a block each.
const SINGLE: usize = 8;
/// The last block there is a bit for; mailboxes of 64 MiB have 76 blocks.
const LAST: u32 = u128::BITS - 1;

/// The block of a line.
#[inline]
const fn block_of(line: usize) -> u32 {
    if line < SINGLE {
        return line as u32;
    }
    let octave = line.ilog2();
    let block = 4 * (octave - 1) + (line >> (octave - 2)) as u32 % 4;
    if block < LAST { block } else { LAST }
}

/// The first line of a block.
#[inline]
const fn line_of(block: u32) -> usize {
    if block < SINGLE as u32 {
        return block as usize;
    }
    (4 + (block % 4) as usize) << (block / 4 - 1)
}

impl Turns {
    /// The first `bytes` of a mailbox in runs, from the start; no two that follow each other are alike. At first each rank
    /// writes into the mailboxes from it.
    #[inline]
    pub fn runs(&self, bytes: usize) -> impl Iterator<Item = Run> + use<> {
        let Self { swapped } = *self;
        let mut start = 0;
        core::iter::from_fn(move || {
            if start >= bytes {
                return None;
            }
            let block = block_of(start / LINE as usize);
            let rest = swapped >> block;
            let alike = match rest & 1 {
                1 => rest.trailing_ones(),
                _ => rest.trailing_zeros(),
            };
            let end = match block + alike {
                beyond if beyond > LAST => bytes,
                next => bytes.min(line_of(next) * LINE as usize),
            };
            let run = Run {
                bytes: start..end,
                swapped: rest & 1 == 1,
            };
            start = end;
            Some(run)
        })
    }

    /// After an exchange in which each of a pair has read the first `bytes` that the other wrote: they change places there.
    #[inline]
    #[must_use]
    pub fn passed(self, bytes: usize) -> Self {
        match bytes.checked_sub(1) {
            Some(last) if !mutants::kept_turns() => {
                let touched = u128::MAX >> (LAST - block_of(last / LINE as usize));
                Self {
                    swapped: self.swapped ^ touched,
                }
            }
            Some(_) | None => self,
        }
    }

    /// After an exchange in which the readers have answered in the first `bytes`, and the writers have read that: they keep
    /// their places.
    #[inline]
    #[must_use]
    pub fn answered(self, bytes: usize) -> Self {
        if mutants::passed_answers() {
            self.passed(bytes)
        } else {
            self
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn told(turns: Turns, bytes: usize) -> Vec<(Range<usize>, bool)> {
        turns.runs(bytes).map(|run| (run.bytes, run.swapped)).collect()
    }

    #[test]
    fn a_message_is_one_run_as_long_as_lengths_stay_the_same() {
        let mut turns = Turns::default();
        for swapped in [false, true, false, true] {
            assert_eq!(told(turns, 43_008), [(0..43_008, swapped)]);
            assert_eq!(told(turns, 0), []);
            turns = turns.passed(43_008).passed(0).answered(43_008);
        }
    }

    #[test]
    fn each_block_has_its_turn() {
        let turns = Turns::default().passed(130).passed(64);
        assert_eq!(told(turns, 4096), [(0..64, false), (64..192, true), (192..4096, false)]);
        assert_eq!(told(turns, 65), [(0..64, false), (64..65, true)]);
        let turns = turns.passed(4096);
        assert_eq!(told(turns, 4096), [(0..64, true), (64..192, false), (192..4096, true)]);
        // Lines 16 to 19 are a block, and so are 24 to 27.
        let turns = Turns::default().passed(17 * 64).passed(27 * 64);
        assert_eq!(
            told(turns, 4096),
            [(0..20 * 64, false), (20 * 64..28 * 64, true), (28 * 64..4096, false)]
        );
    }

    #[test]
    fn a_short_message_leaves_the_rest_of_a_long_one_its_turn() {
        for (long, short) in [
            (43_008, 64),
            (43_008, 8_192),
            (14_336, 64),
            (1 << 20, 43_008),
            (64 << 20, 1 << 20),
        ] {
            let runs = told(Turns::default().passed(long).passed(short), long);
            let lost = runs[0].0.end - short;
            assert_eq!(runs, [(0..short + lost, false), (short + lost..long, true)]);
            assert!(4 * lost <= short, "{lost} of {short} bytes");
        }
    }

    #[test]
    fn blocks_follow_one_another() {
        let lines = (64 << 20) / 64;
        let mut next = 0;
        for line in 0..lines {
            let block = block_of(line);
            if line == line_of(next) {
                next += 1;
            }
            assert_eq!(block, next - 1, "line {line}");
        }
        assert_eq!(next, 76);
        assert_eq!(block_of(usize::MAX / 64), LAST);
        let beyond = usize::MAX;
        assert_eq!(told(Turns::default().passed(beyond), beyond), [(0..beyond, true)]);
    }

    #[test]
    fn what_one_writes_the_other_reads() {
        for swapped in [false, true] {
            let run = Run { bytes: 0..1, swapped };
            assert_eq!(run.outgoing(3, 5), run.incoming(5, 3));
            assert_ne!(run.outgoing(3, 5), run.outgoing(5, 3));
        }
    }
}
