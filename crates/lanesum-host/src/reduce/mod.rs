//! The sum itself: all ranks' buffers into one, in tree order, the same bits on every instruction set.
//!
//! 16-bit elements are widened to f32, every node of the tree is rounded to f32, and the result is rounded once to the
//! dtype, to nearest even. NaN is stored as one canonical quiet NaN, and subnormals are kept. Maximum and minimum are
//! those of IEEE 754-2019.
//!
//! ```text
//! at set-up:  Isa -> table of kernels (operation x dtype x shape);  ReductionTree -> steps, each with a shape
//! in a call:  for each block of 1024 elements: for each step: one kernel over the block
//! ```
//!
//! A kernel is one generic loop ([`expression`]), compiled for each instruction set through its thin shell ([`vector`]).
//! A block's intermediate values stay in the first level cache. A tree that is one shape needs none, and is one pass.
//!
//! Sources may lie in memory that other processes can write. They are read through raw pointers only, and no value read
//! decides an address: a peer that breaks the protocol can spoil numbers, not memory.

mod expression;
mod guard;
mod program;
mod scalar;
mod table;
#[cfg(test)]
mod tests;
mod vector;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::{copy_nonoverlapping, null_mut};

use lanesum_plan::{Dtype, Operation, ReductionTree};

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use guard::FloatGuard;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;

use program::{Operand, SLOTS, Step, Target};
use scalar::Plain;
use table::{Row, Table, Tables};
use vector::GROUP_MAX;

/// Elements in a block: four slots of scratch, as f32, are half of a small first level cache.
const BLOCK: usize = 1024;

const _: () = assert!(BLOCK.is_multiple_of(GROUP_MAX));

/// An instruction set, with the proof that this machine has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// What the compiler may assume anywhere.
    Scalar,
    /// AVX2 with F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 F. Never its BF16 conversion, which flushes subnormals.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Isa {
    /// The fastest that this machine has.
    pub fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Scalar)
    }

    /// All that this machine has, the slowest first.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(Avx2::new().map(Isa::Avx2));
            all.extend(Avx512::new().map(Isa::Avx512));
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Isa::Neon(Neon::new()));
        all
    }

    /// Its name: `scalar`, `avx2`, `avx512` or `neon`.
    pub const fn name(&self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => "neon",
        }
    }

    /// The kernels of this instruction set. The token in `self` is what makes it right to call them.
    const fn table(&self) -> &'static Table {
        match self {
            Isa::Scalar => Tables::<Plain>::TABLE,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => Tables::<Avx2>::TABLE,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => Tables::<Avx512>::TABLE,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => Tables::<Neon>::TABLE,
        }
    }
}

/// Scratch for one value of a block: whole groups in f32.
#[repr(align(64))]
struct Slot([MaybeUninit<f32>; BLOCK]);

/// Combines the buffers of all ranks of one tree on one instruction set.
#[derive(Debug)]
pub struct Reducer {
    /// Holds the token that makes it right to call the kernels of `table`.
    isa: Isa,
    table: &'static Table,
    /// The last step alone writes the output.
    steps: Box<[Step]>,
    world: usize,
}

impl Reducer {
    /// Compiles a tree for an instruction set.
    #[must_use]
    pub fn new(isa: Isa, tree: &ReductionTree) -> Reducer {
        Reducer {
            isa,
            table: isa.table(),
            steps: program::compile(tree),
            world: tree.world().get(),
        }
    }

    /// The instruction set in use.
    #[must_use]
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// Writes to `out` the combination of `elements` elements of all `sources`, in the order of the tree.
    ///
    /// `sources` holds one pointer for each rank, in rank order. Nothing need be aligned. The caller's rounding state
    /// plays no part and is left as it was. In a world of one, `out` is the source with its NaNs made canonical.
    ///
    /// # Safety
    /// Each source is readable, and `out` writable, for `elements` elements of `dtype`; nobody writes to them meanwhile
    /// but a peer that breaks the protocol, which makes the numbers arbitrary. `out` is disjoint from every source or
    /// exactly equal to it.
    #[inline]
    pub unsafe fn reduce(
        &self,
        operation: Operation,
        dtype: Dtype,
        sources: &[*const u8],
        out: *mut u8,
        elements: usize,
    ) {
        debug_assert_eq!(sources.len(), self.world, "one source a rank");
        let _neutral = FloatGuard::new();
        let row = self.table.row(operation, dtype);
        let work = Work {
            sources,
            out,
            elements,
            size: dtype.size(),
        };
        match &*self.steps {
            // SAFETY: the caller vouches for the buffers; the only step of a program reads and writes nothing else.
            [only] => unsafe { work.run(row, only, &[null_mut(); SLOTS], 0..elements) },
            // SAFETY: the caller vouches for the buffers.
            _ => unsafe { self.run_blocks(row, work) },
        }
    }

