//! The reduction against the oracle: every instruction set this machine has, on awkward numbers, lengths and addresses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which may fail that way"
)]

use lanesum_host::reduce::{Isa, Reducer, copy, fill_nan};
use lanesum_plan::{Dtype, Operation, ReductionTree, WORLD_MAX, oracle};

mod inputs;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod rounding_state;

use inputs::{awkward, canonical, input, trees};

const LENGTHS: [usize; 18] = [
    0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 5000,
];

/// Bytes around an output that must stay as they are.
const MARGIN: usize = 96;
const UNTOUCHED: u8 = 0xA5;

/// Where one case puts its buffers.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Distance of each source from a multiple of 64, times its rank; and of the output.
    shift: usize,
    /// Which source is the output too.
    in_place: Option<usize>,
}

/// Runs one case; gives the output and checks that nothing around it was written.
fn reduce(reducer: &Reducer, what: (Operation, Dtype), inputs: &[&[u8]], layout: Layout) -> Vec<u8> {
    let bytes = inputs[0].len();
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    let place = |index: usize| MARGIN + layout.shift * (index + 1) % 64;
    for index in 0..=inputs.len() {
        let mut buffer = vec![UNTOUCHED; 2 * MARGIN + 64 + bytes];
        if let Some(input) = inputs.get(index) {
            buffer[place(index)..][..bytes].copy_from_slice(input);
        }
        buffers.push(buffer);
    }
    let target = layout.in_place.unwrap_or(inputs.len());
    let pointers: Vec<*mut u8> = buffers
        .iter_mut()
        .enumerate()
        .map(|(index, buffer)| buffer[place(index)..].as_mut_ptr())
        .collect();
    let sources: Vec<*const u8> = pointers[..inputs.len()]
        .iter()
        .map(|pointer| pointer.cast_const())
        .collect();
    // SAFETY: one source a rank; each buffer holds `bytes` bytes behind its pointer and is a vector of its own, so the
    // output equals one source or is disjoint from all.
    unsafe { reducer.reduce(what.0, what.1, &sources, pointers[target], bytes / what.1.size()) };
    let buffer = &buffers[target];
    let (before, rest) = buffer.split_at(place(target));
    let (out, after) = rest.split_at(bytes);
    assert!(
        before.iter().chain(after).all(|byte| *byte == UNTOUCHED),
        "wrote outside the output: {what:?} {layout:?}"
    );
    out.to_vec()
}

/// Compares with the oracle, and names the first element that differs.
fn check(isa: Isa, tree: &ReductionTree, what: (Operation, Dtype), inputs: &[&[u8]], layout: Layout, expected: &[u8]) {
    let out = reduce(&Reducer::new(isa, tree), what, inputs, layout);
    if out != expected {
        let size = what.1.size();
        let at = out.iter().zip(expected).position(|(a, b)| a != b).unwrap() / size;
        let hex = |bytes: &[u8]| -> String {
            bytes[at * size..][..size]
                .iter()
                .rev()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        };
        let inputs: Vec<String> = inputs.iter().map(|input| hex(input)).collect();
        panic!(
            "{}, {what:?}, tree {tree}, {} bytes, {layout:?}: element {at} of {inputs:?} is {}, should be {}",
            isa.name(),
            expected.len(),
            hex(&out),
            hex(expected)
        );
    }
}

/// Each dtype with each operation.
fn combinations() -> impl Iterator<Item = (Operation, Dtype)> {
    Operation::ALL
        .into_iter()
        .flat_map(|operation| Dtype::ALL.map(|dtype| (operation, dtype)))
}

fn slices(inputs: &[Vec<u8>], bytes: usize) -> Vec<&[u8]> {
    inputs.iter().map(|input| &input[..bytes]).collect()
}

#[test]
fn every_length_alignment_and_place_in_every_world() {
    for what in combinations() {
        for world in 1..=WORLD_MAX {
            let tree = canonical(world);
            let inputs: Vec<Vec<u8>> = (0..world).map(|rank| input(what.1, 1 + rank as u64, 5000)).collect();
            let whole = oracle::all_reduce(what.0, what.1, &tree, &slices(&inputs, 5000 * what.1.size()));
            for (number, length) in LENGTHS.into_iter().enumerate() {
                let bytes = length * what.1.size();
                let inputs = slices(&inputs, bytes);
                for isa in Isa::available() {
                    for (shift, in_place) in [
                        (0, None),
                        (1, None),
                        (2, Some(0)),
                        (13, Some(world - 1)),
                        (0, Some(number % world)),
                    ] {
                        check(isa, &tree, what, &inputs, Layout { shift, in_place }, &whole[..bytes]);
                    }
                }
            }
        }
    }
}

