//! What was asked for, made to fit together.

use std::time::Duration;

use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, Buffers, Dtype, Engine, PathChoice};

use super::message::Assignment;
use super::speculation::{self, Inputs};
use crate::arguments::{Economy, VerifyCycle};
use crate::engines::{self, Found, check_world};
use crate::errors::CliError;
use crate::{cores, deadline};

/// The largest message of a cycle: every rank holds a few of them.
const MESSAGE_MAX: u64 = 256 << 20;

/// A checked job. The fields are those of the command line.
#[derive(Debug, Clone)]
pub struct Job {
    pub(super) ranks: usize,
    pub(super) layers: u32,
    pub(super) tokens: u64,
    pub(super) hidden: u64,
    pub(super) dtype: Dtype,
    pub(super) cycles: u32,
    pub(super) buffers: Buffers,
    pub(super) algorithm: AlgorithmChoice,
    pub(super) path: PathChoice,
    /// Whether calls on a GPU are replayed from a graph.
    pub(super) graph: bool,
    pub(super) deadline: Option<Duration>,
    /// The engine, and why it is the host if nobody insisted on that.
    pub(super) engine: Found,
    /// One CPU a rank, or none at all.
    cpus: Vec<usize>,
    pub(super) step: Inputs,
}

impl Job {
    /// Checks what depends on several arguments, and looks for GPUs if they may be used.
    pub fn checked(arguments: &VerifyCycle) -> Result<Self, CliError> {
        let usable = cores::usable().map_err(|source| CliError::System {
            what: "read which CPUs this process may use".into(),
            source,
        })?;
        let engine = engine_of(arguments)?;
        let devices = engine.driver.map(|driver| driver.devices);
        let ranks = match arguments.ranks {
            Some(ranks) => usize::from(ranks),
            None => devices.unwrap_or(usable.len()).clamp(2, 8),
        };
        check_world(engine.choice, ranks)?;
        let pin = !arguments.no_pin && ranks <= usable.len();
        let job = Self {
            ranks,
            layers: arguments.layers,
            tokens: arguments.tokens,
            hidden: arguments.hidden,
            dtype: arguments.dtype,
            cycles: arguments.cycles,
            buffers: arguments.buffers,
            algorithm: arguments.algorithm,
            path: arguments.path,
            graph: arguments.mode.graph,
            engine,
            deadline: deadline::wanted(arguments.deadline_ms)?,
            cpus: if pin { usable } else { vec![] },
            step: inputs_of(&arguments.economy),
        };
        job.check_size()?;
        Ok(job)
    }

    /// The least that shows which engine and which path so many ranks get.
    pub fn least(ranks: usize, engine: Found, path: PathChoice, deadline: Duration) -> Self {
        Self {
            ranks,
            layers: 1,
            tokens: 1,
            hidden: 1,
            dtype: Dtype::F32,
            cycles: 1,
            buffers: Buffers::Private,
            algorithm: AlgorithmChoice::Auto,
            path,
            graph: false,
            engine,
            deadline: Some(deadline),
            cpus: vec![],
            step: speculation::KNOWN,
        }
    }

    fn check_size(&self) -> Result<(), CliError> {
        let elements = self.tokens.checked_mul(self.hidden);
        let bytes = elements.and_then(|elements| elements.checked_mul(self.dtype.size() as u64));
        if bytes.is_some_and(|bytes| bytes <= MESSAGE_MAX) {
            return Ok(());
        }
        Err(CliError::Usage {
            cause: format!(
                "--tokens {} x --hidden {} elements of {} are more than the {} MiB that one message may have",
                self.tokens,
                self.hidden,
                self.dtype,
                MESSAGE_MAX >> 20
            ),
            hint: "take fewer tokens or a narrower model; a verify step has a few tokens, such as --tokens 3".into(),
        })
    }

    /// All-reduces of one cycle.
    pub fn sums(&self) -> u32 {
        2 * self.layers
    }

    /// Bytes that each rank brings to one of them.
    pub fn bytes(&self) -> u64 {
        self.tokens * self.hidden * self.dtype.size() as u64
    }

    /// Whether each rank has a CPU to itself.
    pub fn pinned(&self) -> bool {
        !self.cpus.is_empty()
    }

    /// The known case with as many sums as there are here.
    pub fn known(&self) -> Inputs {
        Inputs {
            sums: u64::from(self.sums()),
            ..self.step
        }
    }

