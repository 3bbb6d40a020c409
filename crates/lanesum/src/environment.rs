//! What the environment says: which rank this is, of how many, of which job.
//!
//! Launchers tell this in variables of their own. All that are set are read, by value and never by presence, and must
//! agree: a process of `mpirun` that inherited RANK from a shell would otherwise be a rank nobody expects.
use std::ffi::OsString;
use std::time::Duration;

use lanesum_plan::NcclWishes;

mod switch;

pub(crate) use switch::{DEADLINES, on};
pub use switch::{SWITCH, deadline, enabled, policy};

/// One variable that lanesum reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub meaning: &'static str,
    /// Which values it may have.
    pub values: &'static str,
}

const NUMBER: &str = "a decimal number from 0";
const COUNT: &str = "a decimal number from 1";
const NAME: &str = "any text; empty counts as not set";

/// Every variable that lanesum reads, in the order of docs/environment.md.
pub const VARIABLES: &[Variable] = &[
    variable(
        switch::SWITCH,
        "whether lanesum runs at all: where it is turned off, no communicator is made, and engines go on as without lanesum",
        switch::SWITCH_VALUES,
    ),
    variable(
        switch::POLICY,
        "what carries messages where torch.distributed (default exact) or an engine (default fastest) leaves it to lanesum: lanesum alone, or NCCL where that is predicted to be faster",
        switch::POLICY_VALUES,
    ),
    variable("RANK", "this rank, as torchrun and `lanesum launch` set it", NUMBER),
    variable(
        "WORLD_SIZE",
        "number of ranks, as torchrun and `lanesum launch` set it",
        COUNT,
    ),
    variable(
        "LOCAL_RANK",
        "this rank among those of its host, as torchrun sets it",
        NUMBER,
    ),
    variable("OMPI_COMM_WORLD_RANK", "this rank, as Open MPI sets it", NUMBER),
    variable("OMPI_COMM_WORLD_SIZE", "number of ranks, as Open MPI sets it", COUNT),
    variable(
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "this rank among those of its host, as Open MPI sets it",
        NUMBER,
    ),
    variable("PMI_RANK", "this rank, as MPICH, Intel MPI and Slurm set it", NUMBER),
    variable(
        "PMI_SIZE",
        "number of ranks, as MPICH, Intel MPI and Slurm set it",
        COUNT,
    ),
    variable(
        "LANESUM_RENDEZVOUS",
        "name by which the ranks of this job find each other; without it, the job id of the launcher is used",
        "any text that is not empty, the same on all ranks and used by no other job of this user",
    ),
    variable(
        switch::DEADLINE,
        "longest wait in milliseconds, for set-up and for each call, where the program does not say another (default 30000; in vLLM and SGLang for each call, default 600000; in torch.distributed the timeout of the group counts); on GPUs a wait for a share of the sum may last an eighth more, 500 at most",
        switch::MILLISECONDS,
    ),
    variable(
        "MASTER_PORT",
        "port of the job's store, as torchrun sets it: the rendezvous name where there is no run id",
        NAME,
    ),
    variable(
        "TORCHELASTIC_RUN_ID",
        "job id of torchrun",
        "any text; empty and `none`, torchrun's default, count as not set",
    ),
    variable(
        "PMIX_NAMESPACE",
        "job id of Open MPI and of other launchers with PMIx",
        NAME,
    ),
    variable("OMPI_MCA_ess_base_jobid", "job id of Open MPI up to version 4", NAME),
    variable("PMI_JOBID", "job id of launchers with PMI", NAME),
    variable("I_MPI_HYDRA_UUID", "job id of Intel MPI", NAME),
    variable(
        "SLURM_JOB_ID",
        "job id of Slurm, used where the launcher has none",
        NAME,
    ),
    variable("SLURM_STEP_ID", "step within the Slurm job", NAME),
    variable(
        "XDG_RUNTIME_DIR",
        "the rendezvous sockets are in its folder `lanesum`, else in /tmp/lanesum-<uid>",
        "an absolute path of a directory that belongs to this user; anything else is passed over",
    ),
    variable(
        "NCCL_P2P_DISABLE",
        "whether the user wants no peer access between GPUs: heeded where the path is left to the plan",
        "a whole number, 0 for no; anything else is passed over",
    ),
    variable(
        "NCCL_P2P_LEVEL",
        "how far apart GPUs may lie that use peer access: heeded where the path is left to the plan",
        "LOC, NVL, PIX, PXB, PHB or SYS, or a number from 0 to 5 as older versions of NCCL took it; anything else is passed over",
    ),
];

