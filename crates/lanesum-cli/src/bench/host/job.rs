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
        let mut ranks = match arguments.ranks.as_slice() {
            [] => vec![cpus.len().clamp(2, 8)],
            given => given.iter().copied().map(usize::from).collect(),
        };
        each_once(&mut ranks);
        let mut dtypes = arguments.dtype.clone();
        each_once(&mut dtypes);
        let mut peers = arguments.peers.clone();
        if let PeerChoice::Named(names) = &mut peers {
            each_once(names);
        }
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
            peers,
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

/// Without what was given before.
fn each_once<T: PartialEq>(values: &mut Vec<T>) {
    let mut kept = Vec::with_capacity(values.len());
    for value in values.drain(..) {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    *values = kept;
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    #[test]
    fn what_is_given_twice_counts_once_where_it_was_first() {
        let words = "lanesum bench --ranks=4,2,4 --sizes=8KiB,1KiB,8192 --dtype=bf16,f32,bf16 --peers=mpich,gloo,mpich";
        let parsed = Arguments::try_parse_from(words.split(' ')).expect("is complete");
        let Command::Bench(bench) = parsed.command else {
            panic!("another subcommand")
        };
        let job = Job::checked(&bench, None).expect("fits together");
        assert_eq!(job.ranks, [4, 2]);
        assert_eq!(job.sizes, [1024, 8192]);
        assert_eq!(job.dtypes, [Dtype::Bf16, Dtype::F32]);
        assert_eq!(job.peers, PeerChoice::Named(vec!["mpich", "gloo"]));
    }

    #[test]
    fn ranks_have_a_cpu_each_or_none_at_all() {
        let job = Job::made_up();
        assert_eq!(job.cpus_of(2), "0,1");
        assert_eq!(job.cpus_of(3), "-");
    }
}
