//! Ranges for NVIDIA's profilers, if a library of theirs is there: each call's enqueue has one, named after what runs. So a captured
//! call has one where it is recorded, and none in replays, of which the host knows nothing.
//!
//! Where no library is, a range costs one look at a word that never changes. NVTX 3 is otherwise a header that looks for the profiler
//! itself (`NVTX_INJECTION64_PATH`); what it does is not done again here, so a profiler is heard of through one of the libraries only.

use core::ffi::{c_char, c_int};
use core::marker::PhantomData;
use std::ffi::CString;
use std::sync::OnceLock;

use lanesum_plan::{AlgorithmName, Dtype, Operation};

/// The first that is there and whole: CUDA 13's, which is NVTX 3 for languages that do not read its headers, and that of CUDA up to 12.
const LIBRARIES: [&str; 2] = ["libnvtx3interop.so.1", "libnvToolsExt.so.1"];

struct Tools {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
    /// By algorithm, dtype and operation, made once: the profiler keeps pointers to them.
    names: Vec<CString>,
    /// Keeps the functions where they are.
    _library: libloading::Library,
}

static TOOLS: OnceLock<Option<Tools>> = OnceLock::new();

/// A range of this thread, which ends when the value is dropped.
#[must_use = "the range ends when this is dropped"]
#[derive(Debug)]
pub struct Range {
    pushed: bool,
    /// Ranges are nested on the thread that began them.
    thread: PhantomData<*mut ()>,
}

/// Begins the range of a call, if `load` has found a library.
#[inline]
pub fn range(algorithm: AlgorithmName, dtype: Dtype, operation: Operation) -> Range {
    let pushed = match TOOLS.get() {
        Some(Some(tools)) => tools.push(place(algorithm, dtype, operation)),
        Some(None) | None => false,
    };
    Range {
        pushed,
        thread: PhantomData,
    }
}

/// Looks for a library, once in a process: no call ever does.
pub(crate) fn load() {
    TOOLS.get_or_init(|| LIBRARIES.into_iter().find_map(Tools::load));
}

impl Tools {
    fn load(name: &str) -> Option<Self> {
        // SAFETY: the library's initialisers are those of NVIDIA's tools, made to be run by any program.
        let library = unsafe { libloading::Library::new(name) }.ok()?;
        let push = {
            // SAFETY: the signature is that of the tools' header.
            let symbol = unsafe { library.get::<unsafe extern "C" fn(*const c_char) -> c_int>(b"nvtxRangePushA\0") };
            *symbol.ok()?
        };
        let pop = {
            // SAFETY: as above.
            let symbol = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"nvtxRangePop\0") };
            *symbol.ok()?
        };
        Some(Self {
            push,
            pop,
            names: names(),
            _library: library,
        })
    }

    #[cold]
    fn push(&self, place: usize) -> bool {
        let Some(name) = self.names.get(place) else {
            return false;
        };
        // SAFETY: the name ends with a NUL and lives as long as the process.
        unsafe { (self.push)(name.as_ptr()) };
        true
    }
}

impl Drop for Range {
    #[inline]
    fn drop(&mut self) {
        if self.pushed
            && let Some(Some(tools)) = TOOLS.get()
        {
            // SAFETY: ends what this thread began; ranges inside have ended, as these values live on the stack.
            unsafe { (tools.pop)() };
        }
    }
}

fn place(algorithm: AlgorithmName, dtype: Dtype, operation: Operation) -> usize {
    (algorithm as usize * Dtype::ALL.len() + dtype as usize) * Operation::ALL.len() + operation as usize
}

/// In the order of [`place`]. Words have no NUL inside.
fn names() -> Vec<CString> {
    let mut names = Vec::new();
    for algorithm in AlgorithmName::ALL {
        for dtype in Dtype::ALL {
            for operation in Operation::ALL {
                let name = format!("lanesum all_reduce {algorithm} {dtype} {operation}");
                names.push(CString::new(name).unwrap_or_default());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_finds_its_own_name() {
        let names = names();
        for algorithm in AlgorithmName::ALL {
            for dtype in Dtype::ALL {
                for operation in Operation::ALL {
                    let name = names[place(algorithm, dtype, operation)].to_str().unwrap();
                    assert_eq!(name, format!("lanesum all_reduce {algorithm} {dtype} {operation}"));
                }
            }
        }
    }

    #[test]
    fn without_a_library_a_range_is_nothing() {
        assert!(Tools::load("libno-such-tools.so.1").is_none());
        let range = range(AlgorithmName::OneShotPush, Dtype::Bf16, Operation::Sum);
        assert!(!range.pushed || TOOLS.get().is_some_and(Option::is_some));
    }
}
