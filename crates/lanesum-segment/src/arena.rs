//! First-fit allocation of offsets in a rank's arena.

use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// Allocations start on a page, so that neighbours never share a cache line or a prefetch pair.
const ALIGN: u64 = 4096;

/// The arena has no gap of the size asked for.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("{asked} B of shared memory were asked for; the largest free piece has {free} B of {capacity} B")]
pub struct ArenaFull {
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes of the largest gap.
    pub free: u64,
    /// Bytes of the arena.
    pub capacity: u64,
}

/// Which parts of one rank's arena are in use. Private to the rank: peers learn offsets call by call.
#[derive(Debug, Clone)]
pub struct Arena {
    capacity: u64,
    /// Taken (offset, bytes), ascending and disjoint.
    taken: Arc<Mutex<Vec<(u64, u64)>>>,
}

/// A part of the arena; dropping it gives the part back.
#[derive(Debug)]
pub struct Allocation {
    arena: Arena,
    offset: u64,
    bytes: u64,
}

impl Arena {
    /// An empty arena of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            taken: Arc::default(),
        }
    }

    /// Takes `bytes`, aligned to 4096.
    ///
    /// # Errors
    /// [`ArenaFull`] if no gap is large enough.
    pub fn allocate(&self, bytes: u64) -> Result<Allocation, ArenaFull> {
        if bytes == 0 {
            // Takes no place: an offset of its own could only lie at or beyond the end of a full arena.
            return Ok(Allocation {
                arena: self.clone(),
                offset: 0,
                bytes,
            });
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut start = 0;
        let mut free = 0;
        let mut place = None;
        for (index, &(offset, length)) in taken.iter().enumerate() {
            free = free.max(offset - start);
            if offset - start >= bytes && place.is_none() {
                place = Some((index, start));
            }
            start = offset.saturating_add(length).next_multiple_of(ALIGN);
        }
        let rest = self.capacity.saturating_sub(start);
        free = free.max(rest);
        if place.is_none() && rest >= bytes {
            place = Some((taken.len(), start));
        }
        let Some((index, offset)) = place else {
            return Err(ArenaFull {
                asked: bytes,
                free,
                capacity: self.capacity,
            });
        };
        taken.insert(index, (offset, bytes));
        Ok(Allocation {
            arena: self.clone(),
            offset,
            bytes,
        })
    }
}

impl Allocation {
    /// Offset in the arena, bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.arena.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|&(offset, _)| offset != self.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_reused_and_the_largest_is_told() {
        let arena = Arena::new(5 * ALIGN);
        let first = arena.allocate(ALIGN).unwrap();
        let second = arena.allocate(2 * ALIGN).unwrap();
        let third = arena.allocate(ALIGN + 1).unwrap();
        assert_eq!((first.offset(), second.offset(), third.offset()), (0, ALIGN, 3 * ALIGN));
        drop(second);
        let full = arena.allocate(2 * ALIGN + 1).unwrap_err();
        assert_eq!(
            full,
            ArenaFull {
                asked: 2 * ALIGN + 1,
                free: 2 * ALIGN,
                capacity: 5 * ALIGN
            }
        );
        let second = arena.allocate(2 * ALIGN).unwrap();
        assert_eq!(second.offset(), ALIGN);
        drop(first);
        let empty = arena.allocate(0).unwrap();
        let again = arena.allocate(1).unwrap();
        assert_eq!((empty.offset(), again.offset()), (0, 0));
        drop(empty);
        assert_eq!(arena.allocate(1).unwrap_err().free, 0);
    }
}
