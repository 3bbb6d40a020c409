//! Joining: observe, meet, agree, map, watch.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use lanesum_cuda::{Device, Staged};
use lanesum_host::Engine;
use lanesum_host::reduce::{Isa, Reducer};
use lanesum_plan::{
    Gpus, HostFacts, Limits, Plan, PlanError, PlanInputs, Policy, Rank, RankGpu, RankHost, ReductionTree, Topology,
    WorldSize,
};
use lanesum_rendezvous::{Join, Meeting, Refusal, meet};
use lanesum_segment::{Arena, ForkGuard, Geometry, LAYOUT_VERSION, Lost, Pace, Segment};
use serde::{Deserialize, Serialize};

use crate::attach::{self, Attached, Party, Without};
use crate::builder::Builder;
use crate::communicator::{Communicator, Identity, checked_deadline};
use crate::counters::Ledger;
use crate::engines::EngineChoice;
use crate::environment::nccl_wishes;
use crate::error::{Error, Refused};

/// What a rank tells the others of what it sees.
#[derive(Debug, Serialize, Deserialize)]
struct Observation {
    rank: RankHost,
    host: HostFacts,
    /// This rank's GPU, or why there is none although one was asked for.
    gpu: Option<Result<RankGpu, String>>,
}

/// Joins as the builder says. `cancel` is asked while waiting for others, and ends the meeting with the reason that it gives.
pub(crate) fn join(builder: Builder, cancel: &dyn Fn() -> Option<Refusal>) -> Result<Communicator, Error> {
    let start = Instant::now();
    let world = WorldSize::new(builder.world)?;
    let rank = world.rank(builder.rank)?;
    let deadline = checked_deadline(builder.longest())?;
    let tree = checked_tree(&builder, world)?;
    let isa = chosen_isa(builder.isa.as_deref())?;
    let limits = Limits {
        staging: builder.staging,
        shared: builder.shared,
    };
    let policy = Policy {
        algorithm: builder.algorithm,
        path: builder.path,
    };
    let guard = Arc::new(ForkGuard::new()?);
    let device = attach::open(&builder);

    let mut meeting = meet(&invitation(&builder, &tree, &device)?, cancel)?;
    let (mut topology, told) = topology_of(&meeting)?;
    let party = Party {
        meeting: &mut meeting,
        rank,
        world,
    };
    let (staged, mut without) = attached(party, &builder, device, limits, &mut topology, told)?;
    let plan = Plan::compile(PlanInputs {
        world,
        topology: &topology,
        policy,
        limits,
        tree: &tree,
    })?;
    meeting.agree("plan", plan.digest())?;
    let token = meeting.token();
    let staged = match plan.device() {
        Ok(()) => staged,
        Err(refusal) => {
            if matches!(without, Without::Unasked) && builder.engine != EngineChoice::Host {
                without = Without::Refused(refusal);
            }
            None
        }
    };
    if staged.is_none() && builder.engine == EngineChoice::Cuda {
        return Err(without.into_error());
    }

    let digest = plan.digest() ^ token;
    let geometry = Geometry::new(
        world.get(),
        limits.mailbox(world).get(),
        limits.shared.get(),
        builder.first_epoch,
        digest,
    )?;
    let segment = Arc::new(mapped(&mut meeting, geometry, rank.index() == 0)?);
    segment.populate(rank.index());

    let cuda = staged.map(|staged| lanesum_cuda::Engine::new(staged, &tree, deadline));
    let peers = meeting.finish()?;
    let lost_here = Arc::new(Lost::default());
    let watch = {
        let noticed = Arc::clone(&lost_here);
        let notifier = cuda.as_ref().map(lanesum_cuda::Engine::notifier);
        peers.watch(move |rank| {
            noticed.note(rank);
            if let Some(notifier) = &notifier {
                notifier.note_lost(rank);
            }
        })?
    };
    let own_core = topology.cores().is_some_and(|cores| cores >= world.get());
    let pace = if own_core { Pace::OWN_CORE } else { Pace::SHARED_CORE };
    let name = isa.name();
    let engine = Engine::new(segment, rank, Reducer::new(isa, &tree), pace, deadline, lost_here)?;
    let mut recipe = builder;
    if let Some(cuda) = &cuda {
        // Children number their ranks anew, but stay on this device.
        recipe.device = Some(cuda.device().ordinal());
    }
    let identity = Identity {
        rank,
        world,
        token,
        recipe,
        without_device: without.reason(),
        isa: name,
        setup: start.elapsed(),
    };
    let arena = Arena::new(geometry.shared());
    Ok(Communicator {
        engine,
        cuda,
        plan,
        arena,
        guard,
        _watch: watch,
        identity,
        ordinal: Cell::new(0),
        ledger: Ledger::default(),
    })
}

/// A rank's GPU, with where it is plugged in and what else leads to it.
fn placed(facts: &RankGpu, world: usize) -> RankGpu {
    let bus_id = &facts.pci_bus_id;
    let numa_node = lanesum_probe::pci_numa_node(bus_id);
    // What stands in for a GPU is plugged in nowhere, whatever else has its address.
    let (slot, told) = if facts.stand_in {
        (None, None)
    } else {
        // One rank has nobody to reach. Not to be told is no reason not to join.
        let told = (world > 1).then(|| lanesum_probe::nvml::own(bus_id)).flatten();
        (lanesum_probe::pci_slot(bus_id), told)
    };
    let (mig, bar1) = told.as_ref().map_or((None, None), |told| (told.mig, told.bar1));
    RankGpu {
        numa_node,
        slot,
        nvlinks: told.and_then(|told| told.nvlinks),
        mig,
        bar1,
        ..facts.clone()
    }
}

