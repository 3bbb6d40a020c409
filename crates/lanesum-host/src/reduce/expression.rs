//! What one kernel computes, as a type, and the one loop that evaluates it.
//!
//! ```text
//! for each group of elements:
//!     load the leaves of the expression, widened to f32
//!     combine them in its order, each node rounded to f32, in registers
//!     store: to scratch as f32, or to the output, NaN made canonical and rounded once
//! the last, partial group: the same, on padded copies of the operands
//! ```
//!
//! Fusing two, four or eight leaves into one expression is what keeps intermediate sums out of memory: a canonical tree
//! of a power-of-two world up to eight is a single pass. Other trees go through scratch (see [`program`](super::program)).
//!
//! Departures from the plain loop:
//! 1. A partial group is padded rather than done by scalar code, so that there is one arithmetic to get right.
//! 2. It is not done by an overlapping full group, as in place that would sum some elements twice.
//! 3. Scratch keeps the order of the elements as the dtype's load spread them, since nobody else reads it.
//!
//! Known loss: a message shorter than a group pays for copying its operands.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::copy_nonoverlapping;

use super::vector::{GROUP_MAX, OPERANDS, Operands, Vector};

/// A dtype in memory.
pub(super) trait Element {
    /// Bytes of one element.
    const SIZE: usize;

    /// Loads a group, widened.
    ///
    /// # Safety
    /// `from` is readable for a group of this dtype.
    unsafe fn load<V: Vector>(v: V, from: *const u8) -> [V::Lanes; 2];

    /// Stores a group, rounded; NaNs must be canonical.
    ///
    /// # Safety
    /// `to` is writable for a group of this dtype.
    unsafe fn store<V: Vector>(v: V, group: [V::Lanes; 2], to: *mut u8);
}

/// f32 in memory.
pub(super) enum F32 {}
/// f16 in memory.
pub(super) enum F16 {}
/// bf16 in memory.
pub(super) enum Bf16 {}

macro_rules! element {
    ($name:ty, $size:literal, $load:ident, $store:ident) => {
        impl Element for $name {
            const SIZE: usize = $size;

            #[inline(always)]
            unsafe fn load<V: Vector>(v: V, from: *const u8) -> [V::Lanes; 2] {
                // SAFETY: the caller vouches for a readable group of this dtype.
                unsafe { v.$load(from) }
            }

            #[inline(always)]
            unsafe fn store<V: Vector>(v: V, group: [V::Lanes; 2], to: *mut u8) {
                // SAFETY: the caller vouches for a writable group of this dtype.
                unsafe { v.$store(group, to) }
            }
        }
    };
}

element!(F32, 4, load_f32, store_f32);
element!(F16, 2, load_f16, store_f16);
element!(Bf16, 2, load_bf16, store_bf16);

/// How two values become one.
pub(super) trait Combine {
    /// Combines lane by lane.
    fn combine<V: Vector>(v: V, a: V::Lanes, b: V::Lanes) -> V::Lanes;
}

/// The sum.
pub(super) enum Sum {}
/// IEEE 754-2019 maximum.
pub(super) enum Max {}
/// IEEE 754-2019 minimum.
pub(super) enum Min {}

macro_rules! combine {
    ($name:ty, $method:ident) => {
        impl Combine for $name {
            #[inline(always)]
            fn combine<V: Vector>(v: V, a: V::Lanes, b: V::Lanes) -> V::Lanes {
                v.$method(a, b)
            }
        }
    };
}

combine!(Sum, add);
combine!(Max, maximum);
combine!(Min, minimum);

/// Padded copies of the operands' last, partial group.
pub(super) type Padding = [MaybeUninit<Padded>; OPERANDS];

/// Room for the widest group of the widest element.
#[repr(align(64))]
pub(super) struct Padded([u8; GROUP_MAX * 4]);

impl Padded {
    const ZERO: Padded = Padded([0; GROUP_MAX * 4]);
}

/// A value for each element, computed from the operands.
pub(super) trait Expression {
    /// The group of values at element `at`.
    ///
    /// # Safety
    /// Each operand that the expression names is readable for a group at element `at`.
    unsafe fn load<V: Vector>(v: V, operands: &Operands, at: usize) -> [V::Lanes; 2];

    /// Asks for the operands that may be in another core's cache, at element `at`.
    fn prefetch<V: Vector>(v: V, operands: &Operands, at: usize);

