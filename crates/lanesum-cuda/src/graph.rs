//! Captures of streams, and the graphs that come of them.

use core::ffi::c_void;
use core::marker::PhantomData;
use std::sync::Arc;

use crate::capture_trouble::CaptureTrouble;
use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::stream::Stream;

/// A stream that is being captured: what it gets is recorded instead of run. Dropping it abandons the capture, and nothing
/// comes of it.
///
/// On the thread that began it, calls that could wait for recorded work, or take or free device memory, are refused and make the
/// capture invalid; other threads are not concerned. It stays on its thread:
///
/// ```compile_fail
/// fn needs_send<T: Send>() {}
/// needs_send::<lanesum_cuda::Capture<'_>>();
/// ```
#[must_use = "dropping a capture abandons it"]
#[derive(Debug)]
pub struct Capture<'a> {
    stream: &'a Stream,
    /// The driver ends a capture only on the thread that began it.
    thread: PhantomData<*mut ()>,
}

/// What was captured, ready to be run any number of times. Destroying it in flight is safe: the driver lets it end first.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    handle: ExecutableHandle,
    nodes: usize,
}

/// A recorded graph that nothing can run yet.
struct Template<'a> {
    device: &'a Device,
    handle: GraphHandle,
}

impl Stream {
    /// Begins a capture: what this thread enqueues on the stream is recorded into a graph, until [`Capture::finish`].
    ///
    /// # Errors
    /// [`CudaError::Capture`] if the stream is being captured already, and what else the driver refuses.
    pub fn begin_capture(&self) -> Result<Capture<'_>, CudaError> {
        let device = self.device();
        let _current = device.current()?;
        let driver = device.driver();
        let call = "cuStreamBeginCapture";
        // SAFETY: the stream lives as long as the borrow that the capture holds.
        match unsafe { (driver.table.cuStreamBeginCapture_v2)(StreamHandle(self.raw().0), CAPTURE_THREAD_LOCAL) } {
            code::SUCCESS => Ok(Capture {
                stream: self,
                thread: PhantomData,
            }),
            code::ILLEGAL_STATE => Err(CudaError::Capture {
                call,
                trouble: CaptureTrouble::Nested,
            }),
            other => Err(driver.error(call, other)),
        }
    }
}

impl<'a> Capture<'a> {
    /// Ends the capture, and makes what was recorded ready to run.
    ///
    /// # Errors
    /// [`CudaError::Capture`] that says what was wrong with a call of the capture, and what else the driver refuses.
    pub fn finish(self) -> Result<Graph, CudaError> {
        let device = self.stream.device();
        let _current = device.current()?;
        let ended = self.end();
        // Ended, well or not: there is nothing left to abandon.
        core::mem::forget(self);
        let template = ended?;
        let nodes = template.nodes()?;
        let driver = device.driver();
        let mut handle = ExecutableHandle::NULL;
        driver.check("cuGraphInstantiate", || {
            // SAFETY: `handle` outlives the call, the graph lives; 0 asks for nothing special.
            unsafe { (driver.table.cuGraphInstantiateWithFlags)(&mut handle, template.handle, 0) }
        })?;
        Ok(Graph {
            device: device.clone(),
            handle,
            nodes,
        })
    }

    /// Ends the capture, once.
    fn end(&self) -> Result<Template<'a>, CudaError> {
        let device = self.stream.device();
        let driver = device.driver();
        let mut handle = GraphHandle::NULL;
        let ended = driver.check("cuStreamEndCapture", || {
            // SAFETY: `handle` outlives the call; this thread began the capture of this stream.
            unsafe { (driver.table.cuStreamEndCapture)(StreamHandle(self.stream.raw().0), &mut handle) }
        });
        let template = Template { device, handle };
        ended.map(|()| template)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if let Ok(_current) = self.stream.device().current() {
            // What came of it is destroyed with the value; a refusal means that nothing did.
            drop(self.end());
        }
    }
}

impl Template<'_> {
    fn nodes(&self) -> Result<usize, CudaError> {
        let driver = self.device.driver();
        let mut nodes = 0;
        driver.check("cuGraphGetNodes", || {
            // SAFETY: `nodes` outlives the call, the graph lives; without a list only their number is told.
            unsafe { (driver.table.cuGraphGetNodes)(self.handle, core::ptr::null_mut(), &mut nodes) }
        })?;
        Ok(nodes)
    }
}

