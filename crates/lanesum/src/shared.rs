//! Buffers that peers read in place.
#![expect(unsafe_code, reason = "gives out slices of the segment")]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use lanesum_segment::{Allocation, ForkGuard, Segment};

use crate::element::Element;

/// Memory in this rank's arena of the segment, taken at set-up. A pinned `one_shot_pull` reads it where it is; other calls
/// copy it to mailboxes like private memory, which is faster (docs/decisions/0015-mailboxes.md). It may outlive its
/// communicator. In a forked child it is empty: the memory stays with the parent.
#[derive(Debug)]
pub struct SharedBuffer<T: Element> {
    segment: Arc<Segment>,
    guard: Arc<ForkGuard>,
    allocation: Allocation,
    start: NonNull<T>,
    length: usize,
    element: PhantomData<T>,
}

// SAFETY: the buffer owns its part of the arena, as a `Vec<T>` owns its heap memory, and `T` is `Send`.
unsafe impl<T: Element> Send for SharedBuffer<T> {}

impl<T: Element> SharedBuffer<T> {
    /// A zeroed buffer over a fresh allocation of at least `length` elements in `rank`'s arena.
    pub(crate) fn new(
        segment: Arc<Segment>,
        guard: Arc<ForkGuard>,
        rank: usize,
        allocation: Allocation,
        length: usize,
    ) -> Self {
        // The allocator keeps offset + bytes within the arena.
        let start = segment
            .arena(rank)
            .as_ptr()
            .wrapping_add(allocation.offset() as usize)
            .cast::<T>();
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        // SAFETY: the allocation holds `length` elements, 4096-aligned, is nobody else's, and no peer reads
        // it before a call announces it. All zeros is a valid `T`.
        unsafe { start.as_ptr().write_bytes(0, length) };
        Self {
            segment,
            guard,
            allocation,
            start,
            length,
            element: PhantomData,
        }
    }

    /// The segment that it lies in.
    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Where it starts in the arena, bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.allocation.offset()
    }

    fn here(&self) -> usize {
        if self.guard.is_forked() { 0 } else { self.length }
    }
}

impl<T: Element> Deref for SharedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `start` is valid for `length` elements as long as the segment, which this buffer holds
        // (in a forked child the memory is gone, and the slice empty). Peers never write to it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.here()) }
    }
}

impl<T: Element> DerefMut for SharedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` excludes other access of this process. Peers read only between
        // the header and the closing of a call that borrows the buffer; a late peer of a failed call may
        // still read, and discards what it read (docs/memory-model.md).
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.here()) }
    }
}
