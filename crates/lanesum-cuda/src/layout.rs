//! Twins of the structures in `kernels/layout.cuh`: what a launch gets, and where things stand in an inbox.

use lanesum_plan::{Bulk, Dtype, Operation};
use lanesum_segment::Mapped;

use crate::driver::types::DevicePointer;

/// Of what ranks write into each other's inboxes: those of another one are refused.
pub const INBOX_VERSION: u32 = 2;

/// The most ranks that kernels serve.
pub(crate) const WORLD_MAX: usize = lanesum_plan::DEVICE_WORLD_MAX;
/// The most lanes of a communicator.
pub(crate) const LANES_MAX: usize = 32;
/// Words that a proof writes for each pair.
pub(crate) const PROOF_WORDS: usize = 512;
/// Bytes of alerts and proofs before an inbox's data.
pub(crate) const INBOX_HEAD: u64 = 36 * 1024;
/// Where the proofs start.
pub(crate) const PROOFS: u64 = 4 * 1024;
/// Bytes of `Local`.
pub(crate) const LOCAL: usize = LANES_MAX * LANE + 128;
/// Bytes of `Lane`.
pub(crate) const LANE: usize = 16;
/// The words of `Local` as the host reads them: `Lane::word` and `Lane::ticket` of lane l are the first two from l times this on.
pub(crate) const LANE_WORDS: usize = LANE / 8;
/// `Local::barren`
pub(crate) const BARREN_WORD: usize = LANES_MAX * LANE_WORDS;
/// `Local::waited_ns`
pub(crate) const WAITED_WORD: usize = BARREN_WORD + 1;
/// `LANE_RUNNING`
pub(crate) const LANE_RUNNING: u64 = 1 << 63;
/// `LANE_EPOCH`
pub(crate) const LANE_EPOCH: u64 = (1 << 60) - 1;
/// Bytes of a frame.
const FRAME: u64 = 16;
/// Slots of a lane beside those of its frames: one for the header, and a line's rest.
const HEADER_SLOTS: u64 = 8;

/// `Launch`: one call, by value.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) local: DevicePointer,
    /// Not 0: one exchange moves it, in which each thread has at most one frame (of each shard), of whole words in aligned memory.
    pub(crate) once: u32,
    /// Frames of each lane but the last.
    pub(crate) share: u32,
    /// Of the message, if `once`.
    pub(crate) words: u32,
    pub(crate) digest: u32,
    /// Of a region, and of a lane in it.
    pub(crate) half_bytes: u32,
    pub(crate) lane_bytes: u32,
    pub(crate) pause_ns: u32,
    pub(crate) position: u32,
    pub(crate) ticket: u64,
    /// By leaf of the tree: the region where this rank writes frames for that leaf; for its own leaf, where its own frames stand.
    pub(crate) targets: [DevicePointer; WORLD_MAX],
    /// By leaf: the region where this rank reads that leaf's frames; for its own leaf, as `targets`.
    pub(crate) sources: [DevicePointer; WORLD_MAX],
    pub(crate) elements: u64,
    /// Of the message; the last may be cut off.
    pub(crate) frames: u64,
    /// Of the last lane.
    pub(crate) tail: u32,
    /// Of a share and of the last lane, the first frames, which are whole, if both buffers are aligned to words; else none.
    pub(crate) plain_share: u32,
    pub(crate) plain_tail: u32,
    pub(crate) capacity: u32,
    /// Not 0: the tree is canonical.
    pub(crate) canonical: u32,
    pub(crate) rank: u32,
    pub(crate) lanes: u32,
    /// [`kind`]: for kernels that serve any.
    pub(crate) kind: u32,
    pub(crate) call: [u64; 4],
    pub(crate) order: u64,
    pub(crate) program: u64,
    pub(crate) mapped: DevicePointer,
    /// By leaf.
    pub(crate) inboxes: [DevicePointer; WORLD_MAX],
    /// Of kernels that move chunks.
    pub(crate) areas: Areas,
}

/// Where chunks stand in every inbox, and how they are cut.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Areas {
    /// From the start of an inbox.
    pub(crate) start: u64,
    pub(crate) half_bytes: u32,
    pub(crate) lane_bytes: u32,
    pub(crate) quads: u32,
    pub(crate) chunk: u32,
    pub(crate) window: u32,
    pub(crate) lanes: u32,
}

