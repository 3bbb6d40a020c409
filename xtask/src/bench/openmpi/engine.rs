//! The engines: how each is built, started and understood.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::XtaskError;
use crate::process;
use crate::workspace::Workspace;

const BUILD_DEADLINE: Duration = Duration::from_secs(15 * 60);
const RUN_DEADLINE: Duration = Duration::from_secs(120);

/// Who does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// This library
    Lanesum,
    /// OpenMPI through its own shared memory transport
    OpenmpiVader,
    /// OpenMPI through UCX
    OpenmpiUcx,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Lanesum => "lanesum",
            Engine::OpenmpiVader => "openmpi-vader",
            Engine::OpenmpiUcx => "openmpi-ucx",
        }
    }

    /// The words that choose the transport.
    fn mpi_words(self) -> &'static [&'static str] {
        match self {
            Engine::Lanesum => &[],
            Engine::OpenmpiVader => &["--mca", "pml", "ob1", "--mca", "btl", "vader,self"],
            Engine::OpenmpiUcx => &[
                "--mca",
                "pml",
                "ucx",
                "--mca",
                "opal_common_ucx_tls",
                "any",
                "--mca",
                "opal_common_ucx_devices",
                "any",
                "-x",
                "UCX_TLS=self,sm",
            ],
        }
    }

    /// The settings as a record tells them.
    pub fn settings(self) -> String {
        match self {
            Engine::Lanesum => "lanesum: lanesum launch, defaults".to_owned(),
            Engine::OpenmpiVader | Engine::OpenmpiUcx => format!(
                "{}: mpirun {} {}",
                self.name(),
                MPI_COMMON.join(" "),
                self.mpi_words().join(" ")
            ),
        }
    }
}

/// The ranks pin themselves, each to the core of its number, as lanesum's do.
const MPI_COMMON: [&str; 3] = ["--bind-to", "none", "--oversubscribe"];

/// Both are called so where several MPIs are installed side by side, and plainly else.
const MPICC: [&str; 2] = ["mpicc.openmpi", "mpicc"];
const MPIRUN: [&str; 2] = ["mpirun.openmpi", "mpirun"];

/// One turn of one engine.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub ranks: u32,
    pub bytes: u64,
    pub calls: u32,
}

/// What an engine's rank 0 prints: the slowest rank's times of one call.
#[derive(Debug, Deserialize)]
pub struct Answer {
    pub median_us: f64,
    pub p99_us: f64,
    pub algorithm: Option<String>,
}

/// Engines that are built and can be started.
pub struct Engines {
    launcher: PathBuf,
    lanesum: PathBuf,
    openmpi: PathBuf,
}

impl Engines {
    /// Builds what the wanted engines need.
    ///
    /// # Errors
    /// A compiler is missing or fails.
    pub fn build(workspace: &Workspace, wanted: &[Engine]) -> Result<Engines, XtaskError> {
        let engines = Engines {
            launcher: workspace.built("release", "lanesum"),
            lanesum: workspace.built("release", "bench-lanesum"),
            openmpi: workspace.target().join("engines/openmpi-all-reduce"),
        };
        if wanted.contains(&Engine::Lanesum) {
            for (package, program) in [("lanesum-cli", "lanesum"), ("xtask", "bench-lanesum")] {
                let words = ["build", "--release", "--package", package, "--bin", program];
                process::capture(&mut workspace.cargo(&words), BUILD_DEADLINE)?;
            }
        }
        if wanted.iter().any(|engine| *engine != Engine::Lanesum) {
            let source = workspace.root().join("benches/engines/openmpi/all_reduce.c");
            compile(&source, &engines.openmpi)?;
        }
        Ok(engines)
    }

    /// Gives one engine its turn.
    ///
    /// # Errors
    /// It could not start, found a wrong sum, was late, or printed no answer.
    pub fn run(&self, engine: Engine, work: Work) -> Result<Answer, XtaskError> {
        match engine {
            Engine::Lanesum => {
                let mut command = Command::new(&self.launcher);
                command
                    .args(["launch", "-n", &work.ranks.to_string(), "--"])
                    .arg(&self.lanesum);
                ask(&mut command, work)
            }
            Engine::OpenmpiVader | Engine::OpenmpiUcx => {
                let mut command = Command::new(first_found(&MPIRUN));
                command
                    .args(["-n", &work.ranks.to_string()])
                    .args(MPI_COMMON)
                    .args(engine.mpi_words())
                    .arg(&self.openmpi)
                    .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                    .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                ask(&mut command, work)
            }
        }
    }
}

fn compile(source: &Path, program: &Path) -> Result<(), XtaskError> {
    // The folder must be there before the compiler writes into it.
    Workspace::write(&program.with_extension("built-from"), "all_reduce.c\n")?;
    let mut command = Command::new(first_found(&MPICC));
    command
        .args(["-O3", "-march=native", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(program)
        .arg(source);
    process::capture(&mut command, BUILD_DEADLINE).map(drop)
}

fn ask(command: &mut Command, work: Work) -> Result<Answer, XtaskError> {
    command.args([work.bytes.to_string(), work.calls.to_string()]);
    let lines = process::capture(command, RUN_DEADLINE)?;
    answer_in(&lines).ok_or_else(|| XtaskError::Unreadable {
        command: process::describe(command),
        wanted: "times as JSON",
        last_lines: process::last_lines(&lines),
    })
}

/// A launcher may write the rank before the line.
fn answer_in(lines: &[String]) -> Option<Answer> {
    lines
        .iter()
        .filter_map(|line| line.find('{').map(|start| &line[start..]))
        .find_map(|json| serde_json::from_str(json).ok())
}

/// The first of these programs that is on the search path, else the last.
fn first_found(names: &[&'static str; 2]) -> &'static str {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &&str| std::env::split_paths(&folders).any(|f| f.join(name).is_file());
    let [preferred, plain] = *names;
    if found(&preferred) { preferred } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_behind_a_prefix() {
        let lines = [
            "[1] hello".to_owned(),
            r#"[0] {"median_us":4.5,"p99_us":6,"algorithm":"two_shot_pull"}"#.to_owned(),
        ];
        let answer = answer_in(&lines).expect("an answer");
        assert_eq!((answer.median_us, answer.p99_us), (4.5, 6.0));
        assert_eq!(answer.algorithm.as_deref(), Some("two_shot_pull"));
        assert!(answer_in(&["[0] {broken".to_owned()]).is_none());
    }
}
