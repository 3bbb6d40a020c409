//! Making ready what a rank needs before it can call: memory of its own, that of its peers, and each way between. `proof.rs` proves it.

use core::cell::OnceCell;
use core::ffi::c_void;
use core::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use lanesum_plan::{DeviceFit, Path, PeerVerdict, Rank, WorldSize};

use crate::bench::BenchModule;
use crate::buffer::Memory;
use crate::counters::DeviceCounters;
use crate::device::Device;
use crate::driver::types::*;
use crate::error::CudaError;
use crate::event::Event;
use crate::graph::Holders;
use crate::inbox::{Inbox, Offer};
use crate::launch::Headway;
use crate::layout::{self, Areas, Notice, WORLD_MAX};
use crate::module::Module;
use crate::nvtx;
use crate::retired;
use crate::shared::HostMemory;
use crate::stream::Stream;

/// A way between the ranks' GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each writes into memory of the others' GPUs.
    Peer,
    /// Each writes into host memory that the others' GPUs read.
    HostStaged {
        /// The NUMA node that this rank's GPU is next to, if known.
        node: Option<u32>,
        /// The most memory that all ranks together may use, if it is limited.
        limit: Option<u64>,
    },
}

/// What came of opening a way.
#[derive(Debug)]
pub enum Opened {
    /// What the peers need to map this rank's inbox.
    Offer(Vec<u8>, Option<OwnedFd>),
    /// The driver shares no memory of this device with other processes, and says why.
    Unshared(CudaError),
}

/// A rank's part of a communicator, before anybody calls.
#[derive(Debug)]
pub struct Staged {
    pub(crate) device: Device,
    pub(crate) rank: Rank,
    pub(crate) world: WorldSize,
    pub(crate) fit: DeviceFit,
    /// As `local`, dropped only where no kernel can run any more.
    pub(crate) module: ManuallyDrop<Module>,
    /// Which calls start early.
    pub(crate) headway: Headway,
    pub(crate) local: ManuallyDrop<Memory>,
    pub(crate) mapped: Arc<HostMemory>,
    /// By rank, this one's too; none before a way is opened.
    pub(crate) inboxes: Vec<Option<Inbox>>,
    /// Where this rank's own frames stand if they are not to cross the bus.
    own_frames: Option<Memory>,
    /// This rank's own inbox of a way that led nowhere, until no peer has it open.
    former: Option<Inbox>,
    pub(crate) stream: Stream,
    /// Orders calls on several streams.
    pub(crate) order: Event,
    /// The graphs that have recorded calls, and run them with what is here.
    pub(crate) graphs: Holders,
    /// Kernels that measure the floor of a call, where somebody has asked for them.
    pub(crate) bench: OnceCell<BenchModule>,
    /// Of every lane's first exchange.
    first_epoch: u64,
    pub(crate) deadline: Duration,
    /// Of an inbox.
    bytes: u64,
    /// For chunks, in the inboxes of the way that is open.
    pub(crate) areas: Areas,
}

impl Staged {
    /// Loads the kernels and makes this rank's state. `first_epoch` is that of every lane's first exchange.
    ///
    /// # Errors
    /// [`CudaError`] that says what was refused.
    pub fn new(
        device: &Device,
        (rank, world): (Rank, WorldSize),
        fit: DeviceFit,
        first_epoch: u64,
        deadline: Duration,
    ) -> Result<Self, CudaError> {
        nvtx::load();
        // What was made ready here concerns no capture of this thread.
        let _relaxed = device.relaxed()?;
        retired::collect();
        let module = Module::load(device, world.get())?;
        let headway = Headway::of_calls(device, &fit, module.target);
        let stream = Stream::new(device)?;
        let local = Memory::new(device, "the lanes' state", layout::LOCAL)?;
        let mapped = Arc::new(HostMemory::new(device)?);
        let order = Event::untimed(device)?;
        Ok(Self {
            // From here on, `Drop` sees to them.
            local: ManuallyDrop::new(local),
            mapped,
            order,
            graphs: Holders::default(),
            bench: OnceCell::new(),
            first_epoch,
            device: device.clone(),
            rank,
            world,
            fit,
            module: ManuallyDrop::new(module),
            headway,
            inboxes: world.ranks().map(|_| None).collect(),
            own_frames: None,
            former: None,
            stream,
            deadline,
            bytes: 0,
            areas: Areas::default(),
        })
    }