impl Areas {
    /// The areas of inboxes that have `start` bytes before them.
    pub(crate) fn new(start: u64, bulk: Bulk) -> Self {
        let lane_bytes = bulk.quads * QUAD as u32;
        Self {
            start: start.next_multiple_of(LINE),
            half_bytes: bulk.lanes * lane_bytes,
            lane_bytes,
            quads: bulk.quads,
            chunk: bulk.chunk,
            window: bulk.window,
            lanes: bulk.lanes,
        }
    }

    /// Bytes of the lines, which come first, of both halves.
    pub(crate) fn line_bytes(&self) -> u64 {
        2 * u64::from(self.lanes) * LINE
    }

    /// Where they end, after the lines of what peers tell: one for each other rank, and where there are more than two ranks one for results.
    pub(crate) fn end(&self, world: usize) -> u64 {
        let areas = match world {
            2 => 1,
            world => world as u64,
        };
        self.start + self.line_bytes() + 2 * areas * u64::from(self.half_bytes)
    }
}

/// `Launch::kind`
pub(crate) const fn kind(dtype: Dtype, operation: Operation) -> u32 {
    (dtype as u32) << 4 | operation as u32
}

/// `Notice`: to all peers, outside of calls.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    pub(crate) kind: u64,
    pub(crate) nonce: u64,
    pub(crate) rank: u32,
    pub(crate) world: u32,
    pub(crate) local: DevicePointer,
    /// By rank.
    pub(crate) inboxes: [DevicePointer; WORLD_MAX],
    /// `[WORLD_MAX][PROOF_WORDS]` words for what is read of the proofs; 0 to write them.
    pub(crate) seen: DevicePointer,
}

/// The ticket of calls that are captured.
pub(crate) const CAPTURED: u64 = 0;
/// Bytes of payload in a frame, and of a word of it.
const PAYLOAD: u64 = 12;
const WORD: u64 = 4;
/// Bytes that chunks are counted in.
const QUAD: u64 = 16;
/// Bytes of what peers tell a lane.
const LINE: u64 = 128;

/// What a message is a row of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Frame,
    Quad,
}

impl Unit {
    /// Bytes of the message, and those of alignment that moving it whole takes.
    const fn bytes(self) -> (u64, u64) {
        match self {
            Self::Frame => (PAYLOAD, WORD),
            Self::Quad => (QUAD, QUAD),
        }
    }
}

/// How a message is cut into units, and those into lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) units: u64,
    pub(crate) share: u32,
    pub(crate) tail: u32,
    pub(crate) plain_share: u32,
    pub(crate) plain_tail: u32,
    /// The words of a message of nothing else, in aligned memory.
    pub(crate) words: Option<u32>,
}

/// Cuts a message as its grid says. Lengths that no memory holds come out shorter than they are.
#[inline]
pub(crate) fn cut(
    (elements, dtype): (u64, Dtype),
    unit: Unit,
    addresses: [u64; 2],
    (blocks, share): (u32, u64),
) -> Cut {
    let size = dtype.size() as u64;
    let (bytes, alignment) = unit.bytes();
    let in_unit = bytes / size;
    let aligned = addresses.iter().all(|address| address % alignment == 0);
    let before_last = share.saturating_mul(u64::from(blocks).saturating_sub(1));
    let within = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
    let units = elements.div_ceil(in_unit);
    let whole = aligned && elements.is_multiple_of(WORD / size);
    // Kernels subtract them from one another.
    let words = i32::try_from(elements / (WORD / size)).ok();
    Cut {
        units,
        share: within(share),
        tail: within(units.saturating_sub(before_last)),
        plain_share: if aligned { within(share) } else { 0 },
        plain_tail: if aligned {
            within((elements / in_unit).saturating_sub(before_last))
        } else {
            0
        },
        words: words.filter(|_| whole).map(i32::unsigned_abs),
    }
}

