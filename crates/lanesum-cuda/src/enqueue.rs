//! How a call gets onto a stream: admitted first, which tells who it is, then launched.
//!
//! Eager calls of a communicator are ordered by their stream, or by an event where the stream changes. Calls that are captured are
//! ordered likewise within their capture; in which order graphs run beside each other and beside eager calls is the caller's to
//! say.

use std::sync::Arc;

use lanesum_plan::{Announced, Fault, Grid, Kernel, Request};

use crate::bench::BenchKernel;
use crate::capture_trouble::CaptureTrouble;
use crate::captures::Last;
use crate::engine::{DeviceOperands, Engine};
use crate::error::CudaError;
use crate::launch::{Entry, Start, launch, launch_here};
use crate::layout::{self, Launch, Unit};
use crate::shared::Pending;
use crate::stream::{Mode, RawStream, capture_info, mode};

/// What becomes of a call that was admitted, and which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It runs once.
    Eager,
    /// It is recorded into a graph, and runs whenever that does.
    Captured {
        /// Number of the capture among those that the communicator has met.
        capture: u32,
        /// Number of the call within the capture.
        position: u32,
    },
}

/// A call that the driver has accepted.
#[derive(Debug)]
pub enum Queued {
    /// It is on the stream.
    Enqueued(Pending),
    /// It is in the graph that the stream is captured into.
    Captured {
        /// Number of the capture among those that the communicator has met.
        capture: u32,
        /// Number of the call within the capture.
        position: u32,
    },
}

/// Why a call was not enqueued.
#[derive(Debug)]
pub enum Unqueued {
    /// A stream that the call would have to wait for is being captured, and its own is not.
    Capturing,
    /// The capture of the stream is invalid; the communicator is as it was.
    CaptureInvalid {
        /// What was refused.
        call: &'static str,
        /// Why.
        trouble: CaptureTrouble,
    },
    /// The device failed: the communicator is poisoned.
    Failed(Box<Fault>),
}

/// What became of the output of a call after a fault.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoilt {
    /// It gets NaN in the order of the stream, as far as the device still can.
    Enqueued,
    /// Nothing: the stream is being captured, and nothing was recorded.
    Untouched,
}

impl Engine {
    /// Orders a call after the one before it, and says which call it is; [`Engine::enqueue`] comes next. `words` tells the call
    /// where a failure has to name it.
    ///
    /// # Errors
    /// [`Unqueued`]: nothing was enqueued.
    #[inline]
    pub fn admit(&self, operands: &DeviceOperands, words: impl FnOnce() -> [u64; 4]) -> Result<Admission, Unqueued> {
        let admitted = match mode(self.device(), operands.stream) {
            Ok(Mode::Runs) => {
                let ordered = self.admit_eager(operands);
                return ordered.map(|()| Admission::Eager).map_err(|error| match error {
                    Some(error) => self.broke(&error, words()),
                    None => Unqueued::Capturing,
                });
            }
            Ok(Mode::Recorded) => self.admit_captured(operands),
            Ok(Mode::Invalid) => Err(CudaError::Capture {
                call: "all_reduce",
                trouble: CaptureTrouble::Invalidated,
            }),
            Ok(Mode::Blocked) => return Err(Unqueued::Capturing),
            Err(error) => Err(error),
        };
        admitted.map_err(|error| self.unrecorded(error, words))
    }

    /// Nothing as error: the stream of the call before is being captured.
    #[inline]
    fn admit_eager(&self, operands: &DeviceOperands) -> Result<(), Option<CudaError>> {
        let stream = operands.stream;
        let mut last = self.last.borrow_mut();
        match last.as_ref() {
            Some(before) if before.stream == stream => return Ok(()),
            Some(before) => {
                // Its end would be a node of that graph, and waiting for it would pull this call into the graph.
                if mode(self.device(), before.stream)? != Mode::Runs {
                    return Err(None);
                }
                self.order(before.stream, stream)?;
            }
            None => {}
        }
        *last = Some(operands.last());
        Ok(())
    }

    #[cold]
    fn admit_captured(&self, operands: &DeviceOperands) -> Result<Admission, CudaError> {
        let info = capture_info(self.device(), operands.stream)?;
        let mut captures = self.captures.borrow_mut();
        if captures.find(info.id).is_none() {
            // Before its first call: whatever runs the graph finds memory and module.
            self.staged()?.graphs.retain(self.device(), info.graph)?;
            captures.begin(info.id, operands.last());
        }
        let unknown = CudaError::Capture {
            call: "all_reduce",
            trouble: CaptureTrouble::Invalidated,
        };
        let open = captures.find(info.id).ok_or(unknown)?;
        if open.last.stream != operands.stream {
            self.order(open.last.stream, operands.stream)?;
            // By an event: whatever starts early behind it does so once it has ended.
            open.last = operands.last();
        }
        Ok(Admission::Captured {
            capture: open.number,
            position: open.position,
        })
    }

