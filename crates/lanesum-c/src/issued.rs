//! Receipts: proof that a named reduction was issued.

use std::ffi::{CStr, CString, c_char};
use std::mem::{offset_of, size_of};
use std::sync::{LazyLock, Mutex, TryLockError};

use lanesum::{AlgorithmName, Captured, Engine, Path, Refused};

use crate::boundary::{Measured, Place, answer, discard, fill, lent, part};
use crate::error::Error;
use crate::failure::Failure;
use crate::refusal::Refusal;
use crate::status::Status;

/// How far a call had come when it returned.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is complete: the output holds the result. Calls on memory of the host are.
    Done = 1,
    /// It is on the caller's stream. Calls on memory of a GPU are.
    Enqueued = 2,
    /// It was recorded into the graph that the stream is captured into, and runs each time that the graph is launched.
    Captured = 3,
}

/// Proof that a named reduction was issued on this rank. It is the caller's, who ends it with `lanesum_issued_free`, also after the
/// communicator's end. Any thread may use it.
#[derive(Debug)]
pub struct Issued {
    state: State,
    /// Locked while a thread asks it.
    proof: Mutex<Proof>,
    /// The process that called: what is on its GPU is no child's.
    process: u32,
}

#[derive(Debug)]
enum Proof {
    Receipt(lanesum::Receipt),
    Captured(Captured),
}

/// What a receipt says. Begin with `LANESUM_RECEIPT_INIT`, which sets the size; `lanesum_issued_read` fills in the rest.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Receipt {
    /// `sizeof(lanesum_receipt)`: later ABIs may have more fields.
    pub size: usize,
    /// The algorithm that ran, or will, as `two_shot_pull`. This text and the next two are the library's, and live as long as that.
    pub algorithm: *const c_char,
    /// The engine that ran it: `host` or `cuda`.
    pub engine: *const c_char,
    /// How bytes reached the peers, as `shared_memory`.
    pub path: *const c_char,
    /// Bytes of the message on one rank.
    pub bytes: u64,
    /// Number of the call on its communicator, from 0; of a call that was captured, 0.
    pub ordinal: u64,
    /// Epoch of the call's last exchange, from 1; 0 of calls on GPUs, where epochs live on the device.
    pub epoch: u64,
    /// How far the call had come.
    pub state: State,
    /// Number of the capture, from 0; of a call that was not captured, 0.
    pub capture: u32,
    /// Number of the call in its capture, from 0; of a call that was not captured, 0.
    pub position: u32,
    /// 0.
    pub reserved: u32,
}

const _: () = assert!(offset_of!(Receipt, size) == 0 && size_of::<Receipt>() == 72);

// SAFETY: it is only written by the library, never read, but for its size, which comes first.
unsafe impl Measured for Receipt {}

impl Issued {
    /// What the library returned to this process.
    pub fn of(issued: lanesum::Issued, process: u32) -> Self {
        let (state, proof) = match issued {
            lanesum::Issued::Done(receipt) => (State::Done, Proof::Receipt(receipt)),
            lanesum::Issued::Enqueued(receipt) => (State::Enqueued, Proof::Receipt(receipt)),
            lanesum::Issued::Captured(captured) => (State::Captured, Proof::Captured(captured)),
        };
        Self {
            state,
            proof: Mutex::new(proof),
            process,
        }
    }

    /// Whether this process is a forked child of the one that called.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// As [`Issued::with`], for what may ask the GPU.
    fn with_own<T>(&self, work: impl FnOnce(&Proof) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.is_forked() {
            true => Err(Failure::Library(Refused::Forked.into())),
            false => self.with(work),
        }
    }

    /// Does something with the proof, if no other thread is at it.
    fn with<T>(&self, work: impl FnOnce(&Proof) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.proof.try_lock() {
            Ok(proof) => work(&proof),
            Err(TryLockError::Poisoned(poisoned)) => work(&poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Refusal::Waiting.into()),
        }
    }

    fn read(&self) -> Result<Receipt, Failure> {
        self.with(|proof| {
            Ok(match proof {
                Proof::Receipt(receipt) => Receipt {
                    bytes: receipt.bytes().get(),
                    ordinal: receipt.ordinal(),
                    epoch: receipt.epoch().unwrap_or(0),
                    ..self.named(receipt.algorithm(), receipt.engine(), receipt.path())
                },
                Proof::Captured(captured) => Receipt {
                    bytes: captured.bytes().get(),
                    capture: captured.capture(),
                    position: captured.position(),
                    ..self.named(captured.algorithm(), captured.engine(), captured.path())
                },
            })
        })
    }

