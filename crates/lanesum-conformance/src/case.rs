//! A case: one way to call `all_reduce`, complete enough to run it again from its JSON alone.
//!
//! What belongs to a communicator is a [`Setting`] of its own: consecutive cases with equal settings share one
//! communicator, so that set-up isn't paid for each.

use lanesum::Communicator;
use lanesum_plan::{
    AlgorithmChoice, AlgorithmName, Buffers, Bytes, Dtype, Elements, Engine, Label, Operation, Path, PathChoice,
    Request, WorldSize,
};
use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;

/// Which algorithm the communicator is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The plan decides by size.
    Auto,
    /// Every call that moves bytes goes in one shot.
    OneShotPull,
    /// Every call that moves bytes goes in two shots.
    TwoShotPull,
    /// Every call on GPU memory that moves bytes is pushed in one shot.
    OneShotPush,
    /// Every call on GPU memory that moves bytes is pushed in two shots.
    TwoShotPush,
}

impl Choice {
    /// The choice in the words of the plan.
    #[must_use]
    pub const fn policy(self) -> AlgorithmChoice {
        match self {
            Choice::Auto => AlgorithmChoice::Auto,
            Choice::OneShotPull => AlgorithmChoice::Only(AlgorithmName::OneShotPull),
            Choice::TwoShotPull => AlgorithmChoice::Only(AlgorithmName::TwoShotPull),
            Choice::OneShotPush => AlgorithmChoice::Only(AlgorithmName::OneShotPush),
            Choice::TwoShotPush => AlgorithmChoice::Only(AlgorithmName::TwoShotPush),
        }
    }
}

/// Which instructions sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simd {
    /// What the machine does best.
    Best,
    /// No vector instructions.
    Scalar,
    /// x86-64 with 256-bit vectors.
    Avx2,
    /// x86-64 with 512-bit vectors.
    Avx512,
    /// aarch64.
    Neon,
}

impl Simd {
    /// Every level that has a name.
    pub const NAMED: [Simd; 4] = [Simd::Scalar, Simd::Avx2, Simd::Avx512, Simd::Neon];

    /// The name by which a builder is told; `None` leaves it to the machine.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Simd::Best => None,
            Simd::Scalar => Some("scalar"),
            Simd::Avx2 => Some("avx2"),
            Simd::Avx512 => Some("avx512"),
            Simd::Neon => Some("neon"),
        }
    }

    /// The levels that this machine can run, [`Simd::Best`] first.
    #[must_use]
    pub fn available() -> Vec<Simd> {
        let here = lanesum_host::reduce::Isa::available();
        let named = Self::NAMED
            .into_iter()
            .filter(|simd| here.iter().any(|isa| Some(isa.name()) == simd.name()));
        std::iter::once(Simd::Best).chain(named).collect()
    }
}

/// How the communicator came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Joined by the rendezvous.
    Joined,
    /// A channel of a joined one.
    Channel,
    /// Split off a joined one, all ranks in one group and in reversed order.
    Split,
}

/// What belongs to a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// Which engine sums.
    #[serde(default = "on_the_host")]
    pub engine: Engine,
    /// How many ranks.
    pub world: WorldSize,
    /// Which algorithm.
    pub choice: Choice,
    /// The size of one half of a rank's staging: small ones make chunks of small messages.
    pub staging: Bytes,
    /// Which instructions sum.
    pub simd: Simd,
    /// The epoch of the first call, where it isn't the usual one: put just below a wrap.
    pub first_epoch: Option<u64>,
    /// How the communicator came to be.
    pub origin: Origin,
    /// Which path between GPUs.
    #[serde(default)]
    pub path: PathChoice,
}

const fn on_the_host() -> Engine {
    Engine::Host
}

/// Where the result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Over the input.
    InPlace,
    /// To a buffer of its own; the input must stay as it was.
    OutOfPlace,
}

/// How the calls of a case come to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// Each is made when it is to run.
    #[default]
    Eager,
    /// One is captured into a CUDA graph, and the graph replayed for each.
    Replayed,
    /// Two graphs of the call take turns, with an eager call of another size between any two replays.
    Mixed,
}

/// One way to call `all_reduce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// What belongs to the communicator.
    pub setting: Setting,
    /// The type of an element.
    pub dtype: Dtype,
    /// How values are combined.
    pub operation: Operation,
    /// How many elements.
    pub elements: Elements,
    /// How many bytes past a 64-byte line the private buffers begin: whole elements. An output of its own begins three
    /// times as far past one, so that input and output are misaligned against each other too.
    pub misalignment: Bytes,
    /// Where the result goes.
    pub placement: Placement,
    /// Where the input lies.
    pub buffers: Buffers,
    /// What the input holds.
    pub pattern: Pattern,
    /// The label of the first call; each later call has the next.
    pub label: Option<Label>,
    /// How many calls in a row, each with inputs of its own.
    pub calls: u32,
    /// How they come to run.
    #[serde(default)]
    pub launch: Launch,
    /// What the inputs are drawn from.
    pub seed: u64,
}

