//! The kernels of one world size, loaded at set-up so that no call ever loads or compiles.

use core::ffi::c_void;
use std::ffi::CString;

use lanesum_plan::{Dtype, Operation};

use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::images::{IMAGES, Image, Target};

/// The loaded kernels.
#[derive(Debug)]
pub(crate) struct Module {
    device: Device,
    handle: ModuleHandle,
    one_shot_push: [[FunctionHandle; Operation::ALL.len()]; Dtype::ALL.len()],
    pub(crate) farewell: FunctionHandle,
    pub(crate) prove: FunctionHandle,
}

impl Module {
    /// Loads the best image for the device: machine code for it, else for an older one of its family, else PTX, which the
    /// driver compiles (once; it keeps what it made).
    pub(crate) fn load(device: &Device, world: usize) -> Result<Self, CudaError> {
        let compute = device.facts().compute;
        let mut reason = "none is shipped for this number of ranks".to_owned();
        for image in candidates(world, compute) {
            match load_image(device, image) {
                Ok(handle) => return Self::complete(device, handle, world),
                Err(error) if is_unfit(&error) => reason = error.to_string(),
                Err(error) => return Err(error),
            }
        }
        Err(CudaError::NoImage { compute, reason })
    }

    fn complete(device: &Device, handle: ModuleHandle, world: usize) -> Result<Self, CudaError> {
        let mut module = Self {
            device: device.clone(),
            handle,
            one_shot_push: [[FunctionHandle::NULL; Operation::ALL.len()]; Dtype::ALL.len()],
            farewell: FunctionHandle::NULL,
            prove: FunctionHandle::NULL,
        };
        for dtype in Dtype::ALL {
            for operation in Operation::ALL {
                module.one_shot_push[dtype as usize][operation as usize] =
                    module.function(&format!("one_shot_push_w{world}_{dtype}_{operation}"))?;
            }
        }
        module.farewell = module.function("lanesum_farewell")?;
        module.prove = module.function("lanesum_prove")?;
        Ok(module)
    }

    #[inline]
    pub(crate) fn one_shot_push(&self, dtype: Dtype, operation: Operation) -> FunctionHandle {
        self.one_shot_push[dtype as usize][operation as usize]
    }

    fn function(&self, name: &str) -> Result<FunctionHandle, CudaError> {
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
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.current() {
            // SAFETY: loaded once, unloaded once, after the engine has waited for its kernels.
            unsafe { (self.device.driver().table.cuModuleUnload)(self.handle) };
        }
    }
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

fn load_image(device: &Device, image: &Image) -> Result<ModuleHandle, CudaError> {
    let _current = device.current()?;
    let driver = device.driver();
    // The NUL ends PTX; behind machine code it harms nothing.
    let mut bytes =
        miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(image.compressed, image.bytes).unwrap_or_default();
    bytes.push(0);
    let mut handle = ModuleHandle::NULL;
    driver.check("cuModuleLoadData", || {
        // SAFETY: the image is whole and NUL-terminated, both outlive the call.
        unsafe { (driver.table.cuModuleLoadData)(&mut handle, bytes.as_ptr().cast::<c_void>()) }
    })?;
    Ok(handle)
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
        assert_eq!(targets((8, 9)), [89, 86, 80, 0]);
        assert_eq!(targets((8, 7)), [86, 80, 0]);
        assert_eq!(targets((12, 1)), [121, 120, 0]);
        assert_eq!(targets((7, 0)), [0]);
        assert_eq!(targets((13, 0)), [0]);
    }
}
