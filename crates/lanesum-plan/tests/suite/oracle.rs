//! The oracle's own judge: exact values in f64, for all 65,536 patterns of both 16-bit dtypes.

use lanesum_plan::{Dtype, Operation, ReductionTree, oracle};
use proptest::prelude::*;

use crate::world;

const HALVES: [Dtype; 2] = [Dtype::F16, Dtype::Bf16];

/// (bits of fraction, exponent of the smallest subnormal)
fn format(dtype: Dtype) -> (u32, i32) {
    match dtype {
        Dtype::F32 => (23, -149),
        Dtype::F16 => (10, -24),
        Dtype::Bf16 => (7, -133),
    }
}

/// The bits of plus infinity.
fn infinity(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F32 => 0x7F80_0000,
        Dtype::F16 => 0x7C00,
        Dtype::Bf16 => 0x7F80,
    }
}

/// The value of a non-negative pattern in f64, from the definition of the format. The pattern of infinity gives the
/// next power of two, which is where rounding to infinity starts from.
fn exact(dtype: Dtype, bits: u32) -> f64 {
    let (fraction_bits, smallest) = format(dtype);
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1));
    let exponent = (bits >> fraction_bits) as i32;
    match exponent {
        0 => fraction * 2_f64.powi(smallest),
        _ => (fraction + f64::from(1 << fraction_bits)) * 2_f64.powi(smallest + exponent - 1),
    }
}

/// The non-negative pattern nearest to a non-negative value, ties to even, found by search.
fn nearest(dtype: Dtype, value: f64) -> u32 {
    let patterns: Vec<u32> = (0..=infinity(dtype)).collect();
    let above = patterns.partition_point(|bits| exact(dtype, *bits) < value) as u32;
    if above == 0 || above > infinity(dtype) {
        return above.min(infinity(dtype));
    }
    let (down, up) = (value - exact(dtype, above - 1), exact(dtype, above) - value);
    if down < up || (down == up && (above - 1).is_multiple_of(2)) {
        above - 1
    } else {
        above
    }
}

fn tree(text: &str) -> ReductionTree {
    text.parse().unwrap()
}

fn reduce_f32(operation: Operation, text: &str, values: &[f32]) -> u32 {
    let inputs: Vec<[u8; 4]> = values.iter().map(|value| value.to_le_bytes()).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
    let result = oracle::all_reduce(operation, Dtype::F32, &tree(text), &inputs);
    u32::from_le_bytes(result.try_into().unwrap())
}

fn reduce_half(operation: Operation, dtype: Dtype, text: &str, values: &[u16]) -> u16 {
    let inputs: Vec<[u8; 2]> = values.iter().map(|value| value.to_le_bytes()).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
    u16::from_le_bytes(
        oracle::all_reduce(operation, dtype, &tree(text), &inputs)
            .try_into()
            .unwrap(),
    )
}

#[test]
fn widening_is_exact_for_every_pattern() {
    for dtype in HALVES {
        for bits in 0..=0xFFFF_u32 {
            let value = oracle::widen(dtype, bits);
            let magnitude = bits & 0x7FFF;
            if magnitude > infinity(dtype) {
                assert!(value.is_nan(), "{dtype} {bits:#06x}");
                continue;
            }
            assert_eq!(value.is_sign_negative(), bits > 0x7FFF);
            let expected = if magnitude == infinity(dtype) {
                f64::INFINITY
            } else {
                exact(dtype, magnitude)
            };
            assert_eq!(f64::from(value.abs()), expected, "{dtype} {bits:#06x}");
        }
    }
}

#[test]
fn rounding_gives_every_pattern_back() {
    for dtype in HALVES {
        let nan = oracle::round(dtype, f32::NAN);
        for bits in 0..=0xFFFF_u32 {
            let expected = if bits & 0x7FFF > infinity(dtype) { nan } else { bits };
            assert_eq!(
                oracle::round(dtype, oracle::widen(dtype, bits)),
                expected,
                "{dtype} {bits:#06x}"
            );
            let alone = reduce_half(Operation::Sum, dtype, "0", &[bits as u16]);
            assert_eq!(u32::from(alone), expected);
        }
    }
}