/// Why a case can't be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The JSON is no case.
    #[error("this is no case: {0}")]
    Json(String),
    /// A buffer of whole elements can't begin there.
    #[error("a buffer of {dtype} can't begin {misalignment} past a line: whole elements of {} B are needed", dtype.size())]
    Misalignment {
        /// The type of an element.
        dtype: Dtype,
        /// The misalignment asked for.
        misalignment: Bytes,
    },
    /// The input doesn't fit this machine's memory model.
    #[error("{0} elements can't be addressed here")]
    Elements(Elements),
    /// The communicator has another number of ranks.
    #[error("the case is for {case} ranks, the communicator has {communicator}")]
    World {
        /// The ranks of the case.
        case: WorldSize,
        /// The ranks of the communicator.
        communicator: WorldSize,
    },
}

impl Case {
    /// The case as one line of JSON, from which [`Case::from_json`] makes it again.
    ///
    /// # Errors
    /// [`CaseError::Json`] should it not be writable; no case is known that isn't.
    pub fn to_json(&self) -> Result<String, CaseError> {
        serde_json::to_string(self).map_err(|error| CaseError::Json(error.to_string()))
    }

    /// The case written by [`Case::to_json`].
    ///
    /// # Errors
    /// [`CaseError::Json`] with the place and the reason.
    pub fn from_json(text: &str) -> Result<Case, CaseError> {
        serde_json::from_str(text).map_err(|error| CaseError::Json(error.to_string()))
    }

    /// What the call with this number asks the communicator for.
    #[must_use]
    pub fn request(&self, call: u32) -> Request {
        Request {
            operation: self.operation,
            dtype: self.dtype,
            elements: self.elements,
            buffers: self.buffers,
            label: self.label_of(call),
        }
    }

    /// The label of the call with this number.
    #[must_use]
    pub fn label_of(&self, call: u32) -> Option<Label> {
        self.label
            .map(|first| Label::new(first.get().wrapping_add(u64::from(call))))
    }

    /// The algorithm that must run, where neither size nor machine has a say in it.
    #[must_use]
    pub fn pinned(&self) -> Option<AlgorithmName> {
        if self.setting.world.get() == 1 {
            return Some(AlgorithmName::Alone);
        }
        if self.elements.get() == 0 {
            return Some(AlgorithmName::HeaderOnly);
        }
        match self.setting.choice {
            Choice::Auto => None,
            Choice::OneShotPull => Some(AlgorithmName::OneShotPull),
            Choice::TwoShotPull => Some(AlgorithmName::TwoShotPull),
            Choice::OneShotPush => Some(AlgorithmName::OneShotPush),
            Choice::TwoShotPush => Some(AlgorithmName::TwoShotPush),
        }
    }

    /// The path that bytes must take, where the machine has no say in it.
    #[must_use]
    pub fn pinned_path(&self) -> Option<Path> {
        if self.setting.world.get() == 1 {
            return Some(Path::None);
        }
        match (self.setting.engine, self.setting.path) {
            (Engine::Host, _) => Some(Path::SharedMemory),
            (Engine::Cuda, PathChoice::Auto) => None,
            (Engine::Cuda, PathChoice::Peer) => Some(Path::Peer),
            (Engine::Cuda, PathChoice::HostStaged) => Some(Path::HostStaged),
        }
    }

    /// The number of elements and the misalignment in elements, checked.
    ///
    /// # Errors
    /// Where they can't be had on this machine, or the communicator isn't one for this case.
    pub fn geometry(&self, communicator: &Communicator) -> Result<(usize, usize), CaseError> {
        if communicator.world() != self.setting.world {
            return Err(CaseError::World {
                case: self.setting.world,
                communicator: communicator.world(),
            });
        }
        let size = self.dtype.size() as u64;
        if !self.misalignment.get().is_multiple_of(size) {
            return Err(CaseError::Misalignment {
                dtype: self.dtype,
                misalignment: self.misalignment,
            });
        }
        let elements = usize::try_from(self.elements.get()).map_err(|_| CaseError::Elements(self.elements))?;
        // A line holds 64 bytes: more misalignment than that is none.
        let misalignment = (self.misalignment.get() % 64 / size) as usize;
        Ok((elements, misalignment))
    }
}
