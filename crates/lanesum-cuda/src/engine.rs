//! One rank's end of a communicator on its GPU.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use lanesum_plan::{Bytes, Dtype, Fault, Operation, ReductionTree};
use lanesum_segment::Record;

use crate::bench::BenchModule;
use crate::captures::{Captures, Last};
use crate::counters::DeviceCounters;
use crate::device::{Device, await_device};
use crate::error::CudaError;
use crate::launch::{Entry, Launcher, launch};
use crate::layout::{self, Launch};
use crate::program::Program;
use crate::retired;
use crate::shared::{GRACE, Shared};
use crate::staged::Staged;
use crate::stream::{RawStream, Stream};

/// The longest wait of a kernel where the display's watchdog would end it, which takes two seconds or more; one for results may last an
/// eighth longer.
const WATCHDOG: Duration = Duration::from_secs(1);

/// One rank's end of a communicator: `Send`, one caller at a time.
#[derive(Debug)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// Taken only when the engine ends.
    staged: Option<Box<Staged>>,
    /// What all launches have in common.
    pub(crate) base: Launch,
    /// Of the last eager call; those that are captured have none.
    pub(crate) ticket: Cell<u64>,
    /// Lanes of the last eager call.
    pub(crate) blocks: Cell<u32>,
    deadline: Cell<Duration>,
    /// The stream of the last eager call.
    pub(crate) last: RefCell<Option<Last>>,
    pub(crate) captures: RefCell<Captures>,
    /// Whether the lanes are closed: whatever runs from then on writes NaN.
    pub(crate) closed: Cell<bool>,
    pub(crate) launcher: Launcher,
}

/// The memory of a call on one rank, and the stream that orders it.
#[derive(Debug, Clone)]
pub struct DeviceOperands {
    /// Address of the input.
    pub input: u64,
    /// Address of the output; may be the input's.
    pub output: u64,
    /// The caller's stream. It must live until the communicator's next call, and as long as the call's [`crate::Pending`] is asked.
    pub stream: RawStream,
    /// The stream itself, where it is of this library.
    pub keep: Option<Stream>,
}

/// Tells the device of peers' deaths; for the watcher.
#[derive(Debug, Clone)]
pub struct Notifier(Arc<Shared>);

impl Notifier {
    /// Ends waits for a rank whose process has ended.
    pub fn note_lost(&self, rank: usize) {
        self.0.memory.words().note_lost(rank);
    }
}

