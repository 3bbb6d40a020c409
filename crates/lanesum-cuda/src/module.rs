//! The kernels of one world size, loaded at set-up so that no call ever loads or compiles.

use core::ffi::c_void;
use std::ffi::CString;
use std::io::Read;

use lanesum_plan::{AlgorithmName, Dtype, Kernel, Operation};
use lzma_rust2::LzmaReader;

use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::images::{IMAGES, Image, Target};

/// An image on the device.
#[derive(Debug)]
pub(crate) struct Loaded {
    device: Device,
    handle: ModuleHandle,
}

/// By dtype and operation.
type Functions = [[FunctionHandle; Operation::ALL.len()]; Dtype::ALL.len()];

/// The loaded kernels.
#[derive(Debug)]
pub(crate) struct Module {
    one_shot_push: Functions,
    /// Null in a world of one, for which no plan decides it.
    two_shot_push: Functions,
    /// For all dtypes and operations; null in a world of one.
    chunks: FunctionHandle,
    pub(crate) farewell: FunctionHandle,
    pub(crate) prove: FunctionHandle,
    /// Which image of this world's it is.
    pub(crate) target: Target,
    _loaded: Loaded,
}

impl Module {
    /// Loads the best image for the device: machine code for it, else for an older one of its family, else PTX, which the
    /// driver compiles (once; it keeps what it made).
    pub(crate) fn load(device: &Device, world: usize) -> Result<Self, CudaError> {
        let compute = device.facts().compute;
        let mut reason = "none is shipped for this number of ranks".to_owned();
        for image in candidates(world, compute) {
            match Loaded::new(device, image) {
                Ok(loaded) => return Self::complete(loaded, world, image.target),
                Err(error) if is_unfit(&error) => reason = error.to_string(),
                Err(error) => return Err(error),
            }
        }
        Err(CudaError::NoImage { compute, reason })
    }

    fn complete(loaded: Loaded, world: usize, target: Target) -> Result<Self, CudaError> {
        let (two_shot_push, chunks) = match world {
            0 | 1 => (
                [[FunctionHandle::NULL; Operation::ALL.len()]; Dtype::ALL.len()],
                FunctionHandle::NULL,
            ),
            _ => (
                loaded.functions(AlgorithmName::TwoShotPush, world)?,
                loaded.function(&format!("chunks_w{world}"))?,
            ),
        };
        Ok(Self {
            one_shot_push: loaded.functions(AlgorithmName::OneShotPush, world)?,
            two_shot_push,
            chunks,
            farewell: loaded.function("lanesum_farewell")?,
            prove: loaded.function("lanesum_prove")?,
            target,
            _loaded: loaded,
        })
    }

    #[inline]
    pub(crate) fn function(&self, kernel: Kernel, dtype: Dtype, operation: Operation) -> FunctionHandle {
        let functions = match kernel {
            Kernel::OneShotPush => &self.one_shot_push,
            Kernel::TwoShotPush => &self.two_shot_push,
            Kernel::Chunks => return self.chunks,
        };
        functions[dtype as usize][operation as usize]
    }
}

impl Loaded {
    pub(crate) fn new(device: &Device, image: &Image) -> Result<Self, CudaError> {
        let _current = device.current()?;
        let driver = device.driver();
        // The NUL ends PTX; behind machine code it harms nothing.
        let mut bytes = unpacked(image).unwrap_or_default();
        bytes.push(0);
        let mut handle = ModuleHandle::NULL;
        driver.check("cuModuleLoadData", || {
            // SAFETY: the image is whole and NUL-terminated, both outlive the call.
            unsafe { (driver.table.cuModuleLoadData)(&mut handle, bytes.as_ptr().cast::<c_void>()) }
        })?;
        Ok(Self {
            device: device.clone(),
            handle,
        })
    }

    pub(crate) fn function(&self, name: &str) -> Result<FunctionHandle, CudaError> {
        let driver = self.device.driver();
        let _current = self.device.current()?;
        let mut function = FunctionHandle::NULL;
        // A name made of words has no NUL inside.
        let name = CString::new(name).unwrap_or_default();
        driver.check("cuModuleGetFunction", || {
            // SAFETY: `function` and `name` outlive the call, the module is loaded.
            unsafe { (driver.table.cuModuleGetFunction)(&mut function, self.handle, name.as_ptr()) }
        })?;
        Ok(function)
    }

    fn functions(&self, algorithm: AlgorithmName, world: usize) -> Result<Functions, CudaError> {
        let mut functions = [[FunctionHandle::NULL; Operation::ALL.len()]; Dtype::ALL.len()];
        for dtype in Dtype::ALL {
            for operation in Operation::ALL {
                functions[dtype as usize][operation as usize] =
                    self.function(&format!("{algorithm}_w{world}_{dtype}_{operation}"))?;
            }
        }
        Ok(functions)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.current() {
            // SAFETY: loaded once, unloaded once, after the engine has waited for its kernels and graphs.
            unsafe { (self.device.driver().table.cuModuleUnload)(self.handle) };
        }
    }
}

/// What an image is; nothing where its stream is no such image.
pub(crate) fn unpacked(image: &Image) -> Option<Vec<u8>> {
    // The window is the image rounded up to a power of two; the decoder's tables take the rest.
    let most_kib = u32::try_from(2 * image.bytes / 1024 + 64).ok()?;
    let mut reader = LzmaReader::new_mem_limit(image.compressed, most_kib, None).ok()?;
    // A stream has no checksum: what is damaged shows by where its end leaves the decoder.
    reader.set_relaxed_end_condition(false);
    let mut bytes = vec![0; image.bytes];
    reader.read_exact(&mut bytes).ok()?;
    let ended = matches!(reader.read(&mut [0]), Ok(0));
    ended.then_some(bytes)
}

/// The images that may run on a device, best first. Machine code runs on later members of the same family.
fn candidates(world: usize, (major, minor): (u32, u32)) -> Vec<&'static Image> {
    let mut fit: Vec<(u32, &Image)> = IMAGES
        .iter()
        .filter(|image| usize::from(image.world) == world)
        .filter_map(|image| match image.target {
            Target::Ptx => Some((0, image)),
            Target::Cubin(target) => (target / 10 == major && target % 10 <= minor).then_some((target, image)),
        })
        .collect();
    fit.sort_by_key(|(target, _)| core::cmp::Reverse(*target));
    fit.into_iter().map(|(_, image)| image).collect()
}

/// Whether the driver can't take this image, but may take another.
fn is_unfit(error: &CudaError) -> bool {
    matches!(
        error.code(),
        Some(
            code::INVALID_IMAGE
                | code::NO_BINARY_FOR_GPU
                | code::INVALID_PTX
                | code::UNSUPPORTED_PTX_VERSION
                | code::NOT_SUPPORTED
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(compute: (u32, u32)) -> Vec<u32> {
        let number = |image: &&Image| match image.target {
            Target::Ptx => 0,
            Target::Cubin(target) => target,
        };
        candidates(2, compute).iter().map(number).collect()
    }

    #[test]
    fn the_nearest_older_machine_code_of_the_family_comes_first_and_ptx_last() {
        assert_eq!(targets((9, 0)), [90, 0]);
        assert_eq!(targets((8, 9)), [89, 80, 0]);
        assert_eq!(targets((8, 7)), [80, 0]);
        assert_eq!(targets((12, 1)), [120, 0]);
        assert_eq!(targets((7, 0)), [0]);
        assert_eq!(targets((13, 0)), [0]);
    }
}
