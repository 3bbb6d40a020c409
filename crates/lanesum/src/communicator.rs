//! One rank's communicator.
#![expect(unsafe_code, reason = "hands the caller's pointers to the engine")]

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use lanesum_cuda::{Device, DeviceCounters, DeviceOperands, FarewellKind, RawStream};
use lanesum_host::{Engine, Input, Operands};
use lanesum_plan::{
    Algorithm, Buffers, Bytes, Call, Dtype, Elements, Explanation, Label, Operation, Plan, Preference, Rank,
    ReductionTree, Request, Topology, WorldSize,
};
use lanesum_rendezvous::Watch;
use lanesum_segment::{Arena, ForkGuard};

use crate::buffers::{AllReduce, Memory};
use crate::builder::Builder;
use crate::counters::{Counters, Ledger};
use crate::element::Element;
use crate::error::{Error, Refused};
use crate::issued::{Issued, Named, Receipt};
use crate::shared::SharedBuffer;

/// One rank's end of a group of ranks that sum together. `Send`, not `Sync`: one caller at a time, and one
/// order of calls, the same on all ranks. For overlap there is [`Communicator::channel`].
///
/// On a stream that is being captured into a CUDA graph, calls are recorded and run each time that the graph is launched, without any
/// preparation. All ranks capture the same calls in the same order, and launch their graphs in the same order among each other and
/// among eager calls. Several streams of one capture are ordered by the communicator; launches and eager calls by the caller,
/// with one stream or with events. Two at once, or another order on another rank, are found out and poison. Graphs may outlive the
/// communicator: they write NaN then.
///
/// ```no_run
/// use lanesum::cuda::{DeviceBuffer, Stream};
/// use lanesum::{AllReduce, Communicator, bf16};
///
/// # fn step(communicator: &Communicator) -> Result<(), lanesum::Error> {
/// let device = communicator.device().expect("the builder asked for one");
/// let stream = Stream::new(device)?;
/// let mut hidden = DeviceBuffer::<bf16>::new(device, 3 * 7168)?;
/// let capture = stream.begin_capture()?;
/// for _layer in 0..122 {
///     let _captured = communicator.all_reduce(AllReduce::device(&mut hidden, &stream))?;
/// }
/// let graph = capture.finish()?;
/// for _token in 0..1000 {
///     // SAFETY: `hidden` exists until the stream is done, and nothing else uses it meanwhile.
///     unsafe { graph.launch(&stream)? };
/// }
/// stream.synchronize(communicator.deadline())?;
/// communicator.check()?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail
/// fn needs_sync<T: Sync>() {}
/// needs_sync::<lanesum::Communicator>();
/// ```
#[derive(Debug)]
pub struct Communicator {
    pub(crate) engine: Engine,
    /// This rank's GPU, where the communicator has one.
    pub(crate) cuda: Option<lanesum_cuda::Engine>,
    pub(crate) plan: Plan,
    pub(crate) arena: Arena,
    pub(crate) guard: Arc<ForkGuard>,
    /// Held for its end: dropping it stops the thread that watches the peers' processes.
    pub(crate) _watch: Watch,
    pub(crate) identity: Identity,
    pub(crate) ordinal: Cell<u64>,
    pub(crate) ledger: Ledger,
}

/// What a communicator keeps of how it was joined, for its children and for reports.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) rank: Rank,
    pub(crate) world: WorldSize,
    /// Random, the same on all ranks: children meet under names made from it.
    pub(crate) token: u64,
    pub(crate) recipe: Builder,
    pub(crate) isa: &'static str,
    pub(crate) setup: Duration,
    pub(crate) without_device: Option<String>,
}

/// A call by raw pointers, for bindings of other languages and for engines with allocators of their own.
#[derive(Debug, Clone, Copy)]
pub struct RawCall {
    /// First byte of the input, any alignment.
    pub input: *const u8,
    /// First byte of the output; the input itself, or disjoint from it.
    pub output: *mut u8,
    /// Elements.
    pub elements: Elements,
    /// Their type.
    pub dtype: Dtype,
    /// How they are combined.
    pub operation: Operation,
    /// The caller's mark.
    pub label: Option<Label>,
    /// Where the memory is.
    pub memory: RawMemory,
}

