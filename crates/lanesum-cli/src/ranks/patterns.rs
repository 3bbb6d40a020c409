//! Inputs of every rank, and the results they must give, made before anything is timed.
//!
//! Any rank can compute the input of any other from a seed, so that each rank can ask the oracle for the result without
//! a word from its peers. A handful of patterns is used in turn. Their number is odd and at least three: results of the
//! last two calls, which the mailboxes may still hold, are never those of the current one.

use lanesum::{bf16, f16};
use lanesum_plan::{Operation, ReductionTree, WorldSize, oracle};

/// Up to this many bytes a message gets [`MANY`] patterns: they stay in a core's cache, as activations would.
const SMALL: usize = 128 << 10;
const MANY: usize = 7;
const FEW: usize = 3;
const _: () = assert!(MANY % 2 == 1 && FEW % 2 == 1 && FEW > 2 && MANY > 2);
/// The oracle is asked for this many elements at a time, so that there is a sign of life in between.
const PORTION: usize = 16 << 10;

/// What the patterns need to know of an element.
pub trait Number: lanesum::Element + Copy {
    /// A NaN that no sum of these inputs gives.
    const POISON: Self;
    /// A finite number whose sums need rounding: any sign and mantissa, exponents within 2^12 of each other.
    fn drawn(draw: u64) -> Self;
    /// Its bits.
    fn bits(self) -> u32;
    /// Appends its bytes as the oracle takes them.
    fn put(self, bytes: &mut Vec<u8>);
    /// Reads what the oracle gives.
    fn all_from(bytes: &[u8]) -> Vec<Self>;
}

/// The exponent field of a drawn number, this far around the middle of its range.
const fn exponent(draw: u64, middle: u32) -> u32 {
    middle - 6 + ((draw >> 32) % 12) as u32
}

impl Number for f32 {
    const POISON: Self = f32::from_bits(0xffff_ffff);

    fn drawn(draw: u64) -> Self {
        let sign = ((draw >> 63) as u32) << 31;
        f32::from_bits(sign | exponent(draw, 127) << 23 | (draw as u32 & 0x007f_ffff))
    }

    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn all_from(bytes: &[u8]) -> Vec<Self> {
        let (words, _) = bytes.as_chunks::<4>();
        words.iter().map(|&word| f32::from_le_bytes(word)).collect()
    }
}

impl Number for bf16 {
    const POISON: Self = bf16::from_bits(0xffff);

    fn drawn(draw: u64) -> Self {
        bf16::from_bits((f32::drawn(draw).to_bits() >> 16) as u16)
    }

    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn all_from(bytes: &[u8]) -> Vec<Self> {
        let (words, _) = bytes.as_chunks::<2>();
        words.iter().map(|&word| bf16::from_le_bytes(word)).collect()
    }
}

impl Number for f16 {
    const POISON: Self = f16::from_bits(0xffff);

    fn drawn(draw: u64) -> Self {
        let sign = ((draw >> 63) as u32) << 15;
        f16::from_bits((sign | exponent(draw, 15) << 10 | (draw as u32 & 0x03ff)) as u16)
    }

    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn all_from(bytes: &[u8]) -> Vec<Self> {
        let (words, _) = bytes.as_chunks::<2>();
        words.iter().map(|&word| f16::from_le_bytes(word)).collect()
    }
}

/// The finaliser of splitmix64: every bit of the output depends on every bit of the input.
const fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// One rank's input to one pattern.
#[derive(Debug, Clone, Copy)]
struct Source(u64);

impl Source {
    fn new(seed: u64, pattern: usize, rank: usize) -> Self {
        Self(mixed(mixed(mixed(seed) ^ pattern as u64) ^ rank as u64))
    }

    fn number<T: Number>(self, index: usize) -> T {
        T::drawn(mixed(
            self.0.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ))
    }
}

/// What one rank puts in and must get out.
pub struct Patterns<T> {
    seed: u64,
    elements: usize,
    /// Its own inputs, by pattern.
    pub inputs: Vec<Vec<T>>,
    expected: Vec<Expected<T>>,
}

struct Expected<T> {
    numbers: Vec<T>,
    digest: u64,
}

impl<T: Number> Patterns<T> {
    /// The inputs of `rank`; without results until [`Patterns::consult`].
    pub fn new(seed: u64, elements: usize, rank: usize) -> Self {
        let count = if elements * size_of::<T>() <= SMALL { MANY } else { FEW };
        let input = |pattern| {
            let source = Source::new(seed, pattern, rank);
            (0..elements).map(|index| source.number(index)).collect()
        };
        Self {
            seed,
            elements,
            inputs: (0..count).map(input).collect(),
            expected: Vec::new(),
        }
    }

    /// Asks the oracle what every pattern must give in this tree; `alive` is called now and then.
    pub fn consult<E>(
        &mut self,
        tree: &ReductionTree,
        world: WorldSize,
        mut alive: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        self.expected.clear();
        for pattern in 0..self.inputs.len() {
            let mut numbers = Vec::with_capacity(self.elements);
            for start in (0..self.elements).step_by(PORTION) {
                let portion = start..self.elements.min(start + PORTION);
                numbers.extend(self.asked(pattern, portion, tree, world));
                alive()?;
            }
            let digest = digest_of(&numbers);
            self.expected.push(Expected { numbers, digest });
        }
        Ok(())
    }

