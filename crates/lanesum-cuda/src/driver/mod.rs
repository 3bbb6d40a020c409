//! The driver library, loaded at run time: no toolkit is needed to build or to run, and a machine without it gets an error
//! that says so.
//!
//! Why not through cudarc: its raw layer panics on a missing library or symbol unless each is asked for first, and its safe
//! layer wraps neither virtual memory management nor IPC (docs/decisions/0009-cuda-driver.md). The table below is all that is
//! used; each entry is looked up once, under the versioned name whose signature is written here.

pub(crate) mod types;

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;
use std::sync::OnceLock;

use crate::error::CudaError;
use types::*;

/// What the library is called on Linux.
const LIBRARY: &str = "libcuda.so.1";
/// The driver API version that takes PTX 8.1, which the kernels are shipped in: CUDA 12.1, driver 530.
const OLDEST: i32 = 12010;

macro_rules! table {
    ($(fn $name:ident($($argument:ty),*);)+) => {
        /// The driver's functions.
        #[allow(non_snake_case, reason = "the driver's own names")]
        pub(crate) struct Table {
            $( pub(crate) $name: unsafe extern "C" fn($($argument),*) -> Code, )+
            /// Whether this is the stand-in of the tests.
            stand_in: bool,
            /// Keeps the functions above where they are.
            _library: libloading::Library,
        }

        impl Table {
            fn of(library: libloading::Library) -> Result<Self, CudaError> {
                Ok(Self {
                    $( $name: {
                        // SAFETY: the signature is that of the driver's header for this versioned name.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> Code>(concat!(stringify!($name), "\0").as_bytes()) };
                        *symbol.map_err(|_| CudaError::MissingSymbol { symbol: stringify!($name) })?
                    }, )+
                    stand_in: {
                        // SAFETY: only looked up, never called.
                        unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"lanesumStandIn\0") }.is_ok()
                    },
                    _library: library,
                })
            }
        }
    };
}

table! {
    fn cuInit(c_uint);
    fn cuDriverGetVersion(*mut c_int);
    fn cuGetErrorName(Code, *mut *const c_char);
    fn cuGetErrorString(Code, *mut *const c_char);
    fn cuDeviceGetCount(*mut c_int);
    fn cuDeviceGet(*mut DeviceHandle, c_int);
    fn cuDeviceGetName(*mut c_char, c_int, DeviceHandle);
    fn cuDeviceGetUuid_v2(*mut Uuid, DeviceHandle);
    fn cuDeviceGetPCIBusId(*mut c_char, c_int, DeviceHandle);
    fn cuDeviceTotalMem_v2(*mut usize, DeviceHandle);
    fn cuDeviceGetAttribute(*mut c_int, c_int, DeviceHandle);
    fn cuDevicePrimaryCtxRetain(*mut ContextHandle, DeviceHandle);
    fn cuDevicePrimaryCtxRelease_v2(DeviceHandle);
    fn cuCtxGetCurrent(*mut ContextHandle);
    fn cuCtxPushCurrent_v2(ContextHandle);
    fn cuCtxPopCurrent_v2(*mut ContextHandle);
    fn cuModuleLoadData(*mut ModuleHandle, *const c_void);
    fn cuModuleUnload(ModuleHandle);
    fn cuModuleGetFunction(*mut FunctionHandle, ModuleHandle, *const c_char);
    fn cuMemAlloc_v2(*mut DevicePointer, usize);
    fn cuMemFree_v2(DevicePointer);
    fn cuMemcpyHtoDAsync_v2(DevicePointer, *const c_void, usize, StreamHandle);
    fn cuMemcpyDtoHAsync_v2(*mut c_void, DevicePointer, usize, StreamHandle);
    fn cuMemsetD32Async(DevicePointer, c_uint, usize, StreamHandle);
    fn cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    fn cuMemFreeHost(*mut c_void);
    fn cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    fn cuMemHostUnregister(*mut c_void);
    fn cuMemHostGetDevicePointer_v2(*mut DevicePointer, *mut c_void, c_uint);
    fn cuStreamCreate(*mut StreamHandle, c_uint);
    fn cuStreamDestroy_v2(StreamHandle);
    fn cuStreamSynchronize(StreamHandle);
    fn cuStreamQuery(StreamHandle);
    fn cuStreamIsCapturing(StreamHandle, *mut c_int);
    fn cuStreamWaitEvent(StreamHandle, EventHandle, c_uint);
    fn cuStreamBeginCapture_v2(StreamHandle, c_int);
    fn cuStreamEndCapture(StreamHandle, *mut GraphHandle);
    fn cuStreamGetCaptureInfo_v2(StreamHandle, *mut c_int, *mut u64, *mut GraphHandle, *mut *const c_void, *mut usize);
    fn cuThreadExchangeStreamCaptureMode(*mut c_int);
    fn cuEventCreate(*mut EventHandle, c_uint);
    fn cuEventDestroy_v2(EventHandle);
    fn cuEventRecord(EventHandle, StreamHandle);
    fn cuEventQuery(EventHandle);
    fn cuEventElapsedTime(*mut f32, EventHandle, EventHandle);
    fn cuGraphInstantiateWithFlags(*mut ExecutableHandle, GraphHandle, u64);
    fn cuGraphLaunch(ExecutableHandle, StreamHandle);
    fn cuGraphExecDestroy(ExecutableHandle);
    fn cuGraphDestroy(GraphHandle);
    fn cuGraphGetNodes(GraphHandle, *mut c_void, *mut usize);
    fn cuGraphRetainUserObject(GraphHandle, UserObjectHandle, c_uint, c_uint);
    fn cuUserObjectCreate(*mut UserObjectHandle, *mut c_void, HostFunction, c_uint, c_uint);
    fn cuUserObjectRelease(UserObjectHandle, c_uint);
    fn cuLaunchKernelEx(*const LaunchConfig, FunctionHandle, *mut *mut c_void, *mut *mut c_void);
    fn cuMemGetAllocationGranularity(*mut usize, *const AllocationProperties, c_int);
    fn cuMemCreate(*mut AllocationHandle, usize, *const AllocationProperties, u64);
    fn cuMemRelease(AllocationHandle);
    fn cuMemAddressReserve(*mut DevicePointer, usize, usize, DevicePointer, u64);
    fn cuMemAddressFree(DevicePointer, usize);
    fn cuMemMap(DevicePointer, usize, usize, AllocationHandle, u64);
    fn cuMemUnmap(DevicePointer, usize);
    fn cuMemSetAccess(DevicePointer, usize, *const AccessDescription, usize);
    fn cuMemExportToShareableHandle(*mut c_void, AllocationHandle, c_int, u64);
    fn cuMemImportFromShareableHandle(*mut AllocationHandle, *mut c_void, c_int);
    fn cuIpcGetMemHandle(*mut IpcHandle, DevicePointer);
    fn cuIpcOpenMemHandle_v2(*mut DevicePointer, IpcHandle, c_uint);
    fn cuIpcCloseMemHandle(DevicePointer);
}

