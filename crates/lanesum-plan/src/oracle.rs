//! The reference that judges every engine: slow, plain, and sharing no code with any of them.
//!
//! Elements are decoded and rounded by integer arithmetic written out here, not by the conversions that engines use. A
//! sum of two f32 is computed in f64 and rounded to f32. Rounding twice is harmless there: f64 has more than twice the
//! 24 bits of f32 plus two, so the first rounding can't move a value across the midpoint that the second one looks at.

use crate::{Dtype, Operation, ReductionTree, Step, WORLD_MAX};

const F32_NAN: u32 = 0x7FC0_0000;
const F16_NAN: u32 = 0x7E00;
const BF16_NAN: u32 = 0x7FC0;

/// Reduces one input a rank, in the order of the tree.
///
/// Inputs and result are little-endian elements of the dtype. Values are combined as f32, sums rounded to f32 at each
/// node, the root rounded once, to nearest with ties to even. Every NaN in the result is the canonical quiet NaN.
/// Inputs of unequal lengths are cut to the shortest one's whole elements; with fewer inputs than ranks, the result is
/// empty.
#[must_use]
pub fn all_reduce(operation: Operation, dtype: Dtype, tree: &ReductionTree, inputs: &[&[u8]]) -> Vec<u8> {
    let size = dtype.size();
    let Some(inputs) = inputs.get(..tree.world().get()) else {
        return Vec::new();
    };
    let elements = inputs.iter().map(|input| input.len() / size).min().unwrap_or(0);
    let mut result = Vec::with_capacity(elements * size);
    let mut leaves = [0.0_f32; WORLD_MAX];
    for start in (0..elements).map(|element| element * size) {
        for (leaf, input) in leaves.iter_mut().zip(inputs) {
            *leaf = widen(dtype, load(&input[start..start + size]));
        }
        let bits = round(dtype, evaluate(operation, tree, &leaves));
        result.extend_from_slice(&bits.to_le_bytes()[..size]);
    }
    result
}

/// The f32 with the value of an element, given as its bits. Exact; the payload of a NaN is not kept.
#[must_use]
pub fn widen(dtype: Dtype, bits: u32) -> f32 {
    f32::from_bits(match dtype {
        Dtype::F32 => bits,
        Dtype::Bf16 => bits << 16,
        Dtype::F16 => widen_f16(bits),
    })
}

/// The bits of the element nearest to the value, ties to even; the canonical NaN for every NaN.
#[must_use]
pub fn round(dtype: Dtype, value: f32) -> u32 {
    let bits = value.to_bits();
    match dtype {
        Dtype::F32 if value.is_nan() => F32_NAN,
        Dtype::F16 if value.is_nan() => F16_NAN,
        Dtype::Bf16 if value.is_nan() => BF16_NAN,
        Dtype::F32 => bits,
        // Numbers of one sign are ordered like their bits, infinity after the largest, so rounding an integer carries
        // into the exponent and up to infinity by itself.
        Dtype::Bf16 => shift_to_even(bits, 16),
        Dtype::F16 => round_f16(bits),
    }
}

/// The bits of an element from its bytes, least significant first.
fn load(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte))
}

fn evaluate(operation: Operation, tree: &ReductionTree, leaves: &[f32; WORLD_MAX]) -> f32 {
    let mut stack = [0.0_f32; WORLD_MAX];
    let mut depth = 0;
    for step in tree.steps() {
        match step {
            Step::Leaf(rank) => {
                stack[depth] = leaves[rank.index()];
                depth += 1;
            }
            Step::Combine => {
                stack[depth - 2] = combine(operation, stack[depth - 2], stack[depth - 1]);
                depth -= 1;
            }
        }
    }
    stack[0]
}

fn combine(operation: Operation, left: f32, right: f32) -> f32 {
    match operation {
        Operation::Sum => (f64::from(left) + f64::from(right)) as f32,
        Operation::Max => maximum(left, right),
        Operation::Min => -maximum(-left, -right),
    }
}

/// IEEE 754-2019 maximum: a NaN wins over everything, +0 is above -0.
fn maximum(left: f32, right: f32) -> f32 {
    if left.is_nan() || right.is_nan() {
        return f32::NAN;
    }
    if left == right {
        return if left.is_sign_negative() { right } else { left };
    }
    if left > right { left } else { right }
}

fn widen_f16(bits: u32) -> u32 {
    let sign = (bits & 0x8000) << 16;
    let exponent = bits >> 10 & 0x1F;
    let fraction = bits & 0x3FF;
    let magnitude = match (exponent, fraction) {
        (0, 0) => 0,
        (0, _) => {
            // A subnormal is fraction x 2^-24: its leading bit becomes the implicit one.
            let leading = 31 - fraction.leading_zeros();
            (leading + 127 - 24) << 23 | (fraction << (23 - leading) & 0x7F_FFFF)
        }
        (0x1F, 0) => 0xFF << 23,
        (0x1F, _) => F32_NAN,
        (_, _) => (exponent + 127 - 15) << 23 | fraction << 13,
    };
    sign | magnitude
}

fn round_f16(bits: u32) -> u32 {
    let sign = bits >> 16 & 0x8000;
    let exponent = (bits >> 23 & 0xFF) as i32 - 127;
    let fraction = bits & 0x7F_FFFF;
    let magnitude = if exponent > 15 {
        0x7C00
    } else if exponent >= -14 {
        // Normal: exponent and fraction rounded as one integer, which carries up to infinity by itself.
        shift_to_even(((exponent + 15) as u32) << 23 | fraction, 13)
    } else if exponent >= -25 {
        // Subnormal, in units of 2^-24. Below 2^-25, half of the smallest, everything rounds to zero.
        shift_to_even(1 << 23 | fraction, (-1 - exponent) as u32)
    } else {
        0
    };
    sign | magnitude
}

/// `value / 2^shift` rounded to the nearest integer, ties to even; `shift` is 1 to 31.
fn shift_to_even(value: u32, shift: u32) -> u32 {
    let whole = value >> shift;
    let rest = value & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    if rest > half || (rest == half && whole & 1 == 1) {
        whole + 1
    } else {
        whole
    }
}
