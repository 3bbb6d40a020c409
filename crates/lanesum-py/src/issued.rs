//! What a call returns: proof that a named reduction was issued.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lanesum::{Error, Receipt};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::error::Told;
use crate::refusal::Refusal;

/// How often a long wait looks for Ctrl-C.
pub const LOOK: Duration = Duration::from_millis(50);
/// How long work that is not wanted any more is waited for: joining looks twenty times a second.
const AFTERMATH: Duration = Duration::from_millis(500);
/// How long a wait only polls, which costs no thread.
const SOON: Duration = Duration::from_millis(1);

/// What is the same for every call that was issued.
#[derive(Debug)]
struct Facts {
    state: &'static str,
    algorithm: &'static str,
    engine: &'static str,
    path: &'static str,
    bytes: u64,
    ordinal: Option<u64>,
    epoch: Option<u64>,
    capture: Option<u32>,
    position: Option<u32>,
}

/// Proof that a named reduction was issued on this rank.
#[pyclass(frozen, module = "lanesum")]
#[derive(Debug)]
pub struct Issued {
    facts: Facts,
    /// None for a call that was captured.
    receipt: Option<Arc<Mutex<Receipt>>>,
    /// What has to live as long as this does. Locked for moments only.
    held: Mutex<Held>,
    /// Whether the caller knows of the communicator's fault.
    told: Told,
}

/// Objects of Python's that a call uses.
#[derive(Debug, Default)]
struct Held {
    /// The tensor that gets the result.
    output: Option<Py<PyAny>>,
    /// The input, and what shows memory.
    others: Vec<Py<PyAny>>,
}

impl Issued {
    /// What the library returned, with the tensors of the call.
    pub fn of(issued: lanesum::Issued, output: Option<Py<PyAny>>, kept: Vec<Py<PyAny>>, told: Told) -> Self {
        let (facts, receipt) = match issued {
            lanesum::Issued::Done(receipt) => (facts_of("done", &receipt), Some(receipt)),
            lanesum::Issued::Enqueued(receipt) => (facts_of("enqueued", &receipt), Some(receipt)),
            lanesum::Issued::Captured(captured) => {
                let facts = Facts {
                    state: "captured",
                    algorithm: captured.algorithm().name(),
                    engine: captured.engine().name(),
                    path: captured.path().name(),
                    bytes: captured.bytes().get(),
                    ordinal: None,
                    epoch: None,
                    capture: Some(captured.capture()),
                    position: Some(captured.position()),
                };
                (facts, None)
            }
        };
        Self {
            facts,
            receipt: receipt.map(|receipt| Arc::new(Mutex::new(receipt))),
            held: Mutex::new(Held { output, others: kept }),
            told,
        }
    }

    fn receipt(&self) -> Result<&Arc<Mutex<Receipt>>, Refusal> {
        self.receipt.as_ref().ok_or(Refusal::Captured)
    }
}

fn facts_of(state: &'static str, receipt: &Receipt) -> Facts {
    Facts {
        state,
        algorithm: receipt.algorithm().name(),
        engine: receipt.engine().name(),
        path: receipt.path().name(),
        bytes: receipt.bytes().get(),
        ordinal: Some(receipt.ordinal()),
        epoch: receipt.epoch(),
        capture: None,
        position: None,
    }
}

