//! One rank's end of a communicator on its GPU.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use lanesum_plan::{Announced, Bytes, Dtype, Fault, Grid, Operation, ReductionTree, Request};
use lanesum_segment::Record;

use crate::device::{Device, await_device};
use crate::error::CudaError;
use crate::event::Event;
use crate::layout::{self, Launch};
use crate::program::Program;
use crate::retired;
use crate::shared::{GRACE, Pending, Shared};
use crate::staged::{Staged, launch, launch_here};
use crate::stream::{Mode, RawStream, Stream, mode};

/// The longest wait of a kernel where the display's watchdog would end it.
const WATCHDOG: Duration = Duration::from_secs(1);

/// One rank's end of a communicator: `Send`, one caller at a time.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    /// Taken only when the engine ends.
    staged: Option<Box<Staged>>,
    /// What all launches have in common.
    base: Launch,
    ticket: Cell<u64>,
    /// Lanes of the last call.
    blocks: Cell<u32>,
    deadline: Cell<Duration>,
    /// The stream of the last call; what comes on another one waits for it.
    last: RefCell<Option<Last>>,
}

#[derive(Debug, Clone)]
struct Last {
    stream: RawStream,
    _keep: Option<Stream>,
}

/// The memory of a call on one rank, and the stream that orders it.
#[derive(Debug, Clone)]
pub struct DeviceOperands {
    /// Address of the input.
    pub input: u64,
    /// Address of the output; may be the input's.
    pub output: u64,
    /// The caller's stream. It must live until the communicator's next call, and as long as the call's [`Pending`] is asked.
    pub stream: RawStream,
    /// The stream itself, where it is of this library.
    pub keep: Option<Stream>,
}

