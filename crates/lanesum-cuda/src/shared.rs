//! What a communicator's engine, its receipts and its watcher have in common.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lanesum_host::told;
use lanesum_plan::{Call, Fault, FaultKind, Rank};
use lanesum_segment::{DeviceFault, Mapped, Phase, RankSet, Record, RecordKind};

use crate::device::{Device, await_device};
use crate::driver::types::*;
use crate::error::CudaError;
use crate::stream::{RawStream, query};

/// How long a call is waited for beyond the deadline of its kernel's own waits.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Pinned host memory that holds a [`Mapped`].
#[derive(Debug)]
pub(crate) struct HostMemory {
    device: Device,
    base: NonNull<Mapped>,
    pub(crate) address: DevicePointer,
}

// SAFETY: the memory belongs to no thread, and consists of atomics.
unsafe impl Send for HostMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(crate) fn new(device: &Device) -> Result<Self, CudaError> {
        let driver = device.driver();
        let _current = device.current()?;
        let bytes = size_of::<Mapped>();
        let mut base = core::ptr::null_mut::<c_void>();
        let allocated = driver.check("cuMemHostAlloc", || {
            // SAFETY: `base` outlives the call, the context is current.
            unsafe { (driver.table.cuMemHostAlloc)(&mut base, bytes, HOST_MAPPED) }
        });
        allocated.map_err(|error| error.for_memory("control words", bytes as u64))?;
        let lacks = || CudaError::Lacks {
            device: device.facts().name.clone(),
            what: "pinned host memory",
        };
        let start = NonNull::new(base.cast::<Mapped>()).ok_or_else(lacks)?;
        // From here on, dropping it frees the memory.
        let mut memory = Self {
            device: device.clone(),
            base: start,
            address: 0,
        };
        // SAFETY: pinned memory is page-aligned and holds this many bytes; nobody else has it yet. All zeros is a `Mapped`.
        unsafe { start.as_ptr().write_bytes(0, 1) };
        driver.check("cuMemHostGetDevicePointer", || {
            // SAFETY: `address` outlives the call; the memory was allocated as mapped.
            unsafe { (driver.table.cuMemHostGetDevicePointer_v2)(&mut memory.address, base, 0) }
        })?;
        Ok(memory)
    }

    #[inline]
    pub(crate) fn words(&self) -> &Mapped {
        // SAFETY: the memory holds a `Mapped` as long as `self`; it consists of atomics, so the device may write beside.
        unsafe { self.base.as_ref() }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let (Ok(_relaxed), Ok(_current)) = (self.device.relaxed(), self.device.current()) {
            // SAFETY: allocated by `new`, freed once, after this rank's kernels have ended.
            unsafe { (self.device.driver().table.cuMemFreeHost)(self.base.as_ptr().cast::<c_void>()) };
        }
    }
}

/// State that outlives the engine where a receipt does.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) device: Device,
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) rank: Rank,
    fault: OnceLock<Failed>,
}

/// The first fault, and the call in which this rank noticed it.
#[derive(Debug)]
struct Failed {
    fault: Fault,
    record: Record,
    ticket: u64,
}

/// A call that was enqueued and has ended well.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed(());

/// A call that was enqueued.
#[derive(Debug)]
pub struct Pending {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ticket: u64,
    /// The call in words.
    pub(crate) call: [u64; 4],
    pub(crate) stream: RawStream,
    /// Keeps a stream of this library alive.
    pub(crate) _keep: Option<crate::stream::Stream>,
}

/// Why waiting for a call ended without its result.
#[derive(Debug)]
pub enum Unfinished {
    /// The call, or one before it, has failed.
    Failed(Box<Fault>),
    /// It has not ended in time; nothing is known of it.
    Late(CudaError),
}

impl Shared {
    pub(crate) fn new(device: &Device, memory: Arc<HostMemory>, rank: Rank) -> Self {
        Self {
            device: device.clone(),
            memory,
            rank,
            fault: OnceLock::new(),
        }
    }

