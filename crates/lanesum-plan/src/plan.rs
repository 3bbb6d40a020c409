//! The one decision.
//!
//! A plan is compiled once, at set-up, from inputs that are the same on all ranks: for each operation, dtype and kind of
//! buffer it holds which algorithms the gates admit, with their evidence, and the length from which the second takes
//! over. A call then costs an index, a comparison, and a test for zero. Nothing else in the library decides.
//!
//! Buffers of the host always have an algorithm. Buffers of GPUs have one if the gates of GPUs say yes, and a refusal
//! otherwise; nothing falls back from one engine to the other.

use crate::algorithm::{Alone, DeviceAlone, DeviceHeaderOnly, HeaderOnly};
use crate::cost::{CostModel, Link};
use crate::digest::Digest;
use crate::gates::{self, DeviceFit, Peers, Proven, Single};
use crate::{
    Algorithm, Buffers, Dtype, Elements, Limits, Operation, Path, PlanError, Policy, ReductionTree, Refusal, Request,
    Topology, WorldSize,
};

mod crossing;
mod ladder;
mod push;

use ladder::{Compiler, Ladder, Pair, Table};
use push::Footing;

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
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    standing: Standing,
    device: Device,
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
    Alone(Single),
    Among(Peers, Box<Table>),
}

/// What the gates of GPUs said.
#[derive(Debug, Clone, PartialEq)]
struct Device {
    footing: Result<Footing, Refusal>,
    proven: Result<Proven, Refusal>,
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
        topology.check(world)?;
        let gpus = topology.gpus.as_ref();
        let proven = gates::proven(topology, world, policy.path);
        let path = proven.as_ref().map_or(Path::Peer, |proven| proven.path());
        let model = CostModel::new(world, topology.cores())
            .over(Link::along(path, gpus, world))
            .under(policy);
        let standing = match gates::company(world) {
            Err(single) => Standing::Alone(single),
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
        let device = Device {
            footing: Footing::compile((limits, policy), gpus, world, model),
            proven,
        };
        let (topology, tree) = (topology.clone(), tree.clone());
        Ok(Plan {
            standing,
            device,
            world,
            topology,
            policy,
            limits,
            tree,
            model,
        })
    }

    /// Decides which algorithm runs a request. Every request has exactly one decision; a barrier is decided like a
    /// request for zero elements (see [`Plan::decide_barrier`]).
    ///
    /// # Errors
    /// Never for buffers in the host's memory. For [`Buffers::Device`]: [`Refusal::NoDevice`], [`Refusal::DeviceWorld`],
    /// and, with peers, the first of [`Refusal::PeerAccess`], [`Refusal::PeerDisproven`] and [`Refusal::PeerUnproven`], or
    /// those of the host's memory, where the policy admits that and it was tried.
    #[inline]
    pub fn decide(&self, request: &Request) -> Result<Algorithm, Refusal> {
        match request.buffers {
            Buffers::Private => Ok(self.decide_host(request, |pair| &pair.private)),
            Buffers::Shared => Ok(self.decide_host(request, |pair| &pair.shared)),
            Buffers::Device => self.decide_device(request),
        }
    }

    /// Decides what runs a call of the host without a payload: a barrier, a split.
    #[inline]
    pub fn decide_barrier(&self) -> Algorithm {
        match &self.standing {
            Standing::Alone(single) => Algorithm::Alone(Alone::new(*single)),
            Standing::Among(peers, _) => Algorithm::HeaderOnly(HeaderOnly::new(*peers)),
        }
    }

    #[inline]
    fn decide_host(&self, request: &Request, of: impl Fn(&Pair) -> &Ladder) -> Algorithm {
        match &self.standing {
            Standing::Alone(single) => Algorithm::Alone(Alone::new(*single)),
            Standing::Among(peers, table) => match gates::payload(request.elements) {
                None => Algorithm::HeaderOnly(HeaderOnly::new(*peers)),
                Some(payload) => of(&table[request.operation as usize][request.dtype as usize]).pick(*peers, payload),
            },
        }
    }

    #[inline]
    fn decide_device(&self, request: &Request) -> Result<Algorithm, Refusal> {
        let Request { dtype, elements, .. } = *request;
        let footing = self.device.footing.as_ref().map_err(Refusal::clone)?;
        let (peers, fit, pushes) = match footing {
            Footing::Alone(single, fit) => {
                let alone = DeviceAlone::new(*single, (elements, dtype), *fit);
                return Ok(Algorithm::DeviceAlone(alone));
            }
            Footing::Among(peers, fit, pushes) => (*peers, *fit, pushes),
        };
        let proven = self.proven()?;
        Ok(match gates::payload(elements) {
            None => Algorithm::DeviceHeaderOnly(DeviceHeaderOnly::new(peers, proven, fit)),
            Some(payload) => pushes[dtype as usize].pick((peers, proven), (payload, dtype), fit),
        })
    }

    /// Whether calls on GPU memory run, whatever their length: what [`Plan::decide`] refuses them for, if it does.
    ///
    /// # Errors
    /// As [`Plan::decide`] for [`Buffers::Device`].
    pub fn device(&self) -> Result<(), Refusal> {
        self.fit()?;
        match &self.standing {
            Standing::Alone(_) => Ok(()),
            Standing::Among(..) => self.proven().map(|_| ()),
        }
    }

    /// How the communicator fits the ranks' GPUs: the same for all calls, whatever the ways between them are like.
    pub(crate) fn fit(&self) -> Result<DeviceFit, Refusal> {
        let footing = self.device.footing.as_ref().map_err(Refusal::clone)?;
        Ok(footing.fit())
    }

    pub(crate) fn proven(&self) -> Result<Proven, Refusal> {
        self.device.proven.as_ref().copied().map_err(Refusal::clone)
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
    /// algorithm, or the same refusal.
    #[must_use]
    pub fn threshold(&self, operation: Operation, dtype: Dtype, buffers: Buffers) -> Option<Elements> {
        let host = || match &self.standing {
            Standing::Alone(_) => None,
            Standing::Among(_, table) => Some(table[operation as usize][dtype as usize]),
        };
        match buffers {
            Buffers::Private => host()?.private.threshold(),
            Buffers::Shared => host()?.shared.threshold(),
            Buffers::Device => match &self.device {
                Device {
                    footing: Ok(footing),
                    proven: Ok(_),
                } => footing.threshold(dtype),
                Device { .. } => None,
            },
        }
    }

    /// The number of elements from which calls on GPU memory move chunks of raw bytes instead of frames; `None` where none do.
    #[must_use]
    pub fn chunks_from(&self, dtype: Dtype) -> Option<Elements> {
        match &self.device {
            Device {
                footing: Ok(footing),
                proven: Ok(_),
            } => footing.chunks(dtype),
            Device { .. } => None,
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
        let host = match &self.standing {
            Standing::Alone(_) => start,
            Standing::Among(_, table) => table
                .iter()
                .flatten()
                .flat_map(|pair| [pair.private, pair.shared])
                .fold(start, |digest, ladder| ladder.digest(digest)),
        };
        match &self.device.footing {
            Err(_) => host,
            Ok(footing) => {
                let path = self.device.proven.as_ref().map_or(Path::None, |proven| proven.path());
                footing.digest(host).word(path as u64)
            }
        }
        .finish()
    }
}
