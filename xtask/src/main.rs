//! Every chore of the project, so that nobody has to remember a command line:
//! `cargo xtask --help` lists them.
//!
//! A chore either did what its name says or ends with a non-zero exit and a line that tells what to
//! do. They are no shell scripts, because the tests, CI and the benches share the same parts: a child
//! under a deadline ([`process`]), a count of tests ([`tally`]), facts about the workspace
//! ([`workspace`]). The one script, gpu/run.sh, is for machines without Rust.

#![forbid(unsafe_code)]

mod bench;
mod c;
mod docs;
mod engines;
mod error;
mod fuzz;
mod gpu;
mod kernels;
mod model_check;
mod peers;
mod process;
mod python;
mod snapshots;
mod tally;
mod test;
mod wheels;
mod workspace;

use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

use crate::error::XtaskError;
use crate::workspace::Workspace;

/// The chores of the lanesum workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every check and test; the last line says `N passed, N failed`
    Test(test::Arguments),
    /// Do what CI does, as CI does it: run .ci/run
    Ci,
    /// Write the generated files: docs/environment.md, docs/cli.md and lanesum.h
    Docs(docs::Arguments),
    /// Write what `lanesum plan` says of every dump and preset: crates/lanesum-cli/tests/snapshots
    Snapshots,
    /// Compile the GPU kernels and write the images that are shipped
    Kernels(kernels::Arguments),
    /// Pack the tests for GPUs, and run them if there is one
    Gpu(gpu::Arguments),
    /// Measure what parts of a call cost
    Bench(bench::Arguments),
    /// Judge the fabric model by published latencies, each host with its own rows left out
    ModelCheck(model_check::Arguments),
    /// Look for texts that the readers of dumps and words cannot take; needs nightly Rust and cargo-fuzz
    Fuzz(fuzz::Arguments),
    /// Build the Python package, install it below target/python and run its tests
    Python(python::Arguments),
    /// Build the library for C and install it, with its header, below a folder
    C(c::Arguments),
    /// Install other people's all-reduces for `lanesum bench` below target/peers
    Peers(peers::Arguments),
    /// Compare the engines' sources with what the plug-ins need, and run the plug-ins' tests in the engines, below target/engines
    Engines(engines::Arguments),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    let workspace = Workspace::find()?;
    match &arguments.chore {
        Chore::Test(arguments) => test::run(&workspace, arguments),
        Chore::Ci => {
            let mut script = Command::new("bash");
            script.arg(".ci/run").current_dir(workspace.root());
            Err(process::become_it(&mut script))
        }
        Chore::Docs(arguments) => docs::run(&workspace, arguments),
        Chore::Snapshots => snapshots::run(&workspace),
        Chore::Kernels(arguments) => kernels::run(&workspace, arguments),
        Chore::Gpu(arguments) => gpu::run(&workspace, arguments),
        Chore::Bench(arguments) => bench::run(&workspace, arguments),
        Chore::ModelCheck(arguments) => model_check::run(&workspace, arguments),
        Chore::Fuzz(arguments) => fuzz::run(&workspace, arguments),
        Chore::Python(arguments) => python::run(&workspace, arguments),
        Chore::C(arguments) => c::run(&workspace, arguments),
        Chore::Peers(arguments) => peers::run(&workspace, arguments),
        Chore::Engines(arguments) => engines::run(&workspace, arguments),
    }
}