#[test]
fn rounding_is_right_around_every_midpoint() {
    for dtype in HALVES {
        for bits in 0..infinity(dtype) {
            // Exact in f32 too: neighbours are at least 13 bits coarser. The one above the largest finite is where
            // infinity starts; for bf16 that midpoint exists in f32 as well.
            let midpoint = (exact(dtype, bits) + exact(dtype, bits + 1)) / 2.0;
            let single = midpoint as f32;
            assert_eq!(f64::from(single), midpoint);
            let even = bits + bits % 2;
            for (value, expected) in [(single.next_down(), bits), (single, even), (single.next_up(), bits + 1)] {
                assert_eq!(oracle::round(dtype, value), expected, "{dtype} {value:e}");
                assert_eq!(oracle::round(dtype, -value), expected | 0x8000, "{dtype} -{value:e}");
            }
        }
    }
}

#[test]
fn extremes_round_as_they_should() {
    assert_eq!(oracle::round(Dtype::F16, 65_504.0), 0x7BFF);
    assert_eq!(oracle::round(Dtype::F16, 65_519.996), 0x7BFF);
    assert_eq!(oracle::round(Dtype::F16, 65_520.0), 0x7C00);
    assert_eq!(oracle::round(Dtype::F16, f32::MAX), 0x7C00);
    assert_eq!(oracle::round(Dtype::F16, f32::MIN_POSITIVE), 0);
    assert_eq!(oracle::round(Dtype::F16, -f32::MIN_POSITIVE), 0x8000);
    assert_eq!(oracle::round(Dtype::F16, f32::NEG_INFINITY), 0xFC00);
    assert_eq!(oracle::round(Dtype::Bf16, f32::MAX), 0x7F80);
    assert_eq!(oracle::round(Dtype::Bf16, f32::from_bits(1)), 0);
    for bits in [0x7F80_0001, 0xFFFF_FFFF, 0x7FC0_0000, 0xFF80_0001] {
        let nan = f32::from_bits(bits);
        assert_eq!(
            Dtype::ALL.map(|dtype| oracle::round(dtype, nan)),
            [0x7FC0_0000, 0x7E00, 0x7FC0]
        );
    }
}

#[test]
fn sums_follow_the_tree() {
    let values = [1e30, -1e30, 1.0];
    assert_eq!(f32::from_bits(reduce_f32(Operation::Sum, "(0+1)+2", &values)), 1.0);
    assert_eq!(f32::from_bits(reduce_f32(Operation::Sum, "0+(1+2)", &values)), 0.0);
    // No zero to start from: -0 + -0 stays -0.
    assert_eq!(reduce_f32(Operation::Sum, "0+1", &[-0.0, -0.0]), 0x8000_0000);
    assert_eq!(reduce_f32(Operation::Sum, "0+1", &[-0.0, 0.0]), 0);
    assert_eq!(
        reduce_f32(Operation::Sum, "0+1", &[f32::INFINITY, f32::NEG_INFINITY]),
        0x7FC0_0000
    );
    assert_eq!(
        reduce_f32(Operation::Sum, "0+1", &[f32::from_bits(1), f32::from_bits(2)]),
        3
    );
    // One rounding at the end: 2048 + 1 + 1 in f16 is 2050 in f32 order, 2048 with a rounding at each step.
    assert_eq!(
        reduce_half(Operation::Sum, Dtype::F16, "(0+1)+2", &[0x6800, 0x3C00, 0x3C00]),
        0x6801
    );
}

