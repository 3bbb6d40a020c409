//! One rank's end of a communicator on the host.

use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lanesum_plan::{Announced, Call, Dtype, LINE, Operation, PlanError, Rank, Request, WORLD_MAX, WorldSize};
use lanesum_segment::{
    Announcement, Epoch, Lost, Member, Pace, Phase, RankSet, Record, RecordKind, Run, Segment, Tally, Trouble, Turns,
    WaitContext,
};

use crate::Fault;
use crate::fault::{Scene, report};
use crate::reduce::{Reducer, fill_nan};

/// One rank's end of a communicator: `Send`, one caller at a time.
#[derive(Debug)]
pub struct Engine {
    pub(crate) member: Member,
    pub(crate) reducer: Reducer,
    rank: Rank,
    world: WorldSize,
    epoch: Cell<Epoch>,
    turns: Cell<Turns>,
    chunks: Cell<u64>,
    deadline: Cell<Duration>,
    pace: Pace,
    lost: Arc<Lost>,
    tally: Tally,
    fault: OnceCell<Fault>,
}

/// Where a rank's input lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// In memory of its own.
    Private(*const u8),
    /// In its arena, at this offset.
    Shared(u64),
}

/// The memory of a call on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// The input.
    pub input: Input,
    /// The output; may be the input itself.
    pub output: *mut u8,
}

/// Proof that a call's last exchange was closed: all ranks called the same, and the output is written.
/// Only this engine makes it.
#[must_use]
#[derive(Debug)]
pub struct Closed {
    epoch: u64,
}

impl Closed {
    /// Epoch of the call's last exchange.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// What one exchange works on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange<'a> {
    /// Digest and descriptor of the call.
    pub(crate) announced: &'a Announced,
    pub(crate) operation: Operation,
    pub(crate) dtype: Dtype,
    pub(crate) operands: &'a Operands,
    pub(crate) epoch: Epoch,
    /// First element of the chunk in the message.
    pub(crate) start: usize,
    /// Elements of the chunk.
    pub(crate) elements: usize,
}

/// A trouble and the wait in which it came.
pub(crate) type Failed = (Phase, Trouble);

impl Engine {
    /// The end of `rank` at a segment. `reducer` holds the tree's order, `lost` the ranks whose process has
    /// ended.
    ///
    /// # Errors
    /// [`PlanError`] if the segment has no such rank.
    pub fn new(
        segment: Arc<Segment>,
        rank: Rank,
        reducer: Reducer,
        pace: Pace,
        deadline: Duration,
        lost: Arc<Lost>,
    ) -> Result<Self, PlanError> {
        let world = WorldSize::new(segment.geometry().world())?;
        let outside = PlanError::RankOutsideWorld {
            index: rank.index(),
            world: world.get(),
        };
        let member = Member::new(segment, rank.index()).ok_or(outside)?;
        let first = Epoch::new(member.segment().geometry().first_epoch());
        Ok(Self {
            member,
            reducer,
            rank,
            world,
            epoch: Cell::new(first),
            turns: Cell::new(Turns::default()),
            chunks: Cell::new(0),
            deadline: Cell::new(deadline),
            pace,
            lost,
            tally: Tally::default(),
            fault: OnceCell::new(),
        })
    }

    /// The segment.
    #[inline]
    pub fn segment(&self) -> &Arc<Segment> {
        self.member.segment()
    }

    /// Ranks whose process has ended.
    pub fn lost(&self) -> RankSet {
        self.lost.ranks()
    }

    /// Posts the header of the next exchange and does not wait for the peers, to measure a peer's call
    /// without waiting. Breaks the protocol: the communicator is for nothing else afterwards.
    #[doc(hidden)]
    pub fn post_only(&self, announced: &Announced) {
        let (digest, descriptor) = (announced.digest(), announced.words());
        let epoch = self.epoch.get();
        self.member.announce(
            epoch,
            &Announcement {
                digest,
                descriptor,
                offset: 0,
            },
        );
        let _closed = self.close(epoch);
    }

    /// This rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The owners of all shards but this rank's, each with its index.
    #[inline]
    pub(crate) fn other_owners(&self) -> impl Iterator<Item = (usize, Rank)> {
        let own = self.rank;
        self.world
            .ranks()
            .filter(move |rank| *rank != own)
            .map(|rank| (rank.index(), rank))
    }

    /// The first `bytes` of every mailbox, in parts in which whose turn it is does not change.
    #[inline]
    pub(crate) fn runs(&self, bytes: usize) -> impl Iterator<Item = Run> + use<> {
        self.turns.get().runs(bytes)
    }

    /// Each of a pair has read the first `bytes` that the other wrote: see [`Turns::passed`].
    #[inline]
    pub(crate) fn pass(&self, bytes: usize) {
        self.turns.set(self.turns.get().passed(bytes));
    }

    /// The peers have answered in the first `bytes`, and each writer has read that: see [`Turns::answered`].
    #[inline]
    pub(crate) fn answer(&self, bytes: usize) {
        self.turns.set(self.turns.get().answered(bytes));
    }

