//! Device memory of the caller's, for programs that bring no framework.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::Range;

use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::stream::Stream;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// What device memory is shown as on the host. Sealed: any bytes are a value of each.
pub trait Scalar: Copy + sealed::Sealed + 'static {}

impl Scalar for f32 {}
impl Scalar for half::f16 {}
impl Scalar for half::bf16 {}

/// Plain device memory, freed when dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    device: Device,
    pub(crate) address: DevicePointer,
}

impl Memory {
    pub(crate) fn new(device: &Device, what: &'static str, bytes: usize) -> Result<Self, CudaError> {
        let _current = device.current()?;
        let driver = device.driver();
        let mut address = 0;
        let allocated = driver.check("cuMemAlloc", || {
            // SAFETY: `address` outlives the call, the context is current.
            unsafe { (driver.table.cuMemAlloc_v2)(&mut address, bytes.max(1)) }
        });
        allocated.map_err(|error| error.for_memory(what, bytes as u64))?;
        Ok(Self {
            device: device.clone(),
            address,
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let (Ok(_relaxed), Ok(_current)) = (self.device.relaxed(), self.device.current()) {
            // SAFETY: allocated by `new`, freed once. The driver waits for work that uses it.
            unsafe { (self.device.driver().table.cuMemFree_v2)(self.address) };
        }
    }
}

/// Elements in device memory. The host never sees them in place, so what is in them while kernels run harms nothing but the
/// numbers; copies are ordered by the stream that they are given.
#[derive(Debug)]
pub struct DeviceBuffer<T: Scalar> {
    memory: Memory,
    elements: usize,
    element: PhantomData<T>,
}

impl<T: Scalar> DeviceBuffer<T> {
    /// Memory for so many elements, of unspecified content.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] and other refusals of the driver.
    pub fn new(device: &Device, elements: usize) -> Result<Self, CudaError> {
        let bytes = elements
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(CudaError::OutOfMemory {
                call: "DeviceBuffer::new",
                what: "a buffer",
                bytes: u64::MAX,
            })?;
        Ok(Self {
            memory: Memory::new(device, "a buffer", bytes)?,
            elements,
            element: PhantomData,
        })
    }

    /// A part of the buffer, by elements; `None` past its end.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<DeviceSlice<'_, T>> {
        let elements = range.len();
        (range.start <= range.end && range.end <= self.elements).then(|| DeviceSlice {
            address: self.address() + (range.start * size_of::<T>()) as u64,
            elements,
            device: self.device().ordinal(),
            borrowed: PhantomData,
        })
    }

    /// As [`DeviceBuffer::slice`], to be written.
    #[must_use]
    pub fn slice_mut(&mut self, range: Range<usize>) -> Option<DeviceSliceMut<'_, T>> {
        let slice = self.slice(range)?;
        Some(DeviceSliceMut {
            address: slice.address,
            elements: slice.elements,
            device: slice.device,
            borrowed: PhantomData,
        })
    }

    /// How many elements.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.elements
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// The device that it is on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.memory.device
    }

    /// Address of the first element in device memory, for other libraries.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        self.memory.address
    }

    /// Copies host memory here, in the order of the stream; the host memory may be reused at once.
    ///
    /// # Errors
    /// [`CudaError::Lengths`] if the lengths differ, and what the driver refuses.
    pub fn copy_from(&mut self, source: &[T], stream: &Stream) -> Result<(), CudaError> {
        self.same(source.len())?;
        let device = self.device();
        let _current = device.current()?;
        let driver = device.driver();
        if source.is_empty() {
            return Ok(());
        }
        driver.check("cuMemcpyHtoDAsync", || {
            // SAFETY: both sides hold this many bytes; from pageable memory the driver has read the source when it returns.
            unsafe {
                (driver.table.cuMemcpyHtoDAsync_v2)(
                    self.address(),
                    source.as_ptr().cast::<c_void>(),
                    size_of_val(source),
                    StreamHandle(stream.raw().0),
                )
            }
        })
    }

    /// Copies the elements to host memory, after all that the stream has to do before. Returns when they are there.
    ///
    /// # Errors
    /// [`CudaError::Lengths`] if the lengths differ, and what the driver refuses.
    pub fn copy_to(&self, target: &mut [T], stream: &Stream) -> Result<(), CudaError> {
        self.same(target.len())?;
        if target.is_empty() {
            return Ok(());
        }
        let device = self.device();
        let _current = device.current()?;
        let driver = device.driver();
        let handle = StreamHandle(stream.raw().0);
        driver.check("cuMemcpyDtoHAsync", || {
            // SAFETY: both sides hold this many bytes, and the target is borrowed until the stream is synchronised below. Any
            // bytes are a `Scalar`.
            unsafe {
                (driver.table.cuMemcpyDtoHAsync_v2)(
                    target.as_mut_ptr().cast::<c_void>(),
                    self.address(),
                    size_of_val(target),
                    handle,
                )
            }
        })?;
        driver.check("cuStreamSynchronize", || {
            // SAFETY: the stream lives.
            unsafe { (driver.table.cuStreamSynchronize)(handle) }
        })
    }

    fn same(&self, host: usize) -> Result<(), CudaError> {
        if host == self.elements {
            Ok(())
        } else {
            Err(CudaError::Lengths {
                host,
                device: self.elements,
            })
        }
    }
}

macro_rules! slices {
    ($(#[$doc:meta] $name:ident borrows $borrow:ty;)+) => { $(
        #[$doc]
        #[derive(Debug)]
        pub struct $name<'a, T: Scalar> {
            address: u64,
            elements: usize,
            device: usize,
            borrowed: PhantomData<$borrow>,
        }

        impl<T: Scalar> $name<'_, T> {
            /// Address of the first element.
            #[must_use]
            #[inline]
            pub fn address(&self) -> u64 {
                self.address
            }

            /// How many elements.
            #[must_use]
            #[inline]
            pub fn len(&self) -> usize {
                self.elements
            }

            /// Whether there are none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.elements == 0
            }

            /// Number of the device that it is on.
            #[must_use]
            #[inline]
            pub fn device(&self) -> usize {
                self.device
            }
        }
    )+ };
}

slices! {
    /// Elements of a [`DeviceBuffer`], to be read.
    DeviceSlice borrows &'a T;
    /// Elements of a [`DeviceBuffer`], to be written.
    DeviceSliceMut borrows &'a mut T;
}

impl<'a, T: Scalar> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    #[inline]
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        Self {
            address: buffer.address(),
            elements: buffer.len(),
            device: buffer.device().ordinal(),
            borrowed: PhantomData,
        }
    }
}

impl<'a, T: Scalar> From<&'a mut DeviceBuffer<T>> for DeviceSliceMut<'a, T> {
    #[inline]
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        Self {
            address: buffer.address(),
            elements: buffer.len(),
            device: buffer.device().ordinal(),
            borrowed: PhantomData,
        }
    }
}
