//! A reduction tree as kernels take it: the leaves in order, and the groups that each step adds.

use lanesum_plan::{ReductionTree, Step};

use crate::layout::WORLD_MAX;

/// `order`, `program` and `canonical` of `kernels/layout.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    /// Byte p: the rank that is leaf p.
    pub(crate) order: u64,
    /// Byte s: step s adds the group that starts at the leaf in the low half to the one at the leaf in the high half.
    steps: u64,
    /// The place of each rank among the leaves.
    positions: [u32; WORLD_MAX],
    leaves: usize,
    /// Whether the tree has the canonical shape, whatever the order of its leaves.
    pub(crate) canonical: bool,
}

impl Program {
    /// The program of a tree of at most [`WORLD_MAX`] ranks; larger trees are refused by the plan.
    pub(crate) fn of(tree: &ReductionTree) -> Self {
        let mut program = Self::shape(tree);
        program.canonical = program.steps == Self::shape(&ReductionTree::canonical(tree.world())).steps;
        program
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn position(&self, rank: usize) -> u32 {
        self.positions.get(rank).copied().unwrap_or(0)
    }

    /// What is by rank, by leaf.
    pub(crate) fn by_leaf<T: Copy + Default>(&self, by_rank: &[T; WORLD_MAX]) -> [T; WORLD_MAX] {
        let mut by_leaf = [T::default(); WORLD_MAX];
        for (of_rank, &leaf) in by_rank.iter().zip(&self.positions).take(self.leaves) {
            if let Some(of_leaf) = by_leaf.get_mut(leaf as usize) {
                *of_leaf = *of_rank;
            }
        }
        by_leaf
    }

    fn shape(tree: &ReductionTree) -> Self {
        let mut program = Self {
            order: 0,
            steps: 0,
            positions: [0; WORLD_MAX],
            leaves: tree.world().get(),
            canonical: false,
        };
        let (mut leaf, mut combined) = (0_u32, 0_u32);
        let mut groups: Vec<u64> = Vec::new();
        for step in tree.steps() {
            match step {
                Step::Leaf(rank) => {
                    program.order |= (rank.index() as u64) << (8 * (leaf % 8));
                    if let Some(position) = program.positions.get_mut(rank.index()) {
                        *position = leaf;
                    }
                    groups.push(u64::from(leaf));
                    leaf += 1;
                }
                Step::Combine => {
                    // A tree's steps always leave two groups for a combination.
                    let (right, left) = (groups.pop().unwrap_or(0), groups.last().copied().unwrap_or(0));
                    program.steps |= (left << 4 | right) << (8 * (combined % 8));
                    combined += 1;
                }
            }
        }
        program
    }
}

#[cfg(test)]
mod tests {
    use lanesum_plan::WorldSize;

    use super::*;

    fn tree(text: &str) -> Program {
        Program::of(&text.parse().unwrap())
    }

    #[test]
    fn programs_name_the_first_leaves_of_groups() {
        let program = tree("((0+1)+(2+3))+4");
        assert_eq!((program.order, program.steps), (0x04_0302_0100, 0x04_02_23_01));
        assert!(program.canonical);
        let islands = tree("((0+2)+4)+((1+3)+5)");
        assert_eq!(islands.order, 0x0503_0104_0200);
        assert_eq!(islands.steps, 0x03_35_34_02_01);
        assert!(!islands.canonical);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|rank| islands.position(rank)),
            [0, 3, 1, 4, 2, 5]
        );
    }

    #[test]
    fn what_is_by_rank_goes_to_the_rank_s_leaf() {
        let islands = tree("((0+2)+4)+((1+3)+5)");
        assert_eq!(
            islands.by_leaf(&[10, 11, 12, 13, 14, 15, 16, 17]),
            [10, 12, 14, 11, 13, 15, 0, 0]
        );
    }

    #[test]
    fn the_shape_is_canonical_whatever_the_order_of_the_leaves() {
        assert!(tree("(3+1)+(0+2)").canonical);
        assert!(!tree("((0+1)+2)+3").canonical);
        for world in 1..=8 {
            assert!(Program::of(&ReductionTree::canonical(WorldSize::new(world).unwrap())).canonical);
        }
    }
}
