//! Inboxes: this rank's, which its peers write, and those of the peers.
//!
//! On path `peer` they are memory of the owner's GPU, on path `host_staged` pinned host memory: a sealed file of the owner's that
//! all ranks map and register with their drivers.
//!
//! Memory of GPUs is shared as file descriptors (virtual memory management), or by CUDA IPC where the device has no such. The first
//! lives as long as anybody maps it, so a rank may let its inbox go while a late peer still writes there. The second does not:
//! such an inbox is retired, kept until all peers have left (docs/decisions/0009-cuda-driver.md).

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use lanesum_segment::SealedMemory;
use serde::{Deserialize, Serialize};

use crate::buffer::Memory;
use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;

/// What a rank tells its peers of its inbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Offer {
    /// The descriptor beside it is the memory.
    Descriptor { bytes: u64 },
    /// A handle of CUDA IPC, and the address for ranks that are threads of the same process.
    Ipc {
        handle: Vec<u8>,
        bytes: u64,
        address: u64,
        device: String,
    },
    /// The descriptor beside it is host memory.
    Host { bytes: u64 },
}

/// Memory that this process has mapped.
#[derive(Debug)]
pub(crate) enum Inbox {
    /// An allocation of virtual memory management, mapped at addresses reserved for it.
    Mapped(Mapping),
    /// This rank's own plain allocation.
    Plain(Memory),
    /// A peer's plain allocation, opened by its handle.
    Opened { device: Device, address: DevicePointer },
    /// A peer's plain allocation in this very process.
    Neighbour(DevicePointer),
    /// Host memory, this rank's own or a peer's.
    Pinned(Pinned),
}

/// Host memory that the device reads and writes where it is.
#[derive(Debug)]
pub(crate) struct Pinned {
    device: Device,
    address: DevicePointer,
    /// Unmapped only once the driver has let go of it: else it would take what comes to these addresses next for pinned memory.
    memory: ManuallyDrop<SealedMemory>,
}

/// Reserved addresses with an allocation behind them.
#[derive(Debug)]
pub(crate) struct Mapping {
    device: Device,
    address: DevicePointer,
    bytes: usize,
    handle: Option<AllocationHandle>,
    backed: bool,
}

impl Inbox {
    /// Its first byte, as this rank's device sees it.
    pub(crate) fn address(&self) -> DevicePointer {
        match self {
            Self::Mapped(mapping) => mapping.address,
            Self::Plain(memory) => memory.address,
            Self::Opened { address, .. } | Self::Neighbour(address) => *address,
            Self::Pinned(pinned) => pinned.address,
        }
    }

    /// The host's view of it, if it has one.
    pub(crate) fn on_host(&self) -> Option<&SealedMemory> {
        match self {
            Self::Pinned(pinned) => Some(&pinned.memory),
            Self::Mapped(_) | Self::Plain(_) | Self::Opened { .. } | Self::Neighbour(_) => None,
        }
    }

