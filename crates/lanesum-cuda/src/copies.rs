//! What the copy engines carry between host memory and the device: the measure of the path through host memory. Only the bench asks.

use core::ffi::c_void;
use std::time::Duration;

use lanesum_segment::SealedMemory;

use crate::buffer::Memory;
use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::event::Event;
use crate::inbox::Pinned;
use crate::stream::Stream;

/// Bytes of one copy: long enough that its start costs nothing beside it.
const COPY: usize = 16 << 20;
/// How long is timed, about: ranks that begin together share a link for all of it but its ends.
const TIMED: Duration = Duration::from_millis(50);

/// Memory to copy between, and streams to copy on, up and down at once.
#[derive(Debug)]
pub struct Copies {
    device: Device,
    up: Stream,
    down: Stream,
    start: Event,
    ends: [Event; 2],
    from_device: Memory,
    to_device: Memory,
    host: Pinned,
}

impl Copies {
    /// Takes the memory: 32 MiB of pinned host memory on this NUMA node, of the kind that ranks stage in, and as much of the device.
    ///
    /// # Errors
    /// [`CudaError`] that says what was refused.
    pub fn new(device: &Device, node: Option<u32>) -> Result<Self, CudaError> {
        let _relaxed = device.relaxed()?;
        let (host, _descriptor) = SealedMemory::create(2 * COPY as u64)?;
        if let Some(node) = node {
            host.prefer_node(node);
        }
        host.take_pages()?;
        Ok(Self {
            device: device.clone(),
            up: Stream::new(device)?,
            down: Stream::new(device)?,
            start: Event::new(device)?,
            ends: [Event::new(device)?, Event::new(device)?],
            from_device: Memory::new(device, "copies up", COPY)?,
            to_device: Memory::new(device, "copies down", COPY)?,
            host: Pinned::new(device, host)?,
        })
    }

    /// Bytes that the copy engines carry each way in a microsecond. Ranks that share a link divide it if all measure at once.
    ///
    /// # Errors
    /// [`CudaError`] that says what was refused, or that the copies did not end within `patience`.
    pub fn rate(&self, patience: Duration) -> Result<f64, CudaError> {
        let _relaxed = self.device.relaxed()?;
        // The first touches what is new.
        self.timed(1, patience)?;
        let one = self.timed(1, patience)?.max(Duration::from_micros(1));
        let count = (TIMED.as_micros() / one.as_micros()).clamp(2, 1000) as u32;
        let us = self.timed(count, patience)?.as_secs_f64() * 1e6;
        Ok(COPY as f64 * f64::from(count) / us.max(f64::MIN_POSITIVE))
    }

    /// So many copies each way, to their end.
    fn timed(&self, count: u32, patience: Duration) -> Result<Duration, CudaError> {
        let driver = self.device.driver();
        let _current = self.device.current()?;
        let base = self.host.base();
        // SAFETY: the memory has twice as many bytes.
        let second = unsafe { base.add(COPY) };
        self.start.record(&self.up)?;
        self.start.hold(self.down.raw())?;
        let mut queued = Ok(());
        for _ in 0..count {
            queued = queued.and_then(|()| {
                driver.check("cuMemcpyDtoHAsync", || {
                    let (to, stream) = (base.cast::<c_void>(), StreamHandle(self.up.raw().0));
                    // SAFETY: both have so many bytes and live until the stream is done, which is waited for below.
                    unsafe { (driver.table.cuMemcpyDtoHAsync_v2)(to, self.from_device.address, COPY, stream) }
                })?;
                driver.check("cuMemcpyHtoDAsync", || {
                    let (from, stream) = (second.cast::<c_void>(), StreamHandle(self.down.raw().0));
                    // SAFETY: as above.
                    unsafe { (driver.table.cuMemcpyHtoDAsync_v2)(self.to_device.address, from, COPY, stream) }
                })
            });
        }
        for (end, stream) in self.ends.iter().zip([&self.up, &self.down]) {
            end.record(stream)?;
            stream.synchronize(patience)?;
        }
        queued?;
        let mut longest = Duration::ZERO;
        for end in &self.ends {
            longest = longest.max(end.elapsed_since(&self.start)?);
        }
        Ok(longest)
    }
}