    /// Where this rank writes a run for a peer to read.
    #[inline]
    pub(crate) fn outgoing(&self, run: &Run, peer: usize) -> *mut u8 {
        let (from, to) = run.outgoing(self.member.rank(), peer);
        self.segment().mailbox(from, to).as_ptr().wrapping_add(run.bytes.start)
    }

    /// Where this rank reads a run that a peer wrote for it.
    #[inline]
    pub(crate) fn incoming(&self, run: &Run, peer: usize) -> *mut u8 {
        let (from, to) = run.incoming(self.member.rank(), peer);
        self.segment().mailbox(from, to).as_ptr().wrapping_add(run.bytes.start)
    }

    /// The first fault, if the engine is poisoned.
    #[inline]
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    /// The longest that one wait may last.
    pub fn deadline(&self) -> Duration {
        self.deadline.get()
    }

    /// Changes the deadline of the waits to come.
    pub fn set_deadline(&self, deadline: Duration) {
        self.deadline.set(deadline);
    }

    /// Waiting times and naps.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Exchanges closed so far.
    pub fn chunks(&self) -> u64 {
        self.chunks.get()
    }

    /// Tells the peers that this rank makes no more calls.
    pub fn depart(&self) {
        self.member.depart();
    }

    /// Tells the peers that this rank's thread is panicking.
    pub fn abandon(&self) {
        self.member.fail(&Record {
            kind: RecordKind::Panicked,
            by: self.rank.index(),
            ranks: RankSet::only(self.rank.index()),
            epoch: self.epoch.get().get(),
            waited_us: 0,
            phase: Phase::Header,
            ours: [0; 4],
            theirs: [0; 4],
        });
    }

    /// Takes over a fault that this rank's GPU has told of: tells the peers' host calls, and poisons this engine.
    #[cold]
    pub fn adopt(&self, record: &Record, fault: &Fault) {
        self.member.fail(record);
        self.fault.get_or_init(|| fault.clone());
    }