    /// What one rank is told.
    pub fn assignment(&self, rank: usize) -> Assignment {
        Assignment {
            parent: std::process::id(),
            rank,
            world: self.ranks,
            sums: self.sums(),
            // Both are bounded by MESSAGE_MAX.
            elements: (self.tokens * self.hidden) as usize,
            plain_elements: self.hidden as usize,
            dtype: self.dtype,
            cycles: self.cycles,
            buffers: self.buffers,
            engine: self.engine.choice,
            algorithm: self.algorithm,
            path: self.path,
            graph: self.graph,
            cpu: self.cpus.get(rank).copied(),
        }
    }
}

fn inputs_of(economy: &Economy) -> Inputs {
    Inputs {
        sums: speculation::KNOWN.sums,
        compute_ms: economy.compute_ms,
        draft_ms: economy.draft_ms,
        accepted: economy.accepted,
        verify_sum_us: economy.verify_sum_us,
        plain_sum_us: economy.plain_sum_us,
    }
}

/// The engine that the other flags leave room for, if the driver goes along.
fn engine_of(arguments: &VerifyCycle) -> Result<Found, CliError> {
    let host = first_for(arguments, Engine::Host);
    let cuda = first_for(arguments, Engine::Cuda);
    match (arguments.engine, host, cuda) {
        (_, Some(host), Some(cuda)) => Err(at_odds(&host, &cuda)),
        (EngineChoice::Auto, Some(flag), None) => Ok(Found::host(Some(format!("{flag} is for the host")))),
        (EngineChoice::Auto, None, Some(_)) => engines::look(EngineChoice::Cuda),
        (EngineChoice::Cuda, Some(flag), None) => Err(at_odds(&flag, "--engine cuda")),
        (EngineChoice::Host, None, Some(flag)) => Err(at_odds("--engine host", &flag)),
        (choice, _, _) => engines::look(choice),
    }
}

/// The first flag that asks for this engine, other than `--engine`.
fn first_for(arguments: &VerifyCycle, engine: Engine) -> Option<String> {
    let buffers = match arguments.buffers {
        Buffers::Shared => Some((Engine::Host, "--buffers shared".to_owned())),
        Buffers::Private | Buffers::Device => None,
    };
    let named = engine_for(arguments.algorithm);
    let algorithm = named.map(|engine| (engine, format!("--algorithm {}", arguments.algorithm)));
    let mode = arguments.mode.named().map(|flag| (Engine::Cuda, flag.to_owned()));
    let path = match arguments.path {
        PathChoice::Auto => None,
        PathChoice::Peer | PathChoice::HostStaged => Some((Engine::Cuda, format!("--path {}", arguments.path))),
    };
    let flags = [buffers, algorithm, mode, path].into_iter().flatten();
    flags.filter(|(of, _)| *of == engine).map(|(_, flag)| flag).next()
}

fn engine_for(algorithm: AlgorithmChoice) -> Option<Engine> {
    match algorithm {
        AlgorithmChoice::Auto => None,
        AlgorithmChoice::Only(name) => name.engine(),
    }
}

fn at_odds(host: &str, cuda: &str) -> CliError {
    CliError::Usage {
        cause: format!("{host} asks for the host's memory, and {cuda} sums what lies in memory of GPUs"),
        hint: "leave out one of the two".into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn engine(words: &[&str]) -> Result<Found, CliError> {
        let words = [&["lanesum", "verify-cycle"], words].concat();
        let command = Arguments::try_parse_from(words).expect("is complete").command;
        let Command::VerifyCycle(arguments) = command else {
            panic!("another subcommand")
        };
        engine_of(&arguments)
    }

    #[test]
    fn what_only_the_host_has_makes_auto_the_host() {
        for flag in ["--buffers=shared", "--algorithm=two_shot_pull"] {
            let found = engine(&[flag]).expect("is the host");
            assert_eq!(found.choice, EngineChoice::Host);
            assert!(found.without.is_some_and(|reason| reason.contains("is for the host")));
            assert_eq!(
                engine(&[flag, "--engine=host"]).expect("is the host"),
                Found::host(None)
            );
        }
    }

    #[test]
    fn flags_of_different_engines_are_refused() {
        for (words, named) in [
            (&["--buffers=shared", "--engine=cuda"][..], "--buffers shared"),
            (
                &["--algorithm=one_shot_pull", "--engine=cuda"],
                "--algorithm one_shot_pull",
            ),
            (&["--algorithm=one_shot_push", "--engine=host"], "--engine host"),
            (&["--path=host_staged", "--engine=host"], "--path host_staged"),
            (
                &["--algorithm=one_shot_push", "--buffers=shared"],
                "--algorithm one_shot_push",
            ),
        ] {
            let error = engine(words).expect_err("is at odds");
            assert_eq!(error.exit_code(), 2, "{words:?}");
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
