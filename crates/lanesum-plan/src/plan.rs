//! The one decision.
//!
//! A plan is compiled once, at set-up, from inputs that are the same on all ranks: for each operation, dtype and kind of
//! buffer it holds which algorithms the gates admit, with their evidence, and the length from which the second takes
//! over. A call then costs an index, a comparison, and a test for zero. Nothing else in the library decides.

use std::cmp::Ordering;

use crate::algorithm::{Alone, HeaderOnly, OneShotPull, TwoShotPull};
use crate::cost::CostModel;
use crate::digest::Digest;
use crate::gates::{self, OneShotFit, Payload, Peers, Refusal, TwoShotFit};
use crate::{
    Algorithm, AlgorithmChoice, AlgorithmName, Buffers, Bytes, Dtype, Elements, Limits, Operation, PlanError, Policy,
    ReductionTree, Request, Topology, WorldSize,
};

/// What a plan is compiled from. All of it must be the same on all ranks.
#[derive(Debug, Clone, Copy)]
pub struct PlanInputs<'a> {
    /// The number of ranks.
    pub world: WorldSize,
    /// What was observed, of all ranks.
    pub topology: &'a Topology,
    /// What the user wants.
    pub policy: Policy,
    /// How much memory ranks share.
    pub limits: Limits,
    /// The order of combination.
    pub tree: &'a ReductionTree,
}

/// A compiled plan; see the module for what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    standing: Standing,
    world: WorldSize,
    topology: Topology,
    policy: Policy,
    limits: Limits,
    tree: ReductionTree,
    model: CostModel,
}

/// Whether there is anybody to exchange with, and how if so.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Alone(Alone),
    Among(Peers, Box<Table>),
}

/// One ladder for each operation, dtype and kind of buffer, indexed by their codes.
type Table = [[[Ladder; Buffers::ALL.len()]; Dtype::ALL.len()]; Operation::ALL.len()];

/// The algorithms that carry a payload, by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ladder {
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
    fn pick(&self, peers: Peers, payload: Payload) -> Algorithm {
        match self {
            Ladder::OneShot(fit) => Algorithm::OneShotPull(OneShotPull::new(peers, payload, *fit)),
            Ladder::TwoShot(fit) => Algorithm::TwoShotPull(TwoShotPull::new(peers, payload, *fit)),
            Ladder::Both { below, threshold, .. } if payload.elements() < threshold.get() => {
                Algorithm::OneShotPull(OneShotPull::new(peers, payload, *below))
            }
            Ladder::Both { from, .. } => Algorithm::TwoShotPull(TwoShotPull::new(peers, payload, *from)),
        }
    }
}

impl Plan {
    /// Compiles a plan.
    ///
    /// # Errors
    /// [`PlanError::TreeWorld`] and [`PlanError::TopologyWorld`] if those describe another number of ranks,
    /// [`PlanError::Staging`] and [`PlanError::Shared`] for limits that can't be laid out, and
    /// [`PlanError::Inadmissible`] if the policy pins an algorithm that can't carry a payload among these ranks.
    pub fn compile(inputs: PlanInputs<'_>) -> Result<Plan, PlanError> {
        let PlanInputs {
            world,
            topology,
            policy,
            limits,
            tree,
        } = inputs;
        limits.check()?;
        if tree.world() != world {
            return Err(PlanError::TreeWorld {
                tree: tree.world().get(),
                world: world.get(),
            });
        }
        if topology.ranks.len() != world.get() {
            return Err(PlanError::TopologyWorld {
                topology: topology.ranks.len(),
                world: world.get(),
            });
        }
        let model = CostModel::new(world, topology.cores());
        let standing = match gates::company(world) {
            Err(single) => Standing::Alone(Alone::new(single)),
            Ok(peers) => Standing::Among(
                peers,
                Box::new(
                    Compiler {
                        peers,
                        policy,
                        limits,
                        model,
                    }
                    .table()?,
                ),
            ),
        };
        let (topology, tree) = (topology.clone(), tree.clone());
        Ok(Plan {
            standing,
            world,
            topology,
            policy,
            limits,
            tree,
            model,
        })
    }

    /// Decides which algorithm runs a request. Every request has exactly one; a barrier is decided like a request for
    /// zero elements (see [`Plan::decide_barrier`]).
    #[inline]
    pub fn decide(&self, request: &Request) -> Algorithm {
        match &self.standing {
            Standing::Alone(alone) => Algorithm::Alone(*alone),
            Standing::Among(peers, table) => match gates::payload(request.elements) {
                None => Algorithm::HeaderOnly(HeaderOnly::new(*peers)),
                Some(payload) => {
                    let Request {
                        operation,
                        dtype,
                        buffers,
                        ..
                    } = *request;
                    table[operation as usize][dtype as usize][buffers as usize].pick(*peers, payload)
                }
            },
        }
    }

    /// Decides what runs a call without a payload: a barrier, a split.
    #[inline]
    pub fn decide_barrier(&self) -> Algorithm {
        self.decide(&Request {
            operation: Operation::Sum,
            dtype: Dtype::F32,
            elements: Elements::new(0),
            buffers: Buffers::Private,
            label: None,
        })
    }

