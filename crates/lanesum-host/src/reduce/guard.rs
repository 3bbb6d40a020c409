//! The rounding state of the CPU, set for a reduction and given back afterwards.
//!
//! Applications switch denormals off, or round another way; the bits of a sum must not depend on that. Reading the state
//! costs a few cycles, writing it some dozens, so it is written only where it differs.

use core::marker::PhantomData;

/// While it lives, this thread rounds to nearest even, keeps subnormals and takes no floating-point traps.
///
/// Not `Send`: the state belongs to the thread.
#[must_use = "the state is given back when the guard is dropped"]
#[derive(Debug)]
pub struct FloatGuard {
    /// What to give back, where it had to be changed.
    saved: Option<state::Word>,
    not_send: PhantomData<*const ()>,
}

impl FloatGuard {
    /// Sets the state.
    #[inline]
    pub fn new() -> FloatGuard {
        let found = state::read();
        let wanted = state::neutral(found);
        let saved = (found != wanted).then(|| {
            state::write(wanted);
            found
        });
        FloatGuard {
            saved,
            not_send: PhantomData,
        }
    }
}

impl Default for FloatGuard {
    fn default() -> Self {
        FloatGuard::new()
    }
}

impl Drop for FloatGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(saved) = self.saved {
            state::write(saved);
        }
    }
}

/// MXCSR, which governs SSE, AVX, AVX-512 and F16C.
#[cfg(target_arch = "x86_64")]
mod state {
    use core::arch::asm;

    pub(super) type Word = u32;

    /// Flush to zero, rounding control, exception masks, denormals are zero. The six flags below are history, not
    /// mode, and stay as they are.
    const MODE: u32 = 0xFFC0;
    /// All exceptions masked; the rest zero: nearest even, subnormals kept.
    const NEUTRAL: u32 = 0x1F80;

    pub(super) fn neutral(found: Word) -> Word {
        (found & !MODE) | NEUTRAL
    }

    #[inline]
    pub(super) fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: stores four bytes to a local that is writable for four.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    /// Memory is clobbered on purpose: no arithmetic on loaded values may move across.
    #[inline]
    pub(super) fn write(word: Word) {
        // SAFETY: loads four bytes from a local. The value is one that was read, with mode bits that every CPU has, so
        // no reserved bit is set. Compiled code assumes the neutral state, and `FloatGuard` only leaves that state to
        // give back what its caller had.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

/// FPCR, which governs NEON and scalar arithmetic.
#[cfg(target_arch = "aarch64")]
mod state {
    use core::arch::asm;

    pub(super) type Word = u64;

    /// FIZ, AH and NEP (0 to 2), the trap enables (8 to 12, 15), FZ16 (19), rounding mode (22, 23), FZ (24), AHP (26).
    /// Default NaN (25) may be either: every NaN is made canonical.
    const MODE: u64 = 0b111 | (0x1F << 8) | (1 << 15) | (1 << 19) | (0b111 << 22) | (1 << 26);

    pub(super) fn neutral(found: Word) -> Word {
        found & !MODE
    }

    #[inline]
    pub(super) fn read() -> Word {
        let word: Word;
        // SAFETY: reads a register that user code may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    /// Memory is clobbered on purpose: no arithmetic on loaded values may move across.
    #[inline]
    pub(super) fn write(word: Word) {
        // SAFETY: writes a register that user code may write, with a value that was read, less some mode bits.
        // Compiled code assumes the neutral state, and `FloatGuard` only leaves that state to give back what its
        // caller had.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

/// No floating-point state that this library knows to set.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod state {
    pub(super) type Word = u32;

    pub(super) fn neutral(found: Word) -> Word {
        found
    }

    pub(super) fn read() -> Word {
        0
    }

    pub(super) fn write(_: Word) {}
}
