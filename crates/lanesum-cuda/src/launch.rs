//! How a kernel gets onto a stream, and when it may start.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};

use lanesum_plan::DeviceFit;

use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::images::Target;
use crate::stream::RawStream;

/// The first compute capability whose machine code awaits the kernel before it by itself (`await_previous` of the kernels).
const FIRST_AWAITING: u32 = 90;
/// The driver API version from which launches ahead of time may be captured into graphs: CUDA 12.3.
const FIRST_CAPTURING: i32 = 12030;

/// When a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// When what is before it in its stream has ended.
    InTurn,
    /// As soon as the kernel before it lets it, so that the launch takes no time of its own. It awaits that kernel's end itself.
    Early,
}

/// An entry of a module, and how it is launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) function: FunctionHandle,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) start: Start,
}

/// Which calls of a communicator may start early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headway {
    /// None.
    None,
    /// Those of so many threads a block at most, if the call before had no more.
    Narrow(u32),
    /// All.
    All,
}

impl Headway {
    /// That of calls whose kernels come from this image; and of what a bench compares with them.
    pub(crate) fn of_calls(device: &Device, fit: &DeviceFit, target: Target) -> Self {
        if !awaits(target) || device.driver().version() < FIRST_CAPTURING {
            return Self::None;
        }
        let shape = (fit.lanes(), fit.threads());
        Self::beside_others(shape, fit.crowd(), device.facts().multiprocessors)
    }

    /// No call that waits for its turn may keep one from running that it waits for. There are two calls of each rank at most, and of each
    /// no more blocks than make one for every multiprocessor over all ranks. Where ranks share a GPU, those of one rank's next call must
    /// leave room for those of another's present one; where a GPU has one rank, for those of another communicator's. Two calls of each have
    /// room if there are twice as many multiprocessors; or if two blocks have room on each, which is so for blocks of half of the threads
    /// that kernels are compiled for: their registers suffice for one of all.
    fn beside_others((lanes, threads): (u32, u32), crowd: u32, multiprocessors: u32) -> Self {
        let two_of_each = 2 * u64::from(lanes) * u64::from(crowd);
        if two_of_each <= u64::from(multiprocessors) {
            Self::All
        } else {
            Self::Narrow(threads / 2)
        }
    }

    /// When a kernel starts that comes behind one of so many threads a block; `None` if that is not known, as behind a call of another
    /// communicator.
    #[inline]
    pub(crate) fn start(self, threads: u32, before: Option<u32>) -> Start {
        match (self, before) {
            (Self::All, _) => Start::Early,
            (Self::Narrow(most), Some(before)) if threads.max(before) <= most => Start::Early,
            (Self::Narrow(_) | Self::None, _) => Start::InTurn,
        }
    }
}

/// A communicator among those of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launcher(u64);

/// Who has last launched a call on each device, by ordinal; 0 is nobody. Devices of the same place count as one, which only makes calls
/// start in their turn.
static LAST: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

impl Launcher {
    /// One that there was not before.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Launches on a device: whether nobody else of this process did so since the last time. It says nothing of memory.
    #[inline]
    pub(crate) fn was_last(self, ordinal: usize) -> bool {
        let place = LAST.get(ordinal % LAST.len());
        place.is_some_and(|place| place.swap(self.0, Ordering::Relaxed) == self.0)
    }
}

fn awaits(target: Target) -> bool {
    match target {
        Target::Ptx => false,
        Target::Cubin(sm) => sm >= FIRST_AWAITING,
    }
}

impl Entry {
    /// One block of one warp, for what is no call.
    pub(crate) fn notice(function: FunctionHandle) -> Self {
        Self {
            function,
            blocks: 1,
            threads: 32,
            start: Start::InTurn,
        }
    }
}

/// Enqueues a kernel with one parameter, given by value.
#[inline]
pub(crate) fn launch<P: Copy>(
    device: &Device,
    entry: Entry,
    parameter: &P,
    stream: RawStream,
) -> Result<(), CudaError> {
    let _current = device.current()?;
    launch_here(device, entry, parameter, stream)
}

/// As [`launch`], where the context is current.
#[inline]
pub(crate) fn launch_here<P: Copy>(
    device: &Device,
    entry: Entry,
    parameter: &P,
    stream: RawStream,
) -> Result<(), CudaError> {
    let attributes: &'static [LaunchAttribute] = match entry.start {
        Start::InTurn => &[],
        Start::Early => &[LaunchAttribute::PROGRAMMATIC_STREAM_SERIALIZATION],
    };
    let config = LaunchConfig {
        grid: [entry.blocks, 1, 1],
        block: [entry.threads, 1, 1],
        shared_bytes: 0,
        stream: StreamHandle(stream.0),
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len() as u32,
    };
    let driver = device.driver();
    let mut parameters = [core::ptr::from_ref(parameter).cast_mut().cast::<c_void>()];
    driver.check("cuLaunchKernelEx", || {
        // SAFETY: the driver copies the parameter, whose layout is that of the kernel's, and the configuration before it returns; the
        // function belongs to a loaded module, the stream lives. Only kernels that await the one before them start early.
        unsafe {
            (driver.table.cuLaunchKernelEx)(&config, entry.function, parameters.as_mut_ptr(), core::ptr::null_mut())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_machine_code_that_awaits_starts_early() {
        let early: Vec<u32> = [80, 89, 90, 100, 120]
            .into_iter()
            .filter(|&sm| awaits(Target::Cubin(sm)))
            .collect();
        assert_eq!(early, [90, 100, 120]);
        assert!(!awaits(Target::Ptx));
    }

    #[test]
    fn two_calls_of_each_need_room() {
        let headway = |crowd, multiprocessors| Headway::beside_others((32, 768), crowd, multiprocessors);
        assert_eq!([headway(1, 132), headway(1, 64)], [Headway::All; 2]);
        assert_eq!([headway(2, 132), headway(2, 128)], [Headway::All; 2]);
        // Beside those of another communicator, and of others.
        assert_eq!(headway(1, 63), Headway::Narrow(384));
        assert_eq!([headway(2, 127), headway(4, 132)], [Headway::Narrow(384); 2]);
        assert_eq!(Headway::beside_others((16, 512), 8, 132), Headway::Narrow(256));
    }

    #[test]
    fn narrow_calls_start_early_behind_narrow_ones() {
        let headway = Headway::Narrow(256);
        assert_eq!(headway.start(256, Some(32)), Start::Early);
        assert_eq!(headway.start(32, Some(256)), Start::Early);
        assert_eq!(headway.start(288, Some(256)), Start::InTurn);
        assert_eq!(headway.start(32, Some(288)), Start::InTurn);
        assert_eq!(headway.start(32, None), Start::InTurn);
        assert_eq!(Headway::All.start(768, None), Start::Early);
        assert_eq!(Headway::None.start(32, Some(32)), Start::InTurn);
    }

    #[test]
    fn who_launches_learns_whether_another_did() {
        // A device of no other test.
        let (one, other) = (Launcher::new(), Launcher::new());
        assert!(!one.was_last(15) && one.was_last(15));
        assert!(!other.was_last(15) && !one.was_last(15) && one.was_last(15));
    }
}
