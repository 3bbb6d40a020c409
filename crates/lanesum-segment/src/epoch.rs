//! Numbers of exchanges.

use crate::mutants;

/// The number of one exchange of a communicator: a call, or one chunk of a streamed call. 64 bits wide:
/// at a million a second it lasts 584,000 years; it wraps all the same, and tests start just below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch after this one.
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Which of a rank's two lines this epoch uses.
    #[inline]
    pub fn parity(self) -> usize {
        if mutants::single_line() {
            0
        } else {
            (self.0 & 1) as usize
        }
    }

    /// The part of the epoch that a header carries.
    pub(crate) const fn tag(self) -> u32 {
        self.0 as u32
    }
}
