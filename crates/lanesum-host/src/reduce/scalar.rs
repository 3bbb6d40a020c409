//! The shell that every machine has: one value a vector, conversions in integer arithmetic.
//!
//! It is the fallback, and the code against which the vector conversions are compared over whole ranges of bits.

use super::expression::{Expression, Sink, evaluate};
use super::vector::{Operands, Vector};

/// No instruction set but the one that the compiler assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plain;

/// The canonical NaN of intermediate values.
const NAN: u32 = 0x7FC0_0000;

/// Widens f16 exactly; a signalling NaN keeps its bits, shifted.
pub(super) const fn widen_f16(bits: u16) -> f32 {
    let sign = ((bits & 0x8000) as u32) << 16;
    let exponent = (bits >> 10) & 0x1F;
    let fraction = (bits & 0x3FF) as u32;
    match exponent {
        // Subnormals: the fraction counts units of 2^-24, exact in f32.
        0 => f32::from_bits(sign | (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits()),
        0x1F => f32::from_bits(sign | 0x7F80_0000 | (fraction << 13)),
        // The biases differ by 127 - 15 = 112.
        _ => f32::from_bits(sign | ((exponent as u32 + 112) << 23) | (fraction << 13)),
    }
}

/// Widens bf16: it is the upper half of an f32.
pub(super) const fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Rounds to f16, to nearest even; overflows to infinity, keeps subnormals, makes NaN 0x7E00.
pub(super) const fn round_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return 0x7E00;
    }
    // From 65520 = 2^16 - 2^4, half way between the largest f16 and 2^16, everything goes to infinity.
    if magnitude >= 0x477F_F000 {
        return sign | 0x7C00;
    }
    // From 2^-14 the result is normal: rebias, and let the carry of the rounding run into the exponent.
    if magnitude >= 0x3880_0000 {
        return sign | (nearest_even(magnitude, 13) - (112 << 10)) as u16;
    }
    // At and below 2^-25, half the smallest subnormal, the nearest even is zero.
    if magnitude <= 0x3300_0000 {
        return sign;
    }
    // Subnormal: the significand in units of 2^-24. The value is significand x 2^(exponent - 150).
    let significand = (magnitude & 0x7F_FFFF) | 0x80_0000;
    sign | nearest_even(significand, 126 - (magnitude >> 23)) as u16
}

/// Rounds to bf16, to nearest even; overflows to infinity, keeps subnormals, makes NaN 0x7FC0.
pub(super) const fn round_bf16(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7FC0;
    }
    let bits = value.to_bits();
    (((bits >> 31) << 15) | nearest_even(bits & 0x7FFF_FFFF, 16)) as u16
}

/// `value` / 2^`shift`, to nearest, ties to even. `value` is below 2^31 and `shift` between 1 and 24.
const fn nearest_even(value: u32, shift: u32) -> u32 {
    (value + (1 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift
}

/// Reads two elements.
///
/// # Safety
/// `from` is readable for two values of `T`.
#[inline(always)]
unsafe fn read<T: Copy>(from: *const u8) -> [T; 2] {
    // SAFETY: the caller vouches for the memory; `T` is a plain integer or float here, and the read is unaligned.
    unsafe { from.cast::<[T; 2]>().read_unaligned() }
}

/// Writes two elements.
///
/// # Safety
/// `to` is writable for two values of `T`.
#[inline(always)]
unsafe fn write<T>(to: *mut u8, values: [T; 2]) {
    // SAFETY: the caller vouches for the memory; the write is unaligned.
    unsafe { to.cast::<[T; 2]>().write_unaligned(values) }
}

impl Vector for Plain {
    type Lanes = f32;

    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn load_f32(self, from: *const u8) -> [f32; 2] {
        // SAFETY: the caller vouches for a group.
        unsafe { read(from) }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> [f32; 2] {
        // SAFETY: the caller vouches for a group.
        unsafe { read(from) }.map(widen_f16)
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u8) -> [f32; 2] {
        // SAFETY: the caller vouches for a group.
        unsafe { read(from) }.map(widen_bf16)
    }

    #[inline(always)]
    unsafe fn store_f32(self, group: [f32; 2], to: *mut u8) {
        // SAFETY: the caller vouches for a group.
        unsafe { write(to, group) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, group: [f32; 2], to: *mut u8) {
        // SAFETY: the caller vouches for a group.
        unsafe { write(to, group.map(round_f16)) }
    }

    #[inline(always)]
    unsafe fn store_bf16(self, group: [f32; 2], to: *mut u8) {
        // SAFETY: the caller vouches for a group.
        unsafe { write(to, group.map(round_bf16)) }
    }

    #[inline(always)]
    fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn maximum(self, a: f32, b: f32) -> f32 {
        if a > b {
            a
        } else if b > a {
            b
        } else if a == b {
            // Equal values differ at most in the sign of zero, and + wins.
            f32::from_bits(a.to_bits() & b.to_bits())
        } else {
            f32::from_bits(NAN)
        }
    }

    #[inline(always)]
    fn minimum(self, a: f32, b: f32) -> f32 {
        if a < b {
            a
        } else if b < a {
            b
        } else if a == b {
            // Equal values differ at most in the sign of zero, and - wins.
            f32::from_bits(a.to_bits() | b.to_bits())
        } else {
            f32::from_bits(NAN)
        }
    }

    #[inline(always)]
    fn canonical(self, group: [f32; 2]) -> [f32; 2] {
        group.map(|value| if value.is_nan() { f32::from_bits(NAN) } else { value })
    }

    unsafe fn enter<E: Expression, K: Sink>(operands: &Operands, out: *mut u8, elements: usize) {
        // SAFETY: the caller vouches for what `evaluate` asks.
        unsafe { evaluate::<Self, E, K>(Plain, operands, out, elements) }
    }
}