/// Where the memory of a raw call is.
#[derive(Debug, Clone, Copy)]
pub enum RawMemory {
    /// On the host: the call is done when it returns.
    Host,
    /// On the communicator's GPU, in the order of this stream (`cudaStream_t` and `CUstream` are the same pointer, null the
    /// default stream). The stream must live until the communicator's next call, and as long as receipts of its calls are asked;
    /// the end of the communicator does not touch it. If it is being captured, the memory must exist whenever the graph runs.
    Device(RawStream),
}

impl Communicator {
    /// Joins the ranks that a launcher started: rank and world from its environment variables
    /// ([`crate::environment::VARIABLES`]).
    ///
    /// # Errors
    /// [`Error`] if the environment is incomplete or contradicts itself, or the ranks do not come together
    /// before the deadline.
    pub fn from_env() -> Result<Self, Error> {
        Builder::from_env()?.join()
    }

    /// A builder for rank `rank` of `world`; ranks that give the same rendezvous name meet.
    pub fn builder(rank: usize, world: usize, rendezvous: impl Into<String>) -> Builder {
        Builder::new(rank, world, rendezvous)
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.identity.rank
    }

    /// Number of ranks.
    pub fn world(&self) -> WorldSize {
        self.identity.world
    }

    /// Combines each element over all ranks, in the order of [`Communicator::tree`]; every rank gets the
    /// same bits. 16-bit elements are summed in f32 and rounded once. NaN comes out as the canonical quiet
    /// NaN; maximum and minimum are those of IEEE 754-2019.
    ///
    /// Success speaks for this rank: its output is right. A peer's same call may still fail (it may have waited
    /// too long for this rank); this rank's next call then fails too. Who resumes after a fault compares the
    /// ordinals of the last receipts.
    ///
    /// # Errors
    /// [`Error::Refused`]: nothing happened, the output is untouched. [`Error::Fault`]: a peer died, is
    /// late, or called something else; the output holds NaN and the communicator is poisoned.
    /// [`Error::Poisoned`]: an earlier call failed; the output holds NaN.
    pub fn all_reduce<T: Element>(&self, call: AllReduce<'_, T>) -> Result<Issued, Error> {
        self.own_process()?;
        let device = self.cuda.as_ref().map(|cuda| cuda.device().ordinal());
        let (request, memory) = call.check(self.engine.segment(), device)?;
        // SAFETY: the call borrows its buffers exclusively (the input of `out_of_place` shared) for as long
        // as it lives, `check` has compared their lengths with the request, and Rust's borrows keep input
        // and output the same or apart. Any bytes are a valid element. Device memory is freed only after the work that uses
        // it, and its stream is kept by the call.
        unsafe { self.issue(&request, memory) }
    }

    /// As [`Communicator::all_reduce`], by raw pointers.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`].
    ///
    /// # Safety
    /// The input is valid for reading and the output for writing `elements` elements of `dtype`, and nobody
    /// else touches the output, or writes to the input, during the call; for device memory, until the call has completed, and for a
    /// call that is captured, while its graph runs. A stream belongs to the primary context of the communicator's device, and lives as [`RawMemory::Device`] says.
    pub unsafe fn all_reduce_raw(&self, raw: &RawCall) -> Result<Issued, Error> {
        self.own_process()?;
        let elements = raw.elements.get();
        let bytes = elements
            .checked_mul(raw.dtype.size() as u64)
            .and_then(|bytes| isize::try_from(bytes).ok())
            .ok_or(Refused::TooLarge { elements })?
            .unsigned_abs();
        if bytes > 0 && (raw.input.is_null() || raw.output.is_null()) {
            return Err(Refused::Null { elements }.into());
        }
        let beyond = |address: usize| address.checked_add(bytes).is_none_or(|end| end > ADDRESS_SPACE);
        if beyond(raw.input.addr()) || beyond(raw.output.addr()) {
            return Err(Refused::TooLarge { elements }.into());
        }
        if raw.input.addr() != raw.output.addr() && raw.input.addr().abs_diff(raw.output.addr()) < bytes {
            return Err(Refused::Overlap.into());
        }
        let request = Request {
            operation: raw.operation,
            dtype: raw.dtype,
            elements: raw.elements,
            buffers: match raw.memory {
                RawMemory::Host => Buffers::Private,
                RawMemory::Device(_) => Buffers::Device,
            },
            label: raw.label,
        };
        let memory = match raw.memory {
            RawMemory::Host => Memory::Host(Operands {
                input: Input::Private(raw.input),
                output: raw.output,
            }),
            RawMemory::Device(stream) => Memory::Device(Box::new(DeviceOperands {
                input: raw.input.addr() as u64,
                output: raw.output.addr() as u64,
                stream,
                keep: None,
            })),
        };
        // SAFETY: the caller vouches for both; they are the same or do not overlap, as just checked.
        unsafe { self.issue(&request, &memory) }
    }

