//! What the driver refuses, and what to do about it.

use lanesum_segment::SegmentError;
use thiserror::Error;

use crate::capture_trouble::CaptureTrouble;
use crate::driver::types::{Code, code};

/// Why a CUDA device can't be used, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver library is not there.
    #[error("the CUDA driver library libcuda.so.1 can't be loaded: {reason}")]
    NoLibrary {
        /// The loader's words.
        reason: String,
    },
    /// The driver library lacks a function.
    #[error("the CUDA driver library has no function {symbol}")]
    MissingSymbol {
        /// Its name.
        symbol: &'static str,
    },
    /// The driver is older than what the kernels need.
    #[error("the CUDA driver is of version {}.{}, {}.{} is needed", .found / 1000, .found % 1000 / 10, .needed / 1000, .needed % 1000 / 10)]
    OldDriver {
        /// Version found: 1000 times the major number and 10 times the minor one.
        found: i32,
        /// The oldest that will do.
        needed: i32,
    },
    /// There is no GPU, or none that this process may see.
    #[error("the CUDA driver shows no device to this process")]
    NoDevice,
    /// There is no GPU of this number.
    #[error("device {asked} was asked for, and this process sees {count}")]
    NoSuchDevice {
        /// Number asked for.
        asked: usize,
        /// Devices there are.
        count: usize,
    },
    /// The GPU admits one process only, and another has it; or none at all.
    #[error("device {device} is in compute mode {mode} and can't be shared with the process that has it")]
    ComputeMode {
        /// Number of the device.
        device: usize,
        /// Its mode.
        mode: &'static str,
    },
    /// The device lacks something that is needed.
    #[error("device {device} lacks {what}")]
    Lacks {
        /// Its name.
        device: String,
        /// What is missing.
        what: &'static str,
    },
    /// No memory is left.
    #[error("{call} found no memory for {what} ({bytes} B)")]
    OutOfMemory {
        /// The call.
        call: &'static str,
        /// What for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
    },
    /// No shipped image runs on the device.
    #[error("no shipped kernel image runs on a device of compute capability {}.{}: {reason}", .compute.0, .compute.1)]
    NoImage {
        /// Compute capability.
        compute: (u32, u32),
        /// The driver's last words.
        reason: String,
    },
    /// Work on the device did not end in time.
    #[error("{what} did not end within {ms} ms")]
    Late {
        /// What was waited for.
        what: &'static str,
        /// Milliseconds waited.
        ms: u128,
    },
    /// Host memory for GPUs to stage in can't be had.
    #[error("host memory for GPUs to stage in: {0}")]
    HostMemory(#[from] SegmentError),
    /// All inboxes together are more than the ranks' control group may use.
    #[error(
        "the ranks would pin {bytes} B of host memory for GPUs to stage in, and their control group may use {limit} B"
    )]
    HostLimit {
        /// All ranks' together.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The driver does not let the GPU use host memory.
    #[error("the GPU can't use {bytes} B of host memory: cuMemHostRegister failed: {name} ({text})")]
    Pinning {
        /// How much.
        bytes: u64,
        /// The driver's name for why.
        name: String,
        /// The driver's explanation.
        text: String,
    },
    /// Neither way between the ranks' GPUs can be had.
    #[error("{peer}; and then, on the way through host memory, {host}")]
    NoWay {
        /// Why peer access is not.
        peer: String,
        /// Why host memory is not.
        host: Box<CudaError>,
    },
    /// What a peer told of its memory can't be understood.
    #[error("rank {rank} described its memory in a way that no rank of this build does")]
    Description {
        /// The peer.
        rank: usize,
    },
    /// A copy between buffers of different lengths.
    #[error("a copy between {host} elements on the host and {device} on the device")]
    Lengths {
        /// Elements on the host.
        host: usize,
        /// Elements on the device.
        device: usize,
    },
    /// Something that a capture into a graph forbids.
    #[error("{call} was refused: {trouble}")]
    Capture {
        /// The call.
        call: &'static str,
        /// What is forbidden.
        trouble: CaptureTrouble,
    },
    /// The device has not come to an event yet.
    #[error("the device has not come to the {which} event yet")]
    NotReached {
        /// Which of the two.
        which: &'static str,
    },
    /// A time was asked of an event that was never recorded.
    #[error("one of the two events was never recorded")]
    Unrecorded,
    /// Any other refusal.
    #[error("{call} failed: {name} ({text})")]
    Driver {
        /// The call.
        call: &'static str,
        /// The code.
        code: i32,
        /// The driver's name for it.
        name: String,
        /// The driver's explanation.
        text: String,
    },
}

impl CudaError {
    pub(crate) fn of(call: &'static str, code: Code, name: String, text: String) -> Self {
        match code {
            code::NO_DEVICE => Self::NoDevice,
            _ => match CaptureTrouble::of(code) {
                Some(trouble) => Self::Capture { call, trouble },
                None => Self::Driver { call, code, name, text },
            },
        }
    }

    /// The refused call and why, where only a capture stands in the way: the device is well.
    pub(crate) fn capture_trouble(&self) -> Option<(&'static str, CaptureTrouble)> {
        if let Self::Capture { call, trouble } = self {
            return Some((call, *trouble));
        }
        None
    }

