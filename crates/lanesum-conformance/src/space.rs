//! The factors a call can vary in, and the values of each.
//!
//! A point of this space is a row of numbers, one for each factor, as [`crate::pairwise`] makes them; here rows become
//! cases. Lengths are named by what is awkward about them and become numbers only where dtype, staging and algorithm are
//! known, as the end of a chunk depends on all three.

use lanesum_plan::{
    Algorithm, Buffers, Bytes, Dtype, Elements, Engine, Gpus, HostFacts, Label, Limits, Operation, PathChoice, Plan,
    PlanInputs, Policy, RankGpu, RankHost, ReductionTree, Request, Topology, WorldSize, device_fit,
};

use crate::case::{Case, Choice, Launch, Origin, Placement, Setting, Simd};
use crate::pairwise::cover;
use crate::pattern::Pattern;

/// How many calls each case makes: both turns of the mailboxes, and the first again; on GPUs both halves of the inboxes.
const CALLS: u32 = 3;

/// How long a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// So many elements.
    Exactly(u64),
    /// A whole chunk and so many elements.
    Chunk(u64),
    /// Two whole chunks and five elements.
    TwoChunks,
    /// So many whole exchanges of a lane of a GPU that pushes in so many shots, and so many elements more or less.
    Exchanges { shots: u64, times: u64, more: i64 },
}

impl Length {
    pub(crate) fn elements(self, setting: &Setting, dtype: Dtype) -> Elements {
        Elements::new(match self {
            Length::Exactly(elements) => elements,
            Length::Chunk(more) => chunk(setting, dtype) + more,
            Length::TwoChunks => 2 * chunk(setting, dtype) + 5,
            Length::Exchanges { shots, times, more } => {
                let frames = exchange(setting, shots);
                (times * frames * FRAME / dtype.size() as u64).saturating_add_signed(more)
            }
        })
    }
}

/// Bytes of payload in a frame.
const FRAME: u64 = 12;

/// GPUs, one for each rank, that give a communicator all the lanes that the staging has room for.
fn gpus(world: usize) -> Gpus {
    let gpu = RankGpu {
        uuid: String::new(),
        pci_bus_id: String::new(),
        name: String::new(),
        compute: (0, 0),
        multiprocessors: u32::MAX,
        threads_per_block: 1024,
        memory: Bytes::new(0),
        driver: 0,
        watchdog: false,
        numa_node: None,
        slot: None,
        mig: None,
        bar1: None,
        nvlinks: None,
        stand_in: true,
    };
    Gpus::new(vec![gpu; world])
}

/// How many frames one lane moves in one exchange there.
fn exchange(setting: &Setting, shots: u64) -> u64 {
    let world = setting.world.get();
    let gpus = gpus(world);
    let limits = Limits {
        staging: setting.staging,
        ..Limits::default()
    };
    let capacity = device_fit(limits, Some(&gpus), setting.world).map_or(1, |fit| u64::from(fit.capacity()));
    match shots {
        2 => world as u64 * capacity / 2,
        _ => capacity,
    }
}

/// How many elements one chunk of a long message has: what the planner says for a host of which nothing is known.
fn chunk(setting: &Setting, dtype: Dtype) -> u64 {
    let whole_half = setting.staging.get() / dtype.size() as u64;
    planned(setting, dtype, whole_half + 1).unwrap_or(whole_half)
}

/// What runs a case on small GPUs of the ranks' own, as the stand-in has them, between which either way is proven.
#[cfg(test)]
pub(crate) fn kernel(case: &Case) -> Option<lanesum_plan::Kernel> {
    let mut gpus = gpus(case.setting.world.get());
    for row in gpus.staged.iter_mut().chain(&mut gpus.peers) {
        row.fill(lanesum_plan::PeerVerdict::Proven);
    }
    for (rank, gpu) in gpus.ranks.iter_mut().enumerate() {
        (gpu.uuid, gpu.pci_bus_id) = (rank.to_string(), rank.to_string());
        gpu.multiprocessors = 8;
    }
    let plan = compiled(&case.setting, Some(gpus))?;
    let request = Request {
        operation: case.operation,
        dtype: case.dtype,
        elements: case.elements,
        buffers: Buffers::Device,
        label: None,
    };
    Some(plan.decide(&request).ok()?.grid()?.kernel)
}

