//! Knowing that one is a forked child.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::SegmentError;

const PAGE: usize = 4096;
const MARK: u64 = 0x6c61_6e65_7375_6d21;

/// A page that the kernel wipes in forked children: a communicator that a child inherits knows by one
/// load that it is not its own.
#[derive(Debug)]
pub struct ForkGuard {
    page: NonNull<AtomicU64>,
}

// SAFETY: the page is plain memory that is only accessed through the atomic at its start.
unsafe impl Send for ForkGuard {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForkGuard {}

impl ForkGuard {
    /// A guard that belongs to this process.
    ///
    /// # Errors
    /// [`SegmentError::System`] if the kernel refuses (`MADV_WIPEONFORK` is there since Linux 4.14).
    pub fn new() -> Result<Self, SegmentError> {
        let refuse = |call, errno| SegmentError::System {
            call,
            bytes: PAGE as u64,
            errno,
        };
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint lets the kernel choose the place, so that no existing mapping is replaced.
        let base = unsafe { mmap_anonymous(core::ptr::null_mut(), PAGE, flags, MapFlags::PRIVATE) }
            .map_err(|errno| refuse("mmap", errno))?;
        let Some(page) = NonNull::new(base.cast::<AtomicU64>()) else {
            return Err(refuse("mmap", rustix::io::Errno::NOMEM));
        };
        let guard = Self { page };
        // SAFETY: the range is exactly the page just mapped.
        unsafe { madvise(base, PAGE, Advice::LinuxWipeOnFork) }
            .map_err(|errno| refuse("madvise(MADV_WIPEONFORK)", errno))?;
        guard.word().store(MARK, Ordering::Relaxed);
        Ok(guard)
    }

    /// Whether this process is a forked child of the one that made the guard.
    #[inline]
    pub fn is_forked(&self) -> bool {
        // Relaxed: written once before the guard was shared; a fork is no race.
        self.word().load(Ordering::Relaxed) != MARK
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: `page` points to a mapped, zeroed, page-aligned page that lives as long as the guard, and
        // is only accessed as this atomic.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by `new`, and no reference to it outlives the guard.
        unsafe { munmap(self.page.as_ptr().cast::<c_void>(), PAGE) }.ok();
    }
}