    /// Copies the `rest` elements at `at` of each operand to its padding, and points `padded` there.
    ///
    /// # Safety
    /// `rest` is below a group. Operands in a rank's buffer are readable for `at + rest` elements, those in scratch for
    /// a group at `at`.
    unsafe fn pad<V: Vector>(operands: &Operands, at: usize, rest: usize, padding: &mut Padding, padded: &mut Operands);
}

/// Operand `I`, elements of dtype `D` in a rank's buffer.
pub(super) struct Leaf<D, const I: usize>(PhantomData<D>);

impl<D: Element, const I: usize> Expression for Leaf<D, I> {
    #[inline(always)]
    unsafe fn load<V: Vector>(v: V, operands: &Operands, at: usize) -> [V::Lanes; 2] {
        // SAFETY: the caller vouches for a group at `at`, so the offset stays inside the operand.
        let from = unsafe { operands[I].add(at * D::SIZE) };
        // SAFETY: the same.
        unsafe { D::load(v, from) }
    }

    #[inline(always)]
    fn prefetch<V: Vector>(v: V, operands: &Operands, at: usize) {
        v.prefetch(operands[I].wrapping_add(at * D::SIZE));
    }

    #[inline(always)]
    unsafe fn pad<V: Vector>(
        operands: &Operands,
        at: usize,
        rest: usize,
        padding: &mut Padding,
        padded: &mut Operands,
    ) {
        let room = &mut padding[I].write(Padded::ZERO).0;
        // SAFETY: the caller vouches for `at + rest` elements, so the offset stays inside the operand.
        let from = unsafe { operands[I].add(at * D::SIZE) };
        // SAFETY: `rest` elements follow `from`; `rest` is below a group, and the room holds the widest group.
        unsafe { copy_nonoverlapping(from, room.as_mut_ptr(), rest * D::SIZE) };
        padded[I] = room.as_ptr();
    }
}

/// Operand `I`, an intermediate value in scratch.
pub(super) struct Scratch<const I: usize>;

impl<const I: usize> Expression for Scratch<I> {
    #[inline(always)]
    unsafe fn load<V: Vector>(v: V, operands: &Operands, at: usize) -> [V::Lanes; 2] {
        // SAFETY: the caller vouches for a group at `at`, so the offset stays inside the operand.
        let from = unsafe { operands[I].add(at * F32::SIZE) };
        // SAFETY: the same.
        unsafe { v.load_f32(from) }
    }

    #[inline(always)]
    fn prefetch<V: Vector>(_: V, _: &Operands, _: usize) {}

    #[inline(always)]
    unsafe fn pad<V: Vector>(operands: &Operands, at: usize, _: usize, _: &mut Padding, padded: &mut Operands) {
        // Scratch always holds whole groups, so the last one can be read where it is.
        // SAFETY: the caller vouches for a group at `at`, so the offset stays inside the operand.
        padded[I] = unsafe { operands[I].add(at * F32::SIZE) };
    }
}

/// A node of the tree, kept in registers: `A` combined with `B`.
pub(super) struct Node<O, A, B>(PhantomData<(O, A, B)>);

impl<O: Combine, A: Expression, B: Expression> Expression for Node<O, A, B> {
    #[inline(always)]
    unsafe fn load<V: Vector>(v: V, operands: &Operands, at: usize) -> [V::Lanes; 2] {
        // SAFETY: `A` names some of the operands that the caller vouches for.
        let a = unsafe { A::load(v, operands, at) };
        // SAFETY: so does `B`.
        let b = unsafe { B::load(v, operands, at) };
        [O::combine(v, a[0], b[0]), O::combine(v, a[1], b[1])]
    }

    #[inline(always)]
    fn prefetch<V: Vector>(v: V, operands: &Operands, at: usize) {
        A::prefetch(v, operands, at);
        B::prefetch(v, operands, at);
    }

    #[inline(always)]
    unsafe fn pad<V: Vector>(
        operands: &Operands,
        at: usize,
        rest: usize,
        padding: &mut Padding,
        padded: &mut Operands,
    ) {
        // SAFETY: `A` names some of the operands that the caller vouches for.
        unsafe { A::pad::<V>(operands, at, rest, padding, padded) };
        // SAFETY: so does `B`.
        unsafe { B::pad::<V>(operands, at, rest, padding, padded) };
    }
}

/// Where a kernel's values go.
pub(super) trait Sink {
    /// Stores the group at element `at`.
    ///
    /// # Safety
    /// `out` is writable for a group at element `at`.
    unsafe fn store<V: Vector>(v: V, group: [V::Lanes; 2], out: *mut u8, at: usize);

