//! The inputs of every rank and the result that all must get.
//!
//! Each rank can compute every rank's input, so nobody needs to be told what is right. Inputs repeat with a prime period:
//! the oracle, which is made to be obvious and not fast, then judges 64 MiB as cheaply as 4 KiB. The period has no common
//! factor with a chunk, a shard or a vector, so a piece in the wrong place still has the wrong bits. Each call begins
//! elsewhere in the period, so that a result left over from an earlier call is wrong too.

use lanesum_plan::{Dtype, Operation, ReductionTree, oracle};

use crate::pairwise::Random;
use crate::pattern::Pattern;
use crate::sample::{Sample, same_bits};

/// After how many elements the inputs repeat.
pub const PERIOD: usize = 1021;

/// How far each call's inputs begin past those of the call before.
const TURN: usize = 389;

/// One period of each rank's input and of the result.
#[derive(Debug, Clone)]
pub struct Tables<T> {
    inputs: Vec<Vec<T>>,
    result: Vec<T>,
}

impl<T: Sample> Tables<T> {
    /// The tables for as many ranks as the tree has, drawn from the seed.
    #[must_use]
    pub fn new(pattern: Pattern, operation: Operation, tree: &ReductionTree, seed: u64) -> Tables<T> {
        let inputs: Vec<Vec<T>> = (0..tree.world().get())
            .map(|rank| {
                let mut random = Random::new(Random::new(seed ^ (rank as u64) << 56).next());
                (0..PERIOD)
                    .map(|_| T::of_bits(pattern.draw(T::DTYPE, &mut random)))
                    .collect()
            })
            .collect();
        let bytes: Vec<Vec<u8>> = inputs.iter().map(|input| to_bytes(input)).collect();
        let slices: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let result = from_bytes(&oracle::all_reduce(operation, T::DTYPE, tree, &slices));
        Tables { inputs, result }
    }

    /// Writes a rank's input of a call.
    pub fn fill(&self, rank: usize, call: u32, input: &mut [T]) {
        let Some(table) = self.inputs.get(rank) else { return };
        let mut phase = phase(call);
        let mut rest = input;
        while !rest.is_empty() {
            let run = rest.len().min(PERIOD - phase);
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(run);
            head.copy_from_slice(&table[phase..phase + run]);
            (rest, phase) = (tail, 0);
        }
    }

    /// Where a call's result first differs from what it must be, and in how many places.
    #[must_use]
    pub fn judge(&self, call: u32, output: &[T]) -> Option<Difference> {
        differences(&self.result, call, output)
    }

    /// Where a rank's input of a call has changed, and in how many places.
    #[must_use]
    pub fn judge_input(&self, rank: usize, call: u32, input: &[T]) -> Option<Difference> {
        differences(self.inputs.get(rank)?, call, input)
    }

    /// The bits that each rank brings for one element of a call.
    #[must_use]
    pub fn brought(&self, call: u32, index: usize) -> Vec<u32> {
        let place = (phase(call) + index) % PERIOD;
        self.inputs.iter().map(|table| table[place].bits()).collect()
    }
}

/// The first place where a slice has other bits than it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The element.
    pub index: usize,
    /// Its bits as they must be.
    pub expected: u32,
    /// Its bits as they are.
    pub found: u32,
    /// How many elements differ in all.
    pub wrong: u64,
}

const fn phase(call: u32) -> usize {
    (call as usize % PERIOD) * TURN % PERIOD
}

fn differences<T: Sample>(table: &[T], call: u32, found: &[T]) -> Option<Difference> {
    let mut first = None;
    let mut wrong = 0;
    let (mut phase, mut at) = (phase(call), 0);
    while at < found.len() {
        let run = (found.len() - at).min(table.len() - phase);
        let (must, is) = (&table[phase..phase + run], &found[at..at + run]);
        if !same_bits(must, is) {
            for (step, (must, is)) in must
                .iter()
                .zip(is)
                .enumerate()
                .filter(|(_, (a, b))| a.bits() != b.bits())
            {
                wrong += 1;
                first.get_or_insert((at + step, must.bits(), is.bits()));
            }
        }
        (phase, at) = (0, at + run);
    }
    first.map(|(index, expected, found)| Difference {
        index,
        expected,
        found,
        wrong,
    })
}

fn to_bytes<T: Sample>(elements: &[T]) -> Vec<u8> {
    let size = T::DTYPE.size();
    elements
        .iter()
        .flat_map(|element| element.bits().to_le_bytes().into_iter().take(size))
        .collect()
}

fn from_bytes<T: Sample>(bytes: &[u8]) -> Vec<T> {
    let bits = |element: &[u8]| element.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
    bytes
        .chunks_exact(Dtype::size(T::DTYPE))
        .map(|element| T::of_bits(bits(element)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanesum::bf16;
    use lanesum_plan::WorldSize;

    fn tables<T: Sample>(ranks: usize) -> Tables<T> {
        let tree = ReductionTree::canonical(WorldSize::new(ranks).unwrap());
        Tables::new(Pattern::Ordinary, Operation::Sum, &tree, 3)
    }

    #[test]
    fn the_result_is_the_sum_of_what_ranks_bring() {
        let tables = tables::<f32>(2);
        let mut inputs = [vec![0.0; 3000], vec![0.0; 3000]];
        for (rank, input) in inputs.iter_mut().enumerate() {
            tables.fill(rank, 4, input);
        }
        let mut sum: Vec<f32> = inputs[0].iter().zip(&inputs[1]).map(|(a, b)| a + b).collect();
        assert_eq!(tables.judge(4, &sum), None);
        assert!(tables.judge(5, &sum).is_some(), "the sum of another call must not pass");
        assert_eq!(tables.judge_input(1, 4, &inputs[1]), None);
        sum[2999] = f32::from_bits(sum[2999].to_bits() ^ 1);
        let difference = tables.judge(4, &sum).unwrap();
        assert_eq!(
            (
                difference.index,
                difference.wrong,
                difference.expected ^ difference.found
            ),
            (2999, 1, 1)
        );
        assert_eq!(
            tables.brought(4, 2999),
            [inputs[0][2999].to_bits(), inputs[1][2999].to_bits()]
        );
    }

    #[test]
    fn a_piece_in_the_wrong_place_does_not_pass() {
        let tables = tables::<bf16>(3);
        let mut output = vec![bf16::from_bits(0); 8192];
        tables.fill(0, 0, &mut output);
        output.rotate_left(2048);
        assert!(tables.judge_input(0, 0, &output).is_some());
    }

    #[test]
    fn elements_survive_their_bytes() {
        let elements = [bf16::from_bits(0x7FC1), bf16::from_bits(0x8001)];
        assert!(same_bits(&elements, &from_bytes::<bf16>(&to_bytes(&elements))));
        assert!(same_bits(
            &[1.5f32, -0.0],
            &from_bytes::<f32>(&to_bytes(&[1.5f32, -0.0]))
        ));
    }
}
