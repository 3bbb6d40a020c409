//! What can go wrong while ranks meet. `Display` says what happened and why, [`RendezvousError::hint`] what to do.
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::phrases::{Ranks, Span, Strangers};

/// A reason that concerns every rank: rank 0 tells it to all that are connected, so that each returns the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Ranks that never came.
    #[error("{} not arrived after {} ({} of {world} are here){}",
            Ranks(ranks, "has", "have"), Span(*waited_ms), world.saturating_sub(ranks.len()), Strangers(*strangers))]
    Missing {
        /// The ranks that are missing.
        ranks: Vec<usize>,
        /// Number of ranks of the job.
        world: usize,
        /// How long was waited.
        waited_ms: u64,
        /// Connections that were dropped because they did not speak this protocol.
        strangers: usize,
    },
    /// Ranks that arrived, but did not answer a later step; they may be stopped.
    #[error("{} alive but did not answer within {} (step: {step})", Ranks(ranks, "is", "are"), Span(*waited_ms))]
    Late {
        /// The ranks that did not answer.
        ranks: Vec<usize>,
        /// What they were waited for.
        step: String,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The same rank came twice.
    #[error("two processes or threads came as rank {rank}")]
    Duplicate {
        /// The rank claimed twice.
        rank: usize,
    },
    /// One connection too many.
    #[error("all {world} ranks of this job had already arrived")]
    Complete {
        /// Number of ranks.
        world: usize,
    },
    /// A rank number that the world does not have.
    #[error("rank {rank} is outside a world of {world} (ranks count from 0)")]
    OutsideWorld {
        /// The rank number.
        rank: usize,
        /// Number of ranks.
        world: usize,
    },
    /// Another version of the protocol or the library.
    #[error("rank {} runs lanesum {theirs}, rank 0 runs {ours}", rank.map_or_else(|| "?".to_owned(), |rank| rank.to_string()))]
    Version {
        /// Who differs, if it said so.
        rank: Option<usize>,
        /// What it runs.
        theirs: String,
        /// What rank 0 runs.
        ours: String,
    },
    /// Two names that share one socket file.
    #[error("rank {rank} came to the job {theirs:?}, but rank 0 serves {ours:?}")]
    Name {
        /// Who came.
        rank: usize,
        /// The job it looks for.
        theirs: String,
        /// The job of rank 0.
        ours: String,
    },
    /// A setting that must be the same on all ranks is not.
    #[error("the ranks disagree on {key}: rank {rank} has {theirs:?}, rank 0 has {ours:?}")]
    Terms {
        /// Who differs from rank 0.
        rank: usize,
        /// The setting.
        key: String,
        /// Its value there.
        theirs: String,
        /// Its value at rank 0.
        ours: String,
    },
    /// A computed value that must be the same on all ranks is not.
    #[error("the ranks computed different values of {what}: rank {rank} has {theirs:#018x}, rank 0 has {ours:#018x}")]
    Disagreement {
        /// Who differs from rank 0.
        rank: usize,
        /// What was compared.
        what: String,
        /// The digest there.
        theirs: u64,
        /// The digest at rank 0.
        ours: u64,
    },
    /// A rank's process ended during the meeting.
    #[error("the process of rank {rank} ended while the ranks were meeting")]
    Died {
        /// Who ended.
        rank: usize,
    },
    /// A rank left without being dead.
    #[error("rank {rank} left while the ranks were meeting: {reason}")]
    Left {
        /// Who left.
        rank: usize,
        /// What is known about why.
        reason: String,
    },
    /// Two ranks are at different steps of the same meeting.
    #[error("rank {rank} is at another step: it sent {found}, expected was {expected}")]
    OutOfStep {
        /// Who differs.
        rank: usize,
        /// What it sent.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The meeting was cancelled because a rank of an older communicator ended.
    #[error("rank {rank} of the parent communicator ended while this one was being set up")]
    ParentDied {
        /// Rank in the parent communicator.
        rank: usize,
    },
    /// A rank's caller did not want to wait any longer.
    #[error("rank {rank} gave up waiting for the others")]
    GaveUp {
        /// Who.
        rank: usize,
    },
}

/// Why a meeting failed on this rank.
#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    /// A reason that concerns all ranks; each of them gets it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody served the meeting in time.
    #[error("rank {rank} waited {} for rank 0 at {}: {found}", Span(millis(*waited)), path.display())]
    NotServed {
        /// This rank.
        rank: usize,
        /// Where rank 0 was looked for.
        path: PathBuf,
        /// What was found there last.
        found: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// Another job serves the same name.
    #[error("the rendezvous name {name:?} is in use: another process holds {}", lock.display())]
    NameInUse {
        /// The name.
        name: String,
        /// Its lock file.
        lock: PathBuf,
    },
    /// The directory of the sockets cannot be trusted or used.
    #[error("the rendezvous directory {} {problem}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: DirectoryProblem,
    },
    /// The path of the socket does not fit into a socket address.
    #[error("the socket path {} has {} bytes, a socket address holds {limit}", path.display(), path.as_os_str().len())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// What fits.
        limit: usize,
    },
    /// The process at the other end of the socket belongs to another user.
    #[error("user {theirs} serves {}, this process runs as user {ours}", path.display())]
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// The user at the other end.
        theirs: u32,
        /// This user.
        ours: u32,
    },
    /// The process at the other end does not speak this protocol.
    #[error("what serves {} is not rank 0 of a lanesum job: {found}", path.display())]
    Impostor {
        /// The socket.
        path: PathBuf,
        /// What it sent.
        found: String,
    },
    /// The kernel or a sandbox refused a pidfd.
    #[error("pidfd_open of this process was refused ({source}); without it a dead rank cannot be noticed")]
    Pidfd {
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A descriptor did not arrive.
    #[error("the kernel dropped a descriptor that rank {from} sent: this process may open no more files")]
    DescriptorLost {
        /// Who sent it.
        from: usize,
    },
    /// A packet would be too long.
    #[error("{what} needs {bytes} bytes, a rendezvous packet holds {limit}")]
    TooLarge {
        /// What was to be sent.
        what: &'static str,
        /// Its encoded length.
        bytes: usize,
        /// What fits.
        limit: usize,
    },
    /// The caller broke the order of steps.
    #[error("the meeting cannot go on: {why}")]
    Misuse {
        /// What was wrong.
        why: &'static str,
    },
    /// A system call failed.
    #[error("could not {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// What is wrong with the directory of the sockets.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryProblem {
    /// It belongs to somebody else.
    #[error("belongs to user {owner}, not to this user ({user})")]
    OtherOwner {
        /// Its owner.
        owner: u32,
        /// This user.
        user: u32,
    },
    /// Others may enter it.
    #[error("has mode {mode:04o}: others than its owner may enter it")]
    TooOpen {
        /// Its permission bits.
        mode: u32,
    },
    /// It is a file or a symbolic link.
    #[error("is not a directory (symbolic links are not followed)")]
    NotADirectory,
    /// It could neither be opened nor made.
    #[error("cannot be used: {0}")]
    Unusable(std::io::Error),
}

