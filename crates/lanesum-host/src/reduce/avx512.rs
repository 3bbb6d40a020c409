//! The AVX-512 shell. It needs the foundation (F) alone, so any CPU with AVX-512 will do.
//!
//! The BF16 extension's conversion is not used: it flushes subnormals, whatever the rounding state says.

use core::arch::x86_64::{
    __m512, __m512i, _CMP_UNORD_Q, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_prefetch,
    _mm256_loadu_si256, _mm256_storeu_si256, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtph_ps, _mm512_cvtps_ph, _mm512_fixupimm_ps, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mask_blend_epi32, _mm512_mask_mov_ps, _mm512_max_ps, _mm512_min_ps, _mm512_or_si512,
    _mm512_set1_epi32, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_storeu_ps, _mm512_storeu_si512,
    _mm512_ternarylogic_epi32, _mm512_test_epi32_mask,
};

use super::expression::{Expression, Sink, evaluate};
use super::vector::{Operands, Vector};

/// Proof that this CPU, and the system on it, have AVX-512 F.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx512(());

impl Avx512 {
    /// The token, where the feature is there.
    pub fn new() -> Option<Avx512> {
        is_x86_feature_detected!("avx512f").then_some(Avx512(()))
    }
}

const UPPER: i32 = 0xFFFF_0000_u32.cast_signed();

/// The upper half of each 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn upper(raw: __m512i) -> __m512i {
    _mm512_and_si512(raw, _mm512_set1_epi32(UPPER))
}

/// Elements 0, 2, 4... in the first vector, 1, 3, 5... in the second.
#[inline]
#[target_feature(enable = "avx512f")]
fn widen_bf16(raw: __m512i) -> [__m512; 2] {
    [
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(raw)),
        _mm512_castsi512_ps(upper(raw)),
    ]
}

/// The inverse of [`widen_bf16`], rounding.
#[inline]
#[target_feature(enable = "avx512f")]
fn round_bf16(group: [__m512; 2]) -> __m512i {
    let even = _mm512_srli_epi32::<16>(round_upper(group[0]));
    // Bit by bit: where the first has a one the second, elsewhere the third.
    _mm512_ternarylogic_epi32::<0xCA>(_mm512_set1_epi32(UPPER), round_upper(group[1]), even)
}

/// Rounds to nearest even in the upper half of each 32 bits; the lower halves are garbage. The carry may reach the
/// exponent, which is how overflow becomes infinity; it cannot pass it, since the lower half of a canonical NaN is 0.
#[inline]
#[target_feature(enable = "avx512f")]
fn round_upper(value: __m512) -> __m512i {
    let bits = _mm512_castps_si512(value);
    let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
    let half = _mm512_mask_blend_epi32(odd, _mm512_set1_epi32(0x7FFF), _mm512_set1_epi32(0x8000));
    _mm512_add_epi32(bits, half)
}

/// `max_ps` gives its second argument where the values are equal or one is NaN. So both orders give both zeros, whose
/// `and` is +0 if either is; and NaN is put in afterwards.
#[inline]
#[target_feature(enable = "avx512f")]
fn maximum(a: __m512, b: __m512) -> __m512 {
    let (one, other) = (
        _mm512_castps_si512(_mm512_max_ps(a, b)),
        _mm512_castps_si512(_mm512_max_ps(b, a)),
    );
    let either = _mm512_castsi512_ps(_mm512_and_si512(one, other));
    _mm512_mask_mov_ps(either, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b), nan())
}

