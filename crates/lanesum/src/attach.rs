//! Attaching a GPU on every rank: offers, mapping and proofs, each step told to all ranks so that all end alike.

use lanesum_cuda::{CudaError, Device, Opened, Staged, Way};
use lanesum_plan::{
    Bytes, DeviceFit, Gpus, Limits, PathChoice, PeerVerdict, Rank, Refusal, Topology, WorldSize, device_fit, unwished,
};
use lanesum_rendezvous::{Meeting, Parcel};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::fd::OwnedFd;

use crate::builder::Builder;
use crate::engines::EngineChoice;
use crate::error::Error;

/// What came of attaching.
pub(crate) enum Attached {
    /// Every rank is ready to call; the verdicts are in the topology.
    Ready(Box<Staged>, Gpus),
    /// No way that the policy admits is there between all ranks; the verdicts say why.
    Apart(Gpus),
    /// Some rank could not; the same words on all ranks but its own, which has the error.
    Without(Without),
}

/// Why a communicator has no GPU.
#[derive(Debug)]
pub(crate) enum Without {
    /// None was asked for.
    Unasked,
    /// This rank's own trouble.
    Own(CudaError),
    /// A peer's.
    Peer { rank: Rank, reason: String },
    /// The plan admits none.
    Refused(Refusal),
}

impl Without {
    /// In words, where somebody had asked.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Unasked => None,
            Self::Own(error) => Some(error.to_string()),
            Self::Peer { rank, reason } => Some(format!("rank {rank}: {reason}")),
            Self::Refused(refusal) => Some(refusal.to_string()),
        }
    }

    /// The same with why the way before did not serve, if one was tried.
    fn after(self, peer: Option<Refusal>) -> Self {
        match (self, peer) {
            (Self::Own(host), Some(peer)) => Self::Own(CudaError::NoWay {
                peer: peer.to_string(),
                host: Box::new(host),
            }),
            (Self::Peer { rank, reason }, Some(peer)) => Self::Peer {
                rank,
                reason: format!("{reason} (it stages in host memory, since {peer})"),
            },
            (without, _) => without,
        }
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Own(error) => Error::Cuda(error),
            Self::Peer { rank, reason } => Error::PeerDevice { rank, reason },
            Self::Refused(refusal) => Error::Refused(refusal.into()),
            Self::Unasked => Error::Refused(Refusal::NoDevice.into()),
        }
    }
}

/// This rank's GPU, if one is wanted: the one asked for, or the rank's turn among those there are.
pub(crate) fn open(builder: &Builder) -> Result<Device, Without> {
    let opened = match (builder.engine, builder.device) {
        (EngineChoice::Host, _) => return Err(Without::Unasked),
        (EngineChoice::Cuda | EngineChoice::Auto, Some(ordinal)) => Device::open(ordinal),
        (EngineChoice::Cuda | EngineChoice::Auto, None) => {
            lanesum_cuda::device_count().and_then(|count| Device::open(builder.rank % count))
        }
    };
    opened.map_err(Without::Own)
}

/// Who takes part.
pub(crate) struct Party<'a> {
    pub(crate) meeting: &'a mut Meeting,
    pub(crate) rank: Rank,
    pub(crate) world: WorldSize,
}

