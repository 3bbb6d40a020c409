//! Why an algorithm does not run a request.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AlgorithmName, Buffers, Engine, Rank, WorldSize};

/// Why an algorithm does not run a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// The algorithm is for one rank.
    NeedsOneRank {
        /// The number of ranks.
        world: WorldSize,
    },
    /// The algorithm exchanges something, and there is nobody to exchange with.
    NeedsPeers,
    /// The algorithm moves a payload, and there is none.
    NothingToExchange,
    /// The algorithm moves no payload, and there is one.
    CarriesNoPayload,
    /// Another one is predicted to take less time.
    Slower {
        /// The predicted time of this one in microseconds.
        predicted_us: f64,
        /// The predicted time of the chosen one in microseconds.
        chosen_us: f64,
    },
    /// It is predicted to take less time here, but not at all greater lengths, and the plan changes algorithm at most
    /// once as lengths grow. Small staging can cause it: each of many chunks then pays for flags.
    NotLasting {
        /// The predicted time of this one in microseconds.
        predicted_us: f64,
        /// The predicted time of the chosen one in microseconds.
        chosen_us: f64,
    },
    /// The policy pins another one.
    PinnedElsewhere {
        /// The pinned one.
        pinned: AlgorithmName,
    },
    /// The only engine that has the algorithm can't work on such buffers.
    WrongBuffers {
        /// The engine.
        engine: Engine,
        /// The buffers asked for.
        buffers: Buffers,
    },
    /// Not every rank has attached a GPU.
    NoDevice,
    /// There are more ranks than the kernels serve.
    DeviceWorld {
        /// The number of ranks.
        world: WorldSize,
        /// The most ranks that kernels serve.
        most: usize,
    },
    /// The driver does not let one rank map memory of another's GPU.
    PeerAccess {
        /// The rank that would write.
        writer: Rank,
        /// The rank that owns the memory.
        owner: Rank,
        /// What the driver says.
        cause: String,
    },
    /// One rank wrote to memory of another's GPU, and something else arrived.
    PeerDisproven {
        /// The rank that wrote.
        writer: Rank,
        /// The rank that owns the memory.
        owner: Rank,
        /// What it found there.
        found: String,
    },
    /// Nobody has tried yet whether what one rank writes to memory of another's GPU arrives.
    PeerUnproven {
        /// The rank that would write.
        writer: Rank,
        /// The rank that owns the memory.
        owner: Rank,
    },
    /// One rank's GPU can't use another's part of the host memory that they stage in.
    HostAccess {
        /// The rank that would write.
        writer: Rank,
        /// The rank whose part it is.
        owner: Rank,
        /// What the driver or the system says.
        cause: String,
    },
    /// One rank's GPU wrote to another's part of the host memory that they stage in, and something else arrived.
    HostDisproven {
        /// The rank that wrote.
        writer: Rank,
        /// The rank whose part it is.
        owner: Rank,
        /// What its GPU found there.
        found: String,
    },
    /// Nobody has tried yet whether what one rank's GPU writes to another's part of staging host memory arrives.
    HostUnproven {
        /// The rank that would write.
        writer: Rank,
        /// The rank whose part it is.
        owner: Rank,
    },
    /// The user has turned peer access off for another library, which holds here, too.
    PeerUnwished {
        /// The rank that would write.
        writer: Rank,
        /// The rank that owns the memory.
        owner: Rank,
        /// The variable with its value.
        setting: String,
    },
    /// Copies from one rank's GPU to another's were measured to be slower with peer access than without.
    PeerSlower {
        /// The rank that would write.
        writer: Rank,
        /// The rank that owns the memory.
        owner: Rank,
        /// With peer access, in millions of bytes a second.
        peer: u32,
        /// Without, in the same unit.
        staged: u32,
    },
    /// A word from one rank's GPU to another's was measured to take longer with peer access than through the host's memory and back.
    PeerFar {
        /// The rank that would write.
        writer: Rank,
        /// The rank that owns the memory.
        owner: Rank,
        /// How much longer than within one GPU, in nanoseconds.
        latency_ns: u32,
    },
    /// It isn't built yet.
    NotBuilt {
        /// What it is predicted to take, in microseconds.
        predicted_us: f64,
    },
    /// It is for ranks in islands, and there are none.
    NoIslands,
    /// The policy hands nothing to another library.
    NoDelegates {
        /// What that is predicted to take, in microseconds.
        predicted_us: f64,
    },
    /// Neither way between GPUs serves all pairs of ranks.
    NoWay {
        /// Why peer access does not.
        peer: Box<Refusal>,
        /// Why host memory does not.
        host: Box<Refusal>,
    },
}