    /// Names what memory was for, where none was left.
    pub(crate) fn for_memory(self, what: &'static str, bytes: u64) -> Self {
        if let (Some(code::OUT_OF_MEMORY), Self::Driver { call, .. }) = (self.code(), &self) {
            return Self::OutOfMemory { call, what, bytes };
        }
        self
    }

    /// Says that host memory was refused.
    pub(crate) fn for_pinning(self, bytes: u64) -> Self {
        if let Self::Driver { name, text, .. } = self {
            return Self::Pinning { bytes, name, text };
        }
        self
    }

    /// Whether the driver refuses something that another way may do without: not for want of memory, and with a device that is well.
    pub(crate) fn is_refusal(&self) -> bool {
        self.code()
            .is_some_and(|code| code != code::OUT_OF_MEMORY && !(700..=719).contains(&code))
    }

    /// The driver's code, where it gave one that no other variant stands for.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Driver { code, .. } => Some(*code),
            Self::NoLibrary { .. }
            | Self::MissingSymbol { .. }
            | Self::OldDriver { .. }
            | Self::NoDevice
            | Self::NoSuchDevice { .. }
            | Self::ComputeMode { .. }
            | Self::Lacks { .. }
            | Self::OutOfMemory { .. }
            | Self::NoImage { .. }
            | Self::Late { .. }
            | Self::Lengths { .. }
            | Self::HostMemory(_)
            | Self::HostLimit { .. }
            | Self::NoWay { .. }
            | Self::Pinning { .. }
            | Self::Description { .. }
            | Self::Capture { .. }
            | Self::NotReached { .. }
            | Self::Unrecorded => None,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        let fixed = match self {
            Self::NoLibrary { .. } => {
                "install the NVIDIA driver (the library comes with it, not with the toolkit); in a container, start it with \
                 the GPUs passed through; or take the host engine"
            }
            Self::MissingSymbol { .. } | Self::OldDriver { .. } => {
                "update the NVIDIA driver to 530 or newer, or take the host engine"
            }
            Self::NoDevice => {
                "see what nvidia-smi lists, and whether CUDA_VISIBLE_DEVICES hides it; or take the host engine"
            }
            Self::NoSuchDevice { .. } => "count devices from 0, among those that CUDA_VISIBLE_DEVICES leaves",
            Self::ComputeMode { .. } => {
                "let one rank have each device, start CUDA MPS so that ranks share one, or ask the administrator for compute \
                 mode DEFAULT"
            }
            Self::Lacks { .. } => "take another device, or the host engine",
            Self::OutOfMemory { .. } => {
                "leave the device more free memory (a framework's pool may hold it), or lower the builder's `staging`"
            }
            Self::NoImage { .. } => "update the NVIDIA driver; devices from compute capability 7.0 on are served",
            Self::Late { .. } => {
                "see what else the device does; without CUDA MPS, processes that share a device take turns of milliseconds"
            }
            Self::Lengths { .. } => "give buffers of the same length",
            Self::HostMemory(error) => error.hint().unwrap_or("give host memory, or take the host engine"),
            Self::NoWay { host, .. } => return host.hint(),
            Self::HostLimit { .. } => "raise the memory limit of the container, or lower the builder's `staging`",
            Self::Pinning { .. } => {
                "raise the memory limit of the container, or lower the builder's `staging`; WSL pins little memory, and some \
                 virtual machines none: take the host engine there"
            }
            Self::Description { .. } => "check that all ranks run the same build",
            Self::Capture { trouble, .. } => trouble.hint(),
            Self::NotReached { .. } => "wait for the stream that it was recorded on first",
            Self::Unrecorded => {
                "record both events on streams, outside of captures, before asking for the time between them"
            }
            Self::Driver { code, .. } => return Self::hint_for(*code).to_owned(),
        };
        fixed.to_owned()
    }

    fn hint_for(code: Code) -> &'static str {
        match code {
            code::OUT_OF_MEMORY => "leave the device more free memory",
            code::SYSTEM_DRIVER_MISMATCH => {
                "the driver's library and its kernel module differ: reboot, or reload the module"
            }
            code::MPS_CONNECTION_FAILED..=809 => {
                "the CUDA MPS server can't be reached: see its log (CUDA_MPS_LOG_DIRECTORY), or unset CUDA_MPS_PIPE_DIRECTORY"
            }
            code::DEVICE_UNAVAILABLE => {
                "another process has the device in exclusive mode: see nvidia-smi -q -d COMPUTE"
            }
            code::NOT_PERMITTED | code::NOT_SUPPORTED => {
                "this environment (vGPU, WSL, container) may forbid it: take the path host_staged (or auto), or the host engine"
            }
            700..=719 => {
                "a kernel of this process has failed before, and the device is lost to it; look for the first error and start \
                 the process anew"
            }
            code::UNKNOWN => "see the kernel log for NVRM messages (dmesg)",
            _ => "see the driver's documentation of this code, and the kernel log for NVRM messages (dmesg)",
        }
    }
}
