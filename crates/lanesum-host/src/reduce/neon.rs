//! The NEON shell, which every aarch64 CPU has. Half precision is converted by assembly, as the compiler's own
//! half precision type isn't stable.

use core::arch::aarch64::{
    float32x4_t, uint8x16_t, uint32x4_t, vaddq_f32, vaddq_u32, vandq_u32, vbslq_f32, vceqq_f32, vdupq_n_u32, vld1q_f32,
    vld1q_u8, vmaxq_f32, vminq_f32, vorrq_u32, vreinterpretq_f32_u32, vreinterpretq_u8_u32, vreinterpretq_u32_f32,
    vreinterpretq_u32_u8, vshlq_n_u32, vshrq_n_u32, vst1q_f32, vst1q_u8,
};
use core::arch::asm;

use super::expression::{Expression, Sink, evaluate};
use super::vector::{Operands, Vector};

/// NEON is part of every aarch64 target, so the token can always be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neon(());

impl Neon {
    /// The token.
    #[expect(clippy::new_without_default, reason = "as the other instruction sets' tokens")]
    pub const fn new() -> Neon {
        Neon(())
    }
}

/// Elements 0, 2, 4... in the first vector, 1, 3, 5... in the second.
#[inline]
#[target_feature(enable = "neon")]
fn widen_bf16(raw: uint8x16_t) -> [float32x4_t; 2] {
    let raw = vreinterpretq_u32_u8(raw);
    let odd = vandq_u32(raw, vdupq_n_u32(0xFFFF_0000));
    [
        vreinterpretq_f32_u32(vshlq_n_u32::<16>(raw)),
        vreinterpretq_f32_u32(odd),
    ]
}

/// The inverse of [`widen_bf16`], rounding.
#[inline]
#[target_feature(enable = "neon")]
fn round_bf16(group: [float32x4_t; 2]) -> uint8x16_t {
    let even = vshrq_n_u32::<16>(round_upper(group[0]));
    let odd = vandq_u32(round_upper(group[1]), vdupq_n_u32(0xFFFF_0000));
    vreinterpretq_u8_u32(vorrq_u32(even, odd))
}

/// Rounds to nearest even in the upper half of each 32 bits; the lower halves are garbage. The carry may reach the
/// exponent, which is how overflow becomes infinity; it cannot pass it, since the lower half of a canonical NaN is 0.
#[inline]
#[target_feature(enable = "neon")]
fn round_upper(value: float32x4_t) -> uint32x4_t {
    let bits = vreinterpretq_u32_f32(value);
    let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd)
}

/// Half precision to f32: the lower four elements, then the upper four.
#[inline]
#[target_feature(enable = "neon")]
fn widen_f16(raw: uint8x16_t) -> [float32x4_t; 2] {
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: register arithmetic only. `low` is written while `raw` is still to be read, so it shares no register.
    unsafe {
        asm!(
            "fcvtl {low:v}.4s, {raw:v}.4h",
            "fcvtl2 {high:v}.4s, {raw:v}.8h",
            raw = in(vreg) raw,
            low = out(vreg) low,
            high = lateout(vreg) high,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    [low, high]
}

/// The inverse of [`widen_f16`], rounding as FPCR says: to nearest even, under `FloatGuard`.
#[inline]
#[target_feature(enable = "neon")]
fn round_f16(group: [float32x4_t; 2]) -> uint8x16_t {
    let raw: uint8x16_t;
    // SAFETY: register arithmetic only. `raw` is written while `high` is still to be read, so it shares no register.
    unsafe {
        asm!(
            "fcvtn {raw:v}.4h, {low:v}.4s",
            "fcvtn2 {raw:v}.8h, {high:v}.4s",
            low = in(vreg) group[0],
            high = in(vreg) group[1],
            raw = out(vreg) raw,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    raw
}

#[inline]
#[target_feature(enable = "neon")]
fn canonical(group: [float32x4_t; 2]) -> [float32x4_t; 2] {
    let nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7FC0_0000));
    [
        vbslq_f32(vceqq_f32(group[0], group[0]), group[0], nan),
        vbslq_f32(vceqq_f32(group[1], group[1]), group[1], nan),
    ]
}

/// Reads two vectors of f32.
///
/// # Safety
/// `from` is readable for 8 values; it need not be aligned.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn read(from: *const u8) -> [float32x4_t; 2] {
    let from = from.cast::<f32>();
    // SAFETY: the caller vouches for 8 values, of which this reads the first 4.
    let first = unsafe { vld1q_f32(from) };
    // SAFETY: value 4 lies inside them.
    let second = unsafe { from.add(4) };
    // SAFETY: the second 4 values.
    [first, unsafe { vld1q_f32(second) }]
}

/// Writes two vectors of f32.
///
/// # Safety
/// `to` is writable for 8 values; it need not be aligned.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn write(group: [float32x4_t; 2], to: *mut u8) {
    let to = to.cast::<f32>();
    // SAFETY: the caller vouches for 8 values, of which this writes the first 4.
    unsafe { vst1q_f32(to, group[0]) };
    // SAFETY: value 4 lies inside them.
    let second = unsafe { to.add(4) };
    // SAFETY: the second 4 values.
    unsafe { vst1q_f32(second, group[1]) };
}