/// What this rank brings to the meeting.
fn invitation(builder: &Builder, tree: &ReductionTree, device: &Result<Device, Without>) -> Result<Join, Error> {
    let term = |name: &str, value: String| (name.to_owned(), value);
    let observation = Observation {
        rank: RankHost {
            cpus: lanesum_probe::cpus(),
            nccl: nccl_wishes(&|name| std::env::var_os(name)),
        },
        host: lanesum_probe::host(),
        gpu: match device {
            Ok(device) => Some(Ok(placed(device.facts(), builder.world))),
            Err(without) => without.reason().map(Err),
        },
    };
    let facts = serde_json::to_vec(&observation).map_err(|source| Error::System {
        what: "writing down what was observed",
        source: source.into(),
    })?;
    Ok(Join {
        name: builder.rendezvous.clone(),
        rank: builder.rank,
        world: builder.world,
        deadline: checked_deadline(builder.longest_setup())?,
        terms: vec![
            term("layout version", LAYOUT_VERSION.to_string()),
            term("inbox version", lanesum_cuda::INBOX_VERSION.to_string()),
            term("staging bytes", builder.staging.get().to_string()),
            term("shared bytes", builder.shared.get().to_string()),
            term("engine", builder.engine.to_string()),
            term("algorithm", builder.algorithm.to_string()),
            term("path", builder.path.to_string()),
            term("reduction tree", tree.to_string()),
            term("first epoch", builder.first_epoch.to_string()),
        ],
        facts,
        directory: builder.directory.clone(),
    })
}

/// One topology for all, made from the bytes that all ranks have alike, with the GPUs if every rank has one; else the first rank
/// that has none. What rank 0 sees of the host counts.
fn topology_of(meeting: &Meeting) -> Result<(Topology, Option<(usize, String)>), Error> {
    let unreadable = |source: serde_json::Error| Error::System {
        what: "reading a rank's observation",
        source: source.into(),
    };
    let mut ranks = Vec::new();
    let mut host = None;
    let mut gpus = Vec::new();
    let mut told = None;
    for (rank, facts) in meeting.facts().iter().enumerate() {
        let observation: Observation = serde_json::from_slice(facts).map_err(unreadable)?;
        ranks.push(observation.rank);
        host.get_or_insert(observation.host);
        match observation.gpu {
            Some(Ok(gpu)) => gpus.push(gpu),
            Some(Err(reason)) => {
                told.get_or_insert((rank, reason));
            }
            None => {}
        }
    }
    let world = ranks.len();
    let gpus = (gpus.len() == world).then(|| Gpus::new(gpus));
    let host = host.unwrap_or_default();
    Ok((Topology { ranks, host, gpus }, told))
}

/// Attaches the GPUs where all ranks have one; puts the verdicts into the topology.
fn attached(
    mut party: Party<'_>,
    builder: &Builder,
    device: Result<Device, Without>,
    limits: Limits,
    topology: &mut Topology,
    told: Option<(usize, String)>,
) -> Result<(Option<Box<Staged>>, Without), Error> {
    let device = match (device, topology.gpus.clone()) {
        (Ok(device), Some(gpus)) => (device, gpus),
        (Err(without), _) => return Ok((None, without)),
        (Ok(_), None) => {
            let (rank, reason) = told.unwrap_or_default();
            return Ok((
                None,
                Without::Peer {
                    rank: Rank::new(rank)?,
                    reason,
                },
            ));
        }
    };
    let (staged, gpus, without) = match party.attach(builder, &device.0, limits, (device.1, topology))? {
        Attached::Ready(staged, gpus) => (Some(staged), Some(gpus), Without::Unasked),
        Attached::Apart(gpus) => (None, Some(gpus), Without::Unasked),
        // The plan says so itself then.
        Attached::Without(Without::Refused(refusal)) => (None, topology.gpus.clone(), Without::Refused(refusal)),
        Attached::Without(without) => (None, None, without),
    };
    topology.gpus = gpus;
    Ok((staged, without))
}

/// The segment: made by rank 0, opened and checked by the others.
fn mapped(meeting: &mut Meeting, geometry: Geometry, first: bool) -> Result<Segment, Error> {
    if first {
        let (segment, descriptor) = Segment::create(geometry)?;
        meeting.share(Some(descriptor))?;
        Ok(segment)
    } else {
        Ok(Segment::open(&meeting.share(None)?, geometry)?)
    }
}

fn checked_tree(builder: &Builder, world: WorldSize) -> Result<ReductionTree, PlanError> {
    match &builder.tree {
        None => Ok(ReductionTree::canonical(world)),
        Some(tree) if tree.world() == world => Ok(tree.clone()),
        Some(tree) => Err(PlanError::TreeWorld {
            tree: tree.world().get(),
            world: world.get(),
        }),
    }
}

fn chosen_isa(name: Option<&str>) -> Result<Isa, Refused> {
    let Some(asked) = name else { return Ok(Isa::best()) };
    let available = Isa::available();
    let known = available.iter().map(Isa::name).collect::<Vec<_>>().join(", ");
    available
        .into_iter()
        .find(|isa| isa.name() == asked)
        .ok_or_else(|| Refused::Isa {
            asked: asked.to_owned(),
            known,
        })
}