    /// The number of ranks.
    #[must_use]
    pub const fn world(&self) -> WorldSize {
        self.world
    }

    /// The order of combination.
    #[must_use]
    pub const fn tree(&self) -> &ReductionTree {
        &self.tree
    }

    /// How much memory ranks share.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// What the user wants.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// What was observed.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The model that thresholds were computed with.
    #[must_use]
    pub const fn model(&self) -> &CostModel {
        &self.model
    }

    /// The number of elements from which two shots are taken; `None` where requests of every length get the same
    /// algorithm.
    #[must_use]
    pub fn threshold(&self, operation: Operation, dtype: Dtype, buffers: Buffers) -> Option<Elements> {
        match &self.standing {
            Standing::Alone(_) => None,
            Standing::Among(_, table) => match table[operation as usize][dtype as usize][buffers as usize] {
                Ladder::OneShot(_) | Ladder::TwoShot(_) => None,
                Ladder::Both { threshold, .. } => Some(threshold),
            },
        }
    }

    /// 64 bits by which ranks compare their plans: everything that decides which algorithm runs, how it cuts the
    /// message, and in which order it combines.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let start = Digest::new(0x706C_616E)
            .word(self.world.get() as u64)
            .word(self.limits.staging.get())
            .word(self.limits.shared.get())
            .word(self.tree.digest());
        match &self.standing {
            Standing::Alone(_) => start,
            Standing::Among(_, table) => table
                .iter()
                .flatten()
                .flatten()
                .fold(start, |digest, ladder| match ladder {
                    Ladder::OneShot(fit) => digest.word(1).word(fit.chunk().get()),
                    Ladder::TwoShot(fit) => digest.word(2).word(fit.chunk().get()),
                    Ladder::Both { below, from, threshold } => digest
                        .word(3)
                        .word(below.chunk().get())
                        .word(from.chunk().get())
                        .word(threshold.get()),
                }),
        }
        .finish()
    }
}

/// What the table is compiled from.
struct Compiler {
    peers: Peers,
    policy: Policy,
    limits: Limits,
    model: CostModel,
}

impl Compiler {
    fn table(&self) -> Result<Table, PlanError> {
        // No host algorithm's cost depends on the operation; the table has a place for those whose does.
        let mut dtypes = Vec::with_capacity(Dtype::ALL.len());
        for dtype in Dtype::ALL {
            dtypes.push([
                self.ladder(dtype, Buffers::Private)?,
                self.ladder(dtype, Buffers::Shared)?,
            ]);
        }
        Ok([[dtypes[0], dtypes[1], dtypes[2]]; Operation::ALL.len()])
    }

    fn ladder(&self, dtype: Dtype, buffers: Buffers) -> Result<Ladder, PlanError> {
        let staging = PlanError::Staging {
            staging: self.limits.staging,
        };
        let one = gates::one_shot_fit(self.limits, dtype).ok_or_else(|| staging.clone())?;
        let two = gates::two_shot_fit(self.limits, dtype, self.peers).ok_or(staging)?;
        let refused = |algorithm, refusal| Err(PlanError::Inadmissible { algorithm, refusal });
        match self.policy.algorithm {
            AlgorithmChoice::Auto => Ok(Crossing {
                model: self.model,
                dtype,
                buffers,
                one,
                two,
            }
            .ladder()),
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

/// Where two shots overtake one shot for good.
struct Crossing {
    model: CostModel,
    dtype: Dtype,
    buffers: Buffers,
    one: OneShotFit,
    two: TwoShotFit,
}

/// A length at which the asymptotically faster algorithm is ahead, whatever the constants: 256 TiB of f32.
const FAR: u64 = 1 << 46;

impl Crossing {
    fn ladder(&self) -> Ladder {
        // Both costs are straight lines between these lengths, so their difference changes sign at most once between
        // two of them, and only the last change counts.
        let mut lengths = [1, self.two.chunk().get(), self.one.chunk().get(), FAR];
        lengths.sort_unstable();
        if self.one_is_ahead(FAR) {
            return Ladder::OneShot(self.one);
        }
        let Some(last) = lengths.iter().rposition(|length| self.one_is_ahead(*length)) else {
            return Ladder::TwoShot(self.two);
        };
        let (mut ahead, mut behind) = (lengths[last], lengths[last + 1]);
        while behind - ahead > 1 {
            let middle = ahead + (behind - ahead) / 2;
            if self.one_is_ahead(middle) {
                ahead = middle
            } else {
                behind = middle
            }
        }
        Ladder::Both {
            below: self.one,
            from: self.two,
            threshold: Elements::new(behind),
        }
    }

    fn one_is_ahead(&self, elements: u64) -> bool {
        let predict = |name, chunk: Elements| {
            let bytes = |elements: u64| Bytes::new(elements.saturating_mul(self.dtype.size() as u64));
            self.model
                .predict_us(name, self.buffers, bytes(elements), bytes(chunk.get()))
        };
        let one = predict(AlgorithmName::OneShotPull, self.one.chunk());
        let two = predict(AlgorithmName::TwoShotPull, self.two.chunk());
        one.total_cmp(&two) == Ordering::Less
    }
}
