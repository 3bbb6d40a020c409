//! Gates: each asks one yes-or-no question. A yes is a value that can't be made otherwise, and an algorithm can't be
//! constructed without the values it needs; a no is a [`crate::Refusal`] with the facts.
//!
//! Values of this room are small and `Copy`: they travel inside the chosen [`crate::Algorithm`] on every call.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::algorithm::LINE;
use crate::closed::closed_words;
use crate::{AlgorithmChoice, AlgorithmName, Buffers, Dtype, Elements, Limits, Policy, WorldSize};

mod device;

pub use device::{Bulk, DEVICE_WORLD_MAX, DeviceFit, device_fit};
pub(crate) use device::{
    FRAME, Proven, QUAD, Shots, WARP, Way, peer_by_choice, proven, proven_along, slower, supposed,
};

closed_words! {
    /// A question that is asked before a decision.
    pub enum Gate ("gate") {
        /// Is there more than one rank?
        Peers = 0 => "peers",
        /// Is there anything to exchange?
        Payload = 1 => "payload",
        /// Does a chunk of one shot fit a mailbox? A plan is made only if so.
        OneShotFit = 2 => "one_shot_fit",
        /// Does a shard of a chunk of two shots fit a mailbox? A plan is made only if so.
        TwoShotFit = 3 => "two_shot_fit",
        /// Can peers read the input where it is?
        InPlace = 4 => "in_place",
        /// Has every rank a core to itself?
        Cores = 5 => "cores",
        /// Is there a GPU for every rank, and does the communicator fit them?
        DeviceFit = 6 => "device_fit",
        /// Does what any rank writes to another's GPU arrive?
        PeerAccess = 7 => "peer_access",
        /// Has every rank a GPU to itself?
        OwnDevice = 8 => "own_device",
        /// Does what any rank's GPU writes for another into pinned host memory arrive?
        HostStaging = 9 => "host_staging",
        /// What lies between the ranks' GPUs?
        Links = 10 => "links",
        /// Are all ranks on this host?
        SameHost = 11 => "same_host",
        /// Does the user admit peer access?
        NcclWishes = 12 => "nccl_settings",
        /// Can every rank map what it writes to?
        Mappings = 13 => "mappings",
        /// Is no IOMMU in use?
        IommuOff = 14 => "iommu_off",
        /// Do switches pass requests straight to peers?
        AcsOff = 15 => "acs_off",
        /// Is this no virtual machine?
        BareMetal = 16 => "bare_metal",
        /// Is this no subsystem of Windows?
        NotWsl = 17 => "not_wsl",
        /// Has every rank a whole GPU, not an instance?
        MigOff = 18 => "mig_off",
        /// Is no display attached to a rank's GPU?
        NoDisplay = 19 => "no_display",
        /// Is no GPU in a slot that holds all others up?
        EvenSlots = 20 => "even_slots",
        /// Are copies with peer access as fast as without?
        PeerRate = 21 => "peer_rate",
        /// Is the choice left to the plan?
        Policy = 22 => "policy",
        /// Do stores that share a link go to one other root port at a time?
        GatheredStores = 23 => "gathered_stores",
    }
}

impl Gate {
    /// What can be done where the answer is no, if anything can.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        match self {
            Gate::Peers
            | Gate::Payload
            | Gate::OneShotFit
            | Gate::TwoShotFit
            | Gate::InPlace
            | Gate::Links
            | Gate::SameHost => None,
            Gate::Cores => Some("start fewer ranks, or allow more CPUs (taskset, the container's cpuset)"),
            Gate::DeviceFit => Some("give each rank a GPU (CUDA_VISIBLE_DEVICES), and start at most 8 ranks"),
            Gate::PeerAccess => Some(
                "see the reason: drivers of GeForce cards refuse peer access, and ACS, an IOMMU or a virtual machine may redirect it (on servers, turn ACS off for the GPUs' ports)",
            ),
            Gate::OwnDevice => Some("start no more ranks than there are GPUs"),
            Gate::HostStaging => Some("allow more locked memory (ulimit -l) and memory for the control group"),
            Gate::NcclWishes => Some("unset the variable, or name the path: peer"),
            Gate::Mappings => Some("start fewer ranks with a GPU each"),
            Gate::IommuOff => {
                Some("where peers' writes are lost or slow, boot with iommu=pt, or turn the IOMMU off in the firmware")
            }
            Gate::AcsOff => Some("turn ACS off for the ports between the GPUs, in the firmware or with setpci"),
            Gate::BareMetal => Some(
                "where peers' writes are lost or slow, ask for GPUs below one switch that are passed through together",
            ),
            Gate::NotWsl => {
                Some("run on Linux itself: there is no peer access below Windows, and little memory can be pinned")
            }
            Gate::MigOff => Some("give each rank a GPU of its own: instances have no peer access (nvidia-smi -mig 0)"),
            Gate::NoDisplay => Some("take the display to another GPU, or run without one"),
            Gate::EvenSlots => Some("move the GPU to a slot of the processor's that has all lanes, or leave it out"),
            Gate::PeerRate => Some("turn off what redirects peers' writes (IOMMU, ACS), or take the path host_staged"),
            Gate::GatheredStores => Some("time it there (lanesum bench), or name the path: host_staged"),
            Gate::Policy => Some("ask for auto, or see that what is asked for is meant"),
        }
    }
}