const _: () = {
    use core::mem::offset_of;
    assert!(WORLD_MAX == 8);
    assert!(size_of::<Launch>() == 400 && size_of::<Notice>() == 104);
    assert!(offset_of!(Launch, once) == 24 && offset_of!(Launch, ticket) == 56);
    assert!(offset_of!(Launch, targets) == 64 && offset_of!(Launch, sources) == 128);
    assert!(offset_of!(Launch, elements) == 192 && offset_of!(Launch, tail) == 208);
    assert!(offset_of!(Launch, call) == 240 && offset_of!(Launch, mapped) == 288);
    assert!(offset_of!(Launch, kind) == 236 && offset_of!(Launch, areas) == 360 && size_of::<Areas>() == 32);
    assert!(offset_of!(Launch, inboxes) == 296 && offset_of!(Notice, inboxes) == 32);
    assert!(offset_of!(Notice, seen) == 96);
    assert!(size_of::<Mapped>() == 384 && LOCAL == 640);
    assert!(PROOFS + (WORLD_MAX * PROOF_WORDS * 8) as u64 == INBOX_HEAD);
};

/// Bytes of an inbox whose lanes take so many frames of each rank an exchange.
pub(crate) fn inbox_bytes(world: usize, lanes: u32, capacity: u32) -> u64 {
    region(0, world as u64, lanes, capacity)
}

/// Bytes of a rank's own frames where they stand apart from its inbox.
pub(crate) fn own_bytes(lanes: u32, capacity: u32) -> usize {
    2 * half_bytes(lanes, capacity) as usize
}

/// Where the region of a leaf's frames starts, in an inbox that starts at `inbox`.
pub(crate) fn region(inbox: DevicePointer, leaf: u64, lanes: u32, capacity: u32) -> DevicePointer {
    inbox + INBOX_HEAD + leaf * 2 * half_bytes(lanes, capacity)
}

/// `targets` and `sources` of a rank whose peers map its inbox, and it theirs: its own region in every inbox, and all regions in its
/// own one. Inboxes are given by leaf, and this rank is the leaf at `position`. Its own frames stand in its inbox too, unless they have a
/// place apart.
pub(crate) fn regions(
    inboxes: &[DevicePointer; WORLD_MAX],
    world: usize,
    position: u32,
    own_frames: Option<DevicePointer>,
    (lanes, capacity): (u32, u32),
) -> ([DevicePointer; WORLD_MAX], [DevicePointer; WORLD_MAX]) {
    let own = inboxes.get(position as usize).copied().unwrap_or(0);
    let (mut targets, mut sources) = ([0; WORLD_MAX], [0; WORLD_MAX]);
    let leaves = targets.iter_mut().zip(&mut sources).zip(inboxes).take(world);
    for (leaf, ((target, source), &inbox)) in (0..).zip(leaves) {
        *target = region(inbox, u64::from(position), lanes, capacity);
        *source = region(own, leaf, lanes, capacity);
    }
    if let Some(frames) = own_frames {
        for bases in [&mut targets, &mut sources] {
            if let Some(base) = bases.get_mut(position as usize) {
                *base = frames;
            }
        }
    }
    (targets, sources)
}

/// Bytes of one half of a region.
pub(crate) fn half_bytes(lanes: u32, capacity: u32) -> u64 {
    u64::from(lanes) * lane_bytes(capacity)
}

/// Bytes of a lane in a half: its header and its frames.
pub(crate) fn lane_bytes(capacity: u32) -> u64 {
    (HEADER_SLOTS + u64::from(capacity)) * FRAME
}

