//! One shot: every rank reads every rank's input and sums all of it.
//!
//! Bytes for each rank: (W - 1) S written to mailboxes, as much read from peers, one wait for the slowest.

use lanesum_plan::{Announced, OneShotPull, Request};
use lanesum_segment::{Phase, Run};

use crate::Fault;
use crate::engine::{Closed, Engine, Exchange, Failed, Input, Operands};
use crate::reduce::copy;

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
                Input::Shared(offset) if algorithm.in_place() => unsafe { self.one_shot_in_place(part, offset) },
                // SAFETY: passed on from the caller.
                Input::Private(_) | Input::Shared(_) => unsafe { self.one_shot_posted(part) },
            },
        )
    }

    /// # Safety
    /// As [`Engine::one_shot_pull`].
    unsafe fn one_shot_posted(&self, part: &Exchange<'_>) -> Result<(), Failed> {
        let chunk = part.bytes(part.start..part.start + part.elements);
        let input = self.input(part.operands, part.start, part.dtype);
        for run in self.runs(chunk.len()) {
            let from = input.wrapping_add(run.bytes.start);
            for peer in self.member.peers().iter() {
                // SAFETY: the run lies in the chunk, which lies in the input (`stream` cuts it so) and fits a mailbox
                // (the plan's chunk does). Nobody reads the outgoing part of a mailbox now: it is this rank that read
                // it last (docs/memory-model.md).
                unsafe { copy(from, self.outgoing(&run, peer), run.bytes.len()) };
            }
        }
        self.enter(part.epoch, part.announced, 0)?;
        let output = part.operands.output.wrapping_add(chunk.start);
        for run in self.runs(chunk.len()) {
            let sources = self.posted(&run, input.wrapping_add(run.bytes.start));
            // SAFETY: each source holds the run: own input by the caller, incoming parts of mailboxes because the peers'
            // headers of this epoch were acquired. The output is the own source or disjoint from all, by the caller.
            unsafe { self.sum(part, &sources, output.wrapping_add(run.bytes.start), run.bytes.len()) };
        }
        self.pass(chunk.len());
        Ok(())
    }

    /// # Safety
    /// As [`Engine::one_shot_pull`], with a shared input at `offset`.
    unsafe fn one_shot_in_place(&self, part: &Exchange<'_>, offset: u64) -> Result<(), Failed> {
        let chunk = part.bytes(part.start..part.start + part.elements);
        self.enter(part.epoch, part.announced, offset)?;
        let sources = self.shared(part)?;
        let output = part.operands.output.wrapping_add(chunk.start);
        // Peers read the input until they close: a sum in place waits outside it, where this rank may write, and nobody
        // reads in this exchange.
        let in_place = core::ptr::eq(output.cast_const(), sources[self.member.rank()]);
        let scratch = |run: &Run| self.member.peers().iter().next().map(|peer| self.outgoing(run, peer));
        for run in self.runs(chunk.len()) {
            let sources = sources.map(|source| source.wrapping_add(run.bytes.start));
            let output = output.wrapping_add(run.bytes.start);
            let target = if in_place {
                scratch(&run).unwrap_or(output)
            } else {
                output
            };
            // SAFETY: the sources hold the run: own by the caller, peers' because their headers were acquired and their
            // offsets checked against the arena. The target is an outgoing part of a mailbox, which has room for the
            // chunk and which nobody reads now, or the output, which the caller keeps apart from the input.
            unsafe { self.sum(part, &sources, target, run.bytes.len()) };
        }
        // Before anybody is told: a peer that has failed meanwhile may have taken its buffer back.
        self.member
            .confirm_reads()
            .map_err(|trouble| (Phase::Closing, trouble))?;
        self.member.post_closing(part.epoch);
        self.member
            .await_closings(part.epoch, || self.context())
            .map_err(|trouble| (Phase::Closing, trouble))?;
        if in_place {
            for run in self.runs(chunk.len()) {
                let output = output.wrapping_add(run.bytes.start);
                let from = scratch(&run).unwrap_or(output).cast_const();
                // SAFETY: both hold the run, and mailboxes lie outside the arena. No peer reads the input any more: all
                // closing words of this epoch were acquired.
                unsafe { copy(from, output, run.bytes.len()) };
            }
        }
        Ok(())
    }
}
