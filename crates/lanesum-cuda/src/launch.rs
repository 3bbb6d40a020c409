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

impl Start {
    /// When calls of a communicator start, whose kernels come from this image; and what a bench compares with them.
    pub(crate) fn of_calls(device: &Device, fit: &DeviceFit, target: Target) -> Self {
        let multiprocessors = device.facts().multiprocessors;
        let has_room = has_room(fit.lanes(), fit.crowd(), multiprocessors);
        if awaits(target) && device.driver().version() >= FIRST_CAPTURING && has_room {
            Self::Early
        } else {
            Self::InTurn
        }
    }
}

fn awaits(target: Target) -> bool {
    match target {
        Target::Ptx => false,
        Target::Cubin(sm) => sm >= FIRST_AWAITING,
    }
}

/// Whether no call that waits for its turn keeps one from running that it waits for. A GPU with one rank has all blocks of a call
/// before any of the next. Where ranks share it, those of one rank's next call must leave room for those of another's present one:
/// there are two calls of each rank at most, and a block needs at most a multiprocessor.
fn has_room(lanes: u32, crowd: u32, multiprocessors: u32) -> bool {
    crowd == 1 || 2 * u64::from(lanes) * u64::from(crowd) <= u64::from(multiprocessors)
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
    fn ranks_that_share_a_gpu_need_room_for_two_calls_of_each() {
        assert!(has_room(32, 1, 132) && has_room(8, 1, 8));
        assert!(has_room(32, 2, 132) && has_room(32, 2, 128));
        assert!(!has_room(32, 2, 127) && !has_room(32, 4, 132) && !has_room(16, 8, 132));
    }
}
