//! Whatever rounding state the caller has: the same bits, and the state given back.

use lanesum_host::reduce::{FloatGuard, Isa, Reducer};
use lanesum_plan::oracle;

use super::inputs::{canonical, input};
use super::{UNTOUCHED, combinations, slices};

/// MXCSR.
#[cfg(target_arch = "x86_64")]
mod register {
    use core::arch::asm;

    /// To nearest, subnormals kept, nothing trapped.
    pub const NEUTRAL: u64 = 0x1F80;
    /// All exceptions have been seen.
    pub const HISTORY: u64 = 0x3F;
    /// The mode bits.
    pub const MODE: u64 = 0xFFC0;
    /// Flush to zero with denormals are zero; each rounding mode; everything trapped; all at once.
    pub const HOSTILE: [u64; 6] = [0x9FC0, 0x5F80, 0x3F80, 0x7F80, 0x0000, 0xE040];

    pub fn read() -> u64 {
        let mut word = 0_u32;
        // SAFETY: stores four bytes to a local of four.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
        word.into()
    }

    pub fn write(word: u64) {
        let word = word as u32;
        // SAFETY: loads four bytes from a local; the words of this file set no reserved bit.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
    }
}

/// FPCR, which has no history.
#[cfg(target_arch = "aarch64")]
mod register {
    use core::arch::asm;

    /// To nearest, subnormals kept, nothing trapped.
    pub const NEUTRAL: u64 = 0;
    pub const HISTORY: u64 = 0;
    /// FZ16, rounding mode, FZ, AHP.
    pub const MODE: u64 = (1 << 19) | (0b111 << 22) | (1 << 26);
    /// Flush to zero; each rounding mode; the alternative half precision; default NaN; all at once.
    pub const HOSTILE: [u64; 7] = [
        (1 << 24) | (1 << 19),
        1 << 22,
        2 << 22,
        3 << 22,
        1 << 26,
        1 << 25,
        MODE | (1 << 25),
    ];

    pub fn read() -> u64 {
        let word;
        // SAFETY: reads a register that user code may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack)) };
        word
    }

    pub fn write(word: u64) {
        // SAFETY: writes a register that user code may write; the words of this file set no reserved bit.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack)) };
    }
}

/// Runs `work` in a state, and gives the state that it left. Compiled code assumes the neutral state, so `work` computes
/// nothing in floating point but what it tests.
fn under(state: u64, work: &mut dyn FnMut()) -> u64 {
    let found = register::read();
    register::write(state);
    work();
    let left = register::read();
    register::write(found);
    left
}

#[test]
fn the_callers_state_changes_no_bits_and_is_given_back() {
    for what in combinations() {
        for world in [1, 2, 5, 8] {
            let tree = canonical(world);
            let inputs: Vec<Vec<u8>> = (0..world).map(|rank| input(what.1, 7 + rank as u64, 1061)).collect();
            let inputs = slices(&inputs, 1061 * what.1.size());
            let sources: Vec<*const u8> = inputs.iter().map(|input| input.as_ptr()).collect();
            let expected = oracle::all_reduce(what.0, what.1, &tree, &inputs);
            for isa in Isa::available() {
                let reducer = Reducer::new(isa, &tree);
                for state in register::HOSTILE {
                    let mut out = vec![UNTOUCHED; expected.len()];
                    let left = under(state, &mut || {
                        // SAFETY: one source a rank, each as long as the output, which is a vector of its own.
                        unsafe { reducer.reduce(what.0, what.1, &sources, out.as_mut_ptr(), 1061) };
                    });
                    assert_eq!(left, state, "{what:?} {}", isa.name());
                    assert!(out == expected, "{what:?} {} under {state:#x}", isa.name());
                }
            }
        }
    }
}

#[test]
fn the_guard_keeps_the_history_of_a_neutral_state() {
    let state = register::NEUTRAL | register::HISTORY;
    assert_eq!(under(state, &mut || drop(FloatGuard::new())), state);
}

#[test]
fn guards_nest() {
    for state in register::HOSTILE {
        let mut inside = None;
        let left = under(state, &mut || {
            let outer = FloatGuard::new();
            drop(FloatGuard::new());
            inside = Some(register::read() & register::MODE);
            drop(outer);
        });
        assert_eq!((inside, left), (Some(register::NEUTRAL), state));
    }
}
