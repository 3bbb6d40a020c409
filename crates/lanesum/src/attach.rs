//! Attaching a GPU on every rank: offers, mapping and proofs, each step told to all ranks so that all end alike.

use lanesum_cuda::{CudaError, Device, Staged};
use lanesum_plan::{DeviceFit, Gpus, Limits, PeerVerdict, Rank, Refusal, WorldSize, device_fit};
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
    /// There is no way between some ranks; the verdicts say which.
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
    /// Makes, passes, maps and proves. `gpus` describes the ranks' devices, the same on all ranks.
    pub(crate) fn attach(
        &mut self,
        builder: &Builder,
        device: &Device,
        limits: Limits,
        mut gpus: Gpus,
    ) -> Result<Attached, Error> {
        let fit = match device_fit(limits, Some(&gpus), self.world) {
            Ok(fit) => fit,
            Err(refusal) => return Ok(Attached::Without(Without::Refused(refusal))),
        };
        let mut staged = match self.stage(builder, device, fit)? {
            Ok(staged) => staged,
            Err(without) => return Ok(Attached::Without(without)),
        };
        let row = match self.map(&mut staged)? {
            Ok(row) => row,
            Err(without) => return Ok(Attached::Without(without)),
        };
        gpus.peers = self.gather(&row)?;
        let refused = gpus
            .peers
            .iter()
            .flatten()
            .any(|verdict| matches!(verdict, PeerVerdict::Refused { .. }));
        if refused {
            return Ok(Attached::Apart(gpus));
        }
        match self.prove(&staged)? {
            Err(without) => return Ok(Attached::Without(without)),
            Ok(columns) => {
                for (owner, column) in columns.into_iter().enumerate() {
                    for (row, verdict) in gpus.peers.iter_mut().zip(column) {
                        if let Some(slot) = row.get_mut(owner) {
                            *slot = verdict;
                        }
                    }
                }
            }
        }
        Ok(Attached::Ready(Box::new(staged), gpus))
    }

    fn stage(&mut self, builder: &Builder, device: &Device, fit: DeviceFit) -> Result<Result<Staged, Without>, Error> {
        let deadline = builder.setup_deadline.unwrap_or(builder.deadline);
        let staged = Staged::new(device, (self.rank, self.world), fit, builder.first_epoch, deadline);
        self.outcome(staged)
    }

    /// Passes offers round and maps those of the peers. The row says of each owner whether this rank can write there.
    fn map(&mut self, staged: &mut Staged) -> Result<Result<Vec<PeerVerdict>, Without>, Error> {
        let (offer, descriptor) = match staged.offer() {
            Ok(offer) => offer,
            Err(error) => return self.outcome(Err(error)),
        };
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
    fn prove(&mut self, staged: &Staged) -> Result<Result<Vec<Vec<PeerVerdict>>, Without>, Error> {
        let nonce = self.meeting.token();
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