fn compiled(setting: &Setting, gpus: Option<Gpus>) -> Option<Plan> {
    let topology = Topology {
        ranks: vec![RankHost::default(); setting.world.get()],
        host: HostFacts::default(),
        gpus,
    };
    let tree = ReductionTree::canonical(setting.world);
    let limits = Limits {
        staging: setting.staging,
        ..Limits::default()
    };
    let policy = Policy {
        algorithm: setting.choice.policy(),
        path: setting.path,
    };
    let inputs = PlanInputs {
        world: setting.world,
        topology: &topology,
        policy,
        limits,
        tree: &tree,
    };
    Plan::compile(inputs).ok()
}

fn planned(setting: &Setting, dtype: Dtype, elements: u64) -> Option<u64> {
    let request = Request {
        operation: Operation::Sum,
        dtype,
        elements: Elements::new(elements),
        buffers: Buffers::Private,
        label: None,
    };
    match compiled(setting, None)?.decide(&request).ok()? {
        Algorithm::Alone(_)
        | Algorithm::HeaderOnly(_)
        | Algorithm::DeviceAlone(_)
        | Algorithm::DeviceHeaderOnly(_)
        | Algorithm::OneShotPush(_)
        | Algorithm::TwoShotPush(_) => None,
        Algorithm::OneShotPull(one) => Some(one.chunk().get()),
        Algorithm::TwoShotPull(two) => Some(two.chunk().get()),
    }
}

/// The values of each factor. The first seven belong to the communicator.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    /// The one engine of all cases.
    pub(crate) engine: Engine,
    pub(crate) worlds: Vec<WorldSize>,
    pub(crate) choices: Vec<Choice>,
    pub(crate) staging: Vec<u64>,
    pub(crate) simd: Vec<Simd>,
    pub(crate) first_epochs: Vec<Option<u64>>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) paths: Vec<PathChoice>,
    pub(crate) dtypes: Vec<Dtype>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) lengths: Vec<Length>,
    /// In elements.
    pub(crate) misalignments: Vec<u64>,
    pub(crate) placements: Vec<Placement>,
    pub(crate) buffers: Vec<Buffers>,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) labels: Vec<Option<Label>>,
    pub(crate) launches: Vec<Launch>,
}

impl Space {
    /// How many factors belong to the communicator.
    const OF_SETTING: usize = 7;

    fn sizes(&self) -> [usize; 16] {
        [
            self.worlds.len(),
            self.choices.len(),
            self.staging.len(),
            self.simd.len(),
            self.first_epochs.len(),
            self.origins.len(),
            self.paths.len(),
            self.dtypes.len(),
            self.operations.len(),
            self.lengths.len(),
            self.misalignments.len(),
            self.placements.len(),
            self.buffers.len(),
            self.patterns.len(),
            self.labels.len(),
            self.launches.len(),
        ]
    }

    /// Cases in which any two values of two factors meet, those with equal settings side by side.
    pub(crate) fn pairwise(&self, seed: u64) -> Vec<Case> {
        let sizes = self.sizes();
        let settings = cover(&sizes[..Self::OF_SETTING], &[vec![]], seed);
        let mut rows = cover(&sizes, &settings, seed);
        rows.sort_by(|a, b| a[..Self::OF_SETTING].cmp(&b[..Self::OF_SETTING]));
        rows.iter()
            .enumerate()
            .map(|(place, row)| self.case(row, seed.wrapping_add(place as u64)))
            .collect()
    }

    fn case(&self, row: &[usize], seed: u64) -> Case {
        let setting = Setting {
            engine: self.engine,
            world: self.worlds[row[0]],
            choice: self.choices[row[1]],
            staging: Bytes::new(self.staging[row[2]]),
            simd: self.simd[row[3]],
            first_epoch: self.first_epochs[row[4]],
            origin: self.origins[row[5]],
            path: self.paths[row[6]],
        };
        let dtype = self.dtypes[row[7]];
        let launch = self.launches[row[15]];
        Case {
            setting,
            dtype,
            operation: self.operations[row[8]],
            elements: self.lengths[row[9]].elements(&setting, dtype),
            misalignment: Bytes::new(self.misalignments[row[10]] * dtype.size() as u64),
            placement: self.placements[row[11]],
            buffers: self.buffers[row[12]],
            pattern: self.patterns[row[13]],
            label: self.labels[row[14]],
            // Of replays an odd number and an even one by turns: epochs have a parity.
            calls: match launch {
                Launch::Eager => CALLS,
                Launch::Replayed | Launch::Mixed => CALLS + (seed & 1) as u32,
            },
            launch,
            seed,
        }
    }
}
