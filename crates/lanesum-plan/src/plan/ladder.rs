//! Which of the host's algorithms carries a payload, by its length: found once by the cost model, looked up on every call.

use std::cmp::Ordering;

use super::crossing::Crossing;
use crate::algorithm::{OneShotPull, TwoShotPull};
use crate::cost::CostModel;
use crate::digest::Digest;
use crate::gates::{self, OneShotFit, Payload, Peers, TwoShotFit};
use crate::{
    Algorithm, AlgorithmChoice, AlgorithmName, Buffers, Bytes, Dtype, Elements, Limits, Operation, PlanError, Policy,
    Refusal,
};

/// The ladders of each operation and dtype, indexed by their codes.
pub(super) type Table = [[Pair; Dtype::ALL.len()]; Operation::ALL.len()];

/// The ladders of buffers in the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) private: Ladder,
    pub(super) shared: Ladder,
}

/// The algorithms that carry a payload, by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ladder {
    OneShot(OneShotFit),
    TwoShot(TwoShotFit),
    Both {
        below: OneShotFit,
        from: TwoShotFit,
        threshold: Elements,
    },
}

impl Ladder {
    #[inline]
    pub(super) fn pick(&self, peers: Peers, payload: Payload) -> Algorithm {
        match self {
            Ladder::OneShot(fit) => Algorithm::OneShotPull(OneShotPull::new(peers, payload, *fit)),
            Ladder::TwoShot(fit) => Algorithm::TwoShotPull(TwoShotPull::new(peers, payload, *fit)),
            Ladder::Both { below, threshold, .. } if payload.elements() < threshold.get() => {
                Algorithm::OneShotPull(OneShotPull::new(peers, payload, *below))
            }
            Ladder::Both { from, .. } => Algorithm::TwoShotPull(TwoShotPull::new(peers, payload, *from)),
        }
    }

    /// The length from which two shots are taken, if there is one.
    pub(super) const fn threshold(&self) -> Option<Elements> {
        match self {
            Ladder::OneShot(_) | Ladder::TwoShot(_) => None,
            Ladder::Both { threshold, .. } => Some(*threshold),
        }
    }

    /// Everything that decides, and how messages are cut.
    pub(super) const fn digest(&self, digest: Digest) -> Digest {
        match self {
            Ladder::OneShot(fit) => digest.word(1).word(fit.chunk().get()).word(fit.is_in_place() as u64),
            Ladder::TwoShot(fit) => digest.word(2).word(fit.chunk().get()),
            Ladder::Both { below, from, threshold } => digest
                .word(3)
                .word(below.chunk().get())
                .word(below.is_in_place() as u64)
                .word(from.chunk().get())
                .word(threshold.get()),
        }
    }
}

/// What the table is compiled from.
pub(super) struct Compiler {
    pub(super) peers: Peers,
    pub(super) policy: Policy,
    pub(super) limits: Limits,
    pub(super) model: CostModel,
}

impl Compiler {
    pub(super) fn table(&self) -> Result<Table, PlanError> {
        // No host algorithm's cost depends on the operation; the table has a place for those whose does.
        let mut dtypes = Vec::with_capacity(Dtype::ALL.len());
        for dtype in Dtype::ALL {
            dtypes.push(Pair {
                private: self.ladder(dtype, Buffers::Private)?,
                shared: self.ladder(dtype, Buffers::Shared)?,
            });
        }
        Ok([[dtypes[0], dtypes[1], dtypes[2]]; Operation::ALL.len()])
    }

    fn ladder(&self, dtype: Dtype, buffers: Buffers) -> Result<Ladder, PlanError> {
        let staging = PlanError::Staging {
            staging: self.limits.staging,
        };
        let one = gates::one_shot_fit(self.limits, dtype, self.peers).ok_or_else(|| staging.clone())?;
        let two = gates::two_shot_fit(self.limits, dtype, self.peers).ok_or(staging)?;
        let one = one.in_place(gates::in_place(buffers, self.policy));
        let refused = |algorithm, refusal| Err(PlanError::Inadmissible { algorithm, refusal });
        match self.policy.algorithm {
            // A pin of an algorithm of GPUs leaves the host its choice.
            AlgorithmChoice::Auto | AlgorithmChoice::Only(AlgorithmName::OneShotPush | AlgorithmName::TwoShotPush) => {
                Ok(Contest {
                    model: self.model,
                    dtype,
                    buffers,
                    one,
                    two,
                }
                .ladder())
            }
            AlgorithmChoice::Only(AlgorithmName::OneShotPull) => Ok(Ladder::OneShot(one)),
            AlgorithmChoice::Only(AlgorithmName::TwoShotPull) => Ok(Ladder::TwoShot(two)),
            AlgorithmChoice::Only(AlgorithmName::Alone) => refused(
                AlgorithmName::Alone,
                Refusal::NeedsOneRank {
                    world: self.peers.world(),
                },
            ),
            AlgorithmChoice::Only(AlgorithmName::HeaderOnly) => {
                refused(AlgorithmName::HeaderOnly, Refusal::CarriesNoPayload)
            }
        }
    }
}

/// The two that the host has, for one dtype and kind of buffer.
struct Contest {
    model: CostModel,
    dtype: Dtype,
    buffers: Buffers,
    one: OneShotFit,
    two: TwoShotFit,
}

impl Contest {
    fn ladder(&self) -> Ladder {
        let chunks = [self.one.chunk().get(), self.two.chunk().get()];
        match Crossing::find(chunks, |elements| self.one_is_ahead(elements)) {
            Crossing::OneShot => Ladder::OneShot(self.one),
            Crossing::TwoShot => Ladder::TwoShot(self.two),
            Crossing::From(threshold) => Ladder::Both {
                below: self.one,
                from: self.two,
                threshold,
            },
        }
    }

    fn one_is_ahead(&self, elements: u64) -> bool {
        let predict = |name, chunk: Elements| {
            let bytes = |elements: u64| Bytes::new(elements.saturating_mul(self.dtype.size() as u64));
            self.model
                .predict_us(name, self.buffers, bytes(elements), bytes(chunk.get()))
                .unwrap_or(f64::INFINITY)
        };
        let one = predict(AlgorithmName::OneShotPull, self.one.chunk());
        let two = predict(AlgorithmName::TwoShotPull, self.two.chunk());
        one.total_cmp(&two) == Ordering::Less
    }
}
