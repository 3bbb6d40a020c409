//! A buffer at a chosen misalignment with guards around it: a store past either end shows.

use crate::sample::Sample;
use crate::verdict::Side;

/// How many bytes are watched at each end: more than the widest vector, so that one store too many stays inside.
const GUARD: usize = 256;

/// The bits of guards and of outputs before a call; a pattern that no tested sum has reason to give.
const POISON: u32 = 0x6B5A_6B5A;

/// A private buffer between guards.
#[derive(Debug)]
pub(crate) struct Guarded<T> {
    cells: Vec<T>,
    start: usize,
    elements: usize,
}

impl<T: Sample> Guarded<T> {
    /// A poisoned buffer that begins `misalignment` elements past a 64-byte line.
    pub(crate) fn new(elements: usize, misalignment: usize) -> Guarded<T> {
        let size = T::DTYPE.size();
        let guard = GUARD / size;
        let cells = vec![T::of_bits(POISON); elements + 2 * guard + 128 / size];
        let past_line = (cells.as_ptr().addr() / size + guard) % (64 / size);
        let to_line = (64 / size - past_line) % (64 / size);
        let start = guard + to_line + misalignment % (64 / size);
        Guarded { cells, start, elements }
    }

    /// As [`Guarded::new`] for memory that is copied to where lines begin with the first cell.
    pub(crate) fn for_copies(elements: usize, misalignment: usize) -> Guarded<T> {
        let size = T::DTYPE.size();
        let guard = GUARD / size;
        let cells = vec![T::of_bits(POISON); elements + 2 * guard + 64 / size];
        let start = guard + misalignment % (64 / size);
        Guarded { cells, start, elements }
    }

    /// All cells, guards too.
    pub(crate) fn cells(&self) -> &[T] {
        &self.cells
    }

    /// All cells, guards too.
    pub(crate) fn cells_mut(&mut self) -> &mut [T] {
        &mut self.cells
    }

    /// Which cells are the buffer.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.elements
    }

    pub(crate) fn inner(&self) -> &[T] {
        &self.cells[self.start..self.start + self.elements]
    }

    pub(crate) fn inner_mut(&mut self) -> &mut [T] {
        &mut self.cells[self.start..self.start + self.elements]
    }

    pub(crate) fn poison(&mut self) {
        self.inner_mut().fill(T::of_bits(POISON));
    }

    /// Where a guard was written over, counted in elements away from the buffer.
    pub(crate) fn breach(&self) -> Option<(Side, usize)> {
        let end = self.start + self.elements;
        let before = self.cells[..self.start].iter().rev().position(|cell| !is_poison(*cell));
        let after = self.cells[end..].iter().position(|cell| !is_poison(*cell));
        before
            .map(|distance| (Side::Before, distance + 1))
            .or(after.map(|distance| (Side::After, distance + 1)))
    }
}

/// The element that guards are made of.
pub(crate) fn poison<T: Sample>() -> T {
    T::of_bits(POISON)
}

/// Whether a guard's element is as it was.
pub(crate) fn is_poison<T: Sample>(cell: T) -> bool {
    cell.bits() == poison::<T>().bits()
}

/// How many elements guard the end of a shared buffer.
pub(crate) fn tail<T: Sample>() -> usize {
    GUARD / T::DTYPE.size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanesum::f16;

    #[test]
    fn buffers_begin_where_they_are_told() {
        for misalignment in 0..16 {
            let buffer = Guarded::<f32>::new(10, misalignment);
            assert_eq!(buffer.inner().as_ptr().addr() % 64, 4 * misalignment);
            let buffer = Guarded::<f16>::new(10, misalignment);
            assert_eq!(buffer.inner().as_ptr().addr() % 64, 2 * misalignment);
        }
    }

    #[test]
    fn a_store_past_either_end_shows() {
        let mut buffer = Guarded::<f32>::new(5, 3);
        buffer.inner_mut().fill(1.0);
        assert_eq!(buffer.breach(), None);
        let (start, end) = (buffer.start, buffer.start + 5);
        buffer.cells[start - 1] = 0.0;
        assert_eq!(buffer.breach(), Some((Side::Before, 1)));
        buffer.cells[start - 1] = poison();
        buffer.cells[end + 1] = 0.0;
        assert_eq!(buffer.breach(), Some((Side::After, 2)));
    }
}