closed_words! {
    /// A gate's answer.
    pub enum Answer ("answer") {
        /// It is so.
        Yes = 0 => "yes",
        /// It is not so.
        No = 1 => "no",
        /// It was not observed.
        Unknown = 2 => "unknown",
    }
}

/// A gate's answer with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The question.
    pub gate: Gate,
    /// The answer.
    pub answer: Answer,
    /// What it rests on, for people.
    pub evidence: String,
}

impl Finding {
    /// What to do about it, if the answer is no and something can be done.
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self.answer {
            Answer::Yes | Answer::Unknown => None,
            Answer::No => self.gate.remedy(),
        }
    }
}

/// Evidence: the world has one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Single(());

/// Evidence: the world has more than one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peers(WorldSize);

impl Peers {
    #[inline]
    pub(crate) const fn world(self) -> WorldSize {
        self.0
    }
}

/// Evidence: there is something to exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload(NonZeroU64);

impl Payload {
    #[inline]
    pub(crate) const fn elements(self) -> u64 {
        self.0.get()
    }
}

/// Evidence: a chunk of one shot fits a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneShotFit {
    chunk: NonZeroU64,
    in_place: bool,
}

impl OneShotFit {
    #[inline]
    pub(crate) const fn chunk(self) -> Elements {
        Elements::new(self.chunk.get())
    }

    /// The same for inputs that are read where they are, or are not.
    pub(crate) const fn in_place(self, in_place: bool) -> OneShotFit {
        OneShotFit { in_place, ..self }
    }

    pub(crate) const fn is_in_place(self) -> bool {
        self.in_place
    }
}

/// Evidence: each shard of a chunk of two shots fits a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TwoShotFit {
    chunk: NonZeroU64,
    line_elements: NonZeroU64,
}

impl TwoShotFit {
    #[inline]
    pub(crate) const fn chunk(self) -> Elements {
        Elements::new(self.chunk.get())
    }

    #[inline]
    pub(crate) const fn line_elements(self) -> u64 {
        self.line_elements.get()
    }
}

/// Is this rank alone, or are there peers?
pub(crate) const fn company(world: WorldSize) -> Result<Peers, Single> {
    if world.get() > 1 {
        Ok(Peers(world))
    } else {
        Err(Single(()))
    }
}

/// Is there anything to exchange?
#[inline]
pub(crate) const fn payload(elements: Elements) -> Option<Payload> {
    match NonZeroU64::new(elements.get()) {
        Some(elements) => Some(Payload(elements)),
        None => None,
    }
}

/// Does a chunk of one shot fit a mailbox? It is given all of it.
pub(crate) fn one_shot_fit(limits: Limits, dtype: Dtype, peers: Peers) -> Option<OneShotFit> {
    let chunk = limits.mailbox(peers.world()).get() / LINE * line_elements(dtype)?.get();
    Some(OneShotFit {
        chunk: NonZeroU64::new(chunk)?,
        in_place: false,
    })
}

/// Does each shard of a chunk of two shots fit a mailbox? A chunk has as many lines as all shards together.
pub(crate) fn two_shot_fit(limits: Limits, dtype: Dtype, peers: Peers) -> Option<TwoShotFit> {
    let line_elements = line_elements(dtype)?;
    let lines = limits.mailbox(peers.world()).get() / LINE * peers.world().get() as u64;
    Some(TwoShotFit {
        chunk: NonZeroU64::new(lines * line_elements.get())?,
        line_elements,
    })
}

/// Are one shot's inputs read where they are? Those in shared memory can be, and are where the user insists on one shot: the
/// model finds mailboxes or two shots faster at every length and world.
pub(crate) fn in_place(buffers: Buffers, policy: Policy) -> bool {
    match (buffers, policy.algorithm) {
        (Buffers::Shared, AlgorithmChoice::Only(AlgorithmName::OneShotPull)) => true,
        (Buffers::Shared | Buffers::Private | Buffers::Device, AlgorithmChoice::Auto | AlgorithmChoice::Only(_)) => {
            false
        }
    }
}

const fn line_elements(dtype: Dtype) -> Option<NonZeroU64> {
    NonZeroU64::new(LINE / dtype.size() as u64)
}