/// The word that rank `from` writes at `index` of rank `to`'s proof: `proof_word` in `kernels/notice.cuh`, a finaliser of
/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn proof_word(nonce: u64, from: usize, to: usize, index: usize) -> u64 {
    let place = (from as u64) << 40 | (to as u64) << 32 | index as u64;
    let word = nonce.wrapping_add(place.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word ^ (word >> 27)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(elements: u64, dtype: Dtype, addresses: [u64; 2]) -> (u64, u32, u32) {
        let cut = cut((elements, dtype), Unit::Frame, addresses, (1, 32));
        (cut.units, cut.tail, cut.plain_tail)
    }

    #[test]
    fn frames_are_plain_where_they_are_whole_and_aligned() {
        assert_eq!(tail(0, Dtype::F32, [0, 0]), (0, 0, 0));
        assert_eq!(tail(3, Dtype::F32, [4, 8]), (1, 1, 1));
        assert_eq!(tail(4, Dtype::F32, [4, 8]), (2, 2, 1));
        assert_eq!(tail(12, Dtype::Bf16, [4, 6]), (2, 2, 0));
        assert_eq!(tail(13, Dtype::F16, [12, 0]), (3, 3, 2));
        assert_eq!(tail(13, Dtype::F16, [13, 0]), (3, 3, 0));
    }

    #[test]
    fn words_are_counted_where_there_is_nothing_else() {
        let words = |elements, dtype, addresses| cut((elements, dtype), Unit::Frame, addresses, (1, 31)).words;
        assert_eq!(words(0, Dtype::F32, [0, 0]), Some(0));
        assert_eq!(words(5, Dtype::F32, [4, 8]), Some(5));
        assert_eq!(words(4, Dtype::Bf16, [4, 8]), Some(2));
        assert_eq!(words(5, Dtype::Bf16, [4, 8]), None);
        assert_eq!(words(4, Dtype::F16, [4, 2]), None);
        assert_eq!(words(1 << 31, Dtype::F32, [0, 0]), None);
        assert_eq!(words((1 << 32) - 2, Dtype::F16, [0, 0]), Some(i32::MAX.unsigned_abs()));
    }

    #[test]
    fn frames_of_a_leaf_stand_side_by_side() {
        // Two halves of 3 lanes of 8 frames, with a line for headers.
        let region = 2 * 3 * (8 + 8) * 16;
        let data = 36 * 1024;
        assert_eq!(inbox_bytes(3, 3, 8), data + 3 * region);
        let mut inboxes = [0; WORLD_MAX];
        inboxes[..3].copy_from_slice(&[1 << 20, 2 << 20, 3 << 20]);
        let (targets, sources) = regions(&inboxes, 3, 2, None, (3, 8));
        let own = (3 << 20) + data;
        let second = data + 2 * region;
        assert_eq!(
            targets,
            [(1 << 20) + second, (2 << 20) + second, own + 2 * region, 0, 0, 0, 0, 0]
        );
        assert_eq!(sources, [own, own + region, own + 2 * region, 0, 0, 0, 0, 0]);
        // Own frames that stand apart take the place of the own region alone.
        let apart = 5 << 20;
        let moved = regions(&inboxes, 3, 2, Some(apart), (3, 8));
        assert_eq!(moved.0, [targets[0], targets[1], apart, 0, 0, 0, 0, 0]);
        assert_eq!(moved.1, [sources[0], sources[1], apart, 0, 0, 0, 0, 0]);
        assert_eq!(own_bytes(3, 8), region as usize);
    }

    #[test]
    fn the_last_lane_has_what_is_left() {
        let cut = cut((6 * 70 + 1, Dtype::Bf16), Unit::Frame, [0, 4], (3, 32));
        assert_eq!((cut.units, cut.share, cut.tail), (71, 32, 7));
        assert_eq!((cut.plain_share, cut.plain_tail), (32, 6));
    }

    #[test]
    fn quads_are_plain_where_they_are_whole_and_aligned_to_themselves() {
        let quads = |elements, addresses| {
            let cut = cut((elements, Dtype::Bf16), Unit::Quad, addresses, (2, 64));
            (cut.units, cut.tail, cut.plain_share, cut.plain_tail)
        };
        assert_eq!(quads(8 * 70, [0, 16]), (70, 6, 64, 6));
        assert_eq!(quads(8 * 70 + 7, [32, 16]), (71, 7, 64, 6));
        assert_eq!(quads(8 * 70, [0, 8]), (70, 6, 0, 0));
    }

    #[test]
    fn areas_of_chunks_follow_those_of_frames() {
        let bulk = Bulk {
            lanes: 3,
            quads: 64,
            chunk: 32,
            window: 4,
            threads: 64,
        };
        let areas = Areas::new(1_000, bulk);
        assert_eq!((areas.start, areas.lane_bytes, areas.half_bytes), (1_024, 1_024, 3_072));
        // A line for each lane in each half, and one area of two halves between two ranks; two for peers and one for results among three.
        assert_eq!(areas.end(2), 1_024 + 2 * 3 * 128 + 2 * 3_072);
        assert_eq!(areas.end(3), 1_024 + 2 * 3 * 128 + 6 * 3_072);
    }
}
