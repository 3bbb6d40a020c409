//! `cargo xtask gpu`: the tests on real GPUs, also where there is no Rust.
//!
//! CI has no GPU, and the machines that have one seldom have a toolchain. So this packs the programs that CI runs on the stand-in
//! driver together with one script, which runs them on the machine's own driver: here, if there is a GPU, or wherever the folder is
//! taken. What the script writes becomes a record, and a record of a run elsewhere names that machine, not this one.

mod findings;
mod pack;
#[cfg(test)]
mod script_tests;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::error::XtaskError;
use crate::process::{self, Next};
use crate::workspace::Workspace;

/// All steps of the script together, each at its limit.
const RUN_DEADLINE: Duration = Duration::from_secs(60 * 60);

/// What to test, and where.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only pack: into gpu/ below the target folder
    #[arg(long, conflicts_with_all = ["out", "no_mps", "steps", "record", "from"])]
    pack: bool,
    /// Where results and logs go [default: gpu-out/ below the target folder]
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    out: Option<PathBuf>,
    /// Fail where there are fewer GPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=99))]
    gpus: u8,
    /// Let processes that share a GPU do so without CUDA MPS
    #[arg(long, conflicts_with = "from")]
    no_mps: bool,
    /// Only these steps of run.sh
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "from")]
    steps: Vec<String>,
    /// Keep the results as this file in benches/records/
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Run nothing: the results are those that run.sh left in this folder, brought back; may be given for several runs
    #[arg(long, value_name = "DIR", requires = "record")]
    from: Vec<PathBuf>,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    if !arguments.from.is_empty() {
        return conclude(workspace, arguments, &arguments.from);
    }
    let folder = pack::make(workspace)?;
    if arguments.pack {
        return Ok(ExitCode::SUCCESS);
    }
    look_for_gpus(&folder)?;
    let out = arguments.out.clone();
    let out = out.unwrap_or_else(|| workspace.target().join("gpu-out"));
    remove_results(&out)?;
    let mut script = script(arguments, &folder, &out);
    let outcome = process::follow(&mut script, RUN_DEADLINE, &mut |line| {
        println!("{line}");
        Next::Continue
    })?;
    let code = conclude(workspace, arguments, std::slice::from_ref(&out))?;
    // The script may have failed before its first step.
    Ok(if outcome.success() { code } else { ExitCode::FAILURE })
}

/// The run of the script that these arguments ask for.
fn script(arguments: &Arguments, folder: &Path, out: &Path) -> Command {
    let mut script = Command::new("bash");
    script.arg(folder.join(pack::SCRIPT));
    script.args(["--gpus", &arguments.gpus.to_string()]);
    if arguments.no_mps {
        script.arg("--no-mps");
    }
    script.arg(out).args(&arguments.steps);
    script
}

/// Results of a former run must not pass for those of this one.
fn remove_results(out: &Path) -> Result<(), XtaskError> {
    for name in [findings::INFO, findings::SUMMARY] {
        let path = out.join(name);
        if !path.exists() {
            continue;
        }
        std::fs::remove_file(&path).map_err(|source| XtaskError::File {
            action: "remove",
            path,
            source,
        })?;
    }
    Ok(())
}

/// Says here what the script would say, with what can be done instead.
fn look_for_gpus(folder: &Path) -> Result<(), XtaskError> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=name", "--format=csv,noheader"]);
    let reason = match process::capture(&mut command, Duration::from_secs(60)) {
        Ok(lines) if lines.iter().any(|line| !line.is_empty()) => return Ok(()),
        Ok(_) => "nvidia-smi lists none".to_owned(),
        Err(XtaskError::CannotStart { .. }) => "there is no nvidia-smi".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(XtaskError::NoGpu {
        reason,
        pack: folder.to_owned(),
    })
}

/// Counts what the script found, and keeps it where that is asked for. A run with failures is kept too, and says so.
fn conclude(workspace: &Workspace, arguments: &Arguments, folders: &[PathBuf]) -> Result<ExitCode, XtaskError> {
    let run = findings::Run::read(folders)?;
    if let Some(file) = &arguments.record {
        run.record()?.keep(workspace, file)?;
    }
    let failed = run.failed();
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("FAILED {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}
