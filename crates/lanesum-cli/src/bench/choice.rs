//! Whether a bench times GPUs or the host: what was asked for, or what the other flags leave room for, or what there is.

use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, Engine, PathChoice};

use super::{gpu, host};
use crate::arguments::{Bench, PeerChoice};
use crate::engines;
use crate::errors::CliError;

/// What is timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// Sums on GPUs.
    Gpu,
    /// Sums in the host's memory.
    Host {
        /// Why, where nobody asked for it.
        without: Option<String>,
    },
}

/// Decides, and asks for a driver only where both are possible.
pub fn side_of(arguments: &Bench) -> Result<Side, CliError> {
    let host = || Ok(Side::Host { without: None });
    match (arguments.engine, for_host(arguments), for_gpus(arguments)) {
        (_, Some(host), Some(gpus)) => Err(at_odds(&host, &gpus)),
        (EngineChoice::Host, None, Some(flag)) => Err(at_odds("--engine host", &flag)),
        (EngineChoice::Cuda, Some(flag), None) => Err(at_odds(&flag, "--engine cuda")),
        (EngineChoice::Host, _, None) => host(),
        (EngineChoice::Cuda, None, _) | (EngineChoice::Auto, None, Some(_)) => Ok(Side::Gpu),
        (EngineChoice::Auto, Some(_), None) => host(),
        (EngineChoice::Auto, None, None) => {
            let found = engines::look(EngineChoice::Auto)?;
            Ok(match found.driver {
                Some(_) => Side::Gpu,
                None => Side::Host { without: found.without },
            })
        }
    }
}

/// The first flag that only the bench of the host has a use for.
fn for_host(arguments: &Bench) -> Option<String> {
    let rounds = arguments.rounds.map(|rounds| format!("--rounds {rounds}"));
    let folder = arguments.peers_dir.as_ref().map(|_| "--peers-dir".to_owned());
    let flags = [
        algorithm_for(arguments, Engine::Host),
        peer_of(arguments, &host::peers::NAMES),
        rounds,
        folder,
    ];
    flags.into_iter().flatten().next()
}

/// The first flag that only the bench of GPUs has a use for.
fn for_gpus(arguments: &Bench) -> Option<String> {
    let mode = arguments.mode.named().map(str::to_owned);
    let path = match arguments.path {
        PathChoice::Auto => None,
        PathChoice::Peer | PathChoice::HostStaged => Some(format!("--path {}", arguments.path)),
    };
    let replays = arguments.replays.map(|replays| format!("--replays {replays}"));
    let flags = [
        algorithm_for(arguments, Engine::Cuda),
        peer_of(arguments, &gpu::peers::NAMES),
        mode,
        path,
        replays,
    ];
    flags.into_iter().flatten().next()
}

fn algorithm_for(arguments: &Bench, engine: Engine) -> Option<String> {
    match arguments.algorithm {
        AlgorithmChoice::Only(name) if name.engine() == Some(engine) => Some(format!("--algorithm {name}")),
        AlgorithmChoice::Auto | AlgorithmChoice::Only(_) => None,
    }
}

fn peer_of(arguments: &Bench, names: &[&'static str]) -> Option<String> {
    match &arguments.peers {
        PeerChoice::Auto | PeerChoice::None => None,
        PeerChoice::Named(named) => {
            let name = named.iter().find(|name| names.contains(name))?;
            Some(format!("--peers {name}"))
        }
    }
}

fn at_odds(host: &str, gpus: &str) -> CliError {
    CliError::Usage {
        cause: format!("{host} is for the bench of the host's memory, and {gpus} for the bench of GPUs"),
        hint: format!(
            "leave out one of the two; peers are {} on the host and {} on GPUs",
            host::peers::NAMES.join(", "),
            gpu::peers::NAMES.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn side(words: &[&str]) -> Result<Side, CliError> {
        let words = [&["lanesum", "bench"], words].concat();
        let command = Arguments::try_parse_from(words).expect("is complete").command;
        let Command::Bench(arguments) = command else {
            panic!("another subcommand")
        };
        side_of(&arguments)
    }

    #[test]
    fn what_only_one_side_has_decides() {
        let host = Side::Host { without: None };
        for flag in [
            "--algorithm=two_shot_pull",
            "--peers=mpich,gloo",
            "--rounds=3",
            "--engine=host",
        ] {
            assert_eq!(side(&[flag]).expect("is the host"), host, "{flag}");
        }
        for flag in [
            "--algorithm=two_shot_push",
            "--peers=nccl",
            "--graph",
            "--replays=3",
            "--engine=cuda",
        ] {
            assert_eq!(side(&[flag]).expect("are GPUs"), Side::Gpu, "{flag}");
        }
    }

    #[test]
    fn flags_of_both_sides_are_refused() {
        for (words, named) in [
            (&["--engine=host", "--peers=nccl"][..], "--peers nccl"),
            (&["--engine=cuda", "--peers=impi"], "--peers impi"),
            (&["--peers=impi,nccl"], "--peers nccl"),
            (&["--engine=host", "--path=host_staged"], "--path host_staged"),
            (&["--rounds=3", "--eager"], "--eager"),
        ] {
            let error = side(words).expect_err("is at odds");
            assert_eq!(error.exit_code(), 2, "{words:?}");
            assert!(error.to_string().contains(named), "{error}");
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.contains("openmpi_ucx") && hint.contains("flashinfer_vllm"))
            );
        }
    }
}
