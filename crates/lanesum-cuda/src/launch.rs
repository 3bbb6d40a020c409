//! How a kernel gets onto a stream, and when it may start.

use core::ffi::c_void;

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
        Self::beside_others(fit, device.facts().multiprocessors)
    }

    /// No call that waits for its turn may keep one from running that it waits for. A GPU with one rank has all blocks of a call before any
    /// of the next. Where ranks share it, those of one rank's next call must leave room for those of another's present one. There are two
    /// calls of each rank at most, and of each no more blocks than make one for every multiprocessor over all ranks. Two calls of each have
    /// room if there are twice as many multiprocessors; or if two blocks have room on each, which is so for blocks of half of the threads
    /// that kernels are compiled for: their registers suffice for one of all.
    fn beside_others(fit: &DeviceFit, multiprocessors: u32) -> Self {
        let two_of_each = 2 * u64::from(fit.lanes()) * u64::from(fit.crowd());
        if fit.crowd() == 1 || two_of_each <= u64::from(multiprocessors) {
            Self::All
        } else {
            Self::Narrow(fit.threads() / 2)
        }
    }

    /// When a kernel starts that comes behind one of so many threads a block; behind none if 0.
    #[inline]
    pub(crate) fn start(self, threads: u32, before: u32) -> Start {
        match self {
            Self::All => Start::Early,
            Self::Narrow(most) if threads.max(before) <= most => Start::Early,
            Self::Narrow(_) | Self::None => Start::InTurn,
        }
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
    use lanesum_plan::{Bytes, Gpus, Limits, RankGpu, WorldSize, device_fit};

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
    fn ranks_that_share_a_gpu_need_room_for_two_calls_of_each() {
        let headway = |ranks: usize, distinct: usize, multiprocessors| {
            let gpu = |rank: usize| RankGpu {
                uuid: (rank % distinct).to_string(),
                pci_bus_id: (rank % distinct).to_string(),
                name: String::new(),
                compute: (9, 0),
                multiprocessors,
                threads_per_block: 1024,
                memory: Bytes::new(0),
                driver: 0,
                watchdog: false,
                numa_node: None,
                stand_in: true,
            };
            let gpus = Gpus::new((0..ranks).map(gpu).collect());
            let world = WorldSize::new(ranks).expect("a few");
            let fit = device_fit(Limits::default(), Some(&gpus), world).expect("a GPU for each");
            Headway::beside_others(&fit, multiprocessors)
        };
        assert_eq!(headway(2, 2, 8), Headway::All);
        assert_eq!(headway(2, 1, 132), Headway::All);
        assert_eq!(headway(2, 1, 128), Headway::All);
        // 32 lanes each, of up to 768 threads.
        assert_eq!(headway(2, 1, 127), Headway::Narrow(384));
        assert_eq!(headway(4, 1, 132), Headway::Narrow(384));
        assert_eq!(headway(8, 1, 132), Headway::Narrow(256));
    }

    #[test]
    fn narrow_calls_start_early_behind_narrow_ones() {
        let headway = Headway::Narrow(256);
        assert_eq!(headway.start(256, 0), Start::Early);
        assert_eq!(headway.start(32, 256), Start::Early);
        assert_eq!(headway.start(288, 256), Start::InTurn);
        assert_eq!(headway.start(32, 288), Start::InTurn);
        assert_eq!(Headway::All.start(768, 768), Start::Early);
        assert_eq!(Headway::None.start(32, 32), Start::InTurn);
    }
}