    /// Lets a stream wait for what another one has now; in a capture, the nodes of the one for those of the other.
    fn order(&self, before: RawStream, after: RawStream) -> Result<(), CudaError> {
        let order = &self.staged()?.order;
        order.mark(before)?;
        order.hold(after)
    }

    /// Enqueues a call that was admitted just now: every algorithm of this engine is a grid of lanes.
    ///
    /// # Errors
    /// [`Unqueued`]: nothing was enqueued.
    ///
    /// # Safety
    /// Input and output hold the request's elements in memory that the device can reach, are the same or do not overlap, and stay
    /// until the call has ended, a captured one until its graph runs no more; the stream belongs to this device's primary context.
    pub unsafe fn enqueue(
        &self,
        admission: Admission,
        grid: Grid,
        announced: &Announced,
        request: &Request,
        operands: &DeviceOperands,
    ) -> Result<Queued, Unqueued> {
        let ticket = match admission {
            Admission::Eager => self.ticket.get() + 1,
            Admission::Captured { .. } => layout::CAPTURED,
        };
        let call = Launch {
            ticket,
            call: announced.words(),
            digest: announced.digest(),
            ..self.call(grid, request, operands)
        };
        let start = self.start(admission, grid.threads);
        let entry = start
            .and_then(|start| self.entry(grid, start, request))
            .map_err(|error| self.broke(&error, call.call))?;
        let launched = launch(self.device(), entry, &call, operands.stream);
        match (admission, launched) {
            (Admission::Eager, Ok(())) => {
                self.ticket.set(ticket);
                self.blocks.set(grid.blocks);
                self.launched(grid.threads);
                Ok(Queued::Enqueued(Pending {
                    shared: Arc::clone(&self.shared),
                    ticket,
                    call: call.call,
                    stream: operands.stream,
                    _keep: operands.keep.clone(),
                }))
            }
            (Admission::Captured { capture, position }, Ok(())) => {
                self.captures.borrow_mut().recorded(grid.threads);
                Ok(Queued::Captured { capture, position })
            }
            (Admission::Eager, Err(error)) => Err(self.broke(&error, call.call)),
            (Admission::Captured { .. }, Err(error)) => Err(self.unrecorded(error, || call.call)),
        }
    }

    /// Enqueues NaN for an output: what a call after a fault leaves. Where the device is beyond that, nothing can be done; where
    /// the stream is being captured, nothing is recorded.
    ///
    /// # Safety
    /// As [`Engine::enqueue`], for the output.
    pub unsafe fn spoil(&self, grid: Grid, request: &Request, operands: &DeviceOperands) -> Spoilt {
        match mode(self.device(), operands.stream) {
            Ok(Mode::Runs) => {}
            Ok(Mode::Recorded | Mode::Invalid | Mode::Blocked) => return Spoilt::Untouched,
            Err(_) => return Spoilt::Enqueued,
        }
        match self.admit_eager(operands) {
            Ok(()) => {}
            Err(None) => return Spoilt::Untouched,
            Err(Some(_)) => return Spoilt::Enqueued,
        }
        let call = Launch {
            ticket: self.ticket.get() + 1,
            ..self.call(grid, request, operands)
        };
        let enqueued = self.close(operands.stream).and_then(|()| {
            let entry = self.entry(grid, Start::InTurn, request)?;
            launch(self.device(), entry, &call, operands.stream)
        });
        // The fault that is told already says more than a second one would.
        if enqueued.is_ok() {
            self.ticket.set(call.ticket);
            self.blocks.set(grid.blocks);
        }
        Spoilt::Enqueued
    }

    /// Closes the lanes, in the order of a stream: the fault may be one that the device knows nothing of.
    fn close(&self, stream: RawStream) -> Result<(), CudaError> {
        if !self.closed.get() {
            let staged = self.staged()?;
            let farewell = Entry::notice(staged.module.farewell);
            launch(self.device(), farewell, &staged.silent_notice(), stream)?;
            self.closed.set(true);
        }
        Ok(())
    }

