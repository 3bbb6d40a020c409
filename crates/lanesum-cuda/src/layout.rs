//! Twins of the structures in `kernels/layout.cuh`: what a launch gets, and where things stand in an inbox.

use lanesum_segment::Mapped;

use crate::driver::types::DevicePointer;

/// The most ranks that kernels serve.
pub(crate) const WORLD_MAX: usize = lanesum_plan::DEVICE_WORLD_MAX;
/// The most lanes of a communicator.
pub(crate) const LANES_MAX: usize = 32;
/// Words that a proof writes for each pair.
pub(crate) const PROOF_WORDS: usize = 512;
/// Bytes of headers, alerts and proofs before an inbox's data.
pub(crate) const INBOX_HEAD: u64 = 40 * 1024;
/// Where the headers end: `[2 halves][LANES_MAX][WORLD_MAX]` words from the start.
pub(crate) const HEADERS: u64 = (2 * LANES_MAX * WORLD_MAX * 8) as u64;
/// Where the proofs start.
pub(crate) const PROOFS: u64 = 8 * 1024;
/// Bytes of `Local`.
pub(crate) const LOCAL: usize = LANES_MAX * 16 + 64;

/// `Launch`: one call, by value.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) elements: u64,
    pub(crate) share: u64,
    pub(crate) ticket: u64,
    pub(crate) call: [u64; 4],
    pub(crate) digest: u32,
    pub(crate) flags: u32,
    pub(crate) rank: u32,
    pub(crate) position: u32,
    pub(crate) lanes: u32,
    pub(crate) capacity: u32,
    pub(crate) order: u64,
    pub(crate) program: u64,
    pub(crate) local: DevicePointer,
    pub(crate) mapped: DevicePointer,
    pub(crate) inboxes: [DevicePointer; WORLD_MAX],
}

/// `Notice`: to all peers, outside of calls.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    pub(crate) kind: u64,
    pub(crate) nonce: u64,
    pub(crate) rank: u32,
    pub(crate) world: u32,
    pub(crate) inboxes: [DevicePointer; WORLD_MAX],
}

/// `FLAG_SPOIL`
pub(crate) const SPOIL: u32 = 1;
/// `FLAG_CANONICAL`
pub(crate) const CANONICAL: u32 = 2;

const _: () = {
    use core::mem::offset_of;
    assert!(WORLD_MAX == 8);
    assert!(size_of::<Launch>() == 192 && size_of::<Notice>() == 88);
    assert!(offset_of!(Launch, call) == 40 && offset_of!(Launch, digest) == 72);
    assert!(offset_of!(Launch, order) == 96 && offset_of!(Launch, local) == 112);
    assert!(offset_of!(Launch, inboxes) == 128 && offset_of!(Notice, inboxes) == 24);
    assert!(size_of::<Mapped>() == 384 && LOCAL == 576);
    assert!(PROOFS + (WORLD_MAX * PROOF_WORDS * 8) as u64 == INBOX_HEAD);
};

/// Bytes of an inbox whose lanes take so many packets an exchange.
pub(crate) fn inbox_bytes(world: usize, lanes: u32, capacity: u32) -> u64 {
    INBOX_HEAD + 2 * half_words(world, lanes, capacity) * 8
}

/// Words of one half of an inbox's data.
pub(crate) fn half_words(world: usize, lanes: u32, capacity: u32) -> u64 {
    world as u64 * u64::from(lanes) * u64::from(capacity)
}

/// The word that rank `from` writes at `index` of rank `to`'s proof: `proof_word` in `kernels/notice.cuh`, a finaliser of
/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn proof_word(nonce: u64, from: usize, to: usize, index: usize) -> u64 {
    let place = (from as u64) << 40 | (to as u64) << 32 | index as u64;
    let word = nonce.wrapping_add(place.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word ^ (word >> 27)
}