/// As `maximum`; the `or` of a NaN with anything is still a NaN, so it needs no further care.
#[inline]
#[target_feature(enable = "avx512f")]
fn minimum(a: __m512, b: __m512) -> __m512 {
    let (one, other) = (
        _mm512_castps_si512(_mm512_min_ps(a, b)),
        _mm512_castps_si512(_mm512_min_ps(b, a)),
    );
    _mm512_castsi512_ps(_mm512_or_si512(one, other))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn canonical(group: [__m512; 2]) -> [__m512; 2] {
    // Four bits for each class of values: NaNs, which are the first two, become `nan`, all others stay.
    let classes = _mm512_set1_epi32(0x1111_1100);
    group.map(|a| _mm512_fixupimm_ps::<0>(nan(), a, classes))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn nan() -> __m512 {
    _mm512_castsi512_ps(_mm512_set1_epi32(0x7FC0_0000))
}

impl Vector for Avx512 {
    type Lanes = __m512;

    const LANES: usize = 16;

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: a hint, which no address makes fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn load_f32(self, from: *const u8) -> [__m512; 2] {
        let from = from.cast::<f32>();
        // SAFETY: the caller vouches for a group, 32 values, of which this reads the first 16.
        let first = unsafe { _mm512_loadu_ps(from) };
        // SAFETY: value 16 lies inside the group.
        let second = unsafe { from.add(16) };
        // SAFETY: the second 16 values of the group.
        [first, unsafe { _mm512_loadu_ps(second) }]
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> [__m512; 2] {
        // SAFETY: the caller vouches for a group, 64 bytes, of which this reads the first 32.
        let first = unsafe { _mm256_loadu_si256(from.cast()) };
        // SAFETY: byte 32 lies inside the group.
        let second = unsafe { from.add(32) };
        // SAFETY: the second 32 bytes of the group.
        let second = unsafe { _mm256_loadu_si256(second.cast()) };
        // SAFETY: the token proves the feature.
        let first = unsafe { _mm512_cvtph_ps(first) };
        // SAFETY: the token proves the feature.
        [first, unsafe { _mm512_cvtph_ps(second) }]
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u8) -> [__m512; 2] {
        // SAFETY: the caller vouches for a group, the 64 bytes that this reads.
        let raw = unsafe { _mm512_loadu_si512(from.cast()) };
        // SAFETY: the token proves the feature.
        unsafe { widen_bf16(raw) }
    }

    #[inline(always)]
    unsafe fn store_f32(self, group: [__m512; 2], to: *mut u8) {
        let to = to.cast::<f32>();
        // SAFETY: the caller vouches for a group, 32 values, of which this writes the first 16.
        unsafe { _mm512_storeu_ps(to, group[0]) };
        // SAFETY: value 16 lies inside the group.
        let second = unsafe { to.add(16) };
        // SAFETY: the second 16 values of the group.
        unsafe { _mm512_storeu_ps(second, group[1]) };
    }

    #[inline(always)]
    unsafe fn store_f16(self, group: [__m512; 2], to: *mut u8) {
        // SAFETY: the token proves the feature.
        let first = unsafe { _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(group[0]) };
        // SAFETY: the token proves the feature.
        let last = unsafe { _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(group[1]) };
        // SAFETY: the caller vouches for a group, 64 bytes, of which this writes the first 32.
        unsafe { _mm256_storeu_si256(to.cast(), first) };
        // SAFETY: byte 32 lies inside the group.
        let second = unsafe { to.add(32) };
        // SAFETY: the second 32 bytes of the group.
        unsafe { _mm256_storeu_si256(second.cast(), last) };
    }

    #[inline(always)]
    unsafe fn store_bf16(self, group: [__m512; 2], to: *mut u8) {
        // SAFETY: the token proves the feature.
        let raw = unsafe { round_bf16(group) };
        // SAFETY: the caller vouches for a group, the 64 bytes that this writes.
        unsafe { _mm512_storeu_si512(to.cast(), raw) };
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the feature.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn maximum(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the feature.
        unsafe { maximum(a, b) }
    }

    #[inline(always)]
    fn minimum(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the feature.
        unsafe { minimum(a, b) }
    }

    #[inline(always)]
    fn canonical(self, group: [__m512; 2]) -> [__m512; 2] {
        // SAFETY: the token proves the feature.
        unsafe { canonical(group) }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn enter<E: Expression, K: Sink>(operands: &Operands, out: *mut u8, elements: usize) {
        // The caller vouches that a token exists; this is one like it.
        let token = Avx512(());
        // SAFETY: the caller vouches for what `evaluate` asks.
        unsafe { evaluate::<Self, E, K>(token, operands, out, elements) }
    }
}