#[test]
fn maximum_and_minimum_are_those_of_2019() {
    for (left, right) in [(-0.0, 0.0), (0.0, -0.0)] {
        assert_eq!(reduce_f32(Operation::Max, "0+1", &[left, right]), 0);
        assert_eq!(reduce_f32(Operation::Min, "0+1", &[left, right]), 0x8000_0000);
    }
    for operation in [Operation::Max, Operation::Min] {
        assert_eq!(reduce_f32(operation, "0+1", &[f32::NAN, f32::INFINITY]), 0x7FC0_0000);
        assert_eq!(
            reduce_f32(operation, "0+1", &[f32::NEG_INFINITY, -f32::NAN]),
            0x7FC0_0000
        );
        assert_eq!(reduce_f32(operation, "0+1", &[f32::from_bits(1), f32::from_bits(1)]), 1);
    }
    assert_eq!(
        reduce_f32(Operation::Max, "(0+1)+2", &[1.0, f32::INFINITY, -3.0]),
        0x7F80_0000
    );
    assert_eq!(
        reduce_f32(Operation::Min, "(0+1)+2", &[1.0, 2.0, -3.0]),
        (-3.0_f32).to_bits()
    );
}

#[test]
fn ragged_inputs_do_not_panic() {
    let two = tree("0+1");
    for dtype in Dtype::ALL {
        assert_eq!(oracle::all_reduce(Operation::Sum, dtype, &two, &[]), Vec::<u8>::new());
        assert_eq!(
            oracle::all_reduce(Operation::Sum, dtype, &two, &[&[0; 8]]),
            Vec::<u8>::new()
        );
        assert_eq!(
            oracle::all_reduce(Operation::Sum, dtype, &two, &[&[0; 9], &[0; 5]]),
            vec![0; 4]
        );
        assert_eq!(
            oracle::all_reduce(Operation::Sum, dtype, &two, &[&[], &[]]),
            Vec::<u8>::new()
        );
    }
}

proptest! {
    #[test]
    fn every_f32_rounds_to_its_nearest(bits in 0_u32..0x7F80_0000, near in 0x3300_0000_u32..0x4780_0000) {
        for (dtype, bits) in HALVES.into_iter().flat_map(|dtype| [(dtype, bits), (dtype, near)]) {
            let value = f32::from_bits(bits);
            prop_assert_eq!(oracle::round(dtype, value), nearest(dtype, f64::from(value)));
        }
    }

    #[test]
    fn a_node_is_the_rounded_exact_sum(left in any::<u32>(), right in any::<u32>()) {
        let (left, right) = (f32::from_bits(left), f32::from_bits(right));
        let sum = left + right;
        let expected = if sum.is_nan() { 0x7FC0_0000 } else { sum.to_bits() };
        prop_assert_eq!(reduce_f32(Operation::Sum, "0+1", &[left, right]), expected);
    }

    #[test]
    fn order_of_terms_at_a_node_does_not_matter(bits in any::<[u16; 3]>()) {
        for (operation, dtype) in Operation::ALL.into_iter().flat_map(|o| Dtype::ALL[1..].iter().map(move |d| (o, *d))) {
            let [a, b, c] = bits;
            let one = reduce_half(operation, dtype, "(0+1)+2", &[a, b, c]);
            prop_assert_eq!(one, reduce_half(operation, dtype, "0+(1+2)", &[c, b, a]));
            prop_assert_eq!(one, reduce_half(operation, dtype, "2+(1+0)", &[b, a, c]));
        }
    }

    #[test]
    fn elements_keep_their_places(values in proptest::collection::vec(any::<[f32; 3]>(), 0..20)) {
        let inputs: Vec<Vec<u8>> =
            (0..3).map(|rank| values.iter().flat_map(|element| element[rank].to_le_bytes()).collect()).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let all = oracle::all_reduce(Operation::Sum, Dtype::F32, &ReductionTree::canonical(world(3)), &inputs);
        let each: Vec<u8> = values
            .iter()
            .flat_map(|element| reduce_f32(Operation::Sum, "(0+1)+2", element).to_le_bytes())
            .collect();
        prop_assert_eq!(all, each);
    }
}
