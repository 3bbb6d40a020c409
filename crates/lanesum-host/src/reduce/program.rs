//! A reduction tree compiled into steps over blocks of elements.
//!
//! Every complete subtree of one, two, four or eight leaves is one step, in registers. What is left of the tree joins
//! intermediate values, which live in numbered slots of scratch, one block long. Of two children that both need
//! scratch, the one that needs more slots goes first, so that `n` slots serve any tree of fewer than 2^(n+1) leaves. The order in
//! which *children are computed* changes; the order in which *values are combined* is the tree's.

use lanesum_plan::{ReductionTree, Step as TreeStep};

use super::table::Shape;
use super::vector::OPERANDS;

/// Slots of scratch. A tree that needs `n` of them has at least 2^n leaves: with one it has two leaves or more, and each
/// further one takes two children that need as many.
pub(super) const SLOTS: usize = 4;

const _: () = assert!(lanesum_plan::WORLD_MAX < 2 << SLOTS);

/// Where a step finds an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    /// The buffer of the rank with this index.
    Source(usize),
    /// A slot of scratch.
    Slot(usize),
}

/// Where a step leaves its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The output: the last step's.
    Output,
    /// A slot of scratch. It may be an operand's too.
    Slot(usize),
}

/// One pass over a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) shape: Shape,
    pub(super) operands: [Operand; OPERANDS],
    pub(super) target: Target,
}

/// The tree while it is compiled.
#[derive(Debug)]
enum Tree {
    Leaf(usize),
    Node(Box<Tree>, Box<Tree>),
}

impl Tree {
    fn parse(tree: &ReductionTree) -> Tree {
        let mut stack = Vec::new();
        for step in tree.steps() {
            let parsed = match step {
                TreeStep::Leaf(rank) => Tree::Leaf(rank.index()),
                TreeStep::Combine => {
                    let right = Box::new(Tree::top(&mut stack));
                    Tree::Node(Box::new(Tree::top(&mut stack)), right)
                }
            };
            stack.push(parsed);
        }
        Tree::top(&mut stack)
    }

    /// `ReductionTree` promises a well formed program: a combine finds two values, the end exactly one.
    fn top(stack: &mut Vec<Tree>) -> Tree {
        stack
            .pop()
            .unwrap_or_else(|| unreachable!("a reduction tree's steps are well formed"))
    }

    /// How high the tree is, if it is complete: all leaves equally deep.
    fn height(&self) -> Option<u32> {
        match self {
            Tree::Leaf(_) => Some(0),
            Tree::Node(a, b) => {
                let (a, b) = (a.height()?, b.height()?);
                (a == b).then_some(a + 1)
            }
        }
    }

    /// The shape of the whole tree, if one kernel has it.
    fn shape(&self) -> Option<Shape> {
        match self.height()? {
            0 => Some(Shape::One),
            1 => Some(Shape::Two),
            2 => Some(Shape::Four),
            3 => Some(Shape::Eight),
            4.. => None,
        }
    }

    /// Appends the leaves, from left to right.
    fn leaves(&self, into: &mut Vec<Operand>) {
        match self {
            Tree::Leaf(index) => into.push(Operand::Source(*index)),
            Tree::Node(a, b) => {
                a.leaves(into);
                b.leaves(into);
            }
        }
    }

    /// Slots that computing this value needs, its own included.
    fn slots(&self) -> usize {
        match self {
            Tree::Leaf(_) => 0,
            Tree::Node(_, _) if self.shape().is_some() => 1,
            Tree::Node(a, b) => {
                let (a, b) = (a.slots(), b.slots());
                if a == b { a + 1 } else { a.max(b) }
            }
        }
    }

    /// Appends the steps that compute this value into `target`, using the slots from `free` on.
    fn emit(&self, target: Target, free: usize, steps: &mut Vec<Step>) {
        if let Some(shape) = self.shape() {
            let mut leaves = Vec::with_capacity(OPERANDS);
            self.leaves(&mut leaves);
            steps.push(Step::new(shape, &leaves, target));
            return;
        }
        let Tree::Node(a, b) = self else {
            unreachable!("a leaf has a shape");
        };
        let (first, second) = if a.slots() >= b.slots() { (a, b) } else { (b, a) };
        first.emit(Target::Slot(free), free, steps);
        let step = match **second {
            Tree::Leaf(index) => Step::new(
                Shape::ScratchLeaf,
                &[Operand::Slot(free), Operand::Source(index)],
                target,
            ),
            Tree::Node(_, _) => {
                second.emit(Target::Slot(free + 1), free + 1, steps);
                Step::new(
                    Shape::ScratchScratch,
                    &[Operand::Slot(free), Operand::Slot(free + 1)],
                    target,
                )
            }
        };
        steps.push(step);
    }
}

impl Step {
    /// A step of up to eight operands; places that the shape doesn't read repeat the first.
    fn new(shape: Shape, operands: &[Operand], target: Target) -> Step {
        let mut all = [operands[0]; OPERANDS];
        all[..operands.len()].copy_from_slice(operands);
        Step {
            shape,
            operands: all,
            target,
        }
    }
}

/// The steps for one tree, the last of which alone writes the output.
pub(super) fn compile(tree: &ReductionTree) -> Box<[Step]> {
    let mut steps = Vec::new();
    Tree::parse(tree).emit(Target::Output, 0, &mut steps);
    steps.into_boxed_slice()
}
