//! Whose turn it is to write into a mailbox.
//!
//! Each pair of ranks has two mailboxes. **Who read a line of one last writes it next.** Lines move between the caches of
//! two cores when one of them reads what the other wrote. If the reader then writes them itself, they are already its own;
//! if the writer wrote them again, each line would first have to be taken back. So after an exchange in which each of the
//! two has read what the other wrote, they change places. An exchange in which the reader also answers in the same lines,
//! and the writer reads the answer, leaves the places as they are.
//!
//! Messages differ in length, so each of 64 blocks of a mailbox has a turn of its own.

use core::ops::Range;

use crate::layout::LINE;
use crate::mutants;

/// Blocks of a mailbox, a bit each.
const BLOCKS: u64 = u64::BITS as u64;

/// Who writes where, for the mailboxes of all pairs at once: what ranks exchange is the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    /// A bit for each block: set where the two of a pair have changed places.
    swapped: u64,
    /// log2 of the bytes of a block.
    shift: u32,
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

impl Turns {
    /// At first each rank writes into the mailboxes from it.
    pub const fn new(mailbox: u64) -> Self {
        let block = match mailbox.div_ceil(BLOCKS).checked_next_power_of_two() {
            Some(block) if block > LINE => block,
            Some(_) | None => LINE,
        };
        Self {
            swapped: 0,
            shift: block.trailing_zeros(),
        }
    }

    /// The blocks that the first `bytes` of a mailbox touch.
    #[inline]
    const fn touched(&self, bytes: usize) -> u64 {
        let blocks = bytes.div_ceil(1 << self.shift) as u32;
        match 1u64.checked_shl(blocks) {
            Some(above) => above - 1,
            None => u64::MAX,
        }
    }

    /// The first `bytes` of a mailbox in runs, from the start; no two that follow each other are alike.
    #[inline]
    pub fn runs(&self, bytes: usize) -> impl Iterator<Item = Run> + use<> {
        let Self { swapped, shift } = *self;
        let mut start = 0;
        core::iter::from_fn(move || {
            if start >= bytes {
                return None;
            }
            let rest = swapped.checked_shr((start >> shift) as u32).unwrap_or(0);
            let alike = match rest & 1 {
                1 => rest.trailing_ones(),
                _ => rest.trailing_zeros(),
            };
            // Beyond the last block there is nothing: a run that reaches it ends the message.
            let end = (start >> shift).saturating_add(alike as usize) << shift;
            let end = if rest == 0 { bytes } else { end.min(bytes) };
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
        if mutants::kept_turns() {
            return self;
        }
        Self {
            swapped: self.swapped ^ self.touched(bytes),
            ..self
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn told(turns: &Turns, bytes: usize) -> Vec<(Range<usize>, bool)> {
        turns.runs(bytes).map(|run| (run.bytes, run.swapped)).collect()
    }

    #[test]
    fn a_message_is_one_run_as_long_as_lengths_stay_the_same() {
        let mut turns = Turns::new(1 << 20);
        for swapped in [false, true, false, true] {
            assert_eq!(told(&turns, 43_008), [(0..43_008, swapped)]);
            assert_eq!(told(&turns, 0), []);
            turns = turns.passed(43_008);
        }
    }

    #[test]
    fn each_block_has_its_turn() {
        // 4096 / 64: a block is a line.
        let turns = Turns::new(4096).passed(130).passed(64);
        assert_eq!(
            told(&turns, 4096),
            [(0..64, false), (64..192, true), (192..4096, false)]
        );
        assert_eq!(told(&turns, 65), [(0..64, false), (64..65, true)]);
        let turns = turns.passed(4096);
        assert_eq!(told(&turns, 4096), [(0..64, true), (64..192, false), (192..4096, true)]);
        let turns = turns.passed(4096).passed(100).passed(192);
        assert_eq!(
            told(&turns, 4096),
            [(0..64, false), (64..128, true), (128..4096, false)]
        );
    }

    #[test]
    fn blocks_cover_mailboxes_of_any_size() {
        for mailbox in [64, 256, 4032, 4096, 149_760, 1 << 20, (64 << 20) - 64, 64 << 20] {
            let whole = mailbox as usize;
            let turns = Turns::new(mailbox);
            assert_eq!(told(&turns, whole), [(0..whole, false)]);
            assert_eq!(told(&turns.passed(whole), whole), [(0..whole, true)]);
            let mixed = turns.passed(whole).passed(1);
            let runs = told(&mixed, whole);
            assert_eq!(runs.first().unwrap(), &(0..runs[0].0.end, false));
            assert_eq!(runs.last().unwrap().0.end, whole);
            assert!(runs.len() <= 2, "{runs:?}");
        }
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
