//! What is compiled: each source for each world size that it serves, and that for two architectures.

use std::fmt;
use std::ops::RangeInclusive;

/// The compute capabilities whose machine code is shipped beside the PTX. They are the same for all modules: calls and what the bench
/// compares them with must come from one compiler, or the bench compares compilers.
pub const SHIPPED: [u32; 5] = [80, 89, 90, 100, 120];

/// What PTX is made for: the oldest GPUs whose instructions it may use. Every later one takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// For all GPUs that are supported; shipped too.
    Compute70,
    /// For those that launch a kernel while the one before it runs: only machine code is made of it.
    Compute90,
}

impl Architecture {
    /// Ascending.
    pub const ALL: [Architecture; 2] = [Architecture::Compute70, Architecture::Compute90];

    /// The one whose PTX machine code for this capability is made of.
    pub const fn of(sm: u32) -> Architecture {
        if sm < 90 {
            Architecture::Compute70
        } else {
            Architecture::Compute90
        }
    }

    /// How the compiler is told.
    pub const fn option(self) -> &'static str {
        match self {
            Architecture::Compute70 => "--gpu-architecture=compute_70",
            Architecture::Compute90 => "--gpu-architecture=compute_90",
        }
    }

    /// Whether its kernels await the one before them themselves.
    pub const fn awaits(self) -> bool {
        match self {
            Architecture::Compute70 => false,
            Architecture::Compute90 => true,
        }
    }

    /// Whether its PTX is shipped.
    pub const fn is_shipped(self) -> bool {
        match self {
            Architecture::Compute70 => true,
            Architecture::Compute90 => false,
        }
    }

    /// How often each source is compiled again for it before images are written. The sources and the compiler are the same, so the
    /// second architecture is asked less often.
    pub const fn repeats(self) -> usize {
        match self {
            Architecture::Compute70 => 4,
            Architecture::Compute90 => 1,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::Compute70 => "compute_70",
            Architecture::Compute90 => "compute_90",
        })
    }
}

/// A source whose kernels are loaded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// What calls launch.
    Calls,
    /// What only the bench launches.
    Bench,
}

impl Module {
    /// In the order of their lists.
    pub const ALL: [Module; 2] = [Module::Calls, Module::Bench];

    /// Its place from the root.
    pub const fn source(self) -> &'static str {
        match self {
            Module::Calls => "kernels/lanesum.cu",
            Module::Bench => "kernels/bench.cu",
        }
    }

    /// The world sizes that it has kernels for. Alone there is nothing to measure.
    pub const fn worlds(self) -> RangeInclusive<u8> {
        match self {
            Module::Calls => 1..=8,
            Module::Bench => 2..=8,
        }
    }

    /// Those capabilities whose machine code is only made and judged.
    pub const fn tried(self) -> &'static [u32] {
        match self {
            Module::Calls => &[75],
            Module::Bench => &[],
        }
    }

    /// Every capability whose machine code is made, ascending.
    pub fn made(self) -> Vec<u32> {
        let mut made = [self.tried(), &SHIPPED].concat();
        made.sort_unstable();
        made
    }
}

/// A module for one world size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    pub module: Module,
    pub world: u8,
}

impl Unit {
    /// All of them, by module and then by world size.
    pub fn all() -> Vec<Unit> {
        let of = |module: Module| module.worlds().map(move |world| Unit { module, world });
        Module::ALL.into_iter().flat_map(of).collect()
    }

    /// What the names of its files start with.
    pub fn stem(self) -> String {
        match self.module {
            Module::Calls => format!("w{}", self.world),
            Module::Bench => format!("bench_w{}", self.world),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.module {
            Module::Calls => write!(f, "world {}", self.world),
            Module::Bench => write!(f, "world {}, bench", self.world),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_has_files_of_its_own() {
        let mut stems: Vec<String> = Unit::all().into_iter().map(Unit::stem).collect();
        assert_eq!((stems[0].as_str(), stems[8].as_str()), ("w1", "bench_w2"));
        stems.sort();
        stems.dedup();
        assert_eq!(stems.len(), Unit::all().len());
    }

    #[test]
    fn machine_code_is_made_of_the_newest_ptx_that_its_gpu_takes() {
        let newest = |sm: u32| match Architecture::of(sm) {
            Architecture::Compute70 => 70,
            Architecture::Compute90 => 90,
        };
        let made: Vec<u32> = Module::Calls.made().into_iter().map(newest).collect();
        assert_eq!(made, [70, 70, 70, 90, 90, 90]);
    }

    #[test]
    fn what_is_compared_is_assembled_for_the_same_targets() {
        assert_eq!(Module::Calls.made(), [75, 80, 89, 90, 100, 120]);
        assert_eq!(Module::Bench.made(), SHIPPED);
    }
}