/// Why a call was not enqueued.
#[derive(Debug)]
pub enum Unqueued {
    /// The stream is being captured into a graph.
    Capturing,
    /// The device failed: the communicator is poisoned.
    Failed(Box<Fault>),
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
        let base = Launch {
            input: 0,
            output: 0,
            elements: 0,
            share: 0,
            ticket: 0,
            call: [0; 4],
            digest: 0,
            flags: if program.canonical { layout::CANONICAL } else { 0 },
            rank: staged.rank.index() as u32,
            position: program.position(staged.rank.index()),
            lanes: staged.fit.lanes(),
            capacity: staged.fit.capacity(),
            order: program.order,
            program: program.steps(),
            local: staged.local.address,
            mapped: staged.mapped.address,
            inboxes: staged.addresses(),
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

    /// Enqueues a call: every algorithm of this engine is a grid of lanes.
    ///
    /// # Errors
    /// [`Unqueued`]: nothing was enqueued.
    ///
    /// # Safety
    /// Input and output hold the request's elements in memory that the device can reach, are the same or do not overlap, and stay
    /// until the call has ended; the stream belongs to this device's primary context.
    pub unsafe fn enqueue(
        &self,
        grid: Grid,
        announced: &Announced,
        request: &Request,
        operands: &DeviceOperands,
    ) -> Result<Pending, Unqueued> {
        self.admit(operands, announced.words())?;
        let ticket = self.ticket.get() + 1;
        let call = Launch {
            ticket,
            call: announced.words(),
            digest: announced.digest(),
            ..self.call(grid, request, operands)
        };
        self.launch(grid, request, &call, operands)
            .map_err(|error| self.broke(&error, call.call))?;
        Ok(Pending {
            shared: Arc::clone(&self.shared),
            ticket,
            call: call.call,
            stream: operands.stream,
            _keep: operands.keep.clone(),
        })
    }

    /// Enqueues NaN for an output: what a call after a fault leaves. Does nothing where the device is beyond that, or the stream is
    /// being captured.
    ///
    /// # Safety
    /// As [`Engine::enqueue`], for the output.
    pub unsafe fn spoil(&self, grid: Grid, request: &Request, operands: &DeviceOperands) {
        let call = Launch {
            ticket: self.ticket.get() + 1,
            flags: self.base.flags | layout::SPOIL,
            ..self.call(grid, request, operands)
        };
        if self.admit(operands, call.call).is_ok() {
            // The fault that is told already says more than a second one would.
            self.launch(grid, request, &call, operands).ok();
        }
    }

    /// Enqueues the kernel of a call again and again with nothing around it, to measure what the call adds. Uses no epoch; each
    /// launch only reads that it is to write NaN.
    ///
    /// # Errors
    /// [`CudaError`] if a launch is refused.
    ///
    /// # Safety
    /// As [`Engine::enqueue`], for the output.
    #[doc(hidden)]
    pub unsafe fn bare_launches(
        &self,
        (grid, times): (Grid, u32),
        request: &Request,
        operands: &DeviceOperands,
    ) -> Result<(), CudaError> {
        let Some(staged) = &self.staged else { return Ok(()) };
        let call = Launch {
            ticket: self.ticket.get(),
            flags: self.base.flags | layout::SPOIL,
            ..self.call(grid, request, operands)
        };
        let _current = self.device().current()?;
        let function = staged.module.one_shot_push(request.dtype, request.operation);
        for _ in 0..times {
            let shape = (grid.blocks, grid.threads);
            launch_here(self.device(), function, shape, &call, operands.stream)?;
        }
        Ok(())
    }

    #[inline]
    fn call(&self, grid: Grid, request: &Request, operands: &DeviceOperands) -> Launch {
        Launch {
            input: operands.input,
            output: operands.output,
            elements: request.elements.get(),
            share: grid.share,
            ..self.base
        }
    }

    #[inline]
    fn launch(&self, grid: Grid, request: &Request, call: &Launch, operands: &DeviceOperands) -> Result<(), CudaError> {
        let Some(staged) = &self.staged else { return Ok(()) };
        let function = staged.module.one_shot_push(request.dtype, request.operation);
        let shape = (grid.blocks, grid.threads);
        launch(&self.shared.device, function, shape, call, operands.stream)?;
        self.ticket.set(call.ticket);
        self.blocks.set(grid.blocks);
        Ok(())
    }

    /// Orders this call after the one before, and refuses streams that are captured.
    #[inline]
    fn admit(&self, operands: &DeviceOperands, call: [u64; 4]) -> Result<(), Unqueued> {
        let stream = operands.stream;
        let broke = |error: CudaError| self.broke(&error, call);
        if mode(self.device(), stream).map_err(broke)? != Mode::Runs {
            return Err(Unqueued::Capturing);
        }
        let mut last = self.last.borrow_mut();
        match last.as_ref() {
            Some(before) if before.stream == stream => return Ok(()),
            Some(before) => {
                // Its end would be a node of that graph, and waiting for it would pull this call into the graph.
                if mode(self.device(), before.stream).map_err(broke)? != Mode::Runs {
                    return Err(Unqueued::Capturing);
                }
                let ordered = self
                    .order()
                    .and_then(|order| order.mark(before.stream).and_then(|()| order.hold(stream)));
                ordered.map_err(broke)?;
            }
            None => {}
        }
        *last = Some(Last {
            stream,
            _keep: operands.keep.clone(),
        });
        Ok(())
    }

    fn order(&self) -> Result<&Event, CudaError> {
        // Taken only when the engine ends, after the last call.
        let staged = self.staged.as_ref().ok_or(CudaError::NoDevice)?;
        Ok(&staged.order)
    }

    #[cold]
    fn broke(&self, error: &CudaError, call: [u64; 4]) -> Unqueued {
        Unqueued::Failed(Box::new(self.shared.broke(error, call, self.ticket.get() + 1)))
    }

    /// Ends this rank's part: tells the peers' devices, waits for the own kernels, and gives memory back. `kind`: 4 for a departure,
    /// 6 for a panic. `peers_left` tells whether no peer can write here any more.
    pub fn end(&mut self, kind: FarewellKind, peers_left: impl Fn() -> bool + Send + 'static) {
        let Some(staged) = self.staged.take() else { return };
        let longest = self.deadline.get() + GRACE;
        if self.say_farewell(&staged, kind, longest).is_err() {
            // A kernel of this rank may still run, or the device is lost: what it uses must stay.
            core::mem::forget(staged);
            core::mem::forget(Arc::clone(&self.shared));
            return;
        }
        let mut staged = staged;
        // What is the peers' is closed before this rank says that it has left: after that they may free it.
        let own = staged.take_own_inbox();
        drop(staged);
        if let Some(own) = own {
            retired::keep_until(own, peers_left);
        }
    }

    fn say_farewell(&self, staged: &Staged, kind: FarewellKind, longest: Duration) -> Result<(), CudaError> {
        let stream = staged.stream.raw();
        let (lanes, ticket) = (self.blocks.get(), self.ticket.get());
        let progress = || self.shared.progress();
        await_device(
            "the last call",
            || longest,
            progress,
            || staged.have_finished(lanes, ticket),
        )?;
        // A device that has failed has told its peers: an alert is written once.
        if staged.world.get() > 1 && !self.shared.memory.words().has_failed() {
            launch(
                &staged.device,
                staged.module.farewell,
                (1, 32),
                &staged.notice(kind as u64, 0),
                stream,
            )?;
            staged.stream.synchronize(longest)?;
        }
        Ok(())
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
