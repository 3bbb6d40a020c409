//! `cargo xtask bench`: what parts of lanesum cost. What a sum costs beside its peers is for `lanesum bench`.
//!
//! A record names the command, the machine and the commit. A bench is a folder or file here with a function that gives a [`record::Record`]; what is printed
//! and kept is the same for all.

pub mod machine;
mod overhead;
mod python;
pub mod record;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::error::XtaskError;
use crate::process;
use crate::workspace::Workspace;

/// Which bench, and what to do with its numbers.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
    /// Print one JSON document instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// Also keep the JSON document as this file in benches/records/
    #[arg(long, global = true, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Bench {
    /// What a call costs besides its payload: checks, decision, digest, header, receipt
    Overhead,
    /// What a call costs more from Python than from Rust; installs torch below the target folder
    Python,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    // `cargo xtask` builds for development; numbers are only worth taking from a release build.
    if cfg!(debug_assertions) {
        return Err(in_release(workspace));
    }
    let record = match &arguments.bench {
        Bench::Overhead => overhead::run(workspace, !arguments.json)?,
        Bench::Python => python::run(workspace, !arguments.json)?,
    };
    if let Some(file) = &arguments.record {
        record.keep(workspace, file)?;
    }
    if arguments.json {
        println!("{}", record.json());
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes this very command, built for release.
fn in_release(workspace: &Workspace) -> XtaskError {
    let words = ["run", "--release", "--quiet", "--package", "xtask", "--"];
    let mut command = workspace.cargo(&words);
    command.args(std::env::args_os().skip(1));
    process::become_it(&mut command)
}
