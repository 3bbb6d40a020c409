//! A shared mapping of a descriptor, unmapped when dropped.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::error::SegmentError;
use crate::fork::ForkGuard;

/// A shared, writable mapping that forked children do not get.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// A forked child does not have the mapping: at its addresses it may have put something else.
    guard: ForkGuard,
}

// SAFETY: the mapping is plain memory of the process; it is tied to no thread, and all access to it goes
// through atomics or through the unsafe functions that say who may touch which bytes.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`: a shared reference gives out only atomics and raw pointers.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(fd: BorrowedFd<'_>, total: u64) -> Result<Self, SegmentError> {
        let refuse = |call, errno| SegmentError::System {
            call,
            bytes: total,
            errno,
        };
        let bytes = usize::try_from(total).map_err(|_| refuse("mmap", Errno::NOMEM))?;
        let guard = ForkGuard::new()?;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint lets the kernel choose the place, so that no existing mapping is replaced.
        let base = unsafe { mmap(core::ptr::null_mut(), bytes, flags, MapFlags::SHARED, fd, 0) }
            .map_err(|errno| refuse("mmap", errno))?;
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            return Err(refuse("mmap", Errno::NOMEM));
        };
        let mapping = Self { base, bytes, guard };
        // SAFETY: the range is exactly the mapping just made; the advice changes only what a fork copies.
        unsafe { madvise(base.as_ptr().cast::<c_void>(), bytes, Advice::LinuxDontFork) }
            .map_err(|errno| refuse("madvise(MADV_DONTFORK)", errno))?;
        Ok(mapping)
    }

    /// The first byte. Page-aligned.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes there are.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Asks the kernel for pages before they are needed. A refusal costs page faults later.
    pub(crate) fn populate(&self, offset: u64, bytes: u64) {
        self.take_pages(offset, bytes).ok();
    }

    /// Asks the kernel for pages; kernels that can't be asked (before 5.14) give them when they are touched.
    pub(crate) fn take_pages(&self, offset: u64, bytes: u64) -> Result<(), SegmentError> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes as u64);
        if !inside || bytes == 0 {
            return Ok(());
        }
        // SAFETY: `inside` says that the offset lies in the mapping.
        let start = unsafe { self.base.add(offset as usize) };
        // SAFETY: `inside` says that the whole range lies in the mapping; populating changes no byte.
        let taken = unsafe {
            madvise(
                start.as_ptr().cast::<c_void>(),
                bytes as usize,
                Advice::LinuxPopulateWrite,
            )
        };
        match taken {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(SegmentError::System {
                call: "madvise(MADV_POPULATE_WRITE)",
                bytes,
                errno,
            }),
        }
    }

    /// Asks for pages of this NUMA node; a refusal changes nothing.
    pub(crate) fn prefer_node(&self, node: u32) {
        /// `MPOL_PREFERRED` of linux/mempolicy.h.
        const PREFERRED: i32 = 1;
        let mut nodes = [0_u64; 16];
        let bits = nodes.len() * 64;
        let Some(word) = nodes.get_mut(node as usize / 64) else {
            return;
        };
        *word = 1 << (node % 64);
        // SAFETY: the range is the mapping, the mask has as many bits as are said (the kernel counts one more); the call changes
        // which pages are taken later, and no byte.
        unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.bytes,
                PREFERRED,
                nodes.as_ptr(),
                bits + 1,
                0,
            )
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.guard.is_forked() {
            return;
        }
        // SAFETY: the range was mapped by `new` in this process, and whoever holds a pointer into it holds an `Arc` of the
        // segment as well, so none is left.
        unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.bytes) }.ok();
    }
}
