//! What was asked for, made to fit together.

use std::path::PathBuf;
use std::time::Duration;

use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, Dtype, PathChoice};

use super::message::Assignment;
use crate::arguments::{Bench, PeerChoice};
use crate::bench::sizes;
use crate::engines::{self, check_world};
use crate::errors::CliError;
use crate::{cores, deadline};

/// Those of a decoding and of a verify step, and around them.
const SIZES: [u64; 6] = [8 << 10, 14 << 10, 42 << 10, 128 << 10, 256 << 10, 1 << 20];

/// A checked job. The fields are those of the command line.
#[derive(Debug, Clone)]
pub struct Job {
    pub(super) ranks: Vec<usize>,
    /// In bytes, ascending.
    pub(super) sizes: Vec<u64>,
    pub(super) dtype: Dtype,
    pub(super) algorithm: AlgorithmChoice,
    pub(super) path: PathChoice,
    pub(super) graph: bool,
    pub(super) eager: bool,
    pub(super) peers: PeerChoice,
    pub(super) python: PathBuf,
    pub(super) deadline: Option<Duration>,
    pub(super) json: bool,
    pub(super) plot: Option<PathBuf>,
    /// Where a number was asked for.
    pub(super) replays: Option<u32>,
    /// Where a number was asked for.
    pub(super) calls: Option<u32>,
    pub(super) devices: usize,
    pub(super) commit: Option<String>,
    /// Whether the driver is the tests' stand-in.
    pub(super) stand_in: bool,
    /// One CPU a rank for the largest world, or none at all.
    cpus: Vec<usize>,
}

impl Job {
    /// Checks what depends on several arguments, and looks for GPUs.
    pub fn checked(arguments: &Bench) -> Result<Self, CliError> {
        let dtype = dtype_of(arguments)?;
        let driver = engines::look(EngineChoice::Cuda)?.driver;
        let devices = driver.map_or(0, |driver| driver.devices);
        let ranks: Vec<usize> = match arguments.ranks.as_slice() {
            [] => vec![devices.clamp(2, 8)],
            given => given.iter().copied().map(usize::from).collect(),
        };
        ranks
            .iter()
            .try_for_each(|&ranks| check_world(EngineChoice::Cuda, ranks))?;
        let usable = cores::usable().map_err(|source| CliError::System {
            what: "read which CPUs this process may use".into(),
            source,
        })?;
        let most = ranks.iter().copied().max().unwrap_or_default();
        let neither = arguments.mode.named().is_none();
        Ok(Self {
            cpus: if most <= usable.len() { usable } else { vec![] },
            ranks,
            sizes: sizes::checked(&arguments.sizes, &SIZES, &[dtype])?,
            dtype,
            algorithm: arguments.algorithm,
            path: arguments.path,
            graph: arguments.mode.graph || neither,
            eager: arguments.mode.eager || neither,
            peers: arguments.peers.clone(),
            python: arguments.python.clone(),
            deadline: deadline::wanted(arguments.deadline_ms)?,
            json: arguments.json,
            plot: arguments.plot.clone(),
            replays: arguments.replays,
            calls: arguments.calls,
            devices,
            commit: arguments.commit.clone(),
            stand_in: driver.is_some_and(|driver| driver.stand_in),
        })
    }

    /// For tests of what is said of a job.
    #[cfg(test)]
    pub fn made_up() -> Self {
        Self {
            ranks: vec![2],
            sizes: vec![8192],
            dtype: Dtype::Bf16,
            algorithm: AlgorithmChoice::Auto,
            path: PathChoice::Auto,
            graph: true,
            eager: true,
            peers: PeerChoice::None,
            python: "python3".into(),
            deadline: None,
            json: false,
            plot: None,
            replays: Some(2),
            calls: Some(122),
            devices: 8,
            commit: Some("0123456789ab".into()),
            stand_in: false,
            cpus: vec![],
        }
    }

    /// What one rank of so many is told.
    pub fn assignment(&self, ranks: usize, rank: usize) -> Assignment {
        Assignment {
            parent: std::process::id(),
            rank,
            world: ranks,
            // Bounded by the largest message.
            elements: self
                .sizes
                .iter()
                .map(|bytes| *bytes as usize / self.dtype.size())
                .collect(),
            dtype: self.dtype,
            algorithm: self.algorithm,
            path: self.path,
            graph: self.graph,
            eager: self.eager,
            cpu: self.cpus.get(rank).copied(),
        }
    }
}

/// One type a run: models sum bf16.
fn dtype_of(arguments: &Bench) -> Result<Dtype, CliError> {
    match arguments.dtype.as_slice() {
        [] => Ok(Dtype::Bf16),
        [dtype] => Ok(*dtype),
        [first, ..] => Err(CliError::Usage {
            cause: "--dtype with several types: the bench of GPUs times one in a run".into(),
            hint: format!("take --dtype {first}, or --engine host"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    #[test]
    fn one_type_is_timed_in_a_run() {
        let dtype = |words: &[&str]| {
            let command = Arguments::try_parse_from([&["lanesum", "bench"], words].concat());
            let Command::Bench(arguments) = command.expect("is complete").command else {
                panic!("another subcommand")
            };
            dtype_of(&arguments)
        };
        assert_eq!(dtype(&[]).expect("has a default"), Dtype::Bf16);
        assert_eq!(dtype(&["--dtype=f16"]).expect("is one"), Dtype::F16);
        assert_eq!(dtype(&["--dtype=f32,bf16"]).expect_err("are two").exit_code(), 2);
    }
}