    /// Makes this rank's inbox for a way, closing what was open of another, and tells what the peers need to map it.
    ///
    /// # Errors
    /// [`CudaError`] that says what went wrong; that this device's memory can't be shared is none.
    pub fn open(&mut self, way: Way) -> Result<Opened, CudaError> {
        let _relaxed = self.device.relaxed()?;
        self.former = self.take_own_inbox();
        self.inboxes.fill_with(|| None);
        self.own_frames = None;
        let frames = layout::inbox_bytes(self.world.get(), self.fit.lanes(), self.fit.capacity());
        let path = match way {
            Way::Peer => Path::Peer,
            Way::HostStaged { .. } => Path::HostStaged,
        };
        self.areas = self
            .fit
            .bulk(path)
            .map_or_else(Areas::default, |bulk| Areas::new(frames, bulk));
        self.bytes = frames.max(self.areas.end(self.world.get()));
        if matches!(way, Way::HostStaged { .. }) && self.fit.crowd() > 2 {
            // Many on one link: who starts early only polls across it in vain.
            self.headway = Headway::None;
        }
        let (own, offer, descriptor) = match way {
            Way::Peer => match Inbox::create(&self.device, self.bytes) {
                Err(error) if error.is_refusal() => return Ok(Opened::Unshared(error)),
                created => created?,
            },
            Way::HostStaged { node, limit } => {
                let all = self.bytes.saturating_mul(self.world.get() as u64);
                if let Some(limit) = limit.filter(|&limit| limit < all) {
                    return Err(CudaError::HostLimit { bytes: all, limit });
                }
                let bytes = layout::own_bytes(self.fit.lanes(), self.fit.capacity());
                self.own_frames = Some(Memory::new(&self.device, "a rank's own frames", bytes)?);
                Inbox::create_on_host(&self.device, self.bytes, node)?
            }
        };
        if let Some(slot) = self.inboxes.get_mut(self.rank.index()) {
            *slot = Some(own);
        }
        self.format(self.first_epoch)?;
        let description = |_| CudaError::Description {
            rank: self.rank.index(),
        };
        let bytes = serde_json::to_vec(&offer).map_err(description)?;
        Ok(Opened::Offer(bytes, descriptor))
    }

