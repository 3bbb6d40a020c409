//! One GPU and the context of this process on it.

use core::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanesum_plan::{Bytes, RankGpu};

use crate::driver::Driver;
use crate::driver::types::*;
use crate::error::CudaError;

/// A GPU, with its primary context: the one that torch and the runtime API use too, so that their pointers and streams are
/// valid here. Clones share it.
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) driver: &'static Driver,
    pub(crate) handle: DeviceHandle,
    pub(crate) context: ContextHandle,
    ordinal: usize,
    facts: RankGpu,
    shareable: bool,
}

/// The context is current on this thread while it lives.
pub(crate) struct Current<'a> {
    inner: &'a Inner,
    pushed: bool,
}

/// Calls that concern nothing recorded do not spoil what this thread captures while the value lives.
pub(crate) struct Relaxed {
    driver: &'static Driver,
    before: i32,
    /// The mode is the thread's.
    thread: PhantomData<*mut ()>,
}

/// What is known of the driver before any device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverFacts {
    /// The version of CUDA that it supports, such as 12040.
    pub version: u32,
    /// Whether it is the tests' stand-in, which runs kernels on the CPU.
    pub stand_in: bool,
    /// How many devices this process sees.
    pub devices: usize,
}

/// Loads the driver and asks what it is; makes no context.
///
/// # Errors
/// As [`device_count`].
pub fn driver() -> Result<DriverFacts, CudaError> {
    let devices = device_count()?;
    let driver = Driver::get()?;
    Ok(DriverFacts {
        version: u32::try_from(driver.version()).unwrap_or(0),
        stand_in: driver.is_stand_in(),
        devices,
    })
}

/// How many devices this process sees.
///
/// # Errors
/// [`CudaError`] where there is no driver, or none that works.
pub fn device_count() -> Result<usize, CudaError> {
    let driver = Driver::get()?;
    let mut count = 0;
    driver.check("cuDeviceGetCount", || {
        // SAFETY: `count` outlives the call.
        unsafe { (driver.table.cuDeviceGetCount)(&mut count) }
    })?;
    match usize::try_from(count) {
        Ok(0) | Err(_) => Err(CudaError::NoDevice),
        Ok(count) => Ok(count),
    }
}

impl Device {
    /// The device of this number, counted from 0 among those that `CUDA_VISIBLE_DEVICES` leaves.
    ///
    /// # Errors
    /// [`CudaError`] that says what is missing or refused, and what to do.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        let count = device_count()?;
        let driver = Driver::get()?;
        let number = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let number = number.ok_or(CudaError::NoSuchDevice { asked: ordinal, count })?;
        let mut handle = 0;
        driver.check("cuDeviceGet", || {
            // SAFETY: `handle` outlives the call.
            unsafe { (driver.table.cuDeviceGet)(&mut handle, number) }
        })?;
        let asking = Asking { driver, handle };
        let facts = asking.facts()?;
        asking.admits(ordinal)?;
        if asking.attribute(Attribute::CanMapHostMemory)? == 0 {
            return Err(CudaError::Lacks {
                device: facts.name,
                what: "access to host memory",
            });
        }
        let shareable = asking
            .attribute(Attribute::VirtualMemoryManagement)
            .is_ok_and(|yes| yes != 0)
            && asking
                .attribute(Attribute::HandleTypePosixFileDescriptor)
                .is_ok_and(|yes| yes != 0);
        let mut context = ContextHandle::NULL;
        let retained = driver.check("cuDevicePrimaryCtxRetain", || {
            // SAFETY: `context` outlives the call; the handle came from the driver.
            unsafe { (driver.table.cuDevicePrimaryCtxRetain)(&mut context, handle) }
        });
        retained.map_err(|error| match error.code() {
            Some(code::DEVICE_UNAVAILABLE) => CudaError::ComputeMode {
                device: ordinal,
                mode: "EXCLUSIVE_PROCESS",
            },
            Some(_) | None => error.for_memory("a context", 0),
        })?;
        let inner = Inner {
            driver,
            handle,
            context,
            ordinal,
            facts,
            shareable,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Its number in this process.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.inner.ordinal
    }

    /// What is known of it.
    #[must_use]
    pub fn facts(&self) -> &RankGpu {
        &self.inner.facts
    }

    /// Whether its memory can be shared as file descriptors.
    pub(crate) fn is_shareable(&self) -> bool {
        self.inner.shareable
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.inner.driver
    }

    /// Makes the context current on this thread, for as long as the value lives.
    #[inline]
    pub(crate) fn current(&self) -> Result<Current<'_>, CudaError> {
        self.inner.current()
    }

    /// Lets this thread make calls, for as long as the value lives, that would spoil its captures if they could concern what is
    /// recorded: those that take or free memory, ask or wait. The caller sees to it that they do not.
    pub(crate) fn relaxed(&self) -> Result<Relaxed, CudaError> {
        let driver = self.inner.driver;
        let mut mode = CAPTURE_RELAXED;
        driver.check("cuThreadExchangeStreamCaptureMode", || {
            // SAFETY: `mode` outlives the call, which leaves there what was before.
            unsafe { (driver.table.cuThreadExchangeStreamCaptureMode)(&mut mode) }
        })?;
        Ok(Relaxed {
            driver,
            before: mode,
            thread: PhantomData,
        })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: `before` outlives the call. It was the mode of this thread, where the value has stayed; a refusal leaves it
        // relaxed.
        unsafe { (self.driver.table.cuThreadExchangeStreamCaptureMode)(&mut self.before) };
    }
}

