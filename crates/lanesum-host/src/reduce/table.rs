//! The kernels of one instruction set, compiled ahead for every operation, dtype and shape, to be picked at set-up.

use core::marker::PhantomData;

use lanesum_plan::{Dtype, Operation};

use super::expression::{Bf16, Combine, Element, F16, F32, Leaf, Max, Min, Node, Partial, Rounded, Scratch, Sum};
use super::vector::{Kernel, Vector};

/// Which values one step combines, and how many operands it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// 0, on its own: a world of one.
    One,
    /// 0+1.
    Two,
    /// (0+1)+(2+3).
    Four,
    /// ((0+1)+(2+3))+((4+5)+(6+7)).
    Eight,
    /// Scratch 0 + leaf 1. Also used for leaf + scratch: the operations commute, up to the NaN that is made canonical.
    ScratchLeaf,
    /// Scratch 0 + scratch 1.
    ScratchScratch,
}

/// One kernel for each shape.
#[derive(Debug)]
struct Shapes {
    one: Kernel,
    two: Kernel,
    four: Kernel,
    eight: Kernel,
    scratch_leaf: Kernel,
    scratch_scratch: Kernel,
}

/// The kernels of one operation and dtype: into scratch, and into the output.
#[derive(Debug)]
pub(super) struct Row {
    partial: Shapes,
    rounded: Shapes,
}

/// Two leaves, from operand `I` and `J`.
type Pair<O, D, const I: usize, const J: usize> = Node<O, Leaf<D, I>, Leaf<D, J>>;
/// Operands 0 to 3.
type Low<O, D> = Node<O, Pair<O, D, 0, 1>, Pair<O, D, 2, 3>>;
/// Operands 4 to 7.
type High<O, D> = Node<O, Pair<O, D, 4, 5>, Pair<O, D, 6, 7>>;

/// Names the row of one combination.
struct Rows<V, O, D>(PhantomData<(V, O, D)>);

macro_rules! shapes {
    ($sink:ty) => {
        Shapes {
            one: V::enter::<Leaf<D, 0>, $sink>,
            two: V::enter::<Pair<O, D, 0, 1>, $sink>,
            four: V::enter::<Low<O, D>, $sink>,
            eight: V::enter::<Node<O, Low<O, D>, High<O, D>>, $sink>,
            scratch_leaf: V::enter::<Node<O, Scratch<0>, Leaf<D, 1>>, $sink>,
            scratch_scratch: V::enter::<Node<O, Scratch<0>, Scratch<1>>, $sink>,
        }
    };
}

impl<V: Vector, O: Combine, D: Element> Rows<V, O, D> {
    const ROW: Row = Row {
        partial: shapes!(Partial),
        rounded: shapes!(Rounded<D>),
    };
}

/// The rows of one operation.
#[derive(Debug)]
struct Dtypes {
    f32: Row,
    f16: Row,
    bf16: Row,
}

/// The kernels of one instruction set.
#[derive(Debug)]
pub(super) struct Table {
    sum: Dtypes,
    max: Dtypes,
    min: Dtypes,
}

macro_rules! dtypes {
    ($operation:ty) => {
        Dtypes {
            f32: Rows::<V, $operation, F32>::ROW,
            f16: Rows::<V, $operation, F16>::ROW,
            bf16: Rows::<V, $operation, Bf16>::ROW,
        }
    };
}

/// Names the table of one instruction set.
pub(super) struct Tables<V>(PhantomData<V>);

impl<V: Vector> Tables<V> {
    /// The table. Whoever calls a kernel from it needs a token of `V`.
    pub(super) const TABLE: &'static Table = &Table {
        sum: dtypes!(Sum),
        max: dtypes!(Max),
        min: dtypes!(Min),
    };
}

impl Table {
    /// The kernels for one operation and dtype.
    #[inline]
    pub(super) fn row(&self, operation: Operation, dtype: Dtype) -> &Row {
        let dtypes = match operation {
            Operation::Sum => &self.sum,
            Operation::Max => &self.max,
            Operation::Min => &self.min,
        };
        match dtype {
            Dtype::F32 => &dtypes.f32,
            Dtype::F16 => &dtypes.f16,
            Dtype::Bf16 => &dtypes.bf16,
        }
    }
}

impl Row {
    /// The kernel for a shape, whose result goes to the output or to scratch.
    #[inline]
    pub(super) fn kernel(&self, shape: Shape, to_output: bool) -> Kernel {
        let shapes = if to_output { &self.rounded } else { &self.partial };
        match shape {
            Shape::One => shapes.one,
            Shape::Two => shapes.two,
            Shape::Four => shapes.four,
            Shape::Eight => shapes.eight,
            Shape::ScratchLeaf => shapes.scratch_leaf,
            Shape::ScratchScratch => shapes.scratch_scratch,
        }
    }
}
