//! The one dispatch: a decision and the memory of a call come together here, and nowhere else.
#![expect(unsafe_code, reason = "hands the caller's pointers to the engines")]

use std::sync::Arc;

use lanesum_cuda::{Admission, DeviceOperands, Queued, Spoilt, Unqueued};
use lanesum_plan::{Algorithm, Announced, CallIdentity, Fault, Refusal, Request};

use crate::buffers::Memory;
use crate::communicator::Communicator;
use crate::error::{Error, Refused};
use crate::issued::{Captured, Issued, Receipt};

impl Communicator {
    /// The one dispatch: what the plan decided runs, or an error says why not.
    ///
    /// # Safety
    /// As [`lanesum_host::Engine::one_shot_pull`] for host memory, as [`lanesum_cuda::Engine::enqueue`] for a GPU's.
    pub(crate) unsafe fn issue(&self, request: &Request, memory: &Memory) -> Result<Issued, Error> {
        let decided = self.plan.decide(request).map_err(Refused::from)?;
        let operands = match memory {
            Memory::Host(operands) => operands,
            // SAFETY: passed on from the caller.
            Memory::Device(operands) => return unsafe { self.issue_on_device(&decided, request, operands) },
        };
        if let Some(first) = self.fault() {
            // SAFETY: passed on from the caller.
            unsafe { self.engine.spoil(request, operands.output) };
            return Err(Error::Poisoned { first });
        }
        let named = self.named(&decided, request.bytes());
        let identity = CallIdentity::Eager { ordinal: named.ordinal };
        let announced = Announced::all_reduce(request, named.algorithm, identity);
        let closed = match &decided {
            // SAFETY: passed on from the caller.
            Algorithm::Alone(_) => Ok(unsafe { self.engine.alone(request, operands) }),
            Algorithm::HeaderOnly(_) => self.engine.header_only(&announced),
            // SAFETY: passed on from the caller.
            Algorithm::OneShotPull(algorithm) => unsafe {
                self.engine.one_shot_pull(algorithm, &announced, request, operands)
            },
            // SAFETY: passed on from the caller.
            Algorithm::TwoShotPull(algorithm) => unsafe {
                self.engine.two_shot_pull(algorithm, &announced, request, operands)
            },
            // The plan decides by the kind of buffers, which was taken from the memory: these do not come together.
            Algorithm::DeviceAlone(_)
            | Algorithm::DeviceHeaderOnly(_)
            | Algorithm::OneShotPush(_)
            | Algorithm::TwoShotPush(_) => return Err(wrong_buffers(&decided, request)),
        };
        match closed {
            Ok(closed) => {
                self.ledger.note(named.algorithm, named.bytes);
                Ok(Issued::Done(Receipt::of(named, closed)))
            }
            Err(fault) => {
                // SAFETY: passed on from the caller.
                unsafe { self.engine.spoil(request, operands.output) };
                Err(fault.into())
            }
        }
    }

    /// [`Communicator::issue`] for GPU memory: what the plan decided is enqueued, or recorded where the stream is being captured.
    ///
    /// # Safety
    /// As [`lanesum_cuda::Engine::enqueue`].
    #[inline(never)]
    unsafe fn issue_on_device(
        &self,
        decided: &Algorithm,
        request: &Request,
        operands: &DeviceOperands,
    ) -> Result<Issued, Error> {
        // A plan decides for a GPU only where one is attached.
        let cuda = self.cuda.as_ref().ok_or(Refused::Decision(Refusal::NoDevice))?;
        // Every algorithm of this engine is a grid.
        let grid = decided.grid().ok_or_else(|| wrong_buffers(decided, request))?;
        if let Some(first) = self.fault() {
            // SAFETY: passed on from the caller.
            return Err(match unsafe { cuda.spoil(grid, request, operands) } {
                Spoilt::Enqueued => Error::Poisoned { first },
                Spoilt::Untouched => Refused::Poisoned { first }.into(),
            });
        }
        let _range = lanesum_cuda::range(decided.name(), request.dtype, request.operation);
        let announce = |identity| Announced::all_reduce(request, decided.name(), identity);
        let eager = CallIdentity::Eager {
            ordinal: self.ordinal.get(),
        };
        let queued = cuda.admit(operands, || announce(eager).words()).and_then(|admission| {
            let announced = announce(match admission {
                Admission::Eager => eager,
                Admission::Captured { capture, position } => CallIdentity::Captured { capture, position },
            });
            // SAFETY: passed on from the caller.
            unsafe { cuda.enqueue(admission, grid, &announced, request, operands) }
        });
        match queued {
            Ok(Queued::Enqueued(pending)) => {
                let named = self.named(decided, request.bytes());
                self.ledger.note(named.algorithm, named.bytes);
                Ok(Issued::Enqueued(Receipt::pending(
                    named,
                    pending,
                    Arc::clone(&self.guard),
                )))
            }
            Ok(Queued::Captured { capture, position }) => Ok(Issued::Captured(Captured::of(
                decided,
                request.bytes(),
                (capture, position),
            ))),
            Err(Unqueued::Capturing) => Err(Refused::Capturing.into()),
            Err(Unqueued::CaptureInvalid { call, trouble }) => Err(Refused::CaptureInvalid { call, trouble }.into()),
            Err(Unqueued::Failed(fault)) => {
                self.adopt();
                // SAFETY: passed on from the caller. Where the device is beyond that, nothing more can be done.
                Err(match unsafe { cuda.spoil(grid, request, operands) } {
                    Spoilt::Enqueued => Error::Fault(fault),
                    Spoilt::Untouched => Refused::Poisoned { first: fault }.into(),
                })
            }
        }
    }

    /// The first fault of either engine. One that the GPU has told of is passed on to the peers' host calls.
    #[inline]
    pub(crate) fn fault(&self) -> Option<Box<Fault>> {
        if self.engine.fault().is_none() && self.cuda.as_ref().is_some_and(|cuda| cuda.fault().is_some()) {
            self.adopt();
        }
        self.engine.fault().map(|fault| Box::new(fault.clone()))
    }

    #[cold]
    pub(crate) fn adopt(&self) {
        if let Some((fault, record)) = self.cuda.as_ref().and_then(lanesum_cuda::Engine::fault) {
            self.engine.adopt(record, fault);
        }
    }
}

fn wrong_buffers(decided: &Algorithm, request: &Request) -> Error {
    let refusal = Refusal::WrongBuffers {
        engine: decided.engine(),
        buffers: request.buffers,
    };
    Refused::from(refusal).into()
}
