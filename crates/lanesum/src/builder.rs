//! How a rank joins.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lanesum_plan::{AlgorithmChoice, Bytes, PathChoice, ReductionTree};

use lanesum_rendezvous::Refusal;

use crate::communicator::Communicator;
use crate::engines::EngineChoice;
use crate::environment;
use crate::error::Error;

/// The longest that a wait lasts where nobody says otherwise.
const DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of staging where nobody says otherwise.
const STAGING: Bytes = Bytes::new(1 << 20);
/// Bytes of one rank's arena where nobody says otherwise.
const SHARED: Bytes = Bytes::new(4 << 20);

/// What a rank brings to the meeting. All but the deadlines, the device, the instruction set and the directory is
/// compared among the ranks.
#[must_use = "call `join`"]
#[derive(Debug, Clone)]
pub struct Builder {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    pub(crate) rendezvous: String,
    /// None: what the environment says, else [`DEADLINE`].
    pub(crate) deadline: Option<Duration>,
    pub(crate) setup_deadline: Option<Duration>,
    pub(crate) engine: EngineChoice,
    pub(crate) device: Option<usize>,
    pub(crate) algorithm: AlgorithmChoice,
    pub(crate) path: PathChoice,
    pub(crate) staging: Bytes,
    pub(crate) shared: Bytes,
    pub(crate) tree: Option<ReductionTree>,
    pub(crate) isa: Option<String>,
    pub(crate) first_epoch: u64,
    pub(crate) directory: Option<PathBuf>,
    /// Gone when nobody wants the communicator any more.
    pub(crate) wanted: Option<Weak<()>>,
}

impl Builder {
    /// Rank `rank` (from 0) of `world` (1 to 16) ranks; those that give the same `rendezvous` name meet.
    pub fn new(rank: usize, world: usize, rendezvous: impl Into<String>) -> Self {
        Self {
            rank,
            world,
            rendezvous: rendezvous.into(),
            deadline: None,
            setup_deadline: None,
            engine: EngineChoice::Host,
            device: None,
            algorithm: AlgorithmChoice::Auto,
            path: PathChoice::Auto,
            staging: STAGING,
            shared: SHARED,
            tree: None,
            isa: None,
            first_epoch: 1,
            directory: None,
            wanted: None,
        }
    }

    /// Rank, world, rendezvous name and deadline from the environment ([`environment::VARIABLES`]).
    ///
    /// # Errors
    /// [`Error::Environment`] that says what is missing, malformed or contradictory.
    pub fn from_env() -> Result<Self, Error> {
        let identity = environment::identity(&|name| std::env::var_os(name))?;
        let builder = Self::new(identity.rank, identity.world, identity.rendezvous);
        Ok(match identity.deadline {
            Some(deadline) => builder.deadline(deadline),
            None => builder,
        })
    }

    /// The longest that one wait of a call may last (default: what `LANESUM_DEADLINE_MS` says, else 30 s).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The longest that joining may last (default: the deadline).
    pub fn setup_deadline(mut self, deadline: Duration) -> Self {
        self.setup_deadline = Some(deadline);
        self
    }

    /// Says whether the communicator sums GPU memory too (default: host memory only, no CUDA driver is touched).
    pub fn engine(mut self, choice: EngineChoice) -> Self {
        self.engine = choice;
        self
    }

    /// Takes the GPU of this number, counted from 0 among those that `CUDA_VISIBLE_DEVICES` leaves, and asks for the CUDA engine.
    /// Without it, rank `r` takes device `r` modulo their number. Ranks may share a GPU; that tests more than it measures.
    pub fn device(mut self, ordinal: usize) -> Self {
        self.device = Some(ordinal);
        if self.engine == EngineChoice::Host {
            self.engine = EngineChoice::Cuda;
        }
        self
    }

    /// Pins the algorithm instead of leaving it to the plan.
    pub fn algorithm(mut self, choice: AlgorithmChoice) -> Self {
        self.algorithm = choice;
        self
    }

    /// Pins the path between GPUs instead of leaving it to the plan, which takes peer access where it is proven for all pairs of
    /// ranks, and else pinned host memory.
    pub fn path(mut self, choice: PathChoice) -> Self {
        self.path = choice;
        self
    }

    /// Bytes that a rank can post to its peers at once (default 1 MiB): on the host its mailboxes to all of them together,
    /// on GPUs one half of a peer's region in its inbox. Longer messages take several exchanges. A multiple of 4096.
    pub fn staging(mut self, bytes: Bytes) -> Self {
        self.staging = bytes;
        self
    }

    /// Bytes of each rank's arena for shared buffers (default 4 MiB). Pages become memory when touched.
    pub fn shared_capacity(mut self, bytes: Bytes) -> Self {
        self.shared = bytes;
        self
    }

    /// Pins the order of the sum, for equal bits between machines (default: the canonical tree).
    pub fn tree(mut self, tree: ReductionTree) -> Self {
        self.tree = Some(tree);
        self
    }

    /// Names the instruction set to sum with (`scalar`, `avx2`, ...; default: the best there is). All give
    /// the same bits.
    pub fn isa(mut self, name: impl Into<String>) -> Self {
        self.isa = Some(name.into());
        self
    }

    /// The epoch of the first exchange, to test what happens when epochs wrap.
    #[doc(hidden)]
    pub fn first_epoch(mut self, epoch: u64) -> Self {
        self.first_epoch = epoch;
        self
    }

    /// Where the rendezvous socket is made (default: the user's runtime directory). Must belong to the
    /// user, with mode 0700.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Gives up waiting for other ranks once the last clone of `token` is dropped: for programs that join in one thread and hear in
    /// another that nobody wants to wait any longer. Then joining fails on all ranks that are there, and the name is free again.
    pub fn wanted_by(mut self, token: &Arc<()>) -> Self {
        self.wanted = Some(Arc::downgrade(token));
        self
    }

    /// The longest wait of a call.
    pub(crate) fn longest(&self) -> Duration {
        self.deadline.unwrap_or(DEADLINE)
    }

    /// The longest that joining may last.
    pub(crate) fn longest_setup(&self) -> Duration {
        self.setup_deadline.unwrap_or(self.longest())
    }

    /// Meets the other ranks, agrees with them, and maps the shared memory.
    ///
    /// # Errors
    /// [`Error`] that names who is missing or differs in what, at the latest after the set-up deadline.
    pub fn join(self) -> Result<Communicator, Error> {
        let lookup = |name: &str| std::env::var_os(name);
        environment::on(&lookup)?;
        let mut builder = self;
        if builder.deadline.is_none() {
            builder.deadline = environment::deadline(&lookup)?;
        }
        let rank = builder.rank;
        let wanted = builder.wanted.clone();
        let cancel = || match &wanted {
            Some(token) if token.strong_count() == 0 => Some(Refusal::GaveUp { rank }),
            Some(_) | None => None,
        };
        crate::setup::join(builder, &cancel)
    }
}
