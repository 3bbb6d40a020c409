//! Which paths between GPUs the cases take: those that were asked for, or those that there are on this machine.

use std::fmt;

use lanesum::EngineChoice;
use lanesum_conformance::{Case, PATHS};
use lanesum_plan::{Path, PathChoice, PathRefusal, WorldSize};
use serde::Serialize;

use super::PATIENCE;
use crate::engines::Found;
use crate::errors::CliError;
use crate::verify_cycle::{self, Tried};

/// The paths that cases take, and why they do not take the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Paths {
    /// In order of preference; none where no ranks exchange anything between GPUs.
    pub paths: Vec<Path>,
    /// The first reason why one of them is not taken, or not with so many ranks.
    pub other_path: Option<PathRefusal>,
}

/// The choices that the cases are made for.
pub fn choices(asked: PathChoice) -> &'static [PathChoice] {
    match asked {
        PathChoice::Auto => &PATHS,
        PathChoice::Peer => &[PathChoice::Peer],
        PathChoice::HostStaged => &[PathChoice::HostStaged],
    }
}

impl Paths {
    /// What cases that pin their path take.
    pub fn pinned(cases: &[Case]) -> Self {
        let mut paths = Self::default();
        let of_gpus = |path: &Path| matches!(path, Path::Peer | Path::HostStaged);
        for case in cases {
            case.pinned_path()
                .filter(of_gpus)
                .into_iter()
                .for_each(|path| paths.takes(path));
        }
        if let ([taken], Some(case)) = (paths.paths.as_slice(), cases.first()) {
            let reason = format!("the policy asks for {}", case.setting.path);
            paths.other_path = other_than(*taken).map(|path| PathRefusal { path, reason });
        }
        paths
    }

    fn takes(&mut self, path: Path) {
        if !self.paths.contains(&path) {
            self.paths.push(path);
            self.paths.sort_unstable();
        }
    }

    fn refuses(&mut self, path: Path, reason: impl FnOnce() -> String) {
        if self.other_path.is_none() {
            self.other_path = Some(PathRefusal { path, reason: reason() });
        }
    }
}

fn other_than(path: Path) -> Option<Path> {
    match path {
        Path::None | Path::SharedMemory => None,
        Path::Peer => Some(Path::HostStaged),
        Path::HostStaged => Some(Path::Peer),
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.paths.iter().map(|path| path.name()).collect();
        f.write_str(&names.join(", "))?;
        match &self.other_path {
            Some(other) => write!(f, " (not {}: {})", other.path, other.reason),
            None => Ok(()),
        }
    }
}

/// The cases that can be run here by ranks which are left the choice of a path, and what is left out. With the engine `auto`, GPUs
/// that do not work together are no failure, as they are none for a communicator: their world sizes are left out, with the first
/// reason. A path that the machine has not is no failure with any engine, as long as there is the other.
pub fn usable(mut cases: Vec<Case>, found: &Found) -> Result<(Vec<Case>, Paths, Option<String>), CliError> {
    let mut worlds: Vec<WorldSize> = cases.iter().map(|case| case.setting.world).collect();
    worlds.sort_unstable();
    worlds.dedup();
    let (mut paths, mut without) = (Paths::default(), None);
    let trial = Found {
        choice: EngineChoice::Auto,
        ..found.clone()
    };
    for world in worlds {
        let ask = |path| verify_cycle::tried(world.get(), &trial, path, PATIENCE.deadline);
        let along = |path, case: &Case| (case.setting.world, case.setting.path) == (world, path);
        let with = |reason: &str| format!("not with --ranks {world}: {reason}");
        let first = match ask(PathChoice::Auto)? {
            // Whatever it is, the cases will say so.
            Tried::Failed => continue,
            Tried::Without(reason) => {
                // Who insists on GPUs gets the reason as a failure, once.
                let insists = found.choice == EngineChoice::Cuda;
                cases.retain(|case| case.setting.world != world || insists && along(PathChoice::Auto, case));
                without = without.or_else(|| Some(with(&reason)));
                continue;
            }
            Tried::With { path, other } => {
                if let (Path::HostStaged, Some(other)) = (path, other) {
                    paths.refuses(other.path, || with(&other.reason));
                }
                path
            }
        };
        if world.get() > 1 {
            paths.takes(first);
        }
        if first == Path::HostStaged {
            continue;
        }
        match ask(PathChoice::HostStaged)? {
            Tried::Failed => {}
            Tried::Without(reason) => {
                cases.retain(|case| !along(PathChoice::HostStaged, case));
                paths.refuses(Path::HostStaged, || with(&reason));
            }
            Tried::With { .. } if world.get() > 1 => paths.takes(Path::HostStaged),
            Tried::With { .. } => {}
        }
    }
    let without = without.filter(|_| found.choice == EngineChoice::Auto);
    Ok((cases, paths, without))
}
