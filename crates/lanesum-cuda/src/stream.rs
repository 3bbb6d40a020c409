//! Streams, and what becomes of what is enqueued on them.

use std::sync::Arc;
use std::time::Duration;

use core::ffi::c_void;

use crate::capture_trouble::CaptureTrouble;
use crate::device::{Device, await_device};
use crate::driver::types::*;
use crate::error::CudaError;
use crate::event::Event;

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

    /// Lets what the stream gets from now on wait for an event that was recorded on another one. In a capture, this draws the
    /// stream in.
    ///
    /// # Errors
    /// [`CudaError`] if the driver refuses.
    pub fn wait_for(&self, event: &Event) -> Result<(), CudaError> {
        event.hold(self.raw())
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

/// What becomes of what is enqueued on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It runs.
    Runs,
    /// It is recorded into a graph.
    Recorded,
    /// Nothing: a capture that has become invalid waits for its end.
    Invalid,
    /// Nothing: the default stream waits for streams that are being captured.
    Blocked,
}

/// A capture under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaptureInfo {
    /// The driver's number for it, never used again in this process.
    pub(crate) id: u64,
    /// What is recorded, while the capture lasts.
    pub(crate) graph: GraphHandle,
}

/// Whether all that was enqueued on a stream is done. One that is being captured is not asked, as asking would spoil the capture: it
/// counts as busy.
pub(crate) fn query(device: &Device, stream: RawStream) -> Result<bool, CudaError> {
    match mode(device, stream)? {
        Mode::Runs => {}
        Mode::Recorded | Mode::Invalid | Mode::Blocked => return Ok(false),
    }
    let _current = device.current()?;
    let _relaxed = device.relaxed()?;
    let driver = device.driver();
    // SAFETY: the caller's stream lives, as calls that take streams ask for.
    match unsafe { (driver.table.cuStreamQuery)(StreamHandle(stream.0)) } {
        code::SUCCESS => Ok(true),
        code::NOT_READY => Ok(false),
        refused if code::CAPTURE.contains(&refused) => Ok(false),
        other => Err(driver.error("cuStreamQuery", other)),
    }
}

/// What becomes of what is enqueued on a stream.
#[inline]
pub(crate) fn mode(device: &Device, stream: RawStream) -> Result<Mode, CudaError> {
    let _current = device.current()?;
    let driver = device.driver();
    let mut status = 0;
    // SAFETY: `status` outlives the call, the stream is the caller's.
    match unsafe { (driver.table.cuStreamIsCapturing)(StreamHandle(stream.0), &mut status) } {
        code::SUCCESS => Ok(match status {
            CAPTURE_ACTIVE => Mode::Recorded,
            CAPTURE_INVALIDATED => Mode::Invalid,
            _ => Mode::Runs,
        }),
        refused if code::CAPTURE.contains(&refused) => Ok(Mode::Blocked),
        other => Err(driver.error("cuStreamIsCapturing", other)),
    }
}

/// The capture that a stream is part of. One that has ended or become invalid meanwhile is an error.
pub(crate) fn capture_info(device: &Device, stream: RawStream) -> Result<CaptureInfo, CudaError> {
    let _current = device.current()?;
    let driver = device.driver();
    let call = "cuStreamGetCaptureInfo";
    let (mut status, mut id, mut graph) = (0, 0, GraphHandle::NULL);
    driver.check(call, || {
        // SAFETY: what is written to outlives the call, the stream is the caller's; what is not asked for may be null.
        unsafe {
            (driver.table.cuStreamGetCaptureInfo_v2)(
                StreamHandle(stream.0),
                &mut status,
                &mut id,
                &mut graph,
                core::ptr::null_mut(),
                core::ptr::null_mut(),
            )
        }
    })?;
    match status {
        CAPTURE_ACTIVE => Ok(CaptureInfo { id, graph }),
        _ => Err(CudaError::Capture {
            call,
            trouble: CaptureTrouble::Invalidated,
        }),
    }
}