    fn named(&self, algorithm: AlgorithmName, engine: Engine, path: Path) -> Receipt {
        Receipt {
            size: size_of::<Receipt>(),
            algorithm: c_word(algorithm.name()),
            engine: c_word(engine.name()),
            path: c_word(path.name()),
            bytes: 0,
            ordinal: 0,
            epoch: 0,
            state: self.state,
            capture: 0,
            position: 0,
            reserved: 0,
        }
    }
}

/// Every word that a receipt may say, for C.
static WORDS: LazyLock<Vec<CString>> = LazyLock::new(|| {
    let algorithms = AlgorithmName::ALL.map(AlgorithmName::name);
    let (engines, paths) = (Engine::ALL.map(Engine::name), Path::ALL.map(Path::name));
    let words = algorithms.into_iter().chain(engines).chain(paths);
    words.filter_map(|word| CString::new(word).ok()).collect()
});

fn c_word(word: &str) -> *const c_char {
    let found = WORDS.iter().find(|known| known.as_bytes() == word.as_bytes());
    found
        .map_or(c"unknown", |word: &CString| -> &CStr { word.as_c_str() })
        .as_ptr()
}

/// Tells what a receipt says. `receipt` begins with `LANESUM_RECEIPT_INIT`.
///
/// Fails with `LANESUM_STATUS_BUSY` while another thread waits for the call, and with `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_issued_read(
    issued: *const Issued,
    receipt: *mut Receipt,
    error: *mut *mut Error,
) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let told = unsafe { lent(issued, "issued") }?.read()?;
        // SAFETY: by the head of lanesum.h; `read` sets the size of its struct.
        Ok(unsafe { fill(receipt, "receipt", told) }?)
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}

/// Tells whether the call has completed; never waits. While another thread waits for it, it has not.
///
/// Fails as `lanesum_issued_wait`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_issued_poll(
    issued: *const Issued,
    completed: *mut bool,
    error: *mut *mut Error,
) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let issued = unsafe { lent(issued, "issued") }?;
        // SAFETY: by the head of lanesum.h.
        let completed = unsafe { Place::of(completed, "completed") }?;
        let polled = issued.with_own(|proof| match proof {
            Proof::Receipt(receipt) => Ok(receipt.poll()?.is_some()),
            Proof::Captured(_) => Err(Refusal::Captured.into()),
        });
        completed.put(match polled {
            Err(Failure::Refused(Refusal::Waiting)) => false,
            polled => polled?,
        });
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}

/// Waits until the call has completed; for a call on a stream, until all that was enqueued there since has completed too. One thread waits
/// at a time.
///
/// Fails with `LANESUM_STATUS_RANK_LOST`, `LANESUM_STATUS_LATE`, `LANESUM_STATUS_MISMATCH` or `LANESUM_STATUS_FAULT` if the call, or one
/// before it, has failed: its output holds NaN; with `LANESUM_STATUS_CUDA` if other work holds the stream up past the deadline; with
/// `LANESUM_STATUS_REFUSED` if it was captured; with `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY` or
/// `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_issued_wait(issued: *const Issued, error: *mut *mut Error) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let issued = unsafe { lent(issued, "issued") }?;
        issued.with_own(|proof| match proof {
            Proof::Receipt(receipt) => Ok(receipt.wait().map(|_completed| ())?),
            Proof::Captured(_) => Err(Refusal::Captured.into()),
        })
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}

/// Ends a receipt; the call goes on. NULL has no effect. No other thread may be at it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_issued_free(issued: *mut Issued) {
    // SAFETY: by the head of lanesum.h.
    if unsafe { part(issued) }.is_some_and(Issued::is_forked) {
        // Its end would ask the parent's GPU.
        return;
    }
    // SAFETY: by the head of lanesum.h.
    unsafe { discard(issued) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_known() {
        assert_eq!(
            WORDS.len(),
            AlgorithmName::ALL.len() + Engine::ALL.len() + Path::ALL.len()
        );
    }
}