    /// The first fault that the device has told of, if any, with what peers are told of it.
    #[inline]
    pub(crate) fn fault(&self) -> Option<(&Fault, &Record)> {
        if self.fault.get().is_none() && !self.memory.words().has_failed() {
            return None;
        }
        self.first().map(|failed| (&failed.fault, &failed.record))
    }

    /// Changes whenever an eager call ends.
    pub(crate) fn progress(&self) -> u64 {
        self.memory.words().echo()
    }

    #[cold]
    fn first(&self) -> Option<&Failed> {
        if let Some(failed) = self.fault.get() {
            return Some(failed);
        }
        let device = self.memory.words().fault()?;
        Some(self.fault.get_or_init(|| self.failed(&device)))
    }

    fn failed(&self, device: &DeviceFault) -> Failed {
        let by = Rank::new(device.record.by).unwrap_or(self.rank);
        let fault = Fault {
            kind: told(&device.record, by),
            noticed_by: by,
            ours: call_of(device.call),
            epoch: device.record.epoch,
        };
        Failed {
            fault,
            record: device.record,
            ticket: device.ticket,
        }
    }

    /// Notes a failure of the driver as this rank's fault, in call `ticket`.
    #[cold]
    pub(crate) fn broke(&self, error: &CudaError, call: [u64; 4], ticket: u64) -> Fault {
        let record = Record {
            kind: RecordKind::Device,
            by: self.rank.index(),
            ranks: RankSet::only(self.rank.index()),
            epoch: 0,
            waited_us: 0,
            phase: Phase::Header,
            ours: call,
            theirs: [0; 4],
        };
        let make = || Failed {
            record,
            fault: Fault {
                kind: FaultKind::Device {
                    rank: self.rank,
                    code: error.to_string(),
                },
                noticed_by: self.rank,
                ours: call_of(call),
                epoch: 0,
            },
            ticket,
        };
        self.first()
            .unwrap_or_else(|| self.fault.get_or_init(make))
            .fault
            .clone()
    }
}

impl Shared {
    /// The first call whose output is not a sum. A replay that failed beside an eager call names the one behind that as the first;
    /// whether that call came to its end nevertheless, it says itself.
    fn spoilt_from(&self, failed: &Failed) -> u64 {
        let spoilt = self.memory.words().spoilt().unwrap_or(u64::MAX);
        failed.ticket.min(spoilt)
    }
}

/// Words that this rank has packed itself always tell a call.
fn call_of(words: [u64; 4]) -> Call {
    Call::from_words(words).unwrap_or(Call::Barrier {
        label: None,
        ordinal: 0,
    })
}

impl Pending {
    /// Whether the call has ended; never waits.
    ///
    /// # Errors
    /// [`Fault`] if it, or one before it, has failed.
    pub fn poll(&self) -> Result<Option<Completed>, Box<Fault>> {
        // A failed call, too, ends on the stream: only then is its output written.
        match query(&self.shared.device, self.stream) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Err(Box::new(self.shared.broke(&error, self.call, self.ticket))),
        }
        match self.shared.first() {
            Some(failed) if self.shared.spoilt_from(failed) <= self.ticket => Err(Box::new(failed.fault.clone())),
            Some(_) | None => Ok(Some(Completed(()))),
        }
    }

    /// Waits until the call has ended, and all that was enqueued on its stream since.
    ///
    /// # Errors
    /// [`Unfinished`]: the fault, or that no eager call of the communicator has ended for two seconds more than the deadline, as that
    /// is by now.
    pub fn wait(&self) -> Result<Completed, Unfinished> {
        let mut found = Ok(None);
        let longest = || Duration::from_nanos(self.shared.memory.words().deadline_ns()).saturating_add(GRACE);
        let waited = await_device(
            "a call that was enqueued",
            longest,
            || self.shared.progress(),
            || {
                found = self.poll();
                Ok(!matches!(found, Ok(None)))
            },
        );
        match (found, waited) {
            (Err(fault), _) => Err(Unfinished::Failed(fault)),
            (Ok(Some(completed)), _) => Ok(completed),
            (Ok(None), Err(error)) => Err(Unfinished::Late(error)),
            // It was looked at last when it was done.
            (Ok(None), Ok(())) => Ok(Completed(())),
        }
    }
}