    /// All steps on one block after the other. Apart, so that a single pass has no frame with scratch.
    ///
    /// # Safety
    /// As `reduce`.
    #[inline(never)]
    unsafe fn run_blocks(&self, row: &Row, work: Work<'_>) {
        let mut scratch = [const { Slot([MaybeUninit::uninit(); BLOCK]) }; SLOTS];
        let slots = scratch.each_mut().map(|slot| slot.0.as_mut_ptr().cast::<u8>());
        for start in (0..work.elements).step_by(BLOCK) {
            let block = start..work.elements.min(start + BLOCK);
            for step in &self.steps {
                // SAFETY: the caller vouches for the buffers; each slot holds a block, a multiple of any group, and the
                // program reads only slots that an earlier step of this block has written.
                unsafe { work.run(row, step, &slots, block.clone()) };
            }
        }
    }
}

/// What one call works on.
#[derive(Clone, Copy)]
struct Work<'a> {
    /// One a rank.
    sources: &'a [*const u8],
    out: *mut u8,
    elements: usize,
    /// Bytes of one element.
    size: usize,
}

impl Work<'_> {
    /// Runs one step on some of the elements.
    ///
    /// # Safety
    /// The buffers are as `Reducer::reduce` wants them, `block` lies within their elements, and the kernels of `row` are
    /// for the CPU's features. Slots that the step names have room for the block in whole groups; those that it reads
    /// have been written.
    #[inline]
    unsafe fn run(&self, row: &Row, step: &Step, slots: &[*mut u8; SLOTS], block: Range<usize>) {
        let offset = block.start * self.size;
        let operands = step.operands.map(|operand| match operand {
            Operand::Source(rank) => self.sources[rank].wrapping_add(offset),
            Operand::Slot(slot) => slots[slot].cast_const(),
        });
        let (to, to_output) = match step.target {
            Target::Output => (self.out.wrapping_add(offset), true),
            Target::Slot(slot) => (slots[slot], false),
        };
        // SAFETY: the operands that the shape reads are those of the step, and `to` is its target; the caller vouches
        // for all of them. A target in scratch may equal an operand in scratch, both f32; the output may equal a
        // source, both of the dtype.
        unsafe { row.kernel(step.shape, to_output)(&operands, to, block.len()) }
    }
}

/// Fills `out` with canonical quiet NaNs.
///
/// # Safety
/// `out` is writable for `elements` elements of `dtype`; it need not be aligned.
pub unsafe fn fill_nan(dtype: Dtype, out: *mut u8, elements: usize) {
    match dtype {
        // SAFETY: passed on from the caller.
        Dtype::F32 => unsafe { fill(out, 0x7FC0_0000_u32, elements) },
        // SAFETY: passed on from the caller.
        Dtype::F16 => unsafe { fill(out, 0x7E00_u16, elements) },
        // SAFETY: passed on from the caller.
        Dtype::Bf16 => unsafe { fill(out, 0x7FC0_u16, elements) },
    }
}

/// Writes `value` `count` times.
///
/// # Safety
/// `out` is writable for `count` values of `T`.
unsafe fn fill<T: Copy>(out: *mut u8, value: T, count: usize) {
    let out = out.cast::<T>();
    for index in 0..count {
        // SAFETY: the index is below the count that the caller vouches for.
        let to = unsafe { out.add(index) };
        // SAFETY: the same; the write is unaligned.
        unsafe { to.write_unaligned(value) };
    }
}

/// Copies bytes between buffers, one of which peers may see.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes, and they don't overlap.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on from the caller.
    unsafe { copy_nonoverlapping(from, to, bytes) }
}
