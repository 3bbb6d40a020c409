//! What an instruction set must provide; everything else in this folder is generic over it.
//!
//! A *vector* holds `LANES` values as f32, whatever the dtype in memory. The unit of work is a *group* of two
//! vectors, because that is what one full register of a 16-bit dtype widens to. How a group's elements are spread over
//! its two vectors is the shell's business: on x86 bf16 goes to even and odd elements (one shift, one mask, and no
//! shuffle, the units that would otherwise be the bottleneck), f16 and f32 to first and second half. All arithmetic is
//! element by element, so the order matters only to the load and the store of one dtype, which agree.
//!
//! An implementor is a token that only exists where the CPU has the instructions. Arithmetic through a token is
//! therefore safe; only the loads and stores, which take pointers, are not.

/// One call of the inner loop: operands by pointer, the result's address, the count of elements.
pub(super) type Kernel = unsafe fn(&Operands, *mut u8, usize);

/// The most operands one kernel reads.
pub(super) const OPERANDS: usize = 8;

/// Where each operand of a kernel starts; those that it does not use may be anything.
pub(super) type Operands = [*const u8; OPERANDS];

/// The widest group of any instruction set, in elements.
pub(super) const GROUP_MAX: usize = 32;

/// The vectors of one instruction set, behind the token that proves the CPU has it.
pub(super) trait Vector: Copy {
    /// `LANES` values in f32.
    type Lanes: Copy;

    /// Values in one vector.
    const LANES: usize;

    /// Elements in a group: two vectors.
    const GROUP: usize = 2 * Self::LANES;

    /// Asks for the line at an address, which may be any.
    #[inline(always)]
    fn prefetch(self, _: *const u8) {}

    /// Widens a group of f32.
    ///
    /// # Safety
    /// `from` is readable for `GROUP` elements of 4 bytes; it need not be aligned.
    unsafe fn load_f32(self, from: *const u8) -> [Self::Lanes; 2];

    /// Widens a group of f16.
    ///
    /// # Safety
    /// `from` is readable for `GROUP` elements of 2 bytes; it need not be aligned.
    unsafe fn load_f16(self, from: *const u8) -> [Self::Lanes; 2];

    /// Widens a group of bf16.
    ///
    /// # Safety
    /// `from` is readable for `GROUP` elements of 2 bytes; it need not be aligned.
    unsafe fn load_bf16(self, from: *const u8) -> [Self::Lanes; 2];

    /// Stores a group as f32, bit for bit.
    ///
    /// # Safety
    /// `to` is writable for `GROUP` elements of 4 bytes; it need not be aligned.
    unsafe fn store_f32(self, group: [Self::Lanes; 2], to: *mut u8);

    /// Rounds a group to f16, to nearest even, overflowing to infinity. NaNs must be canonical.
    ///
    /// # Safety
    /// `to` is writable for `GROUP` elements of 2 bytes; it need not be aligned.
    unsafe fn store_f16(self, group: [Self::Lanes; 2], to: *mut u8);

    /// Rounds a group to bf16, to nearest even, overflowing to infinity. NaNs must be canonical.
    ///
    /// # Safety
    /// `to` is writable for `GROUP` elements of 2 bytes; it need not be aligned.
    unsafe fn store_bf16(self, group: [Self::Lanes; 2], to: *mut u8);

    /// The sum, rounded to f32.
    fn add(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    /// IEEE 754-2019 maximum: a NaN wins, and +0 is above -0. Which NaN is open.
    fn maximum(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    /// IEEE 754-2019 minimum: a NaN wins, and -0 is below +0. Which NaN is open.
    fn minimum(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    /// Replaces every NaN by the canonical quiet one, 0x7FC00000.
    fn canonical(self, group: [Self::Lanes; 2]) -> [Self::Lanes; 2];

    /// The loop over `E` into `K`, compiled for this instruction set; see [`evaluate`](super::expression::evaluate).
    ///
    /// # Safety
    /// A token of this type exists, and the obligations of `evaluate` hold.
    unsafe fn enter<E: super::expression::Expression, K: super::expression::Sink>(
        operands: &Operands,
        out: *mut u8,
        elements: usize,
    );
}
