//! Other people's all-reduces on the host: which are there, and how each is started.
//!
//! Their programs are ours, one source for each interface; they are part of this executable and compiled where they run, by the
//! compiler wrapper of each library, so that an installed `lanesum` finds the peers of its machine. What cannot be found or compiled
//! is missing, with the reason.

mod mpi;
mod others;

use super::folder::Folder;
use super::job::Job;
use super::program::Program;
use crate::arguments::PeerChoice;
use crate::errors::CliError;
use mpi::Mpi;

/// The peers, in the order in which they are told.
pub const NAMES: [&str; 6] = ["openmpi", "openmpi_ucx", "mpich", "impi", "oneccl", "gloo"];

/// A program, or why there is none.
type Found = Result<Program, String>;

/// The peers of a job.
pub struct Peers {
    /// Those that can be started.
    pub programs: Vec<Program>,
    /// The others, and why.
    pub absent: Vec<(&'static str, String)>,
}

impl Peers {
    /// Looks for those that were asked for, and compiles what they need.
    pub fn find(job: &Job, folder: &Folder) -> Result<Self, CliError> {
        let names = match &job.peers {
            PeerChoice::None => vec![],
            PeerChoice::Auto => NAMES.to_vec(),
            PeerChoice::Named(names) => names.clone(),
        };
        let mut peers = Self {
            programs: vec![],
            absent: vec![],
        };
        let mut mpi = Mpi::new(job, folder)?;
        for name in names {
            let found = match name {
                "openmpi" => mpi.openmpi("openmpi", &mpi::VADER)?,
                "openmpi_ucx" => mpi.openmpi("openmpi_ucx", &mpi::UCX)?,
                "mpich" => mpi.mpich()?,
                "impi" => mpi.intel()?,
                "oneccl" => others::oneccl(job, folder)?,
                "gloo" => others::gloo(job, folder)?,
                other => Err(format!("{other} is no peer of the host")),
            };
            match found {
                Ok(program) => peers.programs.push(program),
                Err(reason) => peers.absent.push((name, reason)),
            }
        }
        Ok(peers)
    }
}

fn not_there(library: &str, looked_for: &str, name: &str) -> String {
    format!("there is no {library}: {looked_for} were looked for; `cargo xtask peers {name}` installs it")
}