    /// Enqueues the kernel of a call of one rank again and again with nothing around it, to measure what the call adds.
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
        let call = Launch {
            ticket: self.ticket.get(),
            ..self.call(grid, request, operands)
        };
        let start = self.start(Admission::Eager, grid.threads)?;
        let entry = self.entry(grid, start, request)?;
        let _current = self.device().current()?;
        for _ in 0..times {
            launch_here(self.device(), entry, &call, operands.stream)?;
        }
        Ok(())
    }

    /// Enqueues a kernel of the bench, which [`Engine::load_bench`] has loaded, on bf16. It takes the place of a call, also in a
    /// capture, but has no receipt: the caller waits for it before the engine ends. All ranks enqueue the same.
    ///
    /// # Errors
    /// [`Unqueued`]: nothing was enqueued.
    ///
    /// # Safety
    /// As [`Engine::enqueue`].
    #[doc(hidden)]
    pub unsafe fn enqueue_bench(
        &self,
        kernel: BenchKernel,
        grid: Grid,
        request: &Request,
        operands: &DeviceOperands,
    ) -> Result<(), Unqueued> {
        let admission = self.admit(operands, || [0; 4])?;
        let call = self.call(grid, request, operands);
        let call = Launch {
            // The last call's again: not every one of these kernels writes it to its lanes, which the end looks at.
            ticket: match admission {
                Admission::Eager => self.ticket.get(),
                Admission::Captured { .. } => layout::CAPTURED,
            },
            // They are of one shot: in the lanes of two, a thread has more than one frame for it.
            once: if grid.kernel == Kernel::OneShotPush {
                call.once
            } else {
                0
            },
            ..call
        };
        let (blocks, threads) = kernel.shape(grid);
        let launched = self.staged().and_then(|staged| {
            if grid.kernel == Kernel::Chunks && !kernel.is_floor() {
                return Err(CudaError::NoImage {
                    compute: self.device().facts().compute,
                    reason: "the bench has no kernels for calls that move chunks".to_owned(),
                });
            }
            let module = staged.bench.get().ok_or_else(|| CudaError::NoImage {
                compute: self.device().facts().compute,
                reason: "the bench's kernels were not loaded".to_owned(),
            })?;
            let entry = Entry {
                function: module.function(kernel),
                blocks,
                threads,
                start: self.start(admission, threads)?,
            };
            launch(self.device(), entry, &call, operands.stream)
        });
        match (admission, launched) {
            (Admission::Eager, Ok(())) => {
                self.launched(threads);
                Ok(())
            }
            (Admission::Captured { .. }, Ok(())) => {
                self.captures.borrow_mut().recorded(threads);
                Ok(())
            }
            (Admission::Eager, Err(error)) => Err(self.broke(&error, call.call)),
            (Admission::Captured { .. }, Err(error)) => Err(self.unrecorded(error, || call.call)),
        }
    }

    #[inline]
    fn call(&self, grid: Grid, request: &Request, operands: &DeviceOperands) -> Launch {
        let elements = request.elements.get();
        let addresses = [operands.input, operands.output];
        let unit = match grid.kernel {
            Kernel::OneShotPush | Kernel::TwoShotPush => Unit::Frame,
            Kernel::Chunks => Unit::Quad,
        };
        let cut = layout::cut((elements, request.dtype), unit, addresses, (grid.blocks, grid.share));
        let once = grid.once && self.base.canonical != 0;
        Launch {
            once: u32::from(once && cut.words.is_some()),
            words: cut.words.unwrap_or(0),
            pause_ns: grid.pause_ns,
            kind: layout::kind(request.dtype, request.operation),
            input: operands.input,
            output: operands.output,
            elements,
            frames: cut.units,
            share: cut.share,
            tail: cut.tail,
            plain_share: cut.plain_share,
            plain_tail: cut.plain_tail,
            ..self.base
        }
    }

    #[inline]
    fn entry(&self, grid: Grid, start: Start, request: &Request) -> Result<Entry, CudaError> {
        Ok(Entry {
            function: self
                .staged()?
                .module
                .function(grid.kernel, request.dtype, request.operation),
            blocks: grid.blocks,
            threads: grid.threads,
            start,
        })
    }

    /// When a call of so many threads a block starts, behind the one before it.
    #[inline]
    fn start(&self, admission: Admission, threads: u32) -> Result<Start, CudaError> {
        let before = match admission {
            Admission::Eager => self.last.borrow().as_ref().map(|last| last.threads),
            Admission::Captured { .. } => self.captures.borrow().last().map(|last| last.threads),
        };
        // What is ahead in the stream may be another communicator's; or the event behind a call on another one.
        let own = self.launcher.was_last(self.device().ordinal());
        let before = before.filter(|&threads| own && threads != 0);
        Ok(self.staged()?.headway.start(threads, before))
    }

    #[inline]
    fn launched(&self, threads: u32) {
        if let Some(last) = self.last.borrow_mut().as_mut() {
            last.threads = threads;
        }
    }

    /// A capture that does not take a call is at fault itself, unless the device is.
    #[cold]
    fn unrecorded(&self, error: CudaError, words: impl FnOnce() -> [u64; 4]) -> Unqueued {
        match error.capture_trouble() {
            Some((call, trouble)) => Unqueued::CaptureInvalid { call, trouble },
            None => self.broke(&error, words()),
        }
    }

    #[cold]
    fn broke(&self, error: &CudaError, call: [u64; 4]) -> Unqueued {
        // The device is well then, and the stream is not.
        if error.capture_trouble().is_some() {
            return Unqueued::Capturing;
        }
        Unqueued::Failed(Box::new(self.shared.broke(error, call, self.ticket.get() + 1)))
    }
}

impl DeviceOperands {
    #[inline]
    fn last(&self) -> Last {
        Last {
            stream: self.stream,
            threads: 0,
            _keep: self.keep.clone(),
        }
    }
}
