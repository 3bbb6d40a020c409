//! One shot: every rank reads every rank's input and sums all of it.
//!
//! Bytes for each rank: S written (private buffers), (W - 1) S read from peers, one wait for the slowest.

use lanesum_plan::{Announced, OneShotPull, Request};
use lanesum_segment::Phase;

use crate::Fault;
use crate::engine::{Closed, Engine, Exchange, Failed, Input, Operands};

impl Engine {
    /// Sums in one shot.
    ///
    /// # Errors
    /// [`Fault`]; the output then holds part of the sum, see [`Engine::spoil`].
    ///
    /// # Safety
    /// A private input is valid for reading, and the output for writing, the request's elements; they are
    /// the same memory or do not overlap. A shared input lies inside this rank's arena. Nobody else touches
    /// them during the call, but peers that read a shared input.
    pub unsafe fn one_shot_pull(
        &self,
        algorithm: &OneShotPull,
        announced: &Announced,
        request: &Request,
        operands: &Operands,
    ) -> Result<Closed, Box<Fault>> {
        self.stream(
            announced,
            request,
            operands,
            algorithm.chunk().get(),
            |part| match operands.input {
                // SAFETY: passed on from the caller.
                Input::Private(_) => unsafe { self.one_shot_staged(part) },
                // SAFETY: passed on from the caller.
                Input::Shared(offset) => unsafe { self.one_shot_in_place(part, offset) },
            },
        )
    }

    /// # Safety
    /// As [`Engine::one_shot_pull`], with a private input.
    unsafe fn one_shot_staged(&self, part: &Exchange<'_>) -> Result<(), Failed> {
        let chunk = part.bytes(part.start..part.start + part.elements);
        let input = self.input(part.operands, part.start, part.dtype);
        let staging = self
            .member
            .segment()
            .staging(self.member.rank(), part.epoch.half())
            .as_ptr();
        // SAFETY: the chunk lies in the input (`stream` cuts it so) and fits the staging half (the plan's
        // chunk does). Nobody reads this half now: every peer has posted its header of the last epoch, so it
        // has finished the one before, which used this half (docs/memory-model.md).
        unsafe { core::ptr::copy_nonoverlapping(input, staging, chunk.len()) };
        self.enter(part.epoch, part.announced, 0)?;
        let sources = self.sources(part)?;
        let world = self.member.segment().geometry().world();
        let output = part.operands.output.wrapping_add(chunk.start);
        // SAFETY: each source holds the chunk: own input by the caller, peers' staging because their headers
        // of this epoch were acquired. The output is the own source or disjoint from all, by the caller.
        unsafe {
            self.reducer
                .reduce(part.operation, part.dtype, &sources[..world], output, part.elements)
        };
        Ok(())
    }

    /// # Safety
    /// As [`Engine::one_shot_pull`], with a shared input at `offset`.
    unsafe fn one_shot_in_place(&self, part: &Exchange<'_>, offset: u64) -> Result<(), Failed> {
        let chunk = part.bytes(part.start..part.start + part.elements);
        self.enter(part.epoch, part.announced, offset)?;
        let sources = self.sources(part)?;
        let world = self.member.segment().geometry().world();
        let output = part.operands.output.wrapping_add(chunk.start);
        let own = sources[self.member.rank()];
        let staging = self
            .member
            .segment()
            .staging(self.member.rank(), part.epoch.half())
            .as_ptr();
        // Peers read the input until they close: a sum in place has to wait outside it.
        let in_place = core::ptr::eq(output.cast_const(), own);
        let target = if in_place { staging } else { output };
        // SAFETY: the sources hold the chunk: own by the caller, peers' because their headers were acquired
        // and their offsets checked against the arena. The target is the own staging half, which nobody
        // reads now, or the output, which the caller keeps apart from the input.
        unsafe {
            self.reducer
                .reduce(part.operation, part.dtype, &sources[..world], target, part.elements)
        };
        // Before anybody is told: a peer that has failed meanwhile may have taken its buffer back.
        self.member
            .confirm_reads()
            .map_err(|trouble| (Phase::Closing, trouble))?;
        self.member.post_closing(part.epoch);
        self.member
            .await_closings(part.epoch, || self.context())
            .map_err(|trouble| (Phase::Closing, trouble))?;
        if in_place {
            // SAFETY: both hold the chunk, and staging lies outside the arena. No peer reads the input any
            // more: all closing words of this epoch were acquired.
            unsafe { core::ptr::copy_nonoverlapping(staging.cast_const(), output, chunk.len()) };
        }
        Ok(())
    }
}