    fn asked(&self, pattern: usize, portion: std::ops::Range<usize>, tree: &ReductionTree, world: WorldSize) -> Vec<T> {
        let inputs: Vec<Vec<u8>> = world
            .ranks()
            .map(|rank| {
                let source = Source::new(self.seed, pattern, rank.index());
                let mut bytes = Vec::with_capacity(portion.len() * size_of::<T>());
                portion
                    .clone()
                    .for_each(|index| source.number::<T>(index).put(&mut bytes));
                bytes
            })
            .collect();
        let slices: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        T::all_from(&oracle::all_reduce(Operation::Sum, T::DTYPE, tree, &slices))
    }

    /// How many patterns there are.
    pub fn count(&self) -> usize {
        self.inputs.len()
    }

    /// How many elements each has.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Compares a result with what this pattern must give.
    pub fn judge(&self, pattern: usize, result: &[T]) -> Judgement {
        let Some(expected) = self.expected.get(pattern) else {
            return Judgement::wrong(result, "nothing to compare with".into());
        };
        if same_bits(result, &expected.numbers) {
            return Judgement {
                digest: expected.digest,
                difference: None,
            };
        }
        let pairs = result.iter().zip(&expected.numbers).enumerate();
        let difference = pairs
            .map(|(index, (got, wanted))| (index, got.bits(), wanted.bits()))
            .find(|d| d.1 != d.2);
        let width = 2 * size_of::<T>();
        Judgement::wrong(
            result,
            match difference {
                Some((index, got, wanted)) => {
                    format!("element {index} has the bits {got:0width$x}, the oracle {wanted:0width$x}")
                }
                None => format!("{} elements instead of {}", result.len(), expected.numbers.len()),
            },
        )
    }
}

/// What became of one result.
pub struct Judgement {
    /// Equal for equal bits.
    pub digest: u64,
    /// Where it differs from the oracle's.
    pub difference: Option<String>,
}

impl Judgement {
    fn wrong<T: Number>(result: &[T], difference: String) -> Self {
        Self {
            digest: digest_of(result),
            difference: Some(difference),
        }
    }
}

/// Without an early end in the loop this becomes vector code.
fn same_bits<T: Number>(one: &[T], other: &[T]) -> bool {
    let different = |(a, b): (&T, &T)| a.bits() ^ b.bits();
    one.len() == other.len() && one.iter().zip(other).map(different).fold(0, |all, bits| all | bits) == 0
}

/// Folds one digest into those before it.
pub fn folded(digest: u64, next: u64) -> u64 {
    mixed(digest.rotate_left(5) ^ next)
}

fn digest_of<T: Number>(numbers: &[T]) -> u64 {
    numbers.iter().fold(numbers.len() as u64, |digest, number| {
        folded(digest, u64::from(number.bits()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared<T: Number>(rank: usize, world: usize) -> Patterns<T> {
        let world = WorldSize::new(world).expect("fits");
        let mut patterns = Patterns::<T>::new(1, 100, rank);
        let tree = ReductionTree::canonical(world);
        patterns
            .consult(&tree, world, || Ok::<(), ()>(()))
            .expect("never refuses");
        patterns
    }

    #[test]
    fn all_ranks_expect_the_same_of_different_inputs() {
        let (one, other) = (prepared::<bf16>(0, 3), prepared::<bf16>(1, 3));
        for pattern in 0..one.count() {
            assert!(same_bits(
                &one.expected[pattern].numbers,
                &other.expected[pattern].numbers
            ));
            assert!(!same_bits(&one.inputs[pattern], &other.inputs[pattern]));
            assert!(
                other
                    .judge(pattern, &one.expected[pattern].numbers)
                    .difference
                    .is_none()
            );
            assert!(
                other
                    .judge((pattern + 1) % 7, &one.expected[pattern].numbers)
                    .difference
                    .is_some()
            );
        }
    }

    #[test]
    fn two_ranks_expect_the_sum_of_both() {
        let (one, other) = (prepared::<f32>(0, 2), prepared::<f32>(1, 2));
        for index in 0..100 {
            let sum = one.inputs[0][index] + other.inputs[0][index];
            assert_eq!(sum.to_bits(), one.expected[0].numbers[index].to_bits());
        }
    }

    #[test]
    fn one_wrong_bit_is_found_and_named() {
        let patterns = prepared::<f16>(0, 2);
        let mut result = patterns.expected[2].numbers.clone();
        let right = patterns.judge(2, &result).digest;
        result[42] = f16::from_bits(result[42].to_bits() ^ 1);
        let judgement = patterns.judge(2, &result);
        assert!(judgement.difference.expect("differs").starts_with("element 42 "));
        assert_ne!(judgement.digest, right);
        assert!(patterns.judge(2, &result[..99]).difference.is_some());
    }

    #[test]
    fn inputs_are_finite_and_so_are_sums_of_sixteen() {
        for draw in (0..10_000).map(mixed) {
            assert!(f16::drawn(draw).to_f32().abs() * 16.0 < 65_000.0);
            assert!(bf16::drawn(draw).is_finite() && f32::drawn(draw).is_finite());
        }
    }

    #[test]
    fn a_poisoned_output_is_never_right() {
        let patterns = prepared::<bf16>(0, 2);
        assert!(patterns.judge(0, &[bf16::POISON; 100]).difference.is_some());
    }
}
