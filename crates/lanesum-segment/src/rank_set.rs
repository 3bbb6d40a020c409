//! Sets of ranks.

use crate::layout::WORLD_MAX;

/// A set of ranks, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RankSet(u32);

impl RankSet {
    /// No rank.
    pub const EMPTY: Self = Self(0);

    /// All ranks of a world.
    pub const fn all(world: usize) -> Self {
        Self((1u32 << world) - 1)
    }

    /// The set with these bits; bits beyond the largest world are dropped (they may come from a peer).
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits as u32 & ((1u32 << WORLD_MAX) - 1))
    }

    /// Its bits.
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// The set of one rank.
    pub const fn only(rank: usize) -> Self {
        Self(1 << rank)
    }

    /// This set without a rank.
    #[must_use]
    pub const fn without(self, rank: usize) -> Self {
        Self(self.0 & !(1 << rank))
    }

    /// Whether a rank is in it.
    pub const fn contains(self, rank: usize) -> bool {
        self.0 & (1 << rank) != 0
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What both sets hold.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The ranks in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut bits = self.0;
        core::iter::from_fn(move || {
            let next = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(next)
        })
    }
}