#[test]
fn every_form_of_tree() {
    for what in combinations() {
        for world in 2..=WORLD_MAX {
            let length = 1100;
            let inputs: Vec<Vec<u8>> = (0..world)
                .map(|rank| input(what.1, 100 + rank as u64, length))
                .collect();
            let inputs = slices(&inputs, length * what.1.size());
            for tree in trees(world) {
                let expected = oracle::all_reduce(what.0, what.1, &tree, &inputs);
                for isa in Isa::available() {
                    for in_place in [None, Some(world / 2)] {
                        check(isa, &tree, what, &inputs, Layout { shift: 6, in_place }, &expected);
                    }
                }
            }
        }
    }
}

/// Each awkward number with each other, so that no pair is left to chance.
#[test]
fn every_pair_of_awkward_numbers() {
    for what in combinations() {
        let numbers = awkward(what.1);
        let size = what.1.size();
        let pack = |pick: fn(u32, u32) -> u32| -> Vec<u8> {
            let pairs = numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b)));
            pairs
                .flat_map(|(a, b)| pick(a, b).to_le_bytes().into_iter().take(size))
                .collect()
        };
        let inputs = [pack(|a, _| a), pack(|_, b| b)];
        let inputs = slices(&inputs, inputs[0].len());
        let expected = oracle::all_reduce(what.0, what.1, &canonical(2), &inputs);
        for isa in Isa::available() {
            check(
                isa,
                &canonical(2),
                what,
                &inputs,
                Layout {
                    shift: 0,
                    in_place: None,
                },
                &expected,
            );
        }
    }
}

/// All 65,536 inputs of the 16-bit dtypes: alone, and doubled, which crosses every exponent.
#[test]
fn every_16_bit_number() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for dtype in [Dtype::F16, Dtype::Bf16] {
        for world in [1, 2, 3] {
            let inputs = vec![all.as_slice(); world];
            let tree = canonical(world);
            for operation in Operation::ALL {
                let expected = oracle::all_reduce(operation, dtype, &tree, &inputs);
                for isa in Isa::available() {
                    check(
                        isa,
                        &tree,
                        (operation, dtype),
                        &inputs,
                        Layout {
                            shift: 0,
                            in_place: None,
                        },
                        &expected,
                    );
                }
            }
        }
    }
}

#[test]
fn nan_fills_are_canonical_and_stay_inside() {
    for (dtype, nan) in [
        (Dtype::F32, 0x7FC0_0000_u32),
        (Dtype::F16, 0x7E00),
        (Dtype::Bf16, 0x7FC0),
    ] {
        let mut buffer = [UNTOUCHED; 64];
        // SAFETY: 5 elements of at most 4 bytes from byte 3 lie inside the buffer.
        unsafe { fill_nan(dtype, buffer[3..].as_mut_ptr(), 5) };
        let size = dtype.size();
        let expected: Vec<u8> = [nan; 5]
            .iter()
            .flat_map(|bits| bits.to_le_bytes().into_iter().take(size))
            .collect();
        assert_eq!(&buffer[3..3 + 5 * size], expected);
        assert!(
            buffer[..3]
                .iter()
                .chain(&buffer[3 + 5 * size..])
                .all(|byte| *byte == UNTOUCHED)
        );
    }
}

#[test]
fn copies_bytes() {
    let from = [1_u8, 2, 3, 4, 5];
    let mut to = [0_u8; 5];
    // SAFETY: four bytes lie in each of two separate arrays.
    unsafe { copy(from[1..].as_ptr(), to.as_mut_ptr(), 4) };
    assert_eq!(to, [2, 3, 4, 5, 0]);
}

#[test]
fn the_best_instruction_set_is_the_last_available_and_scalar_the_first() {
    let available = Isa::available();
    assert_eq!(available.first(), Some(&Isa::Scalar));
    assert_eq!(available.last(), Some(&Isa::best()));
    let tree = canonical(2);
    assert!(available.iter().all(|isa| Reducer::new(*isa, &tree).isa() == *isa));
}