impl Inner {
    #[inline]
    pub(crate) fn current(&self) -> Result<Current<'_>, CudaError> {
        let mut now = ContextHandle::NULL;
        self.driver.check("cuCtxGetCurrent", || {
            // SAFETY: `now` outlives the call.
            unsafe { (self.driver.table.cuCtxGetCurrent)(&mut now) }
        })?;
        let pushed = now != self.context;
        if pushed {
            self.driver.check("cuCtxPushCurrent", || {
                // SAFETY: the context is retained as long as `self`.
                unsafe { (self.driver.table.cuCtxPushCurrent_v2)(self.context) }
            })?;
        }
        Ok(Current { inner: self, pushed })
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ContextHandle::NULL;
            // SAFETY: `popped` outlives the call; this thread pushed the context, and whoever pushed another since has
            // popped it, as these values live on the stack. There is nothing to do about a refusal.
            unsafe { (self.inner.driver.table.cuCtxPopCurrent_v2)(&mut popped) };
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: retained once by `open`; all that uses the context holds this value. A refusal means that the process is ending.
        unsafe { (self.driver.table.cuDevicePrimaryCtxRelease_v2)(self.handle) };
    }
}

/// A device that is asked about before its context exists.
struct Asking {
    driver: &'static Driver,
    handle: DeviceHandle,
}

impl Asking {
    fn attribute(&self, attribute: Attribute) -> Result<i32, CudaError> {
        let mut value = 0;
        self.driver.check("cuDeviceGetAttribute", || {
            // SAFETY: `value` outlives the call.
            unsafe { (self.driver.table.cuDeviceGetAttribute)(&mut value, attribute as i32, self.handle) }
        })?;
        Ok(value)
    }

    fn number(&self, attribute: Attribute) -> Result<u32, CudaError> {
        Ok(u32::try_from(self.attribute(attribute)?).unwrap_or(0))
    }

    /// A text that a function writes into a buffer of this length.
    fn text(
        &self,
        call: &'static str,
        ask: unsafe extern "C" fn(*mut core::ffi::c_char, i32, DeviceHandle) -> Code,
    ) -> Result<String, CudaError> {
        let mut buffer = [0_u8; 256];
        self.driver.check(call, || {
            // SAFETY: the buffer has the length that is told, and outlives the call.
            unsafe { ask(buffer.as_mut_ptr().cast(), 255, self.handle) }
        })?;
        let text = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn uuid(&self) -> Result<String, CudaError> {
        let mut uuid = Uuid::default();
        self.driver.check("cuDeviceGetUuid", || {
            // SAFETY: `uuid` outlives the call.
            unsafe { (self.driver.table.cuDeviceGetUuid_v2)(&mut uuid, self.handle) }
        })?;
        let digits: String = uuid.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default().to_owned());
        Ok(format!("GPU-{}", parts.join("-")))
    }

    fn facts(&self) -> Result<RankGpu, CudaError> {
        let mut memory = 0;
        self.driver.check("cuDeviceTotalMem", || {
            // SAFETY: `memory` outlives the call.
            unsafe { (self.driver.table.cuDeviceTotalMem_v2)(&mut memory, self.handle) }
        })?;
        Ok(RankGpu {
            uuid: self.uuid()?,
            pci_bus_id: self.text("cuDeviceGetPCIBusId", self.driver.table.cuDeviceGetPCIBusId)?,
            name: self.text("cuDeviceGetName", self.driver.table.cuDeviceGetName)?,
            compute: (
                self.number(Attribute::ComputeMajor)?,
                self.number(Attribute::ComputeMinor)?,
            ),
            multiprocessors: self.number(Attribute::Multiprocessors)?,
            threads_per_block: self.number(Attribute::MaxThreadsPerBlock)?,
            memory: Bytes::new(memory as u64),
            driver: u32::try_from(self.driver.version()).unwrap_or(0),
            watchdog: self.attribute(Attribute::KernelExecTimeout)? != 0,
            // Another room's to observe.
            numa_node: None,
            slot: None,
            mig: None,
            bar1: None,
            nvlinks: None,
            stand_in: self.driver.is_stand_in(),
        })
    }

    /// Mode 2 admits nobody. Mode 3 admits one process, which shows when the context is made.
    fn admits(&self, ordinal: usize) -> Result<(), CudaError> {
        match self.attribute(Attribute::ComputeMode)? {
            2 => Err(CudaError::ComputeMode {
                device: ordinal,
                mode: "PROHIBITED",
            }),
            _ => Ok(()),
        }
    }
}

/// Waits until `done` says so, without holding the core for long. How long at most is asked again and again; `progress` is a number
/// whose change begins the time anew.
pub(crate) fn await_device(
    what: &'static str,
    longest: impl Fn() -> Duration,
    progress: impl Fn() -> u64,
    mut done: impl FnMut() -> Result<bool, CudaError>,
) -> Result<(), CudaError> {
    let (mut start, mut seen) = (Instant::now(), progress());
    let mut looks = 0_u32;
    while !done()? {
        let now = progress();
        if now != seen {
            (start, seen) = (Instant::now(), now);
        }
        let waited = start.elapsed();
        if waited > longest() {
            return Err(CudaError::Late {
                what,
                ms: waited.as_millis(),
            });
        }
        looks = looks.saturating_add(1);
        // A kernel of a few microseconds is caught spinning; whatever takes longer costs no core.
        if looks > 2000 {
            std::thread::sleep(Duration::from_micros(50));
        } else {
            std::hint::spin_loop();
        }
    }
    Ok(())
}
