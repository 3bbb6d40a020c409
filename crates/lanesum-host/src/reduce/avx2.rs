//! The AVX2 shell, with F16C for the half precision conversions.
//!
//! Each function that works on registers alone is safe where the features are there; the trait's methods call it on the
//! strength of their token. Everything is inlined into `enter`, the one place where code is compiled for AVX2.

use core::arch::x86_64::{
    __m256, __m256i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch,
    _mm_storeu_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_and_si256, _mm256_blend_epi16,
    _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_max_ps, _mm256_min_ps, _mm256_or_ps, _mm256_set1_epi32,
    _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_ps, _mm256_storeu_si256,
};

use super::expression::{Expression, Sink, evaluate};
use super::vector::{Operands, Vector};

/// Proof that this CPU, and the system on it, have AVX2 and F16C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    /// The token, where the features are there.
    pub fn new() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Avx2(()))
    }
}

/// Elements 0, 2, 4... in the first vector, 1, 3, 5... in the second.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen_bf16(raw: __m256i) -> [__m256; 2] {
    let odd = _mm256_and_si256(raw, _mm256_set1_epi32(0xFFFF_0000_u32.cast_signed()));
    [
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(raw)),
        _mm256_castsi256_ps(odd),
    ]
}

/// The inverse of [`widen_bf16`], rounding.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn round_bf16(group: [__m256; 2]) -> __m256i {
    let even = _mm256_srli_epi32::<16>(round_upper(group[0]));
    _mm256_blend_epi16::<0b1010_1010>(even, round_upper(group[1]))
}

/// Rounds to nearest even in the upper half of each 32 bits; the lower halves are garbage. The carry may reach the
/// exponent, which is how overflow becomes infinity; it cannot pass it, since the lower half of a canonical NaN is 0.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn round_upper(value: __m256) -> __m256i {
    let bits = _mm256_castps_si256(value);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd)
}

/// `max_ps` gives its second argument where the values are equal or one is NaN. So both orders give both zeros, whose
/// `and` is +0 if either is; and NaN is put in afterwards.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn maximum(a: __m256, b: __m256) -> __m256 {
    let either = _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a));
    _mm256_blendv_ps(either, nan(), _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b))
}

/// As `maximum`; the `or` of a NaN with anything is still a NaN, so it needs no further care.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn minimum(a: __m256, b: __m256) -> __m256 {
    _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn canonical(group: [__m256; 2]) -> [__m256; 2] {
    group.map(|a| _mm256_blendv_ps(a, nan(), _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn nan() -> __m256 {
    _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC0_0000))
}

impl Vector for Avx2 {
    type Lanes = __m256;

    const LANES: usize = 8;

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: a hint, which no address makes fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn load_f32(self, from: *const u8) -> [__m256; 2] {
        let from = from.cast::<f32>();
        // SAFETY: the caller vouches for a group, 16 values, of which this reads the first 8.
        let first = unsafe { _mm256_loadu_ps(from) };
        // SAFETY: value 8 lies inside the group.
        let second = unsafe { from.add(8) };
        // SAFETY: the second 8 values of the group.
        [first, unsafe { _mm256_loadu_ps(second) }]
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> [__m256; 2] {
        // SAFETY: the caller vouches for a group, 32 bytes, of which this reads the first 16.
        let first = unsafe { _mm_loadu_si128(from.cast()) };
        // SAFETY: byte 16 lies inside the group.
        let second = unsafe { from.add(16) };
        // SAFETY: the second 16 bytes of the group.
        let second = unsafe { _mm_loadu_si128(second.cast()) };
        // SAFETY: the token proves F16C.
        let first = unsafe { _mm256_cvtph_ps(first) };
        // SAFETY: the token proves F16C.
        [first, unsafe { _mm256_cvtph_ps(second) }]
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u8) -> [__m256; 2] {
        // SAFETY: the caller vouches for a group, the 32 bytes that this reads.
        let raw = unsafe { _mm256_loadu_si256(from.cast()) };
        // SAFETY: the token proves the features.
        unsafe { widen_bf16(raw) }
    }

    #[inline(always)]
    unsafe fn store_f32(self, group: [__m256; 2], to: *mut u8) {
        let to = to.cast::<f32>();
        // SAFETY: the caller vouches for a group, 16 values, of which this writes the first 8.
        unsafe { _mm256_storeu_ps(to, group[0]) };
        // SAFETY: value 8 lies inside the group.
        let second = unsafe { to.add(8) };
        // SAFETY: the second 8 values of the group.
        unsafe { _mm256_storeu_ps(second, group[1]) };
    }

    #[inline(always)]
    unsafe fn store_f16(self, group: [__m256; 2], to: *mut u8) {
        // SAFETY: the token proves F16C.
        let first = unsafe { _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(group[0]) };
        // SAFETY: the token proves F16C.
        let last = unsafe { _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(group[1]) };
        // SAFETY: the caller vouches for a group, 32 bytes, of which this writes the first 16.
        unsafe { _mm_storeu_si128(to.cast(), first) };
        // SAFETY: byte 16 lies inside the group.
        let second = unsafe { to.add(16) };
        // SAFETY: the second 16 bytes of the group.
        unsafe { _mm_storeu_si128(second.cast(), last) };
    }

    #[inline(always)]
    unsafe fn store_bf16(self, group: [__m256; 2], to: *mut u8) {
        // SAFETY: the token proves the features.
        let raw = unsafe { round_bf16(group) };
        // SAFETY: the caller vouches for a group, the 32 bytes that this writes.
        unsafe { _mm256_storeu_si256(to.cast(), raw) };
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn maximum(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { maximum(a, b) }
    }

    #[inline(always)]
    fn minimum(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { minimum(a, b) }
    }

    #[inline(always)]
    fn canonical(self, group: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the token proves the features.
        unsafe { canonical(group) }
    }

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn enter<E: Expression, K: Sink>(operands: &Operands, out: *mut u8, elements: usize) {
        // The caller vouches that a token exists; this is one like it.
        let token = Avx2(());
        // SAFETY: the caller vouches for what `evaluate` asks.
        unsafe { evaluate::<Self, E, K>(token, operands, out, elements) }
    }
}
