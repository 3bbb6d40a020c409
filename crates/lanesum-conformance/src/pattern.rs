//! What the inputs hold: bit patterns drawn so that a certain kind of mistake shows.
//!
//! Patterns are made of bits, not of arithmetic, so that nothing of what is judged takes part in making them.

use lanesum_plan::Dtype;
use serde::{Deserialize, Serialize};

use crate::pairwise::Random;

/// A kind of input, named by what it brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Values around one, of both signs: each addition rounds, so the order of the tree shows.
    Ordinary,
    /// All magnitudes: sums in another order, or in less than f32, differ widely.
    Wide,
    /// Halves of the last place upon ones: every rounding is a tie or nearly one.
    Ties,
    /// Zeros of both signs: a zero as a start value shows, and so does a maximum that can't tell them apart.
    SignedZeros,
    /// Subnormals and the smallest normals: a flush to zero shows.
    Subnormals,
    /// The largest finite values: f16 overflows in the last rounding and not before, f32 in the sum.
    Overflow,
    /// Infinities of both signs among ordinary values: their sum is NaN.
    Infinities,
    /// NaNs, quiet and signalling, of both signs and any payload: what is stored is the canonical one.
    Nans,
    /// Any bits at all.
    Bits,
}

/// How a dtype is laid out: sign, exponent, fraction.
#[derive(Debug, Clone, Copy)]
struct Layout {
    exponent: u32,
    fraction: u32,
}

impl Layout {
    const fn of(dtype: Dtype) -> Layout {
        match dtype {
            Dtype::F32 => Layout {
                exponent: 8,
                fraction: 23,
            },
            Dtype::F16 => Layout {
                exponent: 5,
                fraction: 10,
            },
            Dtype::Bf16 => Layout {
                exponent: 8,
                fraction: 7,
            },
        }
    }

    /// The exponent field of infinities and NaNs.
    const fn top(self) -> u64 {
        (1 << self.exponent) - 1
    }

    /// The exponent field of one.
    const fn bias(self) -> u64 {
        self.top() >> 1
    }

    const fn bits(self, sign: u64, exponent: u64, fraction: u64) -> u32 {
        let fraction = fraction & ((1 << self.fraction) - 1);
        ((sign & 1) << (self.exponent + self.fraction) | exponent << self.fraction | fraction) as u32
    }
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Pattern; 9] = [
        Pattern::Ordinary,
        Pattern::Wide,
        Pattern::Ties,
        Pattern::SignedZeros,
        Pattern::Subnormals,
        Pattern::Overflow,
        Pattern::Infinities,
        Pattern::Nans,
        Pattern::Bits,
    ];

    /// The bits of one element of this pattern.
    pub(crate) fn draw(self, dtype: Dtype, random: &mut Random) -> u32 {
        let layout = Layout::of(dtype);
        let (sign, fraction) = (random.next(), random.next());
        let one_in = |random: &mut Random, chances: usize| random.below(chances) == 0;
        match self {
            Pattern::Ordinary => {
                let exponent = layout.bias() - 3 + random.below(6) as u64;
                layout.bits(sign, exponent, fraction)
            }
            Pattern::Wide => {
                let exponent = 1 + random.below(layout.top() as usize - 1) as u64;
                layout.bits(sign, exponent, fraction)
            }
            Pattern::Ties => {
                // One unit in the last place of one is 2^-fraction; half of it, or little more, makes or breaks a tie.
                let down = [0, 0, u64::from(layout.fraction) + 1, u64::from(layout.fraction) + 2];
                let exponent = layout.bias().saturating_sub(down[random.below(down.len())]).max(1);
                layout.bits(sign, exponent, fraction & 1)
            }
            Pattern::SignedZeros => layout.bits(sign, 0, 0),
            Pattern::Subnormals => {
                let exponent = u64::from(one_in(random, 4));
                layout.bits(sign, exponent, fraction)
            }
            Pattern::Overflow => {
                let sign = u64::from(one_in(random, 8));
                layout.bits(sign, layout.top() - 1 - random.below(2) as u64, fraction)
            }
            Pattern::Infinities if one_in(random, 4) => layout.bits(sign, layout.top(), 0),
            Pattern::Nans if one_in(random, 4) => layout.bits(sign, layout.top(), fraction | 1),
            Pattern::Infinities | Pattern::Nans => Pattern::Ordinary.draw(dtype, random),
            Pattern::Bits => layout.bits(sign, random.next() & layout.top(), fraction),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(pattern: Pattern, dtype: Dtype) -> Vec<u32> {
        let mut random = Random::new(5);
        (0..4000).map(|_| pattern.draw(dtype, &mut random)).collect()
    }

    #[test]
    fn patterns_hold_what_their_names_say() {
        let f32s = |pattern| drawn(pattern, Dtype::F32).into_iter().map(f32::from_bits);
        assert!(f32s(Pattern::Ordinary).all(|value| (0.1..9.0).contains(&value.abs())));
        assert!(f32s(Pattern::Wide).all(f32::is_normal));
        assert!(f32s(Pattern::SignedZeros).all(|value| value == 0.0));
        assert!(f32s(Pattern::SignedZeros).any(f32::is_sign_negative));
        assert!(f32s(Pattern::Subnormals).any(f32::is_subnormal));
        assert!(f32s(Pattern::Overflow).all(|value| value.is_finite() && value.abs() > f32::MAX / 5.0));
        assert!(f32s(Pattern::Infinities).any(f32::is_infinite));
        assert!(!f32s(Pattern::Infinities).any(f32::is_nan));
        assert!(f32s(Pattern::Nans).any(f32::is_nan));
        assert!(f32s(Pattern::Ties).any(|value| value.abs() < 1e-7));
    }

    #[test]
    fn sixteen_bit_patterns_keep_to_sixteen_bits() {
        for pattern in Pattern::ALL {
            for dtype in [Dtype::F16, Dtype::Bf16] {
                assert!(drawn(pattern, dtype).into_iter().all(|bits| bits <= 0xFFFF));
            }
        }
    }
}