impl Vector for Neon {
    type Lanes = float32x4_t;

    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load_f32(self, from: *const u8) -> [float32x4_t; 2] {
        // SAFETY: the caller vouches for a group, 8 values.
        unsafe { read(from) }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> [float32x4_t; 2] {
        // SAFETY: the caller vouches for a group, the 16 bytes that this reads.
        let raw = unsafe { vld1q_u8(from) };
        // SAFETY: the token proves NEON.
        unsafe { widen_f16(raw) }
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u8) -> [float32x4_t; 2] {
        // SAFETY: the caller vouches for a group, the 16 bytes that this reads.
        let raw = unsafe { vld1q_u8(from) };
        // SAFETY: the token proves NEON.
        unsafe { widen_bf16(raw) }
    }

    #[inline(always)]
    unsafe fn store_f32(self, group: [float32x4_t; 2], to: *mut u8) {
        // SAFETY: the caller vouches for a group, 8 values.
        unsafe { write(group, to) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, group: [float32x4_t; 2], to: *mut u8) {
        // SAFETY: the token proves NEON.
        let raw = unsafe { round_f16(group) };
        // SAFETY: the caller vouches for a group, the 16 bytes that this writes.
        unsafe { vst1q_u8(to, raw) };
    }

    #[inline(always)]
    unsafe fn store_bf16(self, group: [float32x4_t; 2], to: *mut u8) {
        // SAFETY: the token proves NEON.
        let raw = unsafe { round_bf16(group) };
        // SAFETY: the caller vouches for a group, the 16 bytes that this writes.
        unsafe { vst1q_u8(to, raw) };
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: the token proves NEON.
        unsafe { vaddq_f32(a, b) }
    }

    /// `fmax` is IEEE 754-2019 maximum.
    #[inline(always)]
    fn maximum(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: the token proves NEON.
        unsafe { vmaxq_f32(a, b) }
    }

    /// `fmin` is IEEE 754-2019 minimum.
    #[inline(always)]
    fn minimum(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: the token proves NEON.
        unsafe { vminq_f32(a, b) }
    }

    #[inline(always)]
    fn canonical(self, group: [float32x4_t; 2]) -> [float32x4_t; 2] {
        // SAFETY: the token proves NEON.
        unsafe { canonical(group) }
    }

    #[target_feature(enable = "neon")]
    unsafe fn enter<E: Expression, K: Sink>(operands: &Operands, out: *mut u8, elements: usize) {
        // SAFETY: the caller vouches for what `evaluate` asks.
        unsafe { evaluate::<Self, E, K>(Neon::new(), operands, out, elements) }
    }
}