    /// Returns when every rank has called it.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`].
    pub fn barrier(&self) -> Result<Issued, Error> {
        self.usable()?;
        let named = self.named(&self.plan.decide_barrier(), Bytes::new(0));
        let closed = self.engine.header_only(
            &Call::Barrier {
                label: None,
                ordinal: named.ordinal,
            }
            .announced(),
        )?;
        self.ledger.note(named.algorithm, named.bytes);
        Ok(Issued::Done(Receipt::of(named, closed)))
    }

    /// Allocates a zeroed buffer in this rank's arena, which peers can read. Local: ranks need not allocate alike.
    ///
    /// # Errors
    /// [`Refused::ArenaFull`] with the free and the whole capacity.
    pub fn allocate_shared<T: Element>(&self, elements: usize) -> Result<SharedBuffer<T>, Error> {
        self.own_process()?;
        let bytes = elements
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(Refused::TooLarge {
                elements: elements as u64,
            })?;
        let allocation = self.arena.allocate(bytes as u64).map_err(Refused::from)?;
        let segment = Arc::clone(self.engine.segment());
        Ok(SharedBuffer::new(
            segment,
            Arc::clone(&self.guard),
            self.identity.rank.index(),
            allocation,
            elements,
        ))
    }

    /// The decision for a request, with all that was refused and why.
    pub fn explain(&self, request: &Request) -> Explanation {
        self.plan.explain(request)
    }

    /// The number of elements from which NCCL is predicted to carry such requests sooner than what runs here, for engines that have NCCL
    /// and may hand them over; `None` where it never is, as without GPUs. The request's own length does not matter, and the answer is the
    /// same on all ranks. Found by bisection in some hundred microseconds: ask once.
    pub fn delegate_from(&self, request: &Request) -> Option<Elements> {
        self.plan.delegate_from(request, Preference::Fastest)
    }

    /// What ran so far, and how long each peer was waited for. With a GPU, asks it, which takes some microseconds.
    pub fn counters(&self) -> Counters {
        let by_algorithm = self.ledger.by_algorithm();
        let tally = self.engine.tally();
        let peers = self.identity.world.ranks().filter(|&rank| rank != self.identity.rank);
        Counters {
            calls: by_algorithm.iter().map(|(_, calls)| calls).sum(),
            chunks: self.engine.chunks(),
            bytes: self.ledger.bytes(),
            by_algorithm,
            waited: peers.map(|rank| (rank, tally.waited(rank.index()))).collect(),
            naps: tally.naps(),
            device: self.device_counters(),
        }
    }

    fn device_counters(&self) -> Option<DeviceCounters> {
        // In a forked child, the device is the parent's.
        let cuda = self.cuda.as_ref().filter(|_| !self.guard.is_forked())?;
        cuda.device_counters().ok()
    }

    /// The order in which elements are combined.
    pub fn tree(&self) -> &ReductionTree {
        self.plan.tree()
    }

    /// The plan that all ranks agreed on.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What was observed of the host and its ranks.
    pub fn topology(&self) -> &Topology {
        self.plan.topology()
    }

    /// Host memory that the ranks share, of all together: the segment, and what GPUs stage in on path `host_staged`.
    pub fn memory(&self) -> Bytes {
        let pinned = self.cuda.as_ref().map_or(0, |cuda| cuda.pinned().get());
        Bytes::new(self.engine.segment().geometry().total() + pinned)
    }

    /// How long joining took on this rank.
    pub fn setup_time(&self) -> Duration {
        self.identity.setup
    }

    /// The GPU whose memory this communicator sums; none if it sums host memory only.
    pub fn device(&self) -> Option<&Device> {
        self.cuda.as_ref().map(lanesum_cuda::Engine::device)
    }

    /// Why there is no GPU although the builder's engine is `auto`.
    pub fn without_device(&self) -> Option<&str> {
        self.identity.without_device.as_deref()
    }

