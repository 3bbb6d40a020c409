//! Two shots: each rank owns a shard, sums it over all ranks, and everybody copies all shards.
//!
//! Bytes for each rank: S (W - 1) / W written, as much read from peers, as much of sums written and read
//! back; two waits. The result is rounded once, by the owner.

use core::ops::Range;

use lanesum_plan::{Announced, Rank, Request, TwoShotPull};
use lanesum_segment::Phase;

use crate::Fault;
use crate::engine::{Closed, Engine, Exchange, Failed, Operands};
use crate::reduce::copy;

impl Engine {
    /// Sums in two shots.
    ///
    /// # Errors
    /// [`Fault`]; the output then holds part of the sum, see [`Engine::spoil`].
    ///
    /// # Safety
    /// As [`Engine::one_shot_pull`].
    pub unsafe fn two_shot_pull(
        &self,
        algorithm: &TwoShotPull,
        announced: &Announced,
        request: &Request,
        operands: &Operands,
    ) -> Result<Closed, Box<Fault>> {
        self.stream(announced, request, operands, algorithm.chunk().get(), |part| {
            // SAFETY: passed on from the caller.
            unsafe { self.two_shot_part(algorithm, part) }
        })
    }

    /// Inputs go to their owners through mailboxes, and the owners' sums come back in the same lines, which they have
    /// just read.
    ///
    /// # Safety
    /// As [`Engine::one_shot_pull`].
    unsafe fn two_shot_part(&self, algorithm: &TwoShotPull, part: &Exchange<'_>) -> Result<(), Failed> {
        let shard = |rank| self.shard(algorithm, part, rank);
        let input = self.input(part.operands, part.start, part.dtype);
        for (peer, owner) in self.other_owners() {
            let range = shard(owner);
            for run in self.runs(range.len()) {
                let from = input.wrapping_add(range.start + run.bytes.start);
                // SAFETY: the run lies in the shard, so in the chunk and in the input, and a shard fits a mailbox (the
                // plan's chunk is cut so). Nobody reads the outgoing part of a mailbox now (see `one_shot_posted`).
                unsafe { copy(from, self.outgoing(&run, peer), run.bytes.len()) };
            }
        }
        self.enter(part.epoch, part.announced, 0)?;

        let mine = shard(self.rank());
        let output = part.operands.output.wrapping_add(part.bytes(0..part.start).end);
        for run in self.runs(mine.len()) {
            let at = mine.start + run.bytes.start;
            let sources = self.posted(&run, input.wrapping_add(at));
            let sum = output.wrapping_add(at);
            // SAFETY: each source holds the run: own input by the caller, incoming parts of mailboxes because the peers'
            // headers of this epoch were acquired. The output is the own source or disjoint from all, by the caller.
            unsafe { self.sum(part, &sources, sum, run.bytes.len()) };
            for peer in self.member.peers().iter() {
                // SAFETY: the peer does not touch what it wrote here before it sees this rank's result flag.
                unsafe { copy(sum.cast_const(), self.incoming(&run, peer), run.bytes.len()) };
            }
        }
        self.member.post_result(part.epoch);
        self.member
            .await_results(part.epoch, || self.context())
            .map_err(|trouble| (Phase::Result, trouble))?;

        for (peer, owner) in self.other_owners() {
            let range = shard(owner);
            for run in self.runs(range.len()) {
                let to = output.wrapping_add(range.start + run.bytes.start);
                // SAFETY: the shard lies in the chunk, so in the output; the owner's result flag was acquired, so its sum
                // stands where this rank's input stood; mailboxes and outputs do not overlap.
                unsafe { copy(self.outgoing(&run, peer).cast_const(), to, run.bytes.len()) };
            }
        }
        self.answer(mine.len());
        Ok(())
    }

    /// The bytes of the chunk that a rank sums.
    fn shard(&self, algorithm: &TwoShotPull, part: &Exchange<'_>, rank: Rank) -> Range<usize> {
        let elements = algorithm.shard(part.elements as u64, rank);
        part.bytes(elements.start as usize..elements.end as usize)
    }
}
