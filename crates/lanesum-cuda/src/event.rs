//! Events: points in streams, to order others by or to tell the time between.

use std::time::Duration;

use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::stream::{RawStream, Stream};

/// A point in a stream, and the time at which the device came to it.
///
/// ```no_run
/// use lanesum_cuda::{Device, Event, Stream};
///
/// let device = Device::open(0)?;
/// let stream = Stream::new(&device)?;
/// let (start, end) = (Event::new(&device)?, Event::new(&device)?);
/// start.record(&stream)?;
/// // ... work ...
/// end.record(&stream)?;
/// stream.synchronize(std::time::Duration::from_secs(1))?;
/// println!("{:?}", end.elapsed_since(&start)?);
/// # Ok::<(), lanesum_cuda::CudaError>(())
/// ```
#[derive(Debug)]
pub struct Event {
    device: Device,
    handle: EventHandle,
}

impl Event {
    /// An event that tells times, not recorded yet.
    ///
    /// # Errors
    /// [`CudaError`] if the driver refuses.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        Self::with(device, TIMING)
    }

    /// An event that only orders, which costs less; it tells no time.
    pub(crate) fn untimed(device: &Device) -> Result<Self, CudaError> {
        Self::with(device, NO_TIMING)
    }

    fn with(device: &Device, flags: u32) -> Result<Self, CudaError> {
        let _current = device.current()?;
        let driver = device.driver();
        let mut handle = EventHandle::NULL;
        driver.check("cuEventCreate", || {
            // SAFETY: `handle` outlives the call, the context is current.
            unsafe { (driver.table.cuEventCreate)(&mut handle, flags) }
        })?;
        Ok(Self {
            device: device.clone(),
            handle,
        })
    }

    /// Marks the present end of a stream, instead of what was marked before.
    ///
    /// # Errors
    /// [`CudaError`] if the driver refuses, as it does where the stream is on another device.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        self.mark(stream.raw())
    }

    /// The time between the device's coming to `earlier` and to this event, to about half a microsecond. Does not wait.
    ///
    /// # Errors
    /// [`CudaError::NotReached`] if the device has not come to both, [`CudaError::Unrecorded`] if one was never recorded, and
    /// what else the driver refuses.
    pub fn elapsed_since(&self, earlier: &Event) -> Result<Duration, CudaError> {
        earlier.reached("earlier")?;
        self.reached("later")?;
        let _current = self.device.current()?;
        let driver = self.device.driver();
        let mut milliseconds = 0.0_f32;
        // SAFETY: `milliseconds` outlives the call, both events live.
        let told = unsafe { (driver.table.cuEventElapsedTime)(&mut milliseconds, earlier.handle, self.handle) };
        match told {
            code::SUCCESS => Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default()),
            code::INVALID_HANDLE => Err(CudaError::Unrecorded),
            other => Err(driver.error("cuEventElapsedTime", other)),
        }
    }

    fn reached(&self, which: &'static str) -> Result<(), CudaError> {
        let _current = self.device.current()?;
        // To ask would spoil what this thread captures.
        let _relaxed = self.device.relaxed()?;
        let driver = self.device.driver();
        // SAFETY: the event lives.
        match unsafe { (driver.table.cuEventQuery)(self.handle) } {
            code::SUCCESS => Ok(()),
            code::NOT_READY => Err(CudaError::NotReached { which }),
            other => Err(driver.error("cuEventQuery", other)),
        }
    }

    /// As [`Event::record`], on a stream of the caller's.
    pub(crate) fn mark(&self, stream: RawStream) -> Result<(), CudaError> {
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
            // SAFETY: made by `with`, destroyed once.
            unsafe { (self.device.driver().table.cuEventDestroy_v2)(self.handle) };
        }
    }
}