impl Refusal {
    /// The ranks that this is about.
    pub fn ranks(&self) -> Vec<usize> {
        match self {
            Self::Missing { ranks, .. } | Self::Late { ranks, .. } => ranks.clone(),
            Self::Version { rank, .. } => rank.iter().copied().collect(),
            Self::ParentDied { .. } | Self::Complete { .. } => Vec::new(),
            Self::Duplicate { rank }
            | Self::OutsideWorld { rank, .. }
            | Self::Name { rank, .. }
            | Self::Terms { rank, .. }
            | Self::Disagreement { rank, .. }
            | Self::Died { rank }
            | Self::Left { rank, .. }
            | Self::GaveUp { rank }
            | Self::OutOfStep { rank, .. } => vec![*rank],
        }
    }

    /// Whether a wrong setting caused it: then ranks that have not arrived yet need to hear of it too.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Duplicate { .. }
            | Self::OutsideWorld { .. }
            | Self::Version { .. }
            | Self::Name { .. }
            | Self::Terms { .. } => true,
            Self::Missing { .. }
            | Self::Late { .. }
            | Self::Complete { .. }
            | Self::Disagreement { .. }
            | Self::Died { .. }
            | Self::Left { .. }
            | Self::OutOfStep { .. }
            | Self::GaveUp { .. }
            | Self::ParentDied { .. } => false,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "start the missing ranks with the same rendezvous name, user and directory, see whether they failed \
                 before they joined, or allow more time with LANESUM_DEADLINE_MS"
            }
            Self::Late { .. } => "see whether these processes are stopped (a debugger, SIGSTOP) or starved",
            Self::Duplicate { .. } | Self::Complete { .. } => {
                "give every process its own RANK, and every job its own LANESUM_RENDEZVOUS"
            }
            Self::OutsideWorld { .. } => "set RANK to a number below WORLD_SIZE",
            Self::Version { .. } => "install one version of lanesum for all ranks",
            Self::Name { .. } => "choose another rendezvous name",
            Self::Terms { .. } => "start all ranks with the same settings",
            Self::Disagreement { .. } => {
                "start all ranks with the same settings and the same build; if they are the same, please report this"
            }
            Self::Died { .. } => "see the output and the exit status of that process first",
            Self::Left { .. } => "see the error of that rank first",
            Self::GaveUp { .. } => "see what interrupted it, and let all ranks join again",
            Self::OutOfStep { .. } => "make the same calls in the same order on all ranks of a communicator",
            Self::ParentDied { .. } => "make a new communicator from the ranks that are left",
        }
    }
}