    /// GPU memory that this rank has taken for itself.
    pub fn device_memory(&self) -> Bytes {
        self.cuda.as_ref().map_or(Bytes::new(0), lanesum_cuda::Engine::memory)
    }

    /// The fault that a call on a stream, or a launch of a graph, has met meanwhile, if any; never waits. Calls ask by themselves.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first fault.
    pub fn check(&self) -> Result<(), Error> {
        self.usable()
    }

    /// The instruction set that this rank sums with.
    pub fn isa(&self) -> &'static str {
        self.identity.isa
    }

    /// The ranks whose process is known to have ended by now, ascending. To make a new communicator among the
    /// ranks that are left, wait until the list stays the same for a moment, and number the others anew.
    pub fn lost_ranks(&self) -> Vec<Rank> {
        let lost = self.engine.lost();
        self.identity
            .world
            .ranks()
            .filter(|rank| lost.contains(rank.index()))
            .collect()
    }

    /// The longest that one wait of a call may last. On GPUs one for a share of the sum may last an eighth longer, half a second at
    /// most: whoever owes it may wait for another rank.
    pub fn deadline(&self) -> Duration {
        self.engine.deadline()
    }

    /// Changes the deadline of this rank's calls to come, and of those that are on a stream or in a graph.
    ///
    /// # Errors
    /// [`Refused::Deadline`] if it is outside 1 ms to 24 days, [`Refused::Forked`] in a forked child.
    pub fn set_deadline(&self, deadline: Duration) -> Result<(), Error> {
        self.own_process()?;
        let deadline = checked_deadline(deadline)?;
        self.engine.set_deadline(deadline);
        if let Some(cuda) = &self.cuda {
            cuda.set_deadline(deadline);
        }
        Ok(())
    }

    /// Leaves the communicator. Peers that still call are told that this rank is gone.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a call has failed before; the communicator is gone in any case.
    pub fn close(mut self) -> Result<(), Error> {
        self.own_process()?;
        self.end_device(FarewellKind::Departed);
        self.usable()
    }

    /// Waits for the device's calls, tells its peers, and takes over a fault that came of them.
    fn end_device(&mut self, kind: FarewellKind) {
        let peers_left = self.engine.peers_have_left();
        if let Some(cuda) = &mut self.cuda {
            cuda.end(kind, peers_left);
        }
        self.adopt();
    }

    /// Refuses in a forked child, whatever the state of the parent's communicator.
    #[inline]
    pub(crate) fn own_process(&self) -> Result<(), Refused> {
        if self.guard.is_forked() {
            Err(Refused::Forked)
        } else {
            Ok(())
        }
    }

    pub(crate) fn usable(&self) -> Result<(), Error> {
        self.own_process()?;
        self.fault().map_or(Ok(()), |first| Err(Error::Poisoned { first }))
    }

    /// What a receipt says of the next call.
    #[inline]
    pub(crate) fn named(&self, decided: &Algorithm, bytes: Bytes) -> Named {
        Named {
            algorithm: decided.name(),
            engine: decided.engine(),
            path: decided.path(),
            bytes,
            ordinal: self.next_ordinal(),
        }
    }

    /// The next call's number.
    #[inline]
    pub(crate) fn next_ordinal(&self) -> u64 {
        self.ordinal.replace(self.ordinal.get().wrapping_add(1))
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // A forked child must neither touch the segment (it is not mapped there) nor speak for its parent.
        if self.guard.is_forked() {
            // What is on the device is the parent's.
            std::mem::forget(self.cuda.take());
            return;
        }
        let kind = match std::thread::panicking() {
            true => FarewellKind::Panicked,
            false => FarewellKind::Departed,
        };
        match kind {
            FarewellKind::Panicked => {
                // First: a peer's host call may be what the device waits for.
                self.engine.abandon();
                self.end_device(kind);
            }
            FarewellKind::Departed => {
                self.end_device(kind);
                self.engine.depart();
            }
        }
    }
}

/// Where the memory of processes ends on every processor and GPU that is served.
const ADDRESS_SPACE: usize = 1 << 56;

/// A deadline that can be counted and is not zero.
pub(crate) fn checked_deadline(deadline: Duration) -> Result<Duration, Refused> {
    match crate::environment::DEADLINES.contains(&deadline) {
        true => Ok(deadline),
        false => Err(Refused::Deadline {
            ms: deadline.as_millis(),
        }),
    }
}