    /// Stores the first `rest` elements of the group at element `at`, and perhaps the others where `out` has room.
    ///
    /// # Safety
    /// `rest` is below a group. `out` in a rank's buffer is writable for `at + rest` elements, in scratch for a group
    /// at `at`.
    unsafe fn store_rest<V: Vector>(v: V, group: [V::Lanes; 2], out: *mut u8, at: usize, rest: usize);
}

/// Into scratch, as f32, NaNs as they are.
pub(super) enum Partial {}

impl Sink for Partial {
    #[inline(always)]
    unsafe fn store<V: Vector>(v: V, group: [V::Lanes; 2], out: *mut u8, at: usize) {
        // SAFETY: the caller vouches for a group at `at`, so the offset stays inside `out`.
        let to = unsafe { out.add(at * F32::SIZE) };
        // SAFETY: the same.
        unsafe { v.store_f32(group, to) }
    }

    #[inline(always)]
    unsafe fn store_rest<V: Vector>(v: V, group: [V::Lanes; 2], out: *mut u8, at: usize, _: usize) {
        // SAFETY: scratch has room for a whole group at `at`, as the caller vouches.
        unsafe { Self::store(v, group, out, at) }
    }
}

/// Into the output: NaN made canonical, one rounding to the dtype.
pub(super) struct Rounded<D>(PhantomData<D>);

impl<D: Element> Sink for Rounded<D> {
    #[inline(always)]
    unsafe fn store<V: Vector>(v: V, group: [V::Lanes; 2], out: *mut u8, at: usize) {
        // SAFETY: the caller vouches for a group at `at`, so the offset stays inside `out`.
        let to = unsafe { out.add(at * D::SIZE) };
        // SAFETY: the same.
        unsafe { D::store(v, v.canonical(group), to) }
    }

    #[inline(always)]
    unsafe fn store_rest<V: Vector>(v: V, group: [V::Lanes; 2], out: *mut u8, at: usize, rest: usize) {
        let mut room = Padded::ZERO;
        // SAFETY: the room holds the widest group.
        unsafe { Self::store(v, group, room.0.as_mut_ptr(), 0) };
        // SAFETY: the caller vouches for `at + rest` elements, so the offset stays inside `out`.
        let to = unsafe { out.add(at * D::SIZE) };
        // SAFETY: `rest` elements from `to` are writable; the room is a local of its own, and `rest` is below a group.
        unsafe { copy_nonoverlapping(room.0.as_ptr(), to, rest * D::SIZE) };
    }
}

/// How many elements ahead operands are asked for. Of 16-bit ones, a core that waits for a line keeps so many instructions of the
/// groups behind it that a dozen lines are on their way, no more.
const AHEAD: usize = 512;

/// Evaluates `E` for `elements` elements into `out`.
///
/// Each group is loaded from all operands before it is stored, so `out` may be one of the operands of the same width.
///
/// # Safety
/// Each operand that `E` names in a rank's buffer is readable, and `out` writable, for `elements` elements; operands
/// and `out` in scratch for `elements` rounded up to whole groups. `out` is disjoint from every operand or equal to
/// one of the same element size.
#[inline(always)]
pub(super) unsafe fn evaluate<V: Vector, E: Expression, K: Sink>(
    v: V,
    operands: &Operands,
    out: *mut u8,
    elements: usize,
) {
    let rest = elements % V::GROUP;
    let whole = elements - rest;
    let mut at = 0;
    while at < whole {
        if at + AHEAD < whole {
            E::prefetch(v, operands, at + AHEAD);
        }
        // SAFETY: `at` is a multiple of the group below `whole`, so a group at `at` lies within `elements`.
        let group = unsafe { E::load(v, operands, at) };
        // SAFETY: the same holds of `out`.
        unsafe { K::store(v, group, out, at) };
        at += V::GROUP;
    }
    if rest > 0 {
        let mut padding = [const { MaybeUninit::uninit() }; OPERANDS];
        let mut padded = *operands;
        // SAFETY: `rest` is below a group, and `whole + rest` is `elements`.
        unsafe { E::pad::<V>(operands, whole, rest, &mut padding, &mut padded) };
        // SAFETY: `pad` has pointed each operand that `E` names at a readable group.
        let group = unsafe { E::load(v, &padded, 0) };
        // SAFETY: `rest` is below a group, and `whole + rest` is `elements`.
        unsafe { K::store_rest(v, group, out, whole, rest) };
    }
}