impl RendezvousError {
    /// The ranks of this job that the error is about; empty where it is about this process alone.
    pub fn ranks(&self) -> Vec<usize> {
        match self {
            Self::Refused(refusal) => refusal.ranks(),
            Self::NotServed { .. } | Self::Impostor { .. } | Self::OtherUser { .. } => vec![0],
            Self::DescriptorLost { .. }
            | Self::NameInUse { .. }
            | Self::Directory { .. }
            | Self::PathTooLong { .. }
            | Self::Pidfd { .. }
            | Self::TooLarge { .. }
            | Self::Misuse { .. }
            | Self::System { .. } => Vec::new(),
        }
    }

    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::NotServed { .. } => {
                "see whether rank 0 started and failed, and whether it has the same rendezvous name, user, directory \
                 (XDG_RUNTIME_DIR) and a common file system; more time: LANESUM_DEADLINE_MS"
            }
            Self::NameInUse { .. } => {
                "give this job another LANESUM_RENDEZVOUS, or end the other job; two processes with RANK=0 look the same"
            }
            Self::Directory { path, problem } => return Some(problem.hint(path)),
            Self::PathTooLong { .. } => "choose a directory with a shorter path",
            Self::OtherUser { .. } => "run all ranks as one user",
            Self::Impostor { .. } => "choose another rendezvous name, or end the process that listens there",
            Self::Pidfd { .. } => {
                "allow pidfd_open in the seccomp profile of the container (the default profiles of Docker 20.10 and \
                 Podman 3 do); the kernel must be 5.3 or later"
            }
            Self::DescriptorLost { .. } => "raise the limit of open files (ulimit -n)",
            Self::System { source, .. } if out_of_files(source) => "raise the limit of open files (ulimit -n)",
            Self::System { .. } => {
                "check the limits of processes, files and memory (ulimit -a), and what the sandbox allows"
            }
            Self::TooLarge { .. } | Self::Misuse { .. } => return None,
        };
        Some(hint.to_owned())
    }

    /// What the other ranks are told when rank `own` fails with this.
    pub(crate) fn as_refusal(&self, own: usize) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal.clone(),
            Self::NotServed { .. }
            | Self::NameInUse { .. }
            | Self::Directory { .. }
            | Self::PathTooLong { .. }
            | Self::OtherUser { .. }
            | Self::Impostor { .. }
            | Self::Pidfd { .. }
            | Self::DescriptorLost { .. }
            | Self::TooLarge { .. }
            | Self::Misuse { .. }
            | Self::System { .. } => Refusal::Left {
                rank: own,
                reason: self.to_string(),
            },
        }
    }
}

impl DirectoryProblem {
    fn hint(&self, path: &std::path::Path) -> String {
        match self {
            Self::OtherOwner { .. } => {
                "run all ranks as its owner, or choose another directory (XDG_RUNTIME_DIR)".to_owned()
            }
            Self::TooOpen { .. } => format!("chmod 700 {}", path.display()),
            Self::NotADirectory => "remove it, or choose another directory".to_owned(),
            Self::Unusable(_) => "choose a directory that this user may write to (XDG_RUNTIME_DIR)".to_owned(),
        }
    }
}

fn out_of_files(source: &std::io::Error) -> bool {
    let code = rustix::io::Errno::from_io_error(source);
    code == Some(rustix::io::Errno::MFILE) || code == Some(rustix::io::Errno::NFILE)
}

/// A failed system call as an error.
pub(crate) fn system<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> RendezvousError {
    move |source| RendezvousError::System {
        action,
        source: source.into(),
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