/// The variables of the CUDA driver that `lanesum doctor` looks at, to say which GPUs ranks will see. The library does not: what they
/// hide, the driver hides.
pub const LOOKED_AT: &[Variable] = &[
    variable(
        "CUDA_VISIBLE_DEVICES",
        "the GPUs that CUDA shows to a process",
        "numbers, beginnings of UUIDs (`GPU-...`) or MIG instances (`MIG-...`), with commas between them; the list ends at the first entry that names nothing, -1 among them; empty for none",
    ),
    variable(
        "CUDA_DEVICE_ORDER",
        "by what CUDA numbers GPUs",
        "`FASTEST_FIRST` (the default) or `PCI_BUS_ID`",
    ),
];

const fn variable(name: &'static str, meaning: &'static str, values: &'static str) -> Variable {
    Variable { name, meaning, values }
}

/// The variables of one kind of launcher.
struct Launcher {
    rank: &'static str,
    world: &'static str,
    local_rank: Option<&'static str>,
    /// What may hold a job id: the variable, the beginning of the rendezvous name, a value that means none.
    jobs: &'static [Job],
}

struct Job {
    variable: &'static str,
    prefix: &'static str,
    none: &'static str,
}

const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        rank: "RANK",
        world: "WORLD_SIZE",
        local_rank: Some("LOCAL_RANK"),
        jobs: &[
            Job {
                variable: "TORCHELASTIC_RUN_ID",
                prefix: "torchrun",
                none: "none",
            },
            // Without a run id, the port that the job's ranks meet at: no other job of the host can have it.
            Job {
                variable: "MASTER_PORT",
                prefix: "torch-port",
                none: "",
            },
        ],
    },
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        world: "OMPI_COMM_WORLD_SIZE",
        local_rank: Some("OMPI_COMM_WORLD_LOCAL_RANK"),
        jobs: &[
            Job {
                variable: "PMIX_NAMESPACE",
                prefix: "pmix",
                none: "",
            },
            Job {
                variable: "OMPI_MCA_ess_base_jobid",
                prefix: "ompi",
                none: "",
            },
        ],
    },
    Launcher {
        rank: "PMI_RANK",
        world: "PMI_SIZE",
        local_rank: None,
        jobs: &[
            Job {
                variable: "PMI_JOBID",
                prefix: "pmi",
                none: "",
            },
            Job {
                variable: "I_MPI_HYDRA_UUID",
                prefix: "impi",
                none: "",
            },
        ],
    },
];

/// What the environment says about this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// This rank, from 0 and below `world`.
    pub rank: usize,
    /// Number of ranks, at least 1.
    pub world: usize,
    /// This rank among those of its host, where the launcher tells it.
    pub local_rank: Option<usize>,
    /// By which name the ranks find each other; `alone` for a world of one that has none.
    pub rendezvous: String,
    /// Longest wait, where it is set.
    pub deadline: Option<Duration>,
}

