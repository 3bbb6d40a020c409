//! The elements the suite can make and judge by their bits.

use lanesum::{Element, bf16, f16};

/// An element type, to and from its bits.
pub trait Sample: Element + Copy + 'static {
    /// The element with these bits; bits beyond the element's width are left out.
    fn of_bits(bits: u32) -> Self;

    /// The element's bits.
    fn bits(self) -> u32;
}

impl Sample for f32 {
    fn of_bits(bits: u32) -> f32 {
        f32::from_bits(bits)
    }

    #[inline]
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Sample for f16 {
    fn of_bits(bits: u32) -> f16 {
        f16::from_bits(bits as u16)
    }

    #[inline]
    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }
}

impl Sample for bf16 {
    fn of_bits(bits: u32) -> bf16 {
        bf16::from_bits(bits as u16)
    }

    #[inline]
    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }
}

/// Whether two slices hold the same bits. Comparing values would let a NaN differ from itself and zeros be equal.
#[inline]
pub(crate) fn same_bits<T: Sample>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .fold(0, |differing, (a, b)| differing | (a.bits() ^ b.bits()))
            == 0
}
