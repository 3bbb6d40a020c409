//! The order in which values of all ranks are combined.
//!
//! Floating-point addition isn't associative, so equal bits everywhere need one order, and that order is a value: it is
//! made once, printed, agreed on by digest, and followed by every algorithm, size and engine. It never depends on who
//! is fast today.
//!
//! The default law: the left subtree of n terms holds the largest power of two below n. Among 2^k terms that is the
//! balanced tree; for other counts the left part stays a complete tree, which all of 2 to 16 ranks share as a prefix.
//! Terms are ranks, or, where ranks form islands, first the ranks of each island and then the islands' sums.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::{PlanError, Rank, WORLD_MAX, WorldSize};

mod notation;

/// One step of the program that evaluates a tree with a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Put this rank's value on the stack.
    Leaf(Rank),
    /// Replace the two topmost values by their combination; the lower of the two is the left term.
    Combine,
}

/// What is wrong with a would-be tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeFault {
    /// A group without ranks, or no group at all.
    #[error("group {group} is empty")]
    EmptyGroup {
        /// The place of the group.
        group: usize,
    },
    /// A rank that occurs twice.
    #[error("rank {rank} occurs twice")]
    Twice {
        /// The rank.
        rank: Rank,
    },
    /// A rank that is left out although a higher one is there.
    #[error("rank {rank} is missing")]
    Missing {
        /// The rank.
        rank: Rank,
    },
    /// Text that is not the notation.
    #[error("at character {position}: expected {expected}")]
    Notation {
        /// Where, counted from 0.
        position: usize,
        /// What should stand there.
        expected: &'static str,
    },
}

impl TreeFault {
    /// What to do about it.
    pub(crate) const fn hint(&self) -> &'static str {
        match self {
            TreeFault::EmptyGroup { .. } => "give each island at least one rank",
            TreeFault::Twice { .. } | TreeFault::Missing { .. } => "name each rank of the world exactly once",
            TreeFault::Notation { .. } => {
                "write it like ((0+1)+(2+3))+4: two terms to each +, parentheses around inner sums only"
            }
        }
    }
}

/// A full binary tree whose leaves are the ranks 0 to n-1, each once.
///
/// Written as text and JSON in a notation with two terms to each `+`, parentheses around each inner sum and none around
/// the whole: `((0+1)+(2+3))+4`. The tree of a single rank is `0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReductionTree {
    world: WorldSize,
    steps: Vec<Step>,
}

impl ReductionTree {
    /// The tree of ranks 0 to n-1 in order, by the default law.
    #[must_use]
    pub fn canonical(world: WorldSize) -> ReductionTree {
        let leaves: Vec<Vec<Step>> = world.ranks().map(|rank| vec![Step::Leaf(rank)]).collect();
        ReductionTree {
            world,
            steps: join(&leaves),
        }
    }

    /// The tree of islands: the ranks of each group in the order given, then the groups' sums in the order given, both
    /// by the default law.
    ///
    /// # Errors
    /// [`PlanError::Tree`] if a group is empty or the groups don't name each rank of a world once;
    /// [`PlanError::WorldOutOfRange`] for no groups.
    pub fn islands(groups: &[Vec<Rank>]) -> Result<ReductionTree, PlanError> {
        if let Some(group) = groups.iter().position(Vec::is_empty) {
            return Err(PlanError::Tree(TreeFault::EmptyGroup { group }));
        }
        let sums: Vec<Vec<Step>> = groups
            .iter()
            .map(|group| join(&group.iter().map(|rank| vec![Step::Leaf(*rank)]).collect::<Vec<_>>()))
            .collect();
        ReductionTree::from_steps(join(&sums))
    }

    /// Checks that the leaves are the ranks of a world. The caller vouches for the stack discipline.
    fn from_steps(steps: Vec<Step>) -> Result<ReductionTree, PlanError> {
        let mut seen = [false; WORLD_MAX];
        let mut leaves = 0;
        for step in &steps {
            match step {
                Step::Leaf(rank) if seen[rank.index()] => {
                    return Err(PlanError::Tree(TreeFault::Twice { rank: *rank }));
                }
                Step::Leaf(rank) => {
                    seen[rank.index()] = true;
                    leaves += 1;
                }
                Step::Combine => {}
            }
        }
        let world = WorldSize::new(leaves)?;
        match world.ranks().find(|rank| !seen[rank.index()]) {
            Some(rank) => Err(PlanError::Tree(TreeFault::Missing { rank })),
            None => Ok(ReductionTree { world, steps }),
        }
    }

    /// The number of ranks.
    #[must_use]
    pub const fn world(&self) -> WorldSize {
        self.world
    }

    /// The tree as a program for a stack: 2n-1 steps that leave one value.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The most values that are on the stack at once while the steps run.
    #[must_use]
    pub fn max_depth(&self) -> usize {
        let mut most = 0;
        let mut depth = 0_usize;
        for step in &self.steps {
            match step {
                Step::Leaf(_) => depth += 1,
                Step::Combine => depth = depth.saturating_sub(1),
            }
            most = most.max(depth);
        }
        most
    }

    /// 64 bits by which ranks compare their trees.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let start = Digest::new(0x7472_6565).word(self.world.get() as u64);
        self.steps
            .iter()
            .fold(start, |digest, step| match step {
                Step::Leaf(rank) => digest.word(1 + rank.index() as u64),
                Step::Combine => digest.word(0),
            })
            .finish()
    }
}

/// Joins terms by the default law. No terms give no steps.
fn join(terms: &[Vec<Step>]) -> Vec<Step> {
    match terms {
        [] => Vec::new(),
        [term] => term.clone(),
        [_, _, ..] => {
            let (left, right) = terms.split_at(left_terms(terms.len()));
            let mut steps = join(left);
            steps.extend(join(right));
            steps.push(Step::Combine);
            steps
        }
    }
}

/// The largest power of two below `terms`, which must be at least 2.
const fn left_terms(terms: usize) -> usize {
    1 << (terms - 1).ilog2()
}

impl fmt::Display for ReductionTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&notation::write(&self.steps))
    }
}

impl FromStr for ReductionTree {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<ReductionTree, PlanError> {
        ReductionTree::from_steps(notation::read(text)?)
    }
}

impl TryFrom<String> for ReductionTree {
    type Error = PlanError;

    fn try_from(text: String) -> Result<ReductionTree, PlanError> {
        text.parse()
    }
}

impl From<ReductionTree> for String {
    fn from(tree: ReductionTree) -> String {
        tree.to_string()
    }
}
