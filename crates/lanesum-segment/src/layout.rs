//! Offsets and sizes of the segment, as in `docs/segment.md`.

use crate::error::SegmentError;
use crate::sync::{AtomicU32, AtomicU64};

/// The largest world that the layout serves.
pub const WORLD_MAX: usize = 16;

/// Version of the layout, and of that of GPUs' inboxes; ranks of another version are refused.
pub const LAYOUT_VERSION: u32 = 5;

/// `lanesum` in ASCII, low byte first.
#[cfg(not(loom))]
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"lanesum\0");

const PAGE: u64 = 4096;
const CONTROL: u64 = 512;
const MAILBOX_MAX: u64 = 64 << 20;
/// Bytes of a cache line.
pub(crate) const LINE: u64 = 64;
const SHARED_MAX: u64 = 64 << 30;

/// What one exchange of one rank posts: a line of 64 bytes, one for each parity of the epoch.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) header: AtomicU64,
    pub(crate) descriptor: [AtomicU64; 4],
    pub(crate) offset: AtomicU64,
    pub(crate) result: AtomicU64,
    pub(crate) closing: AtomicU64,
}

/// The status of a rank and the record of its first fault.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) word: AtomicU64,
    pub(crate) kind: AtomicU64,
    pub(crate) ranks: AtomicU64,
    pub(crate) epoch: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) phase: AtomicU64,
    pub(crate) ours: [AtomicU64; 4],
    pub(crate) theirs: [AtomicU64; 4],
    pub(crate) by: AtomicU64,
}

/// The futex word on which a rank sleeps.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Bell {
    pub(crate) word: AtomicU32,
}

/// All control words of one rank.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) lines: [Line; 2],
    pub(crate) status: Status,
    pub(crate) bell: Bell,
}

/// The first page.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) world: AtomicU32,
    pub(crate) mailbox: AtomicU64,
    pub(crate) shared: AtomicU64,
    pub(crate) first_epoch: AtomicU64,
    pub(crate) digest: AtomicU64,
    pub(crate) total: AtomicU64,
    pub(crate) reserved: [u64; 49],
    pub(crate) sleepers: Sleepers,
}

/// Which ranks sleep, a bit each, on a cache line of its own, at a place in its page where no rank's page has a
/// line: a load right after a store that agrees in the low 12 bits of its address would wait for it.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Sleepers {
    pub(crate) bits: AtomicU64,
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Control>() == CONTROL as usize);
    assert!(size_of::<Head>() <= PAGE as usize);
    assert!(offset_of!(Head, version) == 8 && offset_of!(Head, world) == 12);
    assert!(offset_of!(Head, mailbox) == 16 && offset_of!(Head, shared) == 24);
    assert!(offset_of!(Head, first_epoch) == 32 && offset_of!(Head, digest) == 40);
    assert!(offset_of!(Head, total) == 48 && offset_of!(Head, sleepers) == 448);
    assert!(offset_of!(Control, lines) == 0 && size_of::<Line>() == 128);
    assert!(offset_of!(Control, status) == 256 && offset_of!(Control, bell) == 384);
    assert!(offset_of!(Line, header) == 0 && offset_of!(Line, descriptor) == 8);
    assert!(offset_of!(Line, offset) == 40 && offset_of!(Line, result) == 48);
    assert!(offset_of!(Line, closing) == 56);
    assert!(offset_of!(Status, word) == 0 && offset_of!(Status, kind) == 8);
    assert!(offset_of!(Status, ranks) == 16 && offset_of!(Status, epoch) == 24);
    assert!(offset_of!(Status, waited) == 32 && offset_of!(Status, phase) == 40);
    assert!(offset_of!(Status, ours) == 48 && offset_of!(Status, theirs) == 80);
    assert!(offset_of!(Status, by) == 112);
};

/// What determines a segment's layout. Each rank keeps its own copy and checks the segment against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    world: usize,
    mailbox: u64,
    shared: u64,
    first_epoch: u64,
    digest: u64,
}

impl Geometry {
    /// The layout for `world` ranks (1 to 16) with `mailbox` bytes from each rank to each other (a multiple of 64, at
    /// most 64 MiB) and `shared` bytes an arena (rounded up to 4096, at most 64 GiB), whose first exchange has
    /// the epoch `first_epoch`. `digest` stands for all else that the ranks agreed on.
    ///
    /// # Errors
    /// [`SegmentError::Geometry`] if a limit is broken.
    pub fn new(world: usize, mailbox: u64, shared: u64, first_epoch: u64, digest: u64) -> Result<Self, SegmentError> {
        let refuse = |reason| {
            Err(SegmentError::Geometry {
                world,
                mailbox,
                shared,
                reason,
            })
        };
        if !(1..=WORLD_MAX).contains(&world) {
            return refuse("a segment has 1 to 16 ranks");
        }
        if mailbox == 0 || !mailbox.is_multiple_of(LINE) || mailbox > MAILBOX_MAX {
            return refuse("a mailbox is a multiple of 64 B and at most 64 MiB");
        }
        if shared > SHARED_MAX {
            return refuse("an arena has at most 64 GiB");
        }
        Ok(Self {
            world,
            mailbox,
            shared: shared.next_multiple_of(PAGE),
            first_epoch,
            digest,
        })
    }

    /// Ranks.
    pub const fn world(&self) -> usize {
        self.world
    }

    /// Bytes of the mailbox from one rank to another.
    pub const fn mailbox(&self) -> u64 {
        self.mailbox
    }

    /// Bytes of one rank's arena.
    pub const fn shared(&self) -> u64 {
        self.shared
    }

    /// Epoch of the first exchange.
    pub const fn first_epoch(&self) -> u64 {
        self.first_epoch
    }

    /// Digest of what the ranks agreed on.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Bytes of the whole segment.
    pub const fn total(&self) -> u64 {
        self.arena_offset(self.world)
    }

    /// The number that the line of a parity and its flags hold before any exchange: the last epoch of that
    /// parity before the first, so that none of them can be believed before it is posted.
    pub(crate) fn stale(&self, parity: u64) -> u64 {
        if crate::mutants::blank_lines() {
            return 0;
        }
        self.first_epoch
            .wrapping_sub(2)
            .wrapping_add((self.first_epoch ^ parity) & 1)
    }

    #[cfg(not(loom))]
    pub(crate) const fn control_offset(&self, rank: usize) -> u64 {
        PAGE + rank as u64 * CONTROL
    }

    /// Where the mailboxes of pairs start that have this number, each on a page of its own.
    const fn pair_offset(&self, pair: u64) -> u64 {
        PAGE + (self.world as u64 * CONTROL).next_multiple_of(PAGE) + pair * self.mailbox.next_multiple_of(PAGE)
    }

    /// The mailboxes from `from` to each other rank follow one another.
    #[cfg(not(loom))]
    pub(crate) const fn mailbox_offset(&self, from: usize, to: usize) -> u64 {
        let place = if to > from { to - 1 } else { to };
        self.pair_offset((from * (self.world - 1) + place) as u64)
    }

    pub(crate) const fn arena_offset(&self, rank: usize) -> u64 {
        self.pair_offset((self.world * (self.world - 1)) as u64) + rank as u64 * self.shared
    }
}