impl Refusal {
    /// What to do about it, where something can be done.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Refusal::NeedsOneRank { .. }
            | Refusal::NeedsPeers
            | Refusal::NothingToExchange
            | Refusal::CarriesNoPayload
            | Refusal::Slower { .. }
            | Refusal::NotLasting { .. }
            | Refusal::NotBuilt { .. }
            | Refusal::NoIslands => None,
            Refusal::NoDelegates { .. } => {
                Some("plan with the policy fastest to see where another library would be handed the message")
            }
            Refusal::PeerUnwished { .. } => Some("unset the variable, or name the path: peer"),
            Refusal::PeerSlower { .. } | Refusal::PeerFar { .. } => Some(
                "an IOMMU that translates, or PCIe access control (ACS) on a switch between the GPUs, redirects their writes: turn it \
                 off in the firmware, or name the path: peer",
            ),
            Refusal::PinnedElsewhere { .. } => Some("pin this one, or leave the choice to the plan (auto)"),
            Refusal::WrongBuffers { .. } => Some("give buffers that the engine takes, or pin another algorithm"),
            Refusal::NoDevice => Some("attach a GPU on every rank, or give buffers in the host's memory"),
            Refusal::DeviceWorld { .. } => Some("start fewer ranks, or give buffers in the host's memory"),
            Refusal::PeerAccess { .. } => Some(
                "see what `nvidia-smi topo -p2p w` says of the two GPUs: many consumer cards have no peer access, and \
                 a container may see a GPU without the right to its peers; ranks can stage in host memory instead (path \
                 auto or host_staged)",
            ),
            Refusal::PeerDisproven { .. } => Some(
                "writes between these GPUs are lost or land elsewhere: an IOMMU that translates, or PCIe access control \
                 (ACS) on a switch between them, can cause it; turn it off in the firmware, or let ranks stage in host \
                 memory (path auto or host_staged)",
            ),
            Refusal::HostAccess { .. } => Some(
                "see that the container may pin as much memory, which its memory limit counts; WSL pins little memory, and \
                 some virtual machines none",
            ),
            Refusal::HostDisproven { .. } => Some(
                "writes of a GPU to host memory are lost or late, which no program on it survives: see the kernel log for \
                 IOMMU faults and NVRM messages (dmesg)",
            ),
            Refusal::NoWay { host, .. } => host.hint(),
            Refusal::PeerUnproven { .. } | Refusal::HostUnproven { .. } => {
                Some("join anew: access is proven while ranks join")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NeedsOneRank { world } => write!(f, "it is for one rank, and there are {world}"),
            Refusal::NeedsPeers => write!(f, "there are no peers to exchange with"),
            Refusal::NothingToExchange => write!(f, "there is nothing to exchange"),
            Refusal::CarriesNoPayload => write!(f, "it moves no payload, and there is one"),
            Refusal::Slower {
                predicted_us,
                chosen_us,
            } => {
                write!(f, "predicted {predicted_us:.2} us, the chosen one {chosen_us:.2} us")
            }
            Refusal::NotLasting {
                predicted_us,
                chosen_us,
            } => write!(
                f,
                "predicted {predicted_us:.2} us here, the chosen one {chosen_us:.2} us, but slower again at greater lengths"
            ),
            Refusal::PinnedElsewhere { pinned } => write!(f, "the policy pins {pinned}"),
            Refusal::WrongBuffers { engine, buffers } => {
                write!(f, "it runs on engine {engine}, which does not take {buffers} buffers")
            }
            Refusal::NoDevice => write!(f, "not every rank has attached a GPU"),
            Refusal::DeviceWorld { world, most } => {
                write!(f, "kernels serve at most {most} ranks, and there are {world}")
            }
            Refusal::PeerAccess { writer, owner, cause } => {
                write!(
                    f,
                    "the GPU of rank {writer} has no access to memory of rank {owner}'s: {cause}"
                )
            }
            Refusal::PeerDisproven { writer, owner, found } => {
                write!(
                    f,
                    "what rank {writer} wrote to memory of rank {owner}'s GPU did not arrive: {found}"
                )
            }
            Refusal::PeerUnproven { writer, owner } => {
                write!(
                    f,
                    "it is not proven that what rank {writer} writes to memory of rank {owner}'s GPU arrives"
                )
            }
            Refusal::HostAccess { writer, owner, cause } => {
                write!(
                    f,
                    "the GPU of rank {writer} can't use rank {owner}'s part of pinned host memory: {cause}"
                )
            }
            Refusal::HostDisproven { writer, owner, found } => {
                write!(
                    f,
                    "what rank {writer}'s GPU wrote to rank {owner}'s part of pinned host memory did not arrive: {found}"
                )
            }
            Refusal::PeerUnwished { writer, owner, setting } => write!(
                f,
                "the user wants no peer access between the GPUs of ranks {writer} and {owner}: {setting}"
            ),
            Refusal::PeerSlower {
                writer,
                owner,
                peer,
                staged,
            } => write!(
                f,
                "copies from rank {writer}'s GPU to rank {owner}'s run at {:.1} GB/s with peer access and at {:.1} without",
                f64::from(*peer) / 1e3,
                f64::from(*staged) / 1e3
            ),
            Refusal::PeerFar {
                writer,
                owner,
                latency_ns,
            } => write!(
                f,
                "a word from rank {writer}'s GPU takes {:.1} us to rank {owner}'s with peer access: something stages or redirects it",
                f64::from(*latency_ns) / 1e3
            ),
            Refusal::NotBuilt { predicted_us } => write!(f, "not built yet; predicted {predicted_us:.2} us"),
            Refusal::NoIslands => write!(f, "no ranks are nearer to each other than to the rest"),
            Refusal::NoDelegates { predicted_us } => write!(
                f,
                "the policy exact hands nothing to another library; predicted {predicted_us:.2} us"
            ),
            Refusal::NoWay { peer, host } => write!(f, "{peer}; and {host}"),
            Refusal::HostUnproven { writer, owner } => {
                write!(
                    f,
                    "nobody has tried whether what rank {writer}'s GPU writes to rank {owner}'s part of pinned host \
                     memory arrives"
                )
            }
        }
    }
}