impl Engine {
    /// The end of a rank whose peers are all mapped and proven.
    #[must_use]
    pub fn new(staged: Box<Staged>, tree: &ReductionTree, deadline: Duration) -> Self {
        let program = Program::of(tree);
        let position = program.position(staged.rank.index());
        let inboxes = program.by_leaf(&staged.addresses());
        let (world, fit) = (staged.world.get(), &staged.fit);
        let (targets, sources) = layout::regions(
            &inboxes,
            world,
            position,
            staged.own_frames(),
            (fit.lanes(), fit.capacity()),
        );
        let base = Launch {
            input: 0,
            output: 0,
            elements: 0,
            share: 0,
            once: 0,
            words: 0,
            half_bytes: layout::half_bytes(fit.lanes(), fit.capacity()) as u32,
            lane_bytes: layout::lane_bytes(fit.capacity()) as u32,
            pause_ns: 0,
            kind: 0,
            ticket: 0,
            call: [0; 4],
            digest: 0,
            frames: 0,
            tail: 0,
            plain_share: 0,
            plain_tail: 0,
            canonical: u32::from(program.canonical),
            rank: staged.rank.index() as u32,
            position,
            lanes: staged.fit.lanes(),
            capacity: staged.fit.capacity(),
            order: program.order,
            program: program.steps(),
            local: staged.local.address,
            mapped: staged.mapped.address,
            inboxes,
            targets,
            sources,
            areas: staged.areas,
        };
        let shared = Arc::new(Shared::new(&staged.device, Arc::clone(&staged.mapped), staged.rank));
        let engine = Self {
            shared,
            staged: Some(staged),
            base,
            ticket: Cell::new(0),
            blocks: Cell::new(0),
            deadline: Cell::new(deadline),
            last: RefCell::new(None),
            captures: RefCell::new(Captures::default()),
            closed: Cell::new(false),
            launcher: Launcher::new(),
        };
        engine.set_deadline(deadline);
        engine
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// For the watcher of peers' processes.
    pub fn notifier(&self) -> Notifier {
        Notifier(Arc::clone(&self.shared))
    }

    /// Device memory that this rank has taken.
    pub fn memory(&self) -> Bytes {
        Bytes::new(self.staged.as_ref().map_or(0, |staged| staged.memory()))
    }

    /// Host memory that all ranks together have pinned for their devices to stage in.
    pub fn pinned(&self) -> Bytes {
        Bytes::new(self.staged.as_ref().map_or(0, |staged| staged.pinned()))
    }

    /// The first fault that the device has told of, with what peers are told of it; a read of one word.
    #[inline]
    pub fn fault(&self) -> Option<(&Fault, &Record)> {
        self.shared.fault()
    }

    /// The longest that one wait on the device may last.
    pub fn deadline(&self) -> Duration {
        self.deadline.get()
    }

    /// Changes the deadline, also of calls that are already enqueued. At most a second where the display's watchdog is on.
    pub fn set_deadline(&self, deadline: Duration) {
        let deadline = match self.device().facts().watchdog {
            true => deadline.min(WATCHDOG),
            false => deadline,
        };
        self.deadline.set(deadline);
        let nanoseconds = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        self.shared.memory.words().set_deadline_ns(nanoseconds);
    }

    /// What the device has counted, replays of graphs among it; waits for no call.
    ///
    /// # Errors
    /// [`CudaError`] if the device can't be read.
    pub fn device_counters(&self) -> Result<DeviceCounters, CudaError> {
        self.staged()?.counters()
    }

    /// Loads the kernels of the bench, once, for the target that the kernels of calls are for.
    ///
    /// # Errors
    /// [`CudaError::NoImage`] if this build has none, and what the driver refuses.
    #[doc(hidden)]
    pub fn load_bench(&self) -> Result<(), CudaError> {
        let staged = self.staged()?;
        if staged.bench.get().is_none() {
            let _relaxed = self.device().relaxed()?;
            let module = BenchModule::load(&staged.device, staged.world.get(), staged.module.target)?;
            staged.bench.get_or_init(|| module);
        }
        Ok(())
    }

    pub(crate) fn staged(&self) -> Result<&Staged, CudaError> {
        // Taken only when the engine ends, after the last call.
        self.staged.as_deref().ok_or(CudaError::NoDevice)
    }

    /// Ends this rank's part: waits for its eager calls, closes it for replays of graphs, which then write NaN and return, tells the
    /// peers' devices, and gives memory back; what graphs still run with stays until they are gone. `peers_left` tells whether no
    /// peer can write here any more.
    pub fn end(&mut self, kind: FarewellKind, peers_left: impl Fn() -> bool + Send + 'static) {
        let Some(mut staged) = self.staged.take() else { return };
        let longest = self.deadline.get() + GRACE;
        // Nothing of this concerns what the thread may be capturing.
        let relaxed = staged.device.relaxed();
        if relaxed.is_err() || self.say_farewell(&staged, kind, longest).is_err() {
            // A kernel of this rank may still run, or the device is lost: what it uses must stay.
            core::mem::forget(staged);
            core::mem::forget(Arc::clone(&self.shared));
            return;
        }
        // What is the peers' is closed before this rank says that it has left: after that they may free it.
        if staged.graphs.any() {
            staged.close_opened();
            retired::keep_staged(staged, peers_left);
            return;
        }
        let own = staged.take_own_inbox();
        drop(staged);
        match own {
            Some(own) => retired::keep_inbox(own, peers_left),
            None => retired::collect(),
        }
    }

    fn say_farewell(&self, staged: &Staged, kind: FarewellKind, longest: Duration) -> Result<(), CudaError> {
        let (lanes, ticket) = (self.blocks.get(), self.ticket.get());
        let progress = || staged.progress();
        await_device(
            "the last call",
            || longest,
            progress,
            || staged.have_finished(lanes, ticket),
        )?;
        let notice = match self.shared.memory.words().has_failed() {
            // A device that has failed has told its peers, and an alert is written once.
            true => staged.silent_notice(),
            false => staged.notice(kind as u64, 0),
        };
        let stream = staged.stream.raw();
        launch(&staged.device, Entry::notice(staged.module.farewell), &notice, stream)?;
        staged.stream.synchronize(longest)?;
        // The kernel does not wait for ever; and a replay that finds the lanes closed is in them for a moment, too.
        await_device("a replay of a graph", || longest, progress, || staged.is_at_rest())
    }
}

/// Why a rank leaves: `KIND_DEPARTED` and `KIND_PANICKED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarewellKind {
    /// It closes its communicator.
    Departed = 4,
    /// Its thread panics.
    Panicked = 6,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end(FarewellKind::Departed, || false);
    }
}

// The words of a call that kernels get are made by these, in the order of their codes.
const _: () = assert!(Dtype::F32 as u32 == 0 && Dtype::F16 as u32 == 1 && Dtype::Bf16 as u32 == 2);
const _: () = assert!(Operation::Sum as u32 == 0 && Operation::Max as u32 == 1 && Operation::Min as u32 == 2);