    /// Maps a peer's inbox from what it offered, after all ranks have opened the way. `same_process`: the peer is a thread of this
    /// process.
    ///
    /// # Errors
    /// [`CudaError`] of this rank's own making; what the driver refuses about the pair is the verdict.
    pub fn map(
        &mut self,
        peer: Rank,
        offer: &[u8],
        descriptor: Option<OwnedFd>,
        same_process: bool,
    ) -> Result<PeerVerdict, CudaError> {
        let _relaxed = self.device.relaxed()?;
        // Every peer has closed it before it made its offer.
        self.former = None;
        let unread = |_| CudaError::Description { rank: peer.index() };
        let offer: Offer = serde_json::from_slice(offer).map_err(unread)?;
        match Inbox::import(&self.device, peer.index(), &offer, descriptor, self.bytes, same_process) {
            Ok(inbox) => {
                if let Some(slot) = self.inboxes.get_mut(peer.index()) {
                    *slot = Some(inbox);
                }
                Ok(PeerVerdict::Unknown)
            }
            // Nothing is known of the pair then.
            Err(error) if error.code() == Some(code::OUT_OF_MEMORY) => Err(error),
            Err(
                error @ (CudaError::Driver { .. }
                | CudaError::Pinning { .. }
                | CudaError::HostMemory(_)
                | CudaError::NoDevice
                | CudaError::Lacks { .. }),
            ) => Ok(PeerVerdict::Refused {
                reason: error.to_string(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Whether the first lanes have finished call `ticket`. Asks the lanes themselves: the caller's stream may be gone.
    pub(crate) fn have_finished(&self, lanes: u32, ticket: u64) -> Result<bool, CudaError> {
        let words = self.read_words(self.local.address, layout::LANE_WORDS * layout::LANES_MAX)?;
        let mut lanes = words.chunks_exact(layout::LANE_WORDS).take(lanes as usize);
        Ok(lanes.all(|lane| lane.last() == Some(&ticket)))
    }

    /// Changes whenever a call makes an exchange, a replay's too.
    pub(crate) fn progress(&self) -> u64 {
        let words = self.read_words(self.local.address, 1);
        words.ok().and_then(|words| words.first().copied()).unwrap_or(0)
    }

    /// Whether no lane is in a call.
    pub(crate) fn is_at_rest(&self) -> Result<bool, CudaError> {
        let words = self.read_words(self.local.address, layout::LANE_WORDS * layout::LANES_MAX)?;
        let mut lanes = words.chunks_exact(layout::LANE_WORDS);
        Ok(lanes.all(|lane| lane.first().is_some_and(|word| word & layout::LANE_RUNNING == 0)))
    }

    /// What the device has counted, by lane 0, which takes part in every call.
    pub(crate) fn counters(&self) -> Result<DeviceCounters, CudaError> {
        let words = self.read_words(self.local.address, layout::LOCAL / 8)?;
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let peers = self.world.ranks().filter(|&rank| rank != self.rank);
        let waited = |rank: Rank| Duration::from_nanos(word(layout::WAITED_WORD + rank.index()));
        let exchanges = word(0).wrapping_sub(self.first_epoch) & layout::LANE_EPOCH;
        Ok(DeviceCounters {
            // Each call that ends well does so with one exchange; the others are counted. While a call is under way it may be short.
            calls: exchanges.saturating_sub(word(layout::BARREN_WORD)),
            exchanges,
            waited: peers.map(|rank| (rank, waited(rank))).collect(),
        })
    }

    /// Reads words of this rank's own memory, beside whatever kernels run.
    pub(crate) fn read_words(&self, place: DevicePointer, count: usize) -> Result<Vec<u64>, CudaError> {
        let mut words = vec![0_u64; count];
        let driver = self.device.driver();
        let _current = self.device.current()?;
        let _relaxed = self.device.relaxed()?;
        let stream = StreamHandle(self.stream.raw().0);
        driver.check("cuMemcpyDtoHAsync", || {
            // SAFETY: the places come from the layout of this rank's memory; `words` has the size and lives until the stream is done.
            unsafe {
                (driver.table.cuMemcpyDtoHAsync_v2)(words.as_mut_ptr().cast::<c_void>(), place, words.len() * 8, stream)
            }
        })?;
        driver.check("cuStreamSynchronize", || {
            // SAFETY: the stream lives.
            unsafe { (driver.table.cuStreamSynchronize)(stream) }
        })?;
        Ok(words)
    }

    pub(crate) fn take_own_inbox(&mut self) -> Option<Inbox> {
        self.inboxes.get_mut(self.rank.index()).and_then(Option::take)
    }

    /// Whether its own inbox goes away with it even if a peer still has it mapped.
    pub(crate) fn dies_for_peers(&self) -> bool {
        self.inboxes
            .get(self.rank.index())
            .and_then(Option::as_ref)
            .is_some_and(Inbox::dies_for_peers)
    }

    /// Closes those inboxes of peers that the peers may free once this rank says that it has left.
    pub(crate) fn close_opened(&mut self) {
        for inbox in &mut self.inboxes {
            drop(inbox.take_if(|inbox| inbox.is_opened()));
        }
    }

    /// Where this rank's own frames stand, if not in its inbox.
    pub(crate) fn own_frames(&self) -> Option<DevicePointer> {
        self.own_frames.as_ref().map(|frames| frames.address)
    }

    pub(crate) fn own_inbox(&self) -> DevicePointer {
        self.addresses()[self.rank.index() % WORLD_MAX]
    }

    /// Of all inboxes, by rank.
    pub(crate) fn addresses(&self) -> [DevicePointer; WORLD_MAX] {
        let mut addresses = [0; WORLD_MAX];
        for (address, inbox) in addresses.iter_mut().zip(&self.inboxes) {
            *address = inbox.as_ref().map_or(0, Inbox::address);
        }
        addresses
    }

    pub(crate) fn notice(&self, kind: u64, nonce: u64) -> Notice {
        Notice {
            kind,
            nonce,
            rank: self.rank.index() as u32,
            world: self.world.get() as u32,
            local: self.local.address,
            inboxes: self.addresses(),
            seen: 0,
        }
    }

    /// A farewell that is said to nobody: it only closes the lanes.
    pub(crate) fn silent_notice(&self) -> Notice {
        Notice {
            world: 0,
            ..self.notice(0, 0)
        }
    }

    /// Puts stale words where headers and frames will come, as `lanesum-segment` does on the host: the tag of the last epoch of
    /// each half before the first; and zeros for the counts of chunks, which are of no epoch that comes. GPUs give out memory as they got
    /// it back.
    fn format(&self, first_epoch: u64) -> Result<(), CudaError> {
        self.fill_inbox(0, 0, layout::INBOX_HEAD / 4)?;
        self.fill_inbox(self.areas.start, 0, self.areas.line_bytes() / 4)?;
        let (lanes, capacity) = (self.fit.lanes(), self.fit.capacity());
        let half_bytes = layout::half_bytes(lanes, capacity);
        for half in 0..2 {
            let stale = first_epoch.wrapping_sub(2).wrapping_add((first_epoch ^ half) & 1) as u32;
            // A packet's tag is its upper 16 bits.
            let packet = (stale & 0xFFFF) << 16;
            for leaf in 0..self.world.get() as u64 {
                let region = layout::region(0, leaf, lanes, capacity);
                self.fill_inbox(region + half * half_bytes, packet, half_bytes / 4)?;
            }
            if let Some(own) = &self.own_frames {
                self.fill_words(own.address + half * half_bytes, packet, half_bytes / 4)?;
            }
        }
        self.fill_words(self.local.address, 0, layout::LOCAL as u64 / 4)?;
        let word = first_epoch & layout::LANE_EPOCH;
        for lane in 0..layout::LANES_MAX as u64 {
            let place = self.local.address + lane * layout::LANE as u64;
            self.fill_words(place, word as u32, 1)?;
            self.fill_words(place + 4, (word >> 32) as u32, 1)?;
        }
        self.stream.synchronize(self.deadline)
    }

    /// Fills 4-byte words of this rank's own inbox from this byte on.
    fn fill_inbox(&self, from: u64, word: u32, words: u64) -> Result<(), CudaError> {
        let own = self.inboxes.get(self.rank.index()).and_then(Option::as_ref);
        match own.and_then(Inbox::on_host) {
            None => self.fill_words(self.own_inbox() + from, word, words),
            Some(memory) => {
                let end = from + words * 4;
                if end > memory.bytes() as u64 {
                    return Err(CudaError::Description {
                        rank: self.rank.index(),
                    });
                }
                // SAFETY: the range was found to lie in the memory.
                let start = unsafe { memory.base().add(from as usize) };
                // SAFETY: as above; places of the layout are multiples of 8 from the start of a page, and neither a peer nor a device
                // has the memory yet.
                unsafe { core::slice::from_raw_parts_mut(start.cast::<u32>().as_ptr(), words as usize) }.fill(word);
                Ok(())
            }
        }
    }

    /// Fills 4-byte words of device memory.
    fn fill_words(&self, place: DevicePointer, word: u32, words: u64) -> Result<(), CudaError> {
        let driver = self.device.driver();
        let _current = self.device.current()?;
        driver.check("cuMemsetD32Async", || {
            // SAFETY: the places come from the layout of memory that this rank has just made; nobody else uses it yet.
            unsafe { (driver.table.cuMemsetD32Async)(place, word, words as usize, StreamHandle(self.stream.raw().0)) }
        })
    }

    /// Device memory that this rank has taken, bytes.
    pub(crate) fn memory(&self) -> u64 {
        let frames = match self.own_frames {
            Some(_) => layout::own_bytes(self.fit.lanes(), self.fit.capacity()) as u64,
            None => self.bytes,
        };
        frames + layout::LOCAL as u64
    }

    /// Host memory that all ranks together have pinned to stage in, bytes.
    pub(crate) fn pinned(&self) -> u64 {
        match self.own_frames {
            Some(_) => self.bytes * self.world.get() as u64,
            None => 0,
        }
    }
}

/// A set-up that came to nothing: fills and proofs of its own may be under way, and a peer may just be writing its proof here.
impl Drop for Staged {
    fn drop(&mut self) {
        let done = self.stream.synchronize(self.deadline);
        let own = [self.take_own_inbox(), self.former.take()].into_iter().flatten();
        if done.is_err() {
            // A kernel may still run: what it uses stays.
            own.for_each(core::mem::forget);
            self.inboxes.drain(..).for_each(core::mem::forget);
            core::mem::forget(self.own_frames.take());
            core::mem::forget(Arc::clone(&self.mapped));
            return;
        }
        own.for_each(|own| retired::keep_inbox(own, || false));
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.local) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.module) };
    }
}
