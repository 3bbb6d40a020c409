//! The segment on real memory: what is refused, and what a forked child may do.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use lanesum_segment::{ForkGuard, Geometry, SealedMemory, Segment, SegmentError};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

fn geometry() -> Geometry {
    Geometry::new(3, 4096, 8192, 7, 0xfeed).unwrap()
}

/// A memfd that no segment was made in.
fn blank(bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("blank", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn what_one_rank_writes_the_other_reads() {
    let (made, fd) = Segment::create(geometry()).unwrap();
    let opened = Segment::open(&fd, geometry()).unwrap();
    assert_eq!(opened.geometry(), made.geometry());
    opened.populate(1);
    let to_each = |from| (0..3).filter(move |to| *to != from).map(Some).chain([None]);
    let places = (0..3).flat_map(|from| to_each(from).map(move |to| (from, to)));
    let place = |segment: &Segment, (rank, to)| match to {
        Some(to) => (segment.mailbox(rank, to), segment.geometry().mailbox()),
        None => (segment.arena(rank), segment.geometry().shared()),
    };
    for (number, at) in (1u8..).zip(places.clone()) {
        let (to, bytes) = place(&made, at);
        // SAFETY: the mapping lives; the region has this length, and nobody else touches it.
        unsafe { to.as_ptr().write_bytes(number, bytes as usize) };
    }
    // After all of them: no region overlaps another.
    for (number, at) in (1u8..).zip(places) {
        let (from, bytes) = place(&opened, at);
        // SAFETY: as above; the writes are done.
        let seen = unsafe { std::slice::from_raw_parts(from.as_ptr(), bytes as usize) };
        assert!(seen.iter().all(|&byte| byte == number), "{at:?}");
    }
    // The regions follow the control blocks and do not overlap: the header is as it was.
    Segment::open(&fd, geometry()).unwrap();
}

/// The memory policy of the mapping that starts there, unless it is still the default.
fn numa_maps_of(start: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
    let fields = maps.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = fields.into_iter().find(|fields| fields[0] == format!("{start:x}"))?;
    Some(found[1].to_owned()).filter(|policy| policy != "default")
}

#[test]
fn memory_without_a_layout_is_shared_and_its_size_is_checked() {
    let (made, fd) = SealedMemory::create(12_288).unwrap();
    // No machine has the second; where there is a choice of nodes, the first is taken.
    for node in [0, 5000] {
        made.prefer_node(node);
    }
    // The kernel tells, where it knows nodes and no sandbox forbids the call.
    let wish = numa_maps_of(made.base().as_ptr() as usize);
    assert!(wish.is_none_or(|wish| wish.starts_with("prefer") && wish.ends_with(":0")));
    made.take_pages().unwrap();
    let opened = SealedMemory::open(&fd, 12_288).unwrap();
    assert_eq!((made.bytes(), opened.bytes()), (12_288, 12_288));
    // SAFETY: both mappings live and have this byte.
    let (to, from) = unsafe { (made.base().add(12_287), opened.base()) };
    // SAFETY: nobody else touches it.
    unsafe { to.write(7) };
    // SAFETY: as above.
    let from = unsafe { from.add(12_287) };
    // SAFETY: the write is done.
    assert_eq!(unsafe { from.read() }, 7);
    let error = SealedMemory::open(&fd, 16_384).unwrap_err();
    let wrong = SegmentError::Size {
        found: 12_288,
        expected: 16_384,
    };
    assert_eq!(error, wrong);
    let error = SealedMemory::open(&blank(12_288, SealFlags::SHRINK), 12_288).unwrap_err();
    assert_eq!(error, SegmentError::NotSealed);
}

#[test]
fn every_field_of_the_header_is_checked() {
    let (_made, fd) = Segment::create(geometry()).unwrap();
    let file = File::from(fd.try_clone().unwrap());
    let fields = [
        (0, "magic"),
        (8, "layout version"),
        (12, "world"),
        (16, "mailbox"),
        (24, "shared"),
        (32, "first epoch"),
        (40, "digest"),
        (48, "total"),
    ];
    for (offset, name) in fields {
        let mut before = [0];
        file.read_exact_at(&mut before, offset).unwrap();
        file.write_all_at(&[before[0] ^ 0x80], offset).unwrap();
        match Segment::open(&fd, geometry()) {
            Err(SegmentError::Header { field, found, expected }) => {
                assert_eq!((field, found ^ expected), (name, 0x80));
            }
            other => panic!("{name} was changed: {other:?}"),
        }
        file.write_all_at(&before, offset).unwrap();
    }
    Segment::open(&fd, geometry()).unwrap();
}

#[test]
fn foreign_descriptors_are_refused() {
    let total = geometry().total();
    let refusal = |fd: &OwnedFd| Segment::open(fd, geometry()).unwrap_err();
    assert_eq!(refusal(&blank(total, SealFlags::empty())), SegmentError::NotSealed);
    let grows = SealFlags::SHRINK | SealFlags::SEAL;
    assert_eq!(refusal(&blank(total, grows)), SegmentError::NotSealed);
    let expected = SegmentError::Size {
        found: total + 4096,
        expected: total,
    };
    assert_eq!(refusal(&blank(total + 4096, SEALS)), expected);
    assert_eq!(
        refusal(&File::open("/dev/null").unwrap().into()),
        SegmentError::NotSealed
    );
    let error = refusal(&blank(total, SEALS));
    assert!(matches!(error, SegmentError::Header { field: "magic", .. }), "{error}");
    let error = refusal(&blank(total, SEALS | SealFlags::WRITE));
    assert!(matches!(error, SegmentError::System { call: "mmap", .. }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_segment_can_not_be_resized() {
    let (_made, fd) = Segment::create(geometry()).unwrap();
    for bytes in [0, geometry().total() * 2] {
        assert_eq!(ftruncate(fd.as_fd(), bytes), Err(rustix::io::Errno::PERM));
    }
}

#[test]
fn geometry_has_limits() {
    let make = |world, mailbox, shared| Geometry::new(world, mailbox, shared, 0, 0).map(|geometry| geometry.total());
    assert_eq!(make(1, 4096, 0), Ok(4096 + 4096));
    assert_eq!(make(2, 4096, 0), Ok(4096 + 4096 + 2 * 4096));
    assert_eq!(make(16, 64, 1), Ok(4096 + 8192 + 240 * 4096 + 16 * 4096));
    assert_eq!(make(8, 149_760, 4 << 20), Ok(8192 + 56 * (148 << 10) + (32 << 20)));
    assert!(make(16, 64 << 20, 64 << 30).is_ok());
    let refused = [
        (0, 4096, 0),
        (17, 4096, 0),
        (usize::MAX, 4096, 0),
        (2, 0, 0),
        (2, 63, 0),
        (2, 4100, 0),
        (2, (64 << 20) + 64, 0),
        (2, u64::MAX, 0),
        (2, 4096, (64 << 30) + 1),
        (2, 4096, u64::MAX),
    ];
    for (world, mailbox, shared) in refused {
        let error = make(world, mailbox, shared).unwrap_err();
        assert!(matches!(error, SegmentError::Geometry { .. }), "{error}");
    }
}

mod forked {
    //! The standard library can't fork, and rustix offers no fork; these are the three calls of POSIX.

    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }

    /// Runs `body` in a forked child; whether it returned true.
    pub fn holds(body: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs only `body`, which makes system calls and frees memory, and leaves without
        // unwinding into the parent's frames.
        match unsafe { fork() } {
            0 => {
                let status = i32::from(!body());
                // SAFETY: ends the child at once.
                unsafe { _exit(status) }
            }
            child => {
                let mut status = -1;
                // SAFETY: `status` is valid for writing.
                let waited = unsafe { waitpid(child, &raw mut status, 0) };
                assert_eq!(waited, child);
                status == 0
            }
        }
    }
}

#[test]
fn a_forked_child_knows_it() {
    let guard = ForkGuard::new().unwrap();
    assert!(!guard.is_forked());
    assert!(forked::holds(
        || guard.is_forked() && forked::holds(|| guard.is_forked())
    ));
    assert!(!guard.is_forked());
}

/// The child does not have the mapping: at its address it may have memory of its own by the time it drops
/// what it inherited.
#[test]
fn a_forked_child_does_not_unmap_what_is_no_segment() {
    let (made, _fd) = Segment::create(geometry()).unwrap();
    let address = made.mailbox(0, 1);
    assert!(forked::holds(|| {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without MAP_FIXED the address is a wish, and nothing is replaced.
        let own = unsafe { mmap_anonymous(address.as_ptr().cast(), 4096, flags, MapFlags::PRIVATE) }.unwrap();
        if own != address.as_ptr().cast() {
            return false;
        }
        // SAFETY: the page was just mapped here.
        unsafe { address.write_volatile(7) };
        drop(made);
        // SAFETY: the page is still mapped, which is what this tests.
        let kept = unsafe { address.read_volatile() };
        kept == 7
    }));
}