/// The loaded and initialised driver.
pub(crate) struct Driver {
    pub(crate) table: Table,
    version: i32,
}

impl core::fmt::Debug for Driver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Driver")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// The driver of this process; loaded at the first call, and kept, as threads and handles of its own refer to it.
    pub(crate) fn get() -> Result<&'static Self, CudaError> {
        static DRIVER: OnceLock<Result<Driver, CudaError>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, CudaError> {
        // SAFETY: the library's initialisers are those of the driver, which any CUDA program runs.
        let library = unsafe { libloading::Library::new(LIBRARY) }.map_err(|error| CudaError::NoLibrary {
            reason: error.to_string(),
        })?;
        let mut driver = Self {
            table: Table::of(library)?,
            version: 0,
        };
        let mut version = 0;
        driver.check("cuDriverGetVersion", || {
            // SAFETY: `version` outlives the call.
            unsafe { (driver.table.cuDriverGetVersion)(&mut version) }
        })?;
        driver.version = version;
        if version < OLDEST {
            return Err(CudaError::OldDriver {
                found: version,
                needed: OLDEST,
            });
        }
        driver.check("cuInit", || {
            // SAFETY: the flags must be 0.
            unsafe { (driver.table.cuInit)(0) }
        })?;
        Ok(driver)
    }

    /// The version of the API, 1000 times the major number and 10 times the minor one.
    pub(crate) fn version(&self) -> i32 {
        self.version
    }

    /// Whether the driver is the tests' stand-in, which runs on the CPU.
    pub(crate) fn is_stand_in(&self) -> bool {
        self.table.stand_in
    }

    /// The outcome of a call.
    #[inline]
    pub(crate) fn check(&self, call: &'static str, run: impl FnOnce() -> Code) -> Result<(), CudaError> {
        match run() {
            code::SUCCESS => Ok(()),
            other => Err(self.error(call, other)),
        }
    }

    #[cold]
    pub(crate) fn error(&self, call: &'static str, code: Code) -> CudaError {
        CudaError::of(
            call,
            code,
            self.text(code, self.table.cuGetErrorName),
            self.text(code, self.table.cuGetErrorString),
        )
    }

    fn text(&self, code: Code, ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code) -> String {
        let mut text = core::ptr::null();
        // SAFETY: `text` outlives the call, which sets it to a string of the library's own or leaves it.
        let found = unsafe { ask(code, &mut text) };
        if found != code::SUCCESS || text.is_null() {
            return format!("code {code}");
        }
        // SAFETY: the driver's names and descriptions are static, NUL-terminated strings.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
