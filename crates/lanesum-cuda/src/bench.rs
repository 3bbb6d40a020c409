//! Kernels that measure what a call can't go below, and what its guards cost; only the bench loads them. Those without a deadline may
//! wait for ever: who enqueues them is a process that its parent ends.

use lanesum_plan::Grid;

use crate::device::Device;
use crate::driver::types::FunctionHandle;
use crate::error::CudaError;
use crate::images::{BENCH_IMAGES, Image, Target};
use crate::module::Loaded;

/// What is launched in place of a call. Sums are of bf16, by one shot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BenchKernel {
    /// A kernel that does nothing.
    Empty,
    /// One word to each peer and one from each: nothing that ranks agree on can be faster.
    FlagRound,
    /// A call that neither posts nor awaits headers.
    NoHeader,
    /// A call whose waits look at no clock.
    NoDeadline,
    /// A call without any guard.
    Bare,
}

impl BenchKernel {
    /// All of them, in the order of their codes.
    pub const ALL: [BenchKernel; 5] = [
        BenchKernel::Empty,
        BenchKernel::FlagRound,
        BenchKernel::NoHeader,
        BenchKernel::NoDeadline,
        BenchKernel::Bare,
    ];

    /// Whether it sums nothing.
    pub(crate) const fn is_floor(self) -> bool {
        matches!(self, Self::Empty | Self::FlagRound)
    }

    /// Blocks and threads, for a call of this grid. The floors are of one block: a flag round advances the one lane that it uses.
    pub(crate) const fn shape(self, grid: Grid) -> (u32, u32) {
        match self {
            Self::Empty | Self::FlagRound => (1, 32),
            Self::NoHeader | Self::NoDeadline | Self::Bare => (grid.blocks, grid.threads),
        }
    }

    /// The name of its entry.
    pub(crate) fn entry(self, world: usize) -> String {
        let what = match self {
            Self::Empty => "empty",
            Self::FlagRound => "flag_round",
            Self::NoHeader => "no_header",
            Self::NoDeadline => "no_deadline",
            Self::Bare => "bare",
        };
        format!("bench_{what}_w{world}")
    }
}

/// The loaded kernels of the bench.
#[derive(Debug)]
pub(crate) struct BenchModule {
    functions: [FunctionHandle; BenchKernel::ALL.len()],
    _loaded: Loaded,
}

impl BenchModule {
    /// Loads the image that is of the same world and target as the one that calls run from: beside kernels of another compiler's,
    /// times would compare compilers.
    pub(crate) fn load(device: &Device, world: usize, calls: Target) -> Result<Self, CudaError> {
        let image = bench_image(world, calls).ok_or_else(|| CudaError::NoImage {
            compute: device.facts().compute,
            reason: format!(
                "calls of {world} ranks run from {}, and the bench has none",
                words(calls)
            ),
        })?;
        let loaded = Loaded::new(device, image)?;
        let mut functions = [FunctionHandle::NULL; BenchKernel::ALL.len()];
        for kernel in BenchKernel::ALL {
            functions[kernel as usize] = loaded.function(&kernel.entry(world))?;
        }
        Ok(Self {
            functions,
            _loaded: loaded,
        })
    }

    pub(crate) fn function(&self, kernel: BenchKernel) -> FunctionHandle {
        self.functions[kernel as usize]
    }
}

/// The image of a world size for a target; a world of one has none.
fn bench_image(world: usize, target: Target) -> Option<&'static Image> {
    BENCH_IMAGES
        .iter()
        .find(|image| usize::from(image.world) == world && image.target == target)
}

fn words(target: Target) -> String {
    match target {
        Target::Ptx => "PTX".to_owned(),
        Target::Cubin(sm) => format!("machine code for sm_{sm}"),
    }
}