#[pymethods]
impl Issued {
    /// `done`, `enqueued` or `captured`.
    #[getter]
    fn state(&self) -> &'static str {
        self.facts.state
    }

    /// The algorithm that ran, or will.
    #[getter]
    fn algorithm(&self) -> &'static str {
        self.facts.algorithm
    }

    /// The engine that ran it: `host` or `cuda`.
    #[getter]
    fn engine(&self) -> &'static str {
        self.facts.engine
    }

    /// How bytes reached the peers.
    #[getter]
    fn path(&self) -> &'static str {
        self.facts.path
    }

    /// Bytes of the message on one rank.
    #[getter]
    fn bytes(&self) -> u64 {
        self.facts.bytes
    }

    /// Number of the call on its communicator, from 0; None for one that was captured.
    #[getter]
    fn ordinal(&self) -> Option<u64> {
        self.facts.ordinal
    }

    /// Epoch of the call's last exchange; None on GPUs, where epochs live on the device.
    #[getter]
    fn epoch(&self) -> Option<u64> {
        self.facts.epoch
    }

    /// Number of the capture, from 0; None for a call that was not captured.
    #[getter]
    fn capture(&self) -> Option<u32> {
        self.facts.capture
    }

    /// Number of the call in its capture, from 0; None for a call that was not captured.
    #[getter]
    fn position(&self) -> Option<u32> {
        self.facts.position
    }

    /// The tensor that gets the result: `out`, or the tensor itself. None for a barrier.
    #[getter]
    fn output(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.output.as_ref().map(|output| output.clone_ref(py))
    }

    /// Shows the collector what is held: a tensor may hold the proof of its own call.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(held) = self.held.try_lock() else { return Ok(()) };
        held.output
            .iter()
            .chain(&held.others)
            .try_for_each(|object| visit.call(object))
    }

    fn __clear__(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        drop(held);
    }

    /// Whether the call has completed; never waits.
    fn poll(&self, py: Python<'_>) -> PyResult<bool> {
        let receipt = self.receipt()?;
        py.detach(|| polled(receipt))
            .map_err(|error| self.told.exception(py, error))
    }

    /// Waits until the call has completed. Ctrl-C ends the wait and leaves the call alone.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let receipt = self.receipt()?;
        if py
            .detach(|| soon(receipt))
            .map_err(|error| self.told.exception(py, error))?
        {
            return Ok(());
        }
        let receipt = Arc::clone(receipt);
        let work = move || {
            let receipt = receipt.lock().unwrap_or_else(PoisonError::into_inner);
            receipt.wait().map(|_completed| ())
        };
        with_signals(py, "lanesum-wait", work, None)?.map_err(|error| self.told.exception(py, error))
    }

    fn __repr__(&self) -> String {
        let Facts {
            state,
            algorithm,
            engine,
            path,
            bytes,
            ..
        } = self.facts;
        format!("<lanesum.Issued {state}: {bytes} B by {algorithm}, engine {engine}, path {path}>")
    }
}

fn polled(receipt: &Mutex<Receipt>) -> Result<bool, Error> {
    match receipt.try_lock() {
        Ok(receipt) => Ok(receipt.poll()?.is_some()),
        Err(std::sync::TryLockError::Poisoned(receipt)) => Ok(receipt.into_inner().poll()?.is_some()),
        // Another thread waits, so it has not.
        Err(std::sync::TryLockError::WouldBlock) => Ok(false),
    }
}

/// Most calls end within some microseconds.
fn soon(receipt: &Mutex<Receipt>) -> Result<bool, Error> {
    let started = Instant::now();
    while started.elapsed() < SOON {
        if polled(receipt)? {
            return Ok(true);
        }
        std::hint::spin_loop();
    }
    Ok(false)
}

/// Does something long in a thread of its own, so that Ctrl-C is heard meanwhile, and gives its outcome. If it comes, `token` is dropped, for work that ends
/// by that; work that does not goes on without anybody who wants its result.
pub fn with_signals<T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    token: Option<Arc<()>>,
) -> PyResult<Result<T, Error>> {
    let (sender, receiver) = sync_channel(1);
    let started = thread::Builder::new()
        .name(name.to_owned())
        // A result that nobody wants any more is dropped here.
        .spawn(move || sender.send(work()).is_ok());
    if let Err(source) = started {
        let what = "a thread to wait in";
        return Ok(Err(Error::System { what, source }));
    }
    // One channel has one reader; the mutex lets the wait be lent to code without the GIL.
    let receiver = Mutex::new(receiver);
    loop {
        let heard = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.recv_timeout(LOOK)
        });
        match heard {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(interrupt) = py.check_signals() {
                    if let Some(token) = token {
                        drop(token);
                        // What it holds, as a name, is free for whoever goes on.
                        py.detach(|| {
                            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                            receiver.recv_timeout(AFTERMATH).map(drop).unwrap_or_default();
                        });
                    }
                    return Err(interrupt);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let what = "the end of a thread";
                let source = std::io::Error::other("it panicked");
                return Ok(Err(Error::System { what, source }));
            }
        }
    }
}