impl Party<'_> {
    /// Makes, passes, maps and proves, by one way after the other. `gpus` describes the ranks' devices, `topology` all else that was seen;
    /// both are the same on all ranks.
    pub(crate) fn attach(
        &mut self,
        builder: &Builder,
        device: &Device,
        limits: Limits,
        (mut gpus, topology): (Gpus, &Topology),
    ) -> Result<Attached, Error> {
        let fit = match device_fit(limits, Some(&gpus), self.world) {
            Ok(fit) => fit,
            Err(refusal) => return Ok(Attached::Without(Without::Refused(refusal))),
        };
        let mut staged = match self.stage(builder, device, fit)? {
            Ok(staged) => staged,
            Err(without) => return Ok(Attached::Without(without)),
        };
        let staging = Way::HostStaged {
            node: gpus.ranks.get(self.rank.index()).and_then(|gpu| gpu.numa_node),
            limit: topology.host.memory_limit.map(Bytes::get),
        };
        // One rank exchanges nothing: memory of its GPU will do, whatever path is asked for.
        let choice = if self.world.get() == 1 {
            PathChoice::Auto
        } else {
            builder.path
        };
        // Peer access that the user doesn't want is not tried: it may be what hangs there.
        let unwished = unwished(topology, self.world, choice);
        let ways: &[Way] = match choice {
            PathChoice::Auto if unwished.is_some() => &[staging],
            PathChoice::Auto => &[Way::Peer, staging],
            PathChoice::Peer => &[Way::Peer],
            PathChoice::HostStaged => &[staging],
        };
        for way in ways {
            let verdicts = match self.try_way(&mut staged, *way)? {
                Ok(verdicts) => verdicts,
                Err(without) => {
                    return Ok(Attached::Without(
                        without.after(unwished.or_else(|| gpus.peer_refusal())),
                    ));
                }
            };
            let proven = verdicts
                .iter()
                .flatten()
                .all(|verdict| matches!(verdict, PeerVerdict::Own | PeerVerdict::Proven));
            match way {
                Way::Peer => gpus.peers = verdicts,
                Way::HostStaged { .. } => gpus.staged = verdicts,
            }
            if proven {
                return Ok(Attached::Ready(Box::new(staged), gpus));
            }
        }
        Ok(Attached::Apart(gpus))
    }

    /// Maps all inboxes of a way and, if none is refused, proves it. The verdicts are by writer, then by owner.
    fn try_way(&mut self, staged: &mut Staged, way: Way) -> Result<Result<Vec<Vec<PeerVerdict>>, Without>, Error> {
        let row = match self.map(staged, way)? {
            Ok(row) => row,
            Err(without) => return Ok(Err(without)),
        };
        let mut verdicts = self.gather(&row)?;
        let refused = |verdict: &PeerVerdict| matches!(verdict, PeerVerdict::Refused { .. });
        if verdicts.iter().flatten().any(refused) {
            return Ok(Ok(verdicts));
        }
        // A nonce of its own for each way: what was right by one is not taken for proof of another.
        let nonce = self.meeting.token() ^ u64::from(way != Way::Peer);
        let columns = match self.prove(staged, nonce)? {
            Ok(columns) => columns,
            Err(without) => return Ok(Err(without)),
        };
        for (owner, column) in columns.into_iter().enumerate() {
            for (row, verdict) in verdicts.iter_mut().zip(column) {
                if let Some(slot) = row.get_mut(owner) {
                    *slot = verdict;
                }
            }
        }
        Ok(Ok(verdicts))
    }

    fn stage(&mut self, builder: &Builder, device: &Device, fit: DeviceFit) -> Result<Result<Staged, Without>, Error> {
        let deadline = builder.longest_setup();
        let staged = Staged::new(device, (self.rank, self.world), fit, builder.first_epoch, deadline);
        self.outcome(staged)
    }

    /// Opens a way on all ranks, passes offers round and maps those of the peers. The row says of each owner whether this rank can write
    /// there. Where the driver of some rank shares no memory of its GPU, that is the verdict on all who would write there, the rank
    /// itself among them, and no trouble of the rank: there may be another way.
    fn map(&mut self, staged: &mut Staged, way: Way) -> Result<Result<Vec<PeerVerdict>, Without>, Error> {
        // Told to all before anybody offers: a rank that can't would leave the others waiting for its offer.
        let (offer, unshared) = match self.outcome(staged.open(way))? {
            Ok(Opened::Offer(bytes, descriptor)) => ((bytes, descriptor), None),
            Ok(Opened::Unshared(error)) => ((Vec::new(), None), Some(error.to_string())),
            Err(without) => return Ok(Err(without)),
        };
        let unshared: Vec<Option<String>> = self.gather(&unshared)?;
        if unshared.iter().any(Option::is_some) {
            let verdict = |reason: Option<String>| match reason {
                Some(reason) => PeerVerdict::Refused { reason },
                None => PeerVerdict::Unknown,
            };
            return Ok(Ok(unshared.into_iter().map(verdict).collect()));
        }
        let (offer, descriptor) = offer;
        let parcels = self.meeting.exchange(&offer, descriptor)?;
        let mut row = Vec::with_capacity(parcels.len());
        for (peer, Parcel { bytes, descriptor }) in self.world.ranks().zip(parcels) {
            if peer == self.rank {
                row.push(Ok(PeerVerdict::Own));
                continue;
            }
            let same_process = self.meeting.same_process(peer.index());
            row.push(staged.map(peer, &bytes, descriptor, same_process));
        }
        self.outcome(row.into_iter().collect())
    }

    /// Every rank writes its proofs; when all have, every rank reads its own. A column a rank, by owner.
    fn prove(&mut self, staged: &Staged, nonce: u64) -> Result<Result<Vec<Vec<PeerVerdict>>, Without>, Error> {
        if let Err(without) = self.outcome(staged.prove(nonce))? {
            return Ok(Err(without));
        }
        match self.outcome(staged.judge(nonce))? {
            Ok(column) => Ok(Ok(self.gather(&column)?)),
            Err(without) => Ok(Err(without)),
        }
    }

    /// Tells all ranks whether this one's step went well; the lowest rank whose did not is the reason for all.
    fn outcome<T>(&mut self, own: Result<T, CudaError>) -> Result<Result<T, Without>, Error> {
        let told: Vec<Option<String>> = self.gather(&own.as_ref().err().map(ToString::to_string))?;
        let first = self
            .world
            .ranks()
            .zip(told)
            .find_map(|(rank, reason)| Some((rank, reason?)));
        Ok(match (own, first) {
            (Ok(value), None) => Ok(value),
            (Err(error), _) => Err(Without::Own(error)),
            (Ok(_), Some((rank, reason))) => Err(Without::Peer { rank, reason }),
        })
    }

    fn gather<T: Serialize + DeserializeOwned>(&mut self, own: &T) -> Result<Vec<T>, Error> {
        let unreadable = |source: serde_json::Error| Error::System {
            what: "telling the ranks of each other's GPUs",
            source: source.into(),
        };
        let bytes = serde_json::to_vec(own).map_err(unreadable)?;
        let none: Option<OwnedFd> = None;
        let parcels = self.meeting.exchange(&bytes, none)?;
        parcels
            .iter()
            .map(|parcel| serde_json::from_slice(&parcel.bytes).map_err(unreadable))
            .collect()
    }
}
