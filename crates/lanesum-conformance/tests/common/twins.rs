//! Two executables of one captured graph, which only the driver itself makes.
#![allow(unsafe_code, reason = "asks the driver itself")]

use std::ffi::{c_int, c_ulonglong, c_void};
use std::ptr::null_mut;

use lanesum::Communicator;
use lanesum::cuda::Stream;

use super::graphs::Part;
use super::leaks::{library, make_current};

type Handle = *mut c_void;

/// Executables of one graph, whose calls have equal digests.
pub struct Twins {
    driver: libloading::Library,
    executables: [Handle; 2],
}

impl Twins {
    /// Captures a call of each part.
    pub fn capture(communicator: &Communicator, stream: &Stream, parts: &mut [Part]) -> Twins {
        let mut twins = Twins {
            driver: library(),
            executables: [null_mut(); 2],
        };
        make_current(communicator.device().unwrap().ordinal());
        let capture = stream.begin_capture().unwrap();
        for (position, part) in parts.iter_mut().enumerate() {
            assert_eq!(part.record(communicator, stream).position() as usize, position);
        }
        let mut graph = null_mut();
        let end = twins.function::<unsafe extern "C" fn(Handle, *mut Handle) -> c_int>(b"cuStreamEndCapture\0");
        // SAFETY: this thread began the capture of the stream, which lives.
        assert_eq!(unsafe { end(stream.raw().0, &mut graph) }, 0);
        // It has ended.
        std::mem::forget(capture);
        let instantiate = twins.function::<unsafe extern "C" fn(*mut Handle, Handle, c_ulonglong) -> c_int>(
            b"cuGraphInstantiateWithFlags\0",
        );
        for executable in &mut twins.executables {
            // SAFETY: the graph lives, and `executable` outlives the call.
            assert_eq!(unsafe { instantiate(executable, graph, 0) }, 0);
        }
        assert_eq!(twins.destroy(b"cuGraphDestroy\0", graph), 0);
        twins
    }

    /// Replays one of them. The scenes wait for their streams before they give up the parts or look at them.
    pub fn launch(&self, which: usize, stream: &Stream) {
        let launch = self.function::<unsafe extern "C" fn(Handle, Handle) -> c_int>(b"cuGraphLaunch\0");
        // SAFETY: both live, and so do the parts.
        assert_eq!(unsafe { launch(self.executables[which], stream.raw().0) }, 0);
    }

    fn destroy(&self, name: &[u8], what: Handle) -> c_int {
        let destroy = self.function::<unsafe extern "C" fn(Handle) -> c_int>(name);
        // SAFETY: made by `capture`, and destroyed once; the driver refuses null.
        unsafe { destroy(what) }
    }

    /// A function of the driver, of the type that its manual gives.
    fn function<F: Copy>(&self, name: &[u8]) -> F {
        // SAFETY: who names it gives its signature.
        *unsafe { self.driver.get::<F>(name) }.unwrap()
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        for executable in self.executables {
            let _refused = self.destroy(b"cuGraphExecDestroy\0", executable);
        }
    }
}
