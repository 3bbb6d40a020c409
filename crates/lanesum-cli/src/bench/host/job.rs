//! What was asked for, made to fit together.

use std::path::PathBuf;
use std::time::Duration;

use lanesum_plan::{AlgorithmChoice, Dtype};

use crate::arguments::{Bench, PeerChoice};
use crate::bench::sizes;
use crate::errors::CliError;
use crate::{cores, deadline};

/// From what latency decides to what the memory does.
const SIZES: [u64; 6] = [1 << 10, 8 << 10, 42 << 10, 256 << 10, 1 << 20, 16 << 20];
const ROUNDS: u32 = 9;
/// The library's own.
const DEADLINE: Duration = Duration::from_secs(30);
/// Where `cargo xtask peers` puts them.
const PEERS: &str = "target/peers";

/// A checked job. The fields are those of the command line.
#[derive(Debug, Clone)]
pub struct Job {
    pub(super) ranks: Vec<usize>,
    /// In bytes, ascending.
    pub(super) sizes: Vec<u64>,
    pub(super) dtypes: Vec<Dtype>,
    pub(super) algorithm: AlgorithmChoice,
    pub(super) peers: PeerChoice,
    pub(super) peers_dir: Option<PathBuf>,
    pub(super) python: PathBuf,
    pub(super) deadline: Duration,
    pub(super) json: bool,
    pub(super) record: Option<PathBuf>,
    pub(super) plot: Option<PathBuf>,
    pub(super) rounds: u32,
    /// Where a number was asked for.
    pub(super) calls: Option<u32>,
    pub(super) commit: Option<String>,
    /// Why it is the host, where nobody asked for it.
    pub(super) without: Option<String>,
    /// One of each core first.
    pub(super) cpus: Vec<usize>,
}

impl Job {
    /// Checks what depends on several arguments.
    pub fn checked(arguments: &Bench, without: Option<String>) -> Result<Self, CliError> {
        let cpus = cores::usable().map_err(|source| CliError::System {
            what: "read which CPUs this process may use".into(),
            source,
        })?;
        let ranks = match arguments.ranks.as_slice() {
            [] => vec![cpus.len().clamp(2, 8)],
            given => given.iter().copied().map(usize::from).collect(),
        };
        let mut dtypes = arguments.dtype.clone();
        if dtypes.is_empty() {
            dtypes.push(Dtype::F32);
        }
        let place = arguments.peers_dir.clone();
        if let Some(place) = place.as_ref().filter(|place| !place.is_dir()) {
            return Err(CliError::Usage {
                cause: format!("--peers-dir {}: there is no such folder", place.display()),
                hint: "`cargo xtask peers` makes target/peers; without the flag the machine's own peers are timed"
                    .into(),
            });
        }
        Ok(Self {
            ranks,
            sizes: sizes::checked(&arguments.sizes, &SIZES, &dtypes)?,
            dtypes,
            algorithm: arguments.algorithm,
            peers: arguments.peers.clone(),
            peers_dir: place
                .or_else(|| Some(PathBuf::from(PEERS)).filter(|place| place.is_dir()))
                // What is compiled there remembers where its libraries are.
                .and_then(|place| std::path::absolute(place).ok()),
            python: arguments.python.clone(),
            deadline: deadline::wanted(arguments.deadline_ms)?.unwrap_or(DEADLINE),
            json: arguments.json,
            record: arguments.record.clone(),
            plot: arguments.plot.clone(),
            rounds: arguments.rounds.unwrap_or(ROUNDS),
            calls: arguments.calls,
            commit: arguments.commit.clone(),
            without,
            cpus,
        })
    }

    /// For tests of what is said of a job.
    #[cfg(test)]
    pub fn made_up() -> Self {
        Self {
            ranks: vec![2],
            sizes: vec![43_008],
            dtypes: vec![Dtype::F32],
            algorithm: AlgorithmChoice::Auto,
            peers: PeerChoice::None,
            peers_dir: None,
            python: "python3".into(),
            deadline: DEADLINE,
            json: false,
            record: None,
            plot: None,
            rounds: 2,
            calls: None,
            commit: Some("0123456789ab".into()),
            without: None,
            cpus: vec![0, 1],
        }
    }

    /// Whether each of so many ranks has a CPU to itself.
    pub fn pins(&self, ranks: usize) -> bool {
        ranks <= self.cpus.len()
    }

    /// The CPUs of so many ranks, as their programs read them.
    pub fn cpus_of(&self, ranks: usize) -> String {
        if !self.pins(ranks) {
            return "-".into();
        }
        let numbers: Vec<String> = self.cpus.iter().take(ranks).map(usize::to_string).collect();
        numbers.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_a_cpu_each_or_none_at_all() {
        let job = Job::made_up();
        assert_eq!(job.cpus_of(2), "0,1");
        assert_eq!(job.cpus_of(3), "-");
    }
}
