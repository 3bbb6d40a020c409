//! Digests by which ranks notice that they disagree.
//!
//! They are compared between processes that may run different builds, so they are written out here instead of being
//! taken from the standard library, whose hasher may change. They guard against mistakes, not against malice.

/// One round of mixing on 64 bits: a bijection, after which every bit depends on every bit before it. The shifts and
/// multipliers are the published ones of the finaliser of SplitMix64.
const fn mix64(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// A running digest over words. The order of the words matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digest(u64);

impl Digest {
    /// A digest of nothing yet; `purpose` keeps digests of different things apart.
    pub(crate) const fn new(purpose: u64) -> Digest {
        Digest(mix64(purpose ^ 0x9E37_79B9_7F4A_7C15))
    }

    /// The digest with one more word.
    #[must_use]
    pub(crate) const fn word(self, word: u64) -> Digest {
        Digest(mix64(self.0.rotate_left(5) ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15))
    }

    /// The value so far.
    pub(crate) const fn finish(self) -> u64 {
        mix64(self.0)
    }
}

/// Mixes 32 bits: a bijection, after which every bit depends on every bit before it. The shifts and multipliers are
/// those of the public-domain `lowbias32`, found by search.
#[inline]
pub(crate) const fn mix32(mut word: u32) -> u32 {
    word = (word ^ (word >> 16)).wrapping_mul(0x7FEB_352D);
    word = (word ^ (word >> 15)).wrapping_mul(0x846C_A68B);
    word ^ (word >> 16)
}

/// 64 bits onto 32, one to one for all values that share their upper half, so small numbers never collide.
#[inline]
pub(crate) const fn fold(word: u64) -> u32 {
    (word as u32).wrapping_add(((word >> 32) as u32).wrapping_mul(0x846C_A68B))
}
