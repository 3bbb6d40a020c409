//! What was asked for, made to fit together.

use std::path::PathBuf;
use std::time::Duration;

use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, Dtype, Engine, PathChoice};

use super::message::Assignment;
use crate::arguments::{Bench, PeerChoice};
use crate::engines::{self, check_world};
use crate::errors::CliError;
use crate::{cores, deadline};

/// The largest message: every rank holds a few of them.
const MESSAGE_MAX: u64 = 256 << 20;

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
        check_engine(arguments)?;
        let driver = engines::look(EngineChoice::Cuda)
            .map_err(|error| without_gpus(arguments, error))?
            .driver;
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
            sizes: sizes_of(arguments)?,
            dtype: arguments.dtype,
            algorithm: arguments.algorithm,
            path: arguments.path,
            graph: arguments.mode.graph || neither,
            eager: arguments.mode.eager || neither,
            peers: arguments.peers.clone(),
            python: arguments.python.clone(),
            deadline: deadline::wanted(arguments.deadline_ms)?,
            json: arguments.json,
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
            // Bounded by MESSAGE_MAX.
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

fn check_engine(arguments: &Bench) -> Result<(), CliError> {
    let host = |flag: String| CliError::Usage {
        cause: format!("{flag}: the bench of the host engine is not part of this command yet"),
        hint: "`cargo xtask bench` times it, beside OpenMPI; here, use --engine cuda".into(),
    };
    let named = match arguments.algorithm {
        AlgorithmChoice::Auto => None,
        AlgorithmChoice::Only(name) => name.engine(),
    };
    match (arguments.engine, named) {
        (EngineChoice::Host, _) => Err(host("--engine host".into())),
        (EngineChoice::Auto | EngineChoice::Cuda, Some(Engine::Host)) => {
            Err(host(format!("--algorithm {}", arguments.algorithm)))
        }
        (EngineChoice::Auto | EngineChoice::Cuda, Some(Engine::Cuda) | None) => Ok(()),
    }
}

/// Who left the choice to us learns that only one engine was looked for.
fn without_gpus(arguments: &Bench, error: CliError) -> CliError {
    match arguments.engine {
        EngineChoice::Cuda | EngineChoice::Host => error,
        EngineChoice::Auto => CliError::Usage {
            cause: format!("this bench times GPUs, and there are none: {error}"),
            hint: "`cargo xtask bench` times the host engine, beside OpenMPI".into(),
        },
    }
}

fn sizes_of(arguments: &Bench) -> Result<Vec<u64>, CliError> {
    let element = arguments.dtype.size() as u64;
    let odd = |bytes: &&u64| !bytes.is_multiple_of(element) || **bytes > MESSAGE_MAX;
    if let Some(bytes) = arguments.sizes.iter().find(odd) {
        return Err(CliError::Usage {
            cause: format!(
                "--sizes {bytes}: a size is a multiple of the {element} bytes of {}, and at most {} MiB",
                arguments.dtype,
                MESSAGE_MAX >> 20
            ),
            hint: "take the next multiple, or --dtype f32".into(),
        });
    }
    let mut sizes = arguments.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn arguments(words: &[&str]) -> Bench {
        let command = Arguments::try_parse_from([&["lanesum", "bench"], words].concat())
            .expect("is complete")
            .command;
        let Command::Bench(arguments) = command else {
            panic!("another subcommand")
        };
        arguments
    }

    #[test]
    fn the_host_is_refused_with_what_works_instead() {
        for words in [&["--engine=host"][..], &["--algorithm=two_shot_pull"]] {
            let error = check_engine(&arguments(words)).expect_err("is not there yet");
            assert_eq!(error.exit_code(), 2);
            assert!(
                error.hint().is_some_and(|hint| hint.contains("cargo xtask bench")),
                "{error}"
            );
        }
        assert!(check_engine(&arguments(&["--algorithm=two_shot_push"])).is_ok());
    }

    #[test]
    fn sizes_are_whole_elements_in_order() {
        let sizes = sizes_of(&arguments(&["--sizes=1MiB,8KiB,8192"])).expect("fit");
        assert_eq!(sizes, [8192, 1 << 20]);
        assert!(sizes_of(&arguments(&["--sizes=43009"])).is_err());
        assert!(sizes_of(&arguments(&["--sizes=1GiB"])).is_err());
    }
}