/// Why the environment does not tell which rank this is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// The user has turned lanesum off.
    #[error("the environment turns lanesum off (LANESUM is {value:?})")]
    Off {
        /// The value of the variable.
        value: String,
    },
    /// No launcher has set its variables.
    #[error("the environment does not say which rank this is (neither RANK, OMPI_COMM_WORLD_RANK nor PMI_RANK is set)")]
    NoRank,
    /// One of two variables that belong together is missing.
    #[error("{present} is set to {value:?}, but {missing} is not set")]
    Incomplete {
        /// The variable that is set.
        present: &'static str,
        /// Its value.
        value: String,
        /// The variable that is not.
        missing: &'static str,
    },
    /// A value cannot be read.
    #[error("{name} is set to {value:?}; expected is {expected}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The rank is not one of the world's.
    #[error("{rank_name} is {rank}, but {world_name} is {world}: ranks count from 0")]
    OutsideWorld {
        /// The variable with the rank.
        rank_name: &'static str,
        /// The rank.
        rank: usize,
        /// The variable with the number of ranks.
        world_name: &'static str,
        /// The number of ranks.
        world: usize,
    },
    /// Two launchers say different things.
    #[error("{first} is {first_value}, but {second} is {second_value}")]
    Conflict {
        /// One variable.
        first: &'static str,
        /// Its value.
        first_value: usize,
        /// The other variable.
        second: &'static str,
        /// Its value.
        second_value: usize,
    },
    /// Nothing names the job.
    #[error(
        "nothing names this job: LANESUM_RENDEZVOUS is not set, and the launcher gave no job id ({looked_at} not set)"
    )]
    NoRendezvous {
        /// The variables that were looked at.
        looked_at: String,
    },
}

impl EnvironmentError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Off { .. } => "unset LANESUM, or set it to 1, on all ranks",
            Self::NoRank => {
                "start the ranks with `lanesum launch -n N -- CMD`, torchrun or mpirun, set RANK and WORLD_SIZE, or give \
                 the communicator its rank and world by hand"
            }
            Self::Incomplete { .. } => "set both or none of the two",
            Self::Invalid { .. } => "correct it, or unset it",
            Self::OutsideWorld { .. } => "give each of the N ranks a number of its own from 0 to N - 1",
            Self::Conflict { .. } => "unset the one that does not come from your launcher",
            Self::NoRendezvous { .. } => {
                "set LANESUM_RENDEZVOUS to the same text on all ranks, one that no other job of yours uses \
                 (torchrun gives a job id with --rdzv-id or --standalone)"
            }
        })
    }
}

/// Looks a variable up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Reads who this process is. `lookup` gives a variable's value, as `std::env::var_os` does.
///
/// # Errors
/// [`EnvironmentError`] names the variables and values that are missing, wrong or at odds.
pub fn identity(lookup: Lookup<'_>) -> Result<Identity, EnvironmentError> {
    on(lookup)?;
    let mut claims = Vec::new();
    for launcher in &LAUNCHERS {
        if let Some(claim) = claim(lookup, launcher)? {
            claims.push(claim);
        }
    }
    let Some(first) = claims.first() else {
        return Err(EnvironmentError::NoRank);
    };
    for other in claims.iter().skip(1) {
        same(first.rank, other.rank)?;
        same(first.world, other.world)?;
    }
    let mut local_ranks = claims.iter().filter_map(|claim| claim.local_rank);
    let local_rank = local_ranks.next();
    if let Some(one) = local_rank {
        local_ranks.try_for_each(|other| same(one, other))?;
    }
    let (rank, world) = (first.rank.1, first.world.1);
    if rank >= world {
        return Err(EnvironmentError::OutsideWorld {
            rank_name: first.rank.0,
            rank,
            world_name: first.world.0,
            world,
        });
    }
    Ok(Identity {
        rank,
        world,
        local_rank: local_rank.map(|(_, value)| value),
        rendezvous: rendezvous(lookup, &claims, world)?,
        deadline: deadline(lookup)?,
    })
}

/// What the user has told NCCL of peer access. `lookup` gives a variable's value, as `std::env::var_os` does.
#[must_use]
pub fn nccl_wishes(lookup: Lookup<'_>) -> NcclWishes {
    let value = |name| lookup(name).and_then(|value| value.into_string().ok());
    NcclWishes::of_values(value("NCCL_P2P_DISABLE").as_deref(), value("NCCL_P2P_LEVEL").as_deref())
}

