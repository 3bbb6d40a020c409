//! The one dispatch: a decision and the memory of a call come together here, and nowhere else.
#![expect(unsafe_code, reason = "hands the caller's pointers to the engines")]

use lanesum_cuda::{DeviceOperands, Unqueued};
use lanesum_plan::{Algorithm, Announced, CallIdentity, Fault, Grid, Refusal, Request};

use crate::buffers::Memory;
use crate::communicator::Communicator;
use crate::error::{Error, Refused};
use crate::issued::{Issued, Named, Receipt};

impl Communicator {
    /// The one dispatch: what the plan decided runs, or an error says why not.
    ///
    /// # Safety
    /// As [`lanesum_host::Engine::one_shot_pull`] for host memory, as [`lanesum_cuda::Engine::enqueue`] for a GPU's.
    pub(crate) unsafe fn issue(&self, request: &Request, memory: &Memory) -> Result<Issued, Error> {
        let decided = self.plan.decide(request).map_err(Refused::from)?;
        if let Some(first) = self.fault() {
            // SAFETY: passed on from the caller.
            unsafe { self.spoil(&decided, request, memory) };
            return Err(Error::Poisoned { first });
        }
        let named = self.named(&decided, request.bytes());
        let announced = Announced::all_reduce(request, named.algorithm, CallIdentity::Eager { ordinal: named.ordinal });
        let closed = match (&decided, memory) {
            // SAFETY: passed on from the caller.
            (Algorithm::Alone(_), Memory::Host(operands)) => Ok(unsafe { self.engine.alone(request, operands) }),
            (Algorithm::HeaderOnly(_), Memory::Host(_)) => self.engine.header_only(&announced),
            // SAFETY: passed on from the caller.
            (Algorithm::OneShotPull(algorithm), Memory::Host(operands)) => unsafe {
                self.engine.one_shot_pull(algorithm, &announced, request, operands)
            },
            // SAFETY: passed on from the caller.
            (Algorithm::TwoShotPull(algorithm), Memory::Host(operands)) => unsafe {
                self.engine.two_shot_pull(algorithm, &announced, request, operands)
            },
            (Algorithm::DeviceAlone(algorithm), Memory::Device(operands)) => {
                let grid = algorithm.grid();
                // SAFETY: passed on from the caller.
                return unsafe { self.enqueue(grid, named, &announced, (request, operands)) };
            }
            (Algorithm::DeviceHeaderOnly(algorithm), Memory::Device(operands)) => {
                let grid = algorithm.grid();
                // SAFETY: passed on from the caller.
                return unsafe { self.enqueue(grid, named, &announced, (request, operands)) };
            }
            (Algorithm::OneShotPush(algorithm), Memory::Device(operands)) => {
                let grid = algorithm.grid();
                // SAFETY: passed on from the caller.
                return unsafe { self.enqueue(grid, named, &announced, (request, operands)) };
            }
            (Algorithm::TwoShotPush(algorithm), Memory::Device(operands)) => {
                let grid = algorithm.grid();
                // SAFETY: passed on from the caller.
                return unsafe { self.enqueue(grid, named, &announced, (request, operands)) };
            }
            // The plan decides by the kind of buffers, which was taken from the memory: these do not come together.
            (
                Algorithm::Alone(_) | Algorithm::HeaderOnly(_) | Algorithm::OneShotPull(_) | Algorithm::TwoShotPull(_),
                Memory::Device(_),
            )
            | (
                Algorithm::DeviceAlone(_)
                | Algorithm::DeviceHeaderOnly(_)
                | Algorithm::OneShotPush(_)
                | Algorithm::TwoShotPush(_),
                Memory::Host(_),
            ) => {
                return Err(Refused::from(Refusal::WrongBuffers {
                    engine: decided.engine(),
                    buffers: request.buffers,
                })
                .into());
            }
        };
        match closed {
            Ok(closed) => {
                self.ledger.note(named.algorithm, named.bytes);
                Ok(Issued::Done(Receipt::of(named, closed)))
            }
            Err(fault) => {
                // SAFETY: passed on from the caller.
                unsafe { self.spoil(&decided, request, memory) };
                Err(fault.into())
            }
        }
    }

    /// Enqueues a call on GPU memory.
    ///
    /// # Safety
    /// As [`lanesum_cuda::Engine::enqueue`].
    #[inline]
    unsafe fn enqueue(
        &self,
        grid: Grid,
        named: Named,
        announced: &Announced,
        (request, operands): (&Request, &DeviceOperands),
    ) -> Result<Issued, Error> {
        // A plan decides for a GPU only where one is attached.
        let cuda = self.cuda.as_ref().ok_or(Refused::Decision(Refusal::NoDevice))?;
        // SAFETY: passed on from the caller.
        match unsafe { cuda.enqueue(grid, announced, request, operands) } {
            Ok(pending) => {
                self.ledger.note(named.algorithm, named.bytes);
                Ok(Issued::Enqueued(Receipt::pending(named, pending)))
            }
            Err(Unqueued::Capturing) => {
                // Refused: the call did not happen, and the next one has its number.
                self.ordinal.set(named.ordinal);
                Err(Refused::Capturing.into())
            }
            Err(Unqueued::Failed(fault)) => {
                self.adopt();
                // SAFETY: passed on from the caller. Where the device is beyond that, nothing more can be done.
                unsafe { cuda.spoil(grid, request, operands) };
                Err(fault.into())
            }
        }
    }

    /// Fills the output of a failed call with NaN.
    ///
    /// # Safety
    /// As [`Communicator::issue`], for the output.
    #[cold]
    unsafe fn spoil(&self, decided: &Algorithm, request: &Request, memory: &Memory) {
        match (memory, &self.cuda, decided.grid()) {
            // SAFETY: passed on from the caller.
            (Memory::Host(operands), _, _) => unsafe { self.engine.spoil(request, operands.output) },
            // SAFETY: passed on from the caller.
            (Memory::Device(operands), Some(cuda), Some(grid)) => unsafe { cuda.spoil(grid, request, operands) },
            (Memory::Device(_), _, _) => {}
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
