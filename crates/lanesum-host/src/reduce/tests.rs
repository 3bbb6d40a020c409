//! What the public interface cannot reach: conversions of every kind of f32, and the slots of compiled programs.

use lanesum_plan::{Dtype, ReductionTree, oracle};

use super::expression::{Bf16, Element, F16, F32, Leaf, Rounded};
use super::program::{self, Operand, SLOTS, Target};
use super::scalar::{Plain, round_bf16, round_f16, widen_bf16, widen_f16};
use super::vector::{GROUP_MAX, OPERANDS, Vector};

/// Lower halves at which rounding turns: below, at and above each tie, and the odd ones out.
const LOW_HALVES: [u16; 14] = [
    0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xC000, 0xEFFF, 0xF000, 0xFFFF,
];

/// All upper halves with each of the lower ones.
fn patterns() -> impl Iterator<Item = u32> {
    LOW_HALVES
        .into_iter()
        .flat_map(|low| (0..=u16::MAX).map(move |high| (u32::from(high) << 16) | u32::from(low)))
}

#[test]
fn scalar_rounding_is_the_oracles() {
    for bits in patterns() {
        let value = f32::from_bits(bits);
        assert_eq!(
            u32::from(round_f16(value)),
            oracle::round(Dtype::F16, value),
            "f16 of {bits:08x}"
        );
        assert_eq!(
            u32::from(round_bf16(value)),
            oracle::round(Dtype::Bf16, value),
            "bf16 of {bits:08x}"
        );
    }
}

#[test]
fn scalar_widening_is_the_oracles() {
    for bits in 0..=u16::MAX {
        for (dtype, ours) in [(Dtype::F16, widen_f16(bits)), (Dtype::Bf16, widen_bf16(bits))] {
            let theirs = oracle::widen(dtype, u32::from(bits));
            let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
            assert!(
                same,
                "{dtype} {bits:04x}: {:08x}, {:08x}",
                ours.to_bits(),
                theirs.to_bits()
            );
        }
    }
}

/// Rounds every pattern through `V`, whole groups of one value, since a dtype's store has an order of its own.
fn rounds<V: Vector, D: Element>(round: fn(f32) -> u16) {
    let mut out = [0_u16; GROUP_MAX];
    for bits in patterns() {
        let group = [bits; GROUP_MAX];
        let operands = [group.as_ptr().cast::<u8>(); OPERANDS];
        // SAFETY: the callers have a token of `V`; a group fits the arrays, which are separate.
        unsafe { V::enter::<Leaf<F32, 0>, Rounded<D>>(&operands, out.as_mut_ptr().cast(), V::GROUP) };
        let expected = round(f32::from_bits(bits));
        assert!(
            out[..V::GROUP].iter().all(|one| *one == expected),
            "{bits:08x}: {out:04x?}, not {expected:04x}"
        );
    }
}

#[test]
fn plain_rounding() {
    rounds::<Plain, F16>(round_f16);
    rounds::<Plain, Bf16>(round_bf16);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx2_rounding() {
    if super::Avx2::new().is_some() {
        rounds::<super::Avx2, F16>(round_f16);
        rounds::<super::Avx2, Bf16>(round_bf16);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx512_rounding() {
    if super::Avx512::new().is_some() {
        rounds::<super::Avx512, F16>(round_f16);
        rounds::<super::Avx512, Bf16>(round_bf16);
    }
}

#[cfg(target_arch = "aarch64")]
#[test]
fn neon_rounding() {
    rounds::<super::Neon, F16>(round_f16);
    rounds::<super::Neon, Bf16>(round_bf16);
}

/// Random trees of all worlds: slots suffice, none is read before it was written, each rank is read once.
#[test]
fn programs_fit_the_scratch() {
    let mut state = 1_u64;
    for world in 1..=lanesum_plan::WORLD_MAX {
        for _ in 0..500 {
            let mut terms: Vec<String> = (0..world).map(|rank| rank.to_string()).collect();
            while terms.len() > 1 {
                let mut take = || {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let term = terms.swap_remove((state >> 33) as usize % terms.len());
                    if term.contains('+') { format!("({term})") } else { term }
                };
                let joined = format!("{}+{}", take(), take());
                terms.push(joined);
            }
            follow(&terms[0].parse().unwrap());
        }
    }
}

/// Runs a program on sets of ranks instead of numbers.
fn follow(tree: &ReductionTree) {
    let mut slots = [None; SLOTS];
    let mut output = None;
    for step in program::compile(tree) {
        assert_eq!(output, None, "{tree}: the output is written once, at the end");
        let mut seen: Vec<Operand> = Vec::new();
        let mut value = 0_u32;
        for operand in step.operands {
            if !seen.contains(&operand) {
                let part = match operand {
                    Operand::Source(rank) => 1 << rank,
                    Operand::Slot(slot) => slots[slot].take().unwrap(),
                };
                assert_eq!(value & part, 0, "{tree}: each rank counts once");
                value |= part;
                seen.push(operand);
            }
        }
        match step.target {
            Target::Output => output = Some(value),
            Target::Slot(slot) => {
                assert_eq!(slots[slot], None, "{tree}: no slot is lost");
                slots[slot] = Some(value);
            }
        }
    }
    assert_eq!(output, Some((1 << tree.world().get()) - 1), "{tree}: all ranks count");
}
