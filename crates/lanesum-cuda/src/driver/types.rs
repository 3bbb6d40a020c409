//! The driver's types and numbers, as far as they are used here.

use core::ffi::c_void;

/// What every driver function returns; 0 is success.
pub(crate) type Code = i32;
/// Address in device memory.
pub(crate) type DevicePointer = u64;
/// Number of a device.
pub(crate) type DeviceHandle = i32;

/// Makes opaque handles: pointers that only the driver looks behind.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)+) => { $(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $name(pub(crate) *mut c_void);

        impl $name {
            pub(crate) const NULL: Self = Self(core::ptr::null_mut());
        }

        // SAFETY: a handle is a name; the driver may be called with it from any thread.
        unsafe impl Send for $name {}
        // SAFETY: as for `Send`.
        unsafe impl Sync for $name {}
    )+ };
}

handles! {
    /// `CUcontext`
    ContextHandle;
    /// `CUmodule`
    ModuleHandle;
    /// `CUfunction`
    FunctionHandle;
    /// `CUstream`
    StreamHandle;
    /// `CUevent`
    EventHandle;
    /// `CUgraph`
    GraphHandle;
    /// `CUgraphExec`
    ExecutableHandle;
    /// `CUuserObject`
    UserObjectHandle;
}

/// `CUhostFn`
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `CUmemGenericAllocationHandle`
pub(crate) type AllocationHandle = u64;

/// `CUuuid`
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

/// `CUipcMemHandle`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct IpcHandle(pub(crate) [u8; 64]);

/// `CUmemLocation`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: i32,
    pub(crate) id: i32,
}

impl Location {
    pub(crate) fn device(device: DeviceHandle) -> Self {
        Self { kind: 1, id: device }
    }
}

/// `CUmemAllocationProp`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocationProperties {
    pub(crate) kind: i32,
    pub(crate) handle_types: i32,
    pub(crate) location: Location,
    pub(crate) win32: *mut c_void,
    pub(crate) flags: [u8; 8],
}

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessDescription {
    pub(crate) location: Location,
    pub(crate) flags: i32,
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: StreamHandle,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) attribute_count: u32,
}

/// `CUlaunchAttribute`
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchAttribute {
    id: u32,
    padding: u32,
    /// A union of 64 bytes; what is used here is its first `int`.
    value: [i32; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed.
    pub(crate) const PROGRAMMATIC_STREAM_SERIALIZATION: Self = Self {
        id: 6,
        padding: 0,
        value: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    };
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<AllocationProperties>() == 32);
    assert!(size_of::<AccessDescription>() == 12);
    assert!(size_of::<LaunchConfig>() == 56 && offset_of!(LaunchConfig, shared_bytes) == 24);
    assert!(offset_of!(LaunchConfig, stream) == 32 && offset_of!(LaunchConfig, attributes) == 40);
    assert!(offset_of!(LaunchConfig, attribute_count) == 48);
    assert!(size_of::<LaunchAttribute>() == 72 && offset_of!(LaunchAttribute, value) == 8);
};

/// Codes that decide something here.
pub(crate) mod code {
    use super::Code;

    pub(crate) const SUCCESS: Code = 0;
    pub(crate) const OUT_OF_MEMORY: Code = 2;
    pub(crate) const DEVICE_UNAVAILABLE: Code = 46;
    pub(crate) const NO_DEVICE: Code = 100;
    pub(crate) const INVALID_IMAGE: Code = 200;
    pub(crate) const NO_BINARY_FOR_GPU: Code = 209;
    pub(crate) const INVALID_PTX: Code = 218;
    pub(crate) const UNSUPPORTED_PTX_VERSION: Code = 222;
    pub(crate) const INVALID_HANDLE: Code = 400;
    pub(crate) const ILLEGAL_STATE: Code = 401;
    pub(crate) const NOT_READY: Code = 600;
    pub(crate) const NOT_PERMITTED: Code = 800;
    pub(crate) const NOT_SUPPORTED: Code = 801;
    pub(crate) const SYSTEM_DRIVER_MISMATCH: Code = 803;
    pub(crate) const MPS_CONNECTION_FAILED: Code = 805;
    /// All that streams and graphs refuse because of a capture.
    pub(crate) const CAPTURE: core::ops::RangeInclusive<Code> = 900..=908;
    pub(crate) const UNKNOWN: Code = 999;
}

/// `CUdevice_attribute`
#[repr(i32)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attribute {
    MaxThreadsPerBlock = 1,
    Multiprocessors = 16,
    KernelExecTimeout = 17,
    CanMapHostMemory = 19,
    ComputeMode = 20,
    ComputeMajor = 75,
    ComputeMinor = 76,
    VirtualMemoryManagement = 102,
    HandleTypePosixFileDescriptor = 103,
}

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
pub(crate) const POSIX_FILE_DESCRIPTOR: i32 = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`
pub(crate) const PINNED: i32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
pub(crate) const READ_WRITE: i32 = 3;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
pub(crate) const HOST_MAPPED: u32 = 3;
/// `CU_STREAM_NON_BLOCKING`
pub(crate) const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`
pub(crate) const CAPTURE_ACTIVE: i32 = 1;
/// `CU_STREAM_CAPTURE_STATUS_INVALIDATED`
pub(crate) const CAPTURE_INVALIDATED: i32 = 2;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`
pub(crate) const CAPTURE_THREAD_LOCAL: i32 = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
pub(crate) const CAPTURE_RELAXED: i32 = 2;
/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`
pub(crate) const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`
pub(crate) const MOVE_REFERENCE: u32 = 1;
/// `CU_EVENT_DEFAULT`
pub(crate) const TIMING: u32 = 0;
/// `CU_EVENT_DISABLE_TIMING`
pub(crate) const NO_TIMING: u32 = 2;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`
pub(crate) const LAZY_PEER_ACCESS: u32 = 1;