impl Drop for Template<'_> {
    fn drop(&mut self) {
        if self.handle == GraphHandle::NULL {
            return;
        }
        if let Ok(_current) = self.device.current() {
            // SAFETY: made by `end`, destroyed once; what was instantiated of it is its own.
            unsafe { (self.device.driver().table.cuGraphDestroy)(self.handle) };
        }
    }
}

impl Graph {
    /// Runs what was captured, in the order of the stream; on a stream that is being captured, records it as one node.
    ///
    /// # Errors
    /// [`CudaError`] if the driver refuses.
    ///
    /// # Safety
    /// The memory that the captured calls name still exists, and nothing else uses it while they run.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        let _current = self.device.current()?;
        let driver = self.device.driver();
        driver.check("cuGraphLaunch", || {
            // SAFETY: graph and stream live; the caller vouches for the memory.
            unsafe { (driver.table.cuGraphLaunch)(self.handle, StreamHandle(stream.raw().0)) }
        })
    }

    /// How many nodes were recorded: kernels, copies, fills and whatever else.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The device that it runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.current() {
            // SAFETY: instantiated once, destroyed once; the driver lets launches end that are under way.
            unsafe { (self.device.driver().table.cuGraphExecDestroy)(self.handle) };
        }
    }
}

/// Counts the graphs, recorded or executable, that hold what a communicator has on its device. The driver drops the counts from
/// a thread of its own, on which it admits no call of itself: so there is nothing behind them but a number.
#[derive(Debug, Default)]
pub(crate) struct Holders(Arc<()>);

impl Holders {
    /// Whether any graph may still run kernels of the communicator.
    pub(crate) fn any(&mut self) -> bool {
        // Exclusive access has seen all that was released by those who dropped theirs.
        Arc::get_mut(&mut self.0).is_none()
    }

    /// Lets a graph, and every one that is made of it, hold a count for as long as it lives.
    pub(crate) fn retain(&self, device: &Device, graph: GraphHandle) -> Result<(), CudaError> {
        let _current = device.current()?;
        let driver = device.driver();
        let count = Arc::into_raw(Arc::clone(&self.0));
        let mut object = UserObjectHandle::NULL;
        let created = driver.check("cuUserObjectCreate", || {
            // SAFETY: `object` outlives the call; the pointer is what `release` takes, and is given to it once.
            unsafe {
                (driver.table.cuUserObjectCreate)(
                    &mut object,
                    count.cast_mut().cast::<c_void>(),
                    release,
                    1,
                    NO_DESTRUCTOR_SYNC,
                )
            }
        });
        if created.is_err() {
            // SAFETY: made above; the driver has refused it, so nobody else gives it back.
            drop(unsafe { Arc::from_raw(count) });
            return created;
        }
        let retained = driver.check("cuGraphRetainUserObject", || {
            // SAFETY: both live: the graph is one that a stream is being captured into. The one reference moves to it.
            unsafe { (driver.table.cuGraphRetainUserObject)(graph, object, 1, MOVE_REFERENCE) }
        });
        if retained.is_err() {
            // SAFETY: the graph has not taken the reference. The driver calls `release` with the count then.
            unsafe { (driver.table.cuUserObjectRelease)(object, 1) };
        }
        retained
    }
}

/// Called by the driver when the last graph is gone.
///
/// # Safety
/// `count` is from [`Arc::into_raw`], and is given here once.
unsafe extern "C" fn release(count: *mut c_void) {
    // SAFETY: as the caller promises.
    drop(unsafe { Arc::from_raw(count.cast_const().cast::<()>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_the_driver_gives_back_no_longer_holds() {
        let mut holders = Holders::default();
        assert!(!holders.any());
        let counts: Vec<_> = (0..2).map(|_| Arc::into_raw(Arc::clone(&holders.0))).collect();
        for count in counts {
            assert!(holders.any());
            let count = count.cast_mut().cast::<c_void>();
            // SAFETY: from `into_raw`, given back once.
            unsafe { release(count) };
        }
        assert!(!holders.any());
    }
}