/// A variable and its value.
type Named = (&'static str, usize);

/// What one launcher says.
struct Claim {
    rank: Named,
    world: Named,
    local_rank: Option<Named>,
    jobs: &'static [Job],
}

fn claim(lookup: Lookup<'_>, launcher: &Launcher) -> Result<Option<Claim>, EnvironmentError> {
    let incomplete = |(present, value): Named, missing| {
        Err(EnvironmentError::Incomplete {
            present,
            value: value.to_string(),
            missing,
        })
    };
    match (number(lookup, launcher.rank, 0)?, number(lookup, launcher.world, 1)?) {
        (None, None) => Ok(None),
        (Some(rank), None) => incomplete(rank, launcher.world),
        (None, Some(world)) => incomplete(world, launcher.rank),
        (Some(rank), Some(world)) => {
            let local_rank = match launcher.local_rank {
                Some(name) => number(lookup, name, 0)?,
                None => None,
            };
            Ok(Some(Claim {
                rank,
                world,
                local_rank,
                jobs: launcher.jobs,
            }))
        }
    }
}

fn same((first, first_value): Named, (second, second_value): Named) -> Result<(), EnvironmentError> {
    if first_value == second_value {
        Ok(())
    } else {
        Err(EnvironmentError::Conflict {
            first,
            first_value,
            second,
            second_value,
        })
    }
}

fn number(lookup: Lookup<'_>, name: &'static str, least: usize) -> Result<Option<Named>, EnvironmentError> {
    let Some(value) = lookup(name) else {
        return Ok(None);
    };
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match value
        .to_str()
        .filter(digits)
        .and_then(|text| text.parse().ok())
        .filter(|parsed| *parsed >= least)
    {
        Some(parsed) => Ok(Some((name, parsed))),
        None => {
            let expected = if least == 0 { NUMBER } else { COUNT };
            Err(EnvironmentError::Invalid {
                name,
                value: value.to_string_lossy().into_owned(),
                expected,
            })
        }
    }
}

fn rendezvous(lookup: Lookup<'_>, claims: &[Claim], world: usize) -> Result<String, EnvironmentError> {
    if let Some(value) = lookup("LANESUM_RENDEZVOUS") {
        let name = "LANESUM_RENDEZVOUS";
        let invalid = |value: OsString| EnvironmentError::Invalid {
            name,
            value: value.to_string_lossy().into_owned(),
            expected: "any text that is not empty",
        };
        return value.into_string().map_err(invalid).and_then(|text| {
            if text.is_empty() {
                Err(invalid(OsString::new()))
            } else {
                Ok(text)
            }
        });
    }
    let jobs = claims.iter().flat_map(|claim| claim.jobs);
    let launched = jobs.clone().find_map(|job| {
        let id = text(lookup, job.variable).filter(|id| id != job.none)?;
        Some(format!("{}-{id}", job.prefix))
    });
    let slurm = || {
        let job = text(lookup, "SLURM_JOB_ID")?;
        Some(match text(lookup, "SLURM_STEP_ID") {
            Some(step) => format!("slurm-{job}.{step}"),
            None => format!("slurm-{job}"),
        })
    };
    let alone = || (world == 1).then(|| "alone".to_owned());
    launched.or_else(slurm).or_else(alone).ok_or_else(|| {
        let looked_at: Vec<&str> = jobs.map(|job| job.variable).chain(["SLURM_JOB_ID"]).collect();
        EnvironmentError::NoRendezvous {
            looked_at: looked_at.join(", "),
        }
    })
}

/// A job id; empty counts as not set.
fn text(lookup: Lookup<'_>, name: &str) -> Option<String> {
    lookup(name)
        .map(|value| value.to_string_lossy().into_owned())
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