    /// Whether every peer has left, failed or ended, as a question that outlives the engine.
    pub fn peers_have_left(&self) -> impl Fn() -> bool + Send + 'static {
        let member = Member::new(Arc::clone(self.segment()), self.rank.index());
        let lost = Arc::clone(&self.lost);
        move || {
            member.as_ref().is_none_or(|member| {
                let gone = |peer| member.has_departed(peer) || lost.ranks().contains(peer);
                member.peers().iter().all(gone)
            })
        }
    }

    /// A world of one: the input, with NaN made canonical.
    ///
    /// # Safety
    /// As [`Engine::one_shot_pull`].
    pub unsafe fn alone(&self, request: &Request, operands: &Operands) -> Closed {
        let source = self.input(operands, 0, request.dtype);
        let elements = request.elements.get() as usize;
        // SAFETY: the caller vouches for input and output; a world of one has one source.
        unsafe {
            self.reducer
                .reduce(request.operation, request.dtype, &[source], operands.output, elements)
        };
        self.close(self.epoch.get())
    }

    /// Headers only: an empty message, a barrier, or a question to the peers.
    ///
    /// # Errors
    /// [`Fault`] if a peer died, is late, or called something else.
    pub fn header_only(&self, announced: &Announced) -> Result<Closed, Box<Fault>> {
        let epoch = self.epoch.get();
        self.enter(epoch, announced, 0)
            .map_err(|failed| self.fail(announced, epoch, failed))?;
        Ok(self.close(epoch))
    }

    /// A barrier that also gathers what each rank called, by rank. The descriptors are read before this
    /// rank's next header lets anybody overwrite them.
    ///
    /// # Errors
    /// As [`Engine::header_only`].
    pub fn gather_calls(&self, call: &Call) -> Result<Vec<Call>, Box<Fault>> {
        let epoch = self.epoch.get();
        let announced = call.announced();
        let _closed = self.header_only(&announced)?;
        let world = self.member.segment().geometry().world();
        (0..world)
            .map(|rank| match rank == self.member.rank() {
                true => Ok(*call),
                false => Call::from_words(self.member.announcement(rank, epoch).descriptor)
                    .ok_or_else(|| self.fail(&announced, epoch, (Phase::Header, Trouble::Corrupt { peer: rank }))),
            })
            .collect()
    }

    /// Fills an output with NaN: what a failed call leaves.
    ///
    /// # Safety
    /// `output` is valid for writing the request's elements.
    pub unsafe fn spoil(&self, request: &Request, output: *mut u8) {
        // SAFETY: the caller vouches for the output.
        unsafe { fill_nan(request.dtype, output, request.elements.get() as usize) };
    }

    /// Runs a message as a row of exchanges of at most `chunk` elements, an epoch each, all of a length: what a rank has
    /// just read is what it writes next (see [`Turns`]), as long as lengths stay the same.
    pub(crate) fn stream(
        &self,
        announced: &Announced,
        request: &Request,
        operands: &Operands,
        chunk: u64,
        exchange: impl Fn(&Exchange<'_>) -> Result<(), Failed>,
    ) -> Result<Closed, Box<Fault>> {
        let total = request.elements.get() as usize;
        let chunk = usize::try_from(chunk).unwrap_or(usize::MAX).max(1);
        let line = LINE as usize / request.dtype.size();
        let step = total
            .div_ceil(total.div_ceil(chunk).max(1))
            .next_multiple_of(line)
            .min(chunk);
        let mut start = 0;
        loop {
            let elements = step.min(total - start);
            let epoch = self.epoch.get();
            let part = Exchange {
                announced,
                operation: request.operation,
                dtype: request.dtype,
                operands,
                epoch,
                start,
                elements,
            };
            exchange(&part).map_err(|failed| self.fail(announced, epoch, failed))?;
            let closed = self.close(epoch);
            start += elements;
            if start >= total {
                return Ok(closed);
            }
        }
    }

    /// Posts this rank's header and waits for those of all peers.
    #[inline(always)]
    pub(crate) fn enter(&self, epoch: Epoch, announced: &Announced, offset: u64) -> Result<(), Failed> {
        let digest = announced.digest();
        self.member.announce(
            epoch,
            &Announcement {
                digest,
                descriptor: announced.words(),
                offset,
            },
        );
        self.member
            .await_headers(epoch, digest, || self.context())
            .map_err(|trouble| (Phase::Header, trouble))
    }

    #[inline]
    pub(crate) fn context(&self) -> WaitContext<'_> {
        WaitContext {
            deadline: self.deadline.get(),
            pace: self.pace,
            lost: &self.lost,
            tally: &self.tally,
        }
    }

    /// The first byte of the chunk that starts at element `start` of this rank's input.
    #[inline]
    pub(crate) fn input(&self, operands: &Operands, start: usize, dtype: Dtype) -> *const u8 {
        let base = match operands.input {
            Input::Private(pointer) => pointer,
            Input::Shared(offset) => self
                .member
                .segment()
                .arena(self.member.rank())
                .as_ptr()
                .wrapping_add(offset as usize)
                .cast_const(),
        };
        base.wrapping_add(start * dtype.size())
    }

    /// Where each rank's chunk can be read in place. Offsets that a peer announced are checked before they are used.
    #[inline]
    pub(crate) fn shared(&self, part: &Exchange<'_>) -> Result<[*const u8; WORLD_MAX], Failed> {
        let segment = self.member.segment();
        let mut sources = [core::ptr::null(); WORLD_MAX];
        sources[self.member.rank()] = self.input(part.operands, part.start, part.dtype);
        let in_message = part.bytes(part.start..part.start + part.elements);
        for peer in self.member.peers().iter() {
            let offset = self.member.announcement(peer, part.epoch).offset;
            if offset
                .checked_add(in_message.end as u64)
                .is_none_or(|end| end > segment.geometry().shared())
            {
                return Err((Phase::Header, Trouble::Corrupt { peer }));
            }
            sources[peer] = segment
                .arena(peer)
                .as_ptr()
                .wrapping_add(offset as usize + in_message.start)
                .cast_const();
        }
        Ok(sources)
    }

    /// The sources of a run: this rank's in its input, from `own` on, the others' in mailboxes.
    #[inline]
    pub(crate) fn posted(&self, run: &Run, own: *const u8) -> [*const u8; WORLD_MAX] {
        let mut sources = [core::ptr::null(); WORLD_MAX];
        sources[self.member.rank()] = own;
        for peer in self.member.peers().iter() {
            sources[peer] = self.incoming(run, peer).cast_const();
        }
        sources
    }

    /// The sum of some bytes of all ranks.
    ///
    /// # Safety
    /// As [`Reducer::reduce`], for the elements in `bytes` bytes of the exchange's dtype.
    #[inline]
    pub(crate) unsafe fn sum(&self, part: &Exchange<'_>, sources: &[*const u8; WORLD_MAX], out: *mut u8, bytes: usize) {
        let world = self.member.segment().geometry().world();
        let elements = bytes / part.dtype.size();
        // SAFETY: passed on from the caller.
        unsafe {
            self.reducer
                .reduce(part.operation, part.dtype, &sources[..world], out, elements)
        };
    }

    fn close(&self, epoch: Epoch) -> Closed {
        self.epoch.set(epoch.next());
        self.chunks.set(self.chunks.get() + 1);
        Closed { epoch: epoch.get() }
    }

    #[cold]
    fn fail(&self, announced: &Announced, epoch: Epoch, (phase, trouble): Failed) -> Box<Fault> {
        let scene = Scene {
            own: self.rank,
            // Words that this rank has packed itself always tell a call.
            call: Call::from_words(announced.words()).unwrap_or(Call::Barrier {
                label: None,
                ordinal: 0,
            }),
            epoch: epoch.get(),
            phase,
        };
        let (record, fault) = report(&scene, &trouble, |peer| {
            self.member.announcement(peer, epoch).descriptor
        });
        self.member.fail(&record);
        Box::new(self.fault.get_or_init(|| fault).clone())
    }
}

impl Exchange<'_> {
    /// A range of elements in bytes.
    #[inline]
    pub(crate) fn bytes(&self, elements: Range<usize>) -> Range<usize> {
        elements.start * self.dtype.size()..elements.end * self.dtype.size()
    }
}
