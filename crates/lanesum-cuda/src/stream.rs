//! Streams and events.

use std::sync::Arc;
use std::time::Duration;

use core::ffi::c_void;

use crate::device::{Device, await_device};
use crate::driver::types::*;
use crate::error::CudaError;

/// A stream of a caller: `cudaStream_t` and `CUstream` are the same pointer. Null is the legacy default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawStream(pub *mut c_void);

// SAFETY: a handle is a name; the driver may be called with it from any thread.
unsafe impl Send for RawStream {}

/// A stream of this library's own making; it does not wait for the default stream. Clones share it.
#[derive(Debug, Clone)]
pub struct Stream {
    pub(crate) owned: Arc<Owned>,
}

#[derive(Debug)]
pub(crate) struct Owned {
    device: Device,
    handle: StreamHandle,
}

impl Stream {
    /// A new stream on a device.
    ///
    /// # Errors
    /// [`CudaError`] if the driver refuses.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let _current = device.current()?;
        let driver = device.driver();
        let mut handle = StreamHandle::NULL;
        driver.check("cuStreamCreate", || {
            // SAFETY: `handle` outlives the call, the context is current.
            unsafe { (driver.table.cuStreamCreate)(&mut handle, NON_BLOCKING) }
        })?;
        Ok(Self {
            owned: Arc::new(Owned {
                device: device.clone(),
                handle,
            }),
        })
    }

    /// The device that it is on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.owned.device
    }

    /// The handle, for other libraries; valid as long as a clone of the stream lives.
    #[must_use]
    #[inline]
    pub fn raw(&self) -> RawStream {
        RawStream(self.owned.handle.0)
    }

    /// Waits until all that was enqueued is done.
    ///
    /// # Errors
    /// [`CudaError::Late`] after `longest`; [`CudaError::Driver`] if the device failed.
    pub fn synchronize(&self, longest: Duration) -> Result<(), CudaError> {
        await_device(
            "work on a stream",
            || longest,
            || 0,
            || query(&self.owned.device, self.raw()),
        )
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.current() {
            // SAFETY: made by `new`, destroyed once; work that is still enqueued is finished by the driver.
            unsafe { (self.device.driver().table.cuStreamDestroy_v2)(self.handle) };
        }
    }
}

/// Whether all that was enqueued on a stream is done. One that is being captured is not asked, as asking would spoil the capture: it
/// counts as busy.
pub(crate) fn query(device: &Device, stream: RawStream) -> Result<bool, CudaError> {
    if is_capturing(device, stream)? {
        return Ok(false);
    }
    let _current = device.current()?;
    let driver = device.driver();
    // SAFETY: the caller's stream lives, as calls that take streams ask for.
    match unsafe { (driver.table.cuStreamQuery)(StreamHandle(stream.0)) } {
        code::SUCCESS => Ok(true),
        code::NOT_READY => Ok(false),
        refused if code::CAPTURE.contains(&refused) => Ok(false),
        other => Err(driver.error("cuStreamQuery", other)),
    }
}

/// Whether what is enqueued on a stream is recorded into a graph instead of run.
#[inline]
pub(crate) fn is_capturing(device: &Device, stream: RawStream) -> Result<bool, CudaError> {
    let _current = device.current()?;
    let driver = device.driver();
    let mut status = 0;
    // SAFETY: `status` outlives the call, the stream is the caller's.
    match unsafe { (driver.table.cuStreamIsCapturing)(StreamHandle(stream.0), &mut status) } {
        code::SUCCESS => Ok(status != 0),
        // The default stream, while another stream that waits for it is captured.
        refused if code::CAPTURE.contains(&refused) => Ok(true),
        other => Err(driver.error("cuStreamIsCapturing", other)),
    }
}

/// A point in a stream, to order another one by.
#[derive(Debug)]
pub(crate) struct Event {
    device: Device,
    handle: EventHandle,
}

impl Event {
    pub(crate) fn new(device: &Device) -> Result<Self, CudaError> {
        let _current = device.current()?;
        let driver = device.driver();
        let mut handle = EventHandle::NULL;
        driver.check("cuEventCreate", || {
            // SAFETY: `handle` outlives the call, the context is current.
            unsafe { (driver.table.cuEventCreate)(&mut handle, NO_TIMING) }
        })?;
        Ok(Self {
            device: device.clone(),
            handle,
        })
    }

    /// Marks the present end of a stream.
    pub(crate) fn record(&self, stream: RawStream) -> Result<(), CudaError> {
        let _current = self.device.current()?;
        let driver = self.device.driver();
        driver.check("cuEventRecord", || {
            // SAFETY: both live: the event is this one, the stream the caller's.
            unsafe { (driver.table.cuEventRecord)(self.handle, StreamHandle(stream.0)) }
        })
    }

    /// Lets what a stream gets from now on wait for the event.
    pub(crate) fn hold(&self, stream: RawStream) -> Result<(), CudaError> {
        let _current = self.device.current()?;
        let driver = self.device.driver();
        driver.check("cuStreamWaitEvent", || {
            // SAFETY: both live: the event is this one, the stream the caller's.
            unsafe { (driver.table.cuStreamWaitEvent)(StreamHandle(stream.0), self.handle, 0) }
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.current() {
            // SAFETY: made by `new`, destroyed once.
            unsafe { (self.device.driver().table.cuEventDestroy_v2)(self.handle) };
        }
    }
}
