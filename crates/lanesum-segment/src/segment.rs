//! Making, opening and checking a segment.

use core::ptr::NonNull;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::thread::futex;

use crate::error::SegmentError;
use crate::layout::{Control, Geometry, Head, LAYOUT_VERSION, MAGIC};
use crate::sealed::SealedMemory;
use crate::sync::{AtomicU32, Ordering};

/// The mapped segment of a communicator.
#[derive(Debug)]
pub struct Segment {
    geometry: Geometry,
    memory: SealedMemory,
}

impl Segment {
    /// Makes, formats and seals a segment, and gives the descriptor that the peers open.
    ///
    /// # Errors
    /// [`SegmentError::System`] if the kernel refuses.
    pub fn create(geometry: Geometry) -> Result<(Self, OwnedFd), SegmentError> {
        let (memory, fd) = SealedMemory::create(geometry.total())?;
        let segment = Self { geometry, memory };
        segment.format();
        Ok((segment, fd))
    }

    /// Maps a segment that a peer made, and checks it against what was agreed on.
    ///
    /// # Errors
    /// [`SegmentError`] if it is not sealed, has another size or header, or can't be mapped.
    pub fn open(fd: &OwnedFd, geometry: Geometry) -> Result<Self, SegmentError> {
        let segment = Self {
            geometry,
            memory: SealedMemory::open(fd, geometry.total())?,
        };
        segment.check()?;
        Ok(segment)
    }

    /// Its geometry.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The first byte of the mailbox from one rank to another. Valid for [`Geometry::mailbox`] bytes as long as the
    /// segment lives.
    ///
    /// # Panics
    /// If the segment has no such pair of ranks: the address would lie outside the mapping.
    #[inline]
    pub fn mailbox(&self, from: usize, to: usize) -> NonNull<u8> {
        let world = self.geometry.world();
        assert!(from < world && to < world && from != to, "no such pair of ranks");
        self.at(self.geometry.mailbox_offset(from, to))
    }

    /// The first byte of a rank's arena. Valid for [`Geometry::shared`] bytes as long as the segment lives.
    ///
    /// # Panics
    /// If the segment has no such rank: the address would lie outside the mapping.
    #[inline]
    pub fn arena(&self, rank: usize) -> NonNull<u8> {
        assert!(rank < self.geometry.world(), "no such rank");
        self.at(self.geometry.arena_offset(rank))
    }

    /// Asks the kernel for the pages of the mailboxes from a rank, and then of those to it, before the first call needs them.
    pub fn populate(&self, rank: usize) {
        let peers = || (0..self.geometry.world()).filter(move |peer| *peer != rank);
        let pairs = peers().map(|peer| (rank, peer)).chain(peers().map(|peer| (peer, rank)));
        for (from, to) in pairs {
            let start = self.geometry.mailbox_offset(from, to);
            self.memory.mapping().populate(start, self.geometry.mailbox());
        }
    }

    #[inline]
    fn at(&self, offset: u64) -> NonNull<u8> {
        // SAFETY: all offsets come from `Geometry` for ranks below its world, so they lie inside the
        // mapping, whose length is `Geometry::total`.
        unsafe { self.memory.base().add(offset as usize) }
    }

    #[inline]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: the first page holds a `Head` (const-asserted to fit), page-aligned, and consists of
        // atomics only, for which any bytes and any concurrent access are valid.
        unsafe { self.at(0).cast::<Head>().as_ref() }
    }

    #[inline]
    pub(crate) fn control(&self, rank: usize) -> &Control {
        assert!(rank < self.geometry.world(), "no such rank");
        // SAFETY: `control_offset` of a rank below the world lies inside the mapping, is a multiple of 512,
        // and `Control` is 512 bytes of atomics only.
        unsafe { self.at(self.geometry.control_offset(rank)).cast::<Control>().as_ref() }
    }

    /// Formats a fresh segment: nobody else has it yet, so relaxed stores do; the descriptor is passed
    /// through the kernel afterwards.
    fn format(&self) {
        for rank in 0..self.geometry.world() {
            for (parity, line) in (0u64..).zip(&self.control(rank).lines) {
                let stale = self.geometry.stale(parity);
                line.header.store(u64::from(stale as u32), Ordering::Relaxed);
                line.result.store(stale, Ordering::Relaxed);
                line.closing.store(stale, Ordering::Relaxed);
            }
        }
        let head = self.head();
        head.magic.store(MAGIC, Ordering::Relaxed);
        head.version.store(LAYOUT_VERSION, Ordering::Relaxed);
        for (slot, value) in self.words() {
            slot.store(value, Ordering::Relaxed);
        }
        head.world.store(self.geometry.world() as u32, Ordering::Relaxed);
    }

    fn words(&self) -> [(&crate::sync::AtomicU64, u64); 5] {
        let (head, geometry) = (self.head(), &self.geometry);
        [
            (&head.mailbox, geometry.mailbox()),
            (&head.shared, geometry.shared()),
            (&head.first_epoch, geometry.first_epoch()),
            (&head.digest, geometry.digest()),
            (&head.total, geometry.total()),
        ]
    }

    fn check(&self) -> Result<(), SegmentError> {
        let compare = |field, found: u64, expected: u64| match found == expected {
            true => Ok(()),
            false => Err(SegmentError::Header { field, found, expected }),
        };
        let head = self.head();
        compare("magic", head.magic.load(Ordering::Relaxed), MAGIC)?;
        compare(
            "layout version",
            head.version.load(Ordering::Relaxed).into(),
            LAYOUT_VERSION.into(),
        )?;
        compare(
            "world",
            head.world.load(Ordering::Relaxed).into(),
            self.geometry.world() as u64,
        )?;
        let names = ["mailbox", "shared", "first epoch", "digest", "total"];
        for (field, (slot, expected)) in names.into_iter().zip(self.words()) {
            compare(field, slot.load(Ordering::Relaxed), expected)?;
        }
        Ok(())
    }
}

pub(crate) fn futex_wake(bell: &AtomicU32) {
    // A refusal costs the sleeper one nap.
    futex::wake(bell, futex::Flags::empty(), u32::MAX >> 1).ok();
}

pub(crate) fn futex_wait(bell: &AtomicU32, number: u32, time: Duration) {
    let Ok(time) = rustix::fs::Timespec::try_from(time) else {
        return;
    };
    // Woken, out of time, interrupted or the number has changed: the caller looks again in any case.
    futex::wait(bell, futex::Flags::empty(), number, Some(&time)).ok();
}
