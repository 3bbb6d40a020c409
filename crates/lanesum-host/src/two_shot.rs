//! Two shots: each rank owns a shard, sums it over all ranks, and everybody copies all shards.
//!
//! Bytes for each rank: S (W - 1) / W written (private buffers), as much read from peers, S / W of results
//! written, S (W - 1) / W read back; two waits. The result is rounded once, by the owner.

use lanesum_plan::{Announced, Rank, Request, TwoShotPull};
use lanesum_segment::Phase;

use crate::Fault;
use crate::engine::{Closed, Engine, Exchange, Failed, Input, Operands};

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

    /// # Safety
    /// As [`Engine::one_shot_pull`].
    unsafe fn two_shot_part(&self, algorithm: &TwoShotPull, part: &Exchange<'_>) -> Result<(), Failed> {
        let (segment, own, half) = (self.member.segment(), self.member.rank(), part.epoch.half());
        let shard = |rank: Rank| {
            let range = algorithm.shard(part.elements as u64, rank);
            range.start as usize..range.end as usize
        };
        let offset = match part.operands.input {
            // SAFETY: passed on from the caller.
            Input::Private(_) => unsafe { self.stage_for_peers(part, shard(self.rank())) },
            Input::Shared(offset) => offset,
        };
        self.enter(part.epoch, part.announced, offset)?;

        let mut sources = self.sources(part)?;
        let mine = shard(self.rank());
        let start = part.bytes(0..mine.start).end;
        for source in &mut sources {
            *source = source.wrapping_add(start);
        }
        let results = algorithm.result_offset().get() as usize;
        let target = segment.staging(own, half).as_ptr().wrapping_add(results);
        let sources = &sources[..segment.geometry().world()];
        // SAFETY: the sources hold the chunk (own by the caller; peers' headers were acquired, their offsets
        // checked), so each holds the shard. The result area is this rank's, behind the staged chunk, and
        // nobody reads it now: its last readers finished that epoch before their last header.
        unsafe {
            self.reducer
                .reduce(part.operation, part.dtype, sources, target, mine.len())
        };
        if let Input::Shared(_) = part.operands.input {
            // Before anybody copies this sum: a peer that has failed meanwhile may have taken its buffer back.
            self.member
                .confirm_reads()
                .map_err(|trouble| (Phase::Result, trouble))?;
        }
        self.member.post_result(part.epoch);
        self.member
            .await_results(part.epoch, || self.context())
            .map_err(|trouble| (Phase::Result, trouble))?;

        // From here on nobody reads this rank's input: each owner is done with its shard of it.
        let chunk = part.bytes(part.start..part.start + part.elements);
        let output = part.operands.output.wrapping_add(chunk.start);
        for (index, owner) in self.owners() {
            let range = part.bytes(shard(owner));
            let from = segment.staging(index, half).as_ptr().wrapping_add(results).cast_const();
            // SAFETY: the shard lies in the chunk, so in the output; the owner's result flag was acquired,
            // so its area holds the shard's sum; staging and outputs do not overlap.
            unsafe { core::ptr::copy_nonoverlapping(from, output.wrapping_add(range.start), range.len()) };
        }
        Ok(())
    }

    /// Copies what the peers will read of a private input: all but the own shard.
    ///
    /// # Safety
    /// As [`Engine::one_shot_pull`].
    unsafe fn stage_for_peers(&self, part: &Exchange<'_>, mine: core::ops::Range<usize>) -> u64 {
        let input = self.input(part.operands, part.start, part.dtype);
        let staging = self
            .member
            .segment()
            .staging(self.member.rank(), part.epoch.half())
            .as_ptr();
        for range in [part.bytes(0..mine.start), part.bytes(mine.end..part.elements)] {
            let (from, to) = (input.wrapping_add(range.start), staging.wrapping_add(range.start));
            // SAFETY: the range lies in the chunk, which lies in the input and fits the staging half; nobody
            // reads this half now (see `one_shot_staged`).
            unsafe { core::ptr::copy_nonoverlapping(from, to, range.len()) };
        }
        0
    }
}