    /// Whether its memory goes away with this value even if a peer still has it mapped.
    pub(crate) fn dies_for_peers(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether it is a peer's that was opened by its handle: the peer may free it once this rank has left.
    pub(crate) fn is_opened(&self) -> bool {
        matches!(self, Self::Opened { .. })
    }

    /// A new inbox of this rank, and what the peers need to map it.
    pub(crate) fn create(device: &Device, bytes: u64) -> Result<(Self, Offer, Option<OwnedFd>), CudaError> {
        if device.is_shareable() {
            match shareable(device, bytes) {
                Ok((mapping, descriptor)) => {
                    let offer = Offer::Descriptor {
                        bytes: mapping.bytes as u64,
                    };
                    return Ok((Self::Mapped(mapping), offer, Some(descriptor)));
                }
                // The device has it, and the environment forbids it in one way or another.
                Err(error) if error.is_refusal() => {}
                Err(error) => return Err(error),
            }
        }
        let memory = Memory::new(device, "an inbox", usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let driver = device.driver();
        let _current = device.current()?;
        let mut handle = IpcHandle([0; 64]);
        driver.check("cuIpcGetMemHandle", || {
            // SAFETY: `handle` outlives the call; the memory was allocated just now.
            unsafe { (driver.table.cuIpcGetMemHandle)(&mut handle, memory.address) }
        })?;
        let offer = Offer::Ipc {
            handle: handle.0.to_vec(),
            bytes,
            address: memory.address,
            device: device.facts().uuid.clone(),
        };
        Ok((Self::Plain(memory), offer, None))
    }

    /// A new inbox of this rank in host memory, if possible in that of the NUMA node that the device is next to, and what the peers
    /// need to map it.
    pub(crate) fn create_on_host(
        device: &Device,
        bytes: u64,
        node: Option<u32>,
    ) -> Result<(Self, Offer, Option<OwnedFd>), CudaError> {
        let (memory, descriptor) = SealedMemory::create(on_pages(bytes))?;
        if let Some(node) = node {
            memory.prefer_node(node);
        }
        memory.take_pages()?;
        let pinned = Pinned::new(device, memory)?;
        Ok((Self::Pinned(pinned), Offer::Host { bytes }, Some(descriptor)))
    }

    /// Maps a peer's inbox of at least `needed` bytes. `same_process`: the peer is a thread of this process.
    pub(crate) fn import(
        device: &Device,
        rank: usize,
        offer: &Offer,
        descriptor: Option<OwnedFd>,
        needed: u64,
        same_process: bool,
    ) -> Result<Self, CudaError> {
        let description = CudaError::Description { rank };
        match offer {
            Offer::Descriptor { bytes } if *bytes >= needed => {
                let descriptor = descriptor.ok_or(description)?;
                imported(device, &descriptor, *bytes).map(Self::Mapped)
            }
            Offer::Ipc {
                bytes,
                address,
                device: theirs,
                ..
            } if same_process && *bytes >= needed => {
                if *theirs != device.facts().uuid {
                    return Err(CudaError::Lacks {
                        device: device.facts().name.clone(),
                        what: "memory that threads on different devices can share: run ranks as processes",
                    });
                }
                Ok(Self::Neighbour(*address))
            }
            Offer::Ipc { handle, bytes, .. } if *bytes >= needed => {
                let handle = <[u8; 64]>::try_from(handle.as_slice()).map_err(|_| description)?;
                open(device, IpcHandle(handle))
            }
            Offer::Host { bytes } if *bytes == needed => {
                let descriptor = descriptor.ok_or(description)?;
                let memory = SealedMemory::open(&descriptor, on_pages(needed))?;
                Pinned::new(device, memory).map(Self::Pinned)
            }
            Offer::Descriptor { .. } | Offer::Ipc { .. } | Offer::Host { .. } => Err(description),
        }
    }
}

fn open(device: &Device, handle: IpcHandle) -> Result<Inbox, CudaError> {
    let driver = device.driver();
    let _current = device.current()?;
    let mut address = 0;
    driver.check("cuIpcOpenMemHandle", || {
        // SAFETY: `address` outlives the call; the handle is bytes that the driver judges.
        unsafe { (driver.table.cuIpcOpenMemHandle_v2)(&mut address, handle, LAZY_PEER_ACCESS) }
    })?;
    Ok(Inbox::Opened {
        device: device.clone(),
        address,
    })
}

/// Whole pages for so many bytes.
fn on_pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(rustix::param::page_size() as u64)
}

impl Pinned {
    /// Lets the device use the memory.
    pub(crate) fn new(device: &Device, memory: SealedMemory) -> Result<Self, CudaError> {
        let driver = device.driver();
        let _current = device.current()?;
        let (base, bytes) = (memory.base().as_ptr().cast::<c_void>(), memory.bytes());
        let registered = driver.check("cuMemHostRegister", || {
            // SAFETY: the mapping has these bytes, and lives until it is unregistered.
            unsafe { (driver.table.cuMemHostRegister_v2)(base, bytes, HOST_MAPPED) }
        });
        registered.map_err(|error| error.for_pinning(bytes as u64))?;
        // From here on, dropping it undoes what was done.
        let mut pinned = Self {
            device: device.clone(),
            address: 0,
            memory: ManuallyDrop::new(memory),
        };
        driver.check("cuMemHostGetDevicePointer", || {
            // SAFETY: `address` outlives the call; the memory was registered as mapped.
            unsafe { (driver.table.cuMemHostGetDevicePointer_v2)(&mut pinned.address, base, 0) }
        })?;
        Ok(pinned)
    }
}

impl Pinned {
    /// The first byte, as the host sees it.
    pub(crate) fn base(&self) -> *mut u8 {
        self.memory.base().as_ptr()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It may be a capture of this thread in which a set-up fails.
        let (Ok(_relaxed), Ok(_current)) = (self.device.relaxed(), self.device.current()) else {
            return;
        };
        let base = self.memory.base().as_ptr().cast::<c_void>();
        // SAFETY: registered by `new`, after this rank's kernels have ended; peers have registrations of their own.
        let released = unsafe { (self.device.driver().table.cuMemHostUnregister)(base) };
        if released == code::SUCCESS {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if let Self::Opened { device, address } = self
            && let (Ok(_relaxed), Ok(_current)) = (device.relaxed(), device.current())
        {
            // SAFETY: opened once, closed once, after this rank's kernels have ended.
            unsafe { (device.driver().table.cuIpcCloseMemHandle)(*address) };
        }
    }
}

fn properties(device: &Device) -> AllocationProperties {
    AllocationProperties {
        kind: PINNED,
        handle_types: POSIX_FILE_DESCRIPTOR,
        location: Location::device(device.inner.handle),
        win32: core::ptr::null_mut(),
        flags: [0; 8],
    }
}

fn shareable(device: &Device, bytes: u64) -> Result<(Mapping, OwnedFd), CudaError> {
    let driver = device.driver();
    let _current = device.current()?;
    let properties = properties(device);
    let mut unit = 0;
    driver.check("cuMemGetAllocationGranularity", || {
        // SAFETY: both outlive the call; 0 asks for the minimum.
        unsafe { (driver.table.cuMemGetAllocationGranularity)(&mut unit, &properties, 0) }
    })?;
    let bytes = usize::try_from(bytes)
        .unwrap_or(usize::MAX / 2)
        .next_multiple_of(unit.max(4096));
    let mut handle = 0;
    let created = driver.check("cuMemCreate", || {
        // SAFETY: both outlive the call; the size is a multiple of the granularity.
        unsafe { (driver.table.cuMemCreate)(&mut handle, bytes, &properties, 0) }
    });
    created.map_err(|error| error.for_memory("an inbox", bytes as u64))?;
    let mapping = Mapping::of(device, handle, bytes)?;
    let mut descriptor = -1_i32;
    driver.check("cuMemExportToShareableHandle", || {
        // SAFETY: the driver writes an `int` for this kind of handle.
        unsafe {
            (driver.table.cuMemExportToShareableHandle)(
                (&raw mut descriptor).cast::<c_void>(),
                handle,
                POSIX_FILE_DESCRIPTOR,
                0,
            )
        }
    })?;
    // SAFETY: the driver has just made this descriptor for the caller, who owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // A forked and executed child must not keep the memory alive. A refusal leaves it as the driver made it.
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC).ok();
    Ok((mapping, descriptor))
}

fn imported(device: &Device, descriptor: &OwnedFd, bytes: u64) -> Result<Mapping, CudaError> {
    let driver = device.driver();
    let _current = device.current()?;
    let mut handle = 0;
    driver.check("cuMemImportFromShareableHandle", || {
        // SAFETY: `handle` outlives the call; a descriptor is passed as a pointer of its value, and stays the caller's.
        unsafe {
            (driver.table.cuMemImportFromShareableHandle)(
                &mut handle,
                descriptor.as_raw_fd() as usize as *mut c_void,
                POSIX_FILE_DESCRIPTOR,
            )
        }
    })?;
    Mapping::of(device, handle, usize::try_from(bytes).unwrap_or(usize::MAX))
}

impl Mapping {
    /// Maps an allocation for this device. Takes the handle, also where it fails.
    fn of(device: &Device, handle: AllocationHandle, bytes: usize) -> Result<Self, CudaError> {
        let driver = device.driver();
        // From here on, dropping it undoes what was done.
        let mut mapping = Self {
            device: device.clone(),
            address: 0,
            bytes,
            handle: Some(handle),
            backed: false,
        };
        driver.check("cuMemAddressReserve", || {
            // SAFETY: `address` outlives the call; no place is asked for.
            unsafe { (driver.table.cuMemAddressReserve)(&mut mapping.address, bytes, 0, 0, 0) }
        })?;
        driver.check("cuMemMap", || {
            // SAFETY: the addresses were just reserved, the handle is held.
            unsafe { (driver.table.cuMemMap)(mapping.address, bytes, 0, handle, 0) }
        })?;
        mapping.backed = true;
        let access = AccessDescription {
            location: Location::device(device.inner.handle),
            flags: READ_WRITE,
        };
        driver.check("cuMemSetAccess", || {
            // SAFETY: the range is mapped; one description is given.
            unsafe { (driver.table.cuMemSetAccess)(mapping.address, bytes, &access, 1) }
        })?;
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (Ok(_relaxed), Ok(_current)) = (self.device.relaxed(), self.device.current()) else {
            return;
        };
        let table = &self.device.driver().table;
        if self.backed {
            // SAFETY: mapped by `of`, after this rank's kernels have ended; peers' mappings are their own.
            unsafe { (table.cuMemUnmap)(self.address, self.bytes) };
        }
        if self.address != 0 {
            // SAFETY: reserved by `of`, and unmapped.
            unsafe { (table.cuMemAddressFree)(self.address, self.bytes) };
        }
        if let Some(handle) = self.handle.take() {
            // SAFETY: created or imported once, released once. The memory lives as long as a peer holds it.
            unsafe { (table.cuMemRelease)(handle) };
        }
    }
}
