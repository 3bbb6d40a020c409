//! Sealed memory that ranks share by its descriptor: what a segment is laid out in, and the inboxes of GPUs that stage in the
//! host's memory.

use core::ptr::NonNull;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::SegmentError;
use crate::mapping::Mapping;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Mapped memory whose size nobody can change any more. Forked children do not get it.
#[derive(Debug)]
pub struct SealedMemory {
    mapping: Mapping,
}

impl SealedMemory {
    /// Makes, seals and maps memory of so many bytes, all zero, and gives the descriptor that the peers open.
    ///
    /// # Errors
    /// [`SegmentError::FileSize`] above the process's limit, [`SegmentError::System`] if the kernel refuses.
    pub fn create(bytes: u64) -> Result<(Self, OwnedFd), SegmentError> {
        let system = |call| move |errno| SegmentError::System { call, bytes, errno };
        // Growing a file past this limit would end the process by SIGXFSZ.
        if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|&limit| limit < bytes) {
            return Err(SegmentError::FileSize { bytes, limit });
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("lanesum", flags).map_err(system("memfd_create"))?;
        ftruncate(&fd, bytes).map_err(system("ftruncate"))?;
        fcntl_add_seals(&fd, SEALS).map_err(system("fcntl(F_ADD_SEALS)"))?;
        let mapping = Mapping::new(fd.as_fd(), bytes)?;
        Ok((Self { mapping }, fd))
    }

    /// Maps memory that a peer made.
    ///
    /// # Errors
    /// [`SegmentError`] if it is not sealed, has another size, or can't be mapped.
    pub fn open(fd: &OwnedFd, bytes: u64) -> Result<Self, SegmentError> {
        let system = |call| move |errno| SegmentError::System { call, bytes, errno };
        let seals = fcntl_get_seals(fd).map_err(|errno| match errno {
            Errno::INVAL => SegmentError::NotSealed,
            other => SegmentError::System {
                call: "fcntl(F_GET_SEALS)",
                bytes,
                errno: other,
            },
        })?;
        // Without the seals a peer could shrink the file, and touching the mapping would kill this process.
        if !seals.contains(SEALS) {
            return Err(SegmentError::NotSealed);
        }
        let found = fstat(fd).map_err(system("fstat"))?.st_size.unsigned_abs();
        if found != bytes {
            return Err(SegmentError::Size { found, expected: bytes });
        }
        let mapping = Mapping::new(fd.as_fd(), bytes)?;
        Ok(Self { mapping })
    }

    /// The first byte. Page-aligned, and valid as long as the value lives.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// How many bytes there are.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// Asks for pages of this NUMA node, where it has some left, for whatever is not populated yet. A refusal (a sandbox without
    /// `mbind`, a kernel without NUMA) leaves the choice to the kernel and costs speed alone.
    pub fn prefer_node(&self, node: u32) {
        self.mapping.prefer_node(node);
    }

    /// Takes all pages now, so that a lack of memory is an error here and not a signal later.
    ///
    /// # Errors
    /// [`SegmentError::System`] where there are not enough, or the control group's limit forbids them.
    pub fn take_pages(&self) -> Result<(), SegmentError> {
        let bytes = self.bytes() as u64;
        self.mapping.take_pages(0, bytes)
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}
