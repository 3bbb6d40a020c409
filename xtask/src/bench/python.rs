//! `cargo xtask bench python`: what a call costs more from Python than from Rust.

use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{self, Findings, Record};
use crate::error::XtaskError;
use crate::process;
use crate::python::Environment;
use crate::workspace::Workspace;

/// Rust and Python take turns, since a processor's speed changes.
const TURNS: usize = 5;

/// For a build for release, and for torch.
const DEADLINE: Duration = Duration::from_secs(40 * 60);

/// What benches/python/overhead.py says.
#[derive(Deserialize)]
struct Python {
    torch_ns: f64,
    numpy_ns: f64,
    empty_ns: f64,
    torch: String,
}

/// Nanoseconds of a call of a world of one with eight elements; medians over the turns.
#[derive(Serialize)]
struct Results {
    rust_ns: f64,
    torch_ns: f64,
    torch_above_rust_ns: f64,
    numpy_ns: f64,
    numpy_above_rust_ns: f64,
    torch: String,
}

/// Measures; `talk` prints the result.
///
/// # Errors
/// Python, torch or the package can't be had, or a call fails.
pub fn run(workspace: &Workspace, talk: bool) -> Result<Record, XtaskError> {
    let environment = Environment::named(workspace, "bench");
    let run = |command: &mut Command| process::capture(command, DEADLINE).map(|_lines| ());
    if let Some(mut command) = environment.make() {
        run(&mut command)?;
    }
    run(&mut environment.pip(&["install", "--quiet", "torch", "numpy"]))?;
    run(&mut environment.pip(&["install", "--quiet", "--no-deps", "--force-reinstall", "."]))?;
    let (mut rust, mut torch, mut numpy, mut version) = (vec![], vec![], vec![], String::new());
    for _ in 0..TURNS {
        rust.push(lanesum::bench::alone()?);
        let told = python(&environment)?;
        // What the loop itself takes is no part of the call.
        torch.push(told.torch_ns - told.empty_ns);
        numpy.push(told.numpy_ns - told.empty_ns);
        version = told.torch;
    }
    let [rust_ns, torch_ns, numpy_ns] = [rust, torch, numpy].map(median);
    if talk {
        println!("from Rust               {rust_ns:>8.1} ns");
        println!(
            "torch tensors, Python   {torch_ns:>8.1} ns, {:.1} more",
            torch_ns - rust_ns
        );
        println!(
            "NumPy arrays, Python    {numpy_ns:>8.1} ns, {:.1} more",
            numpy_ns - rust_ns
        );
    }
    let results = Results {
        rust_ns,
        torch_ns,
        torch_above_rust_ns: torch_ns - rust_ns,
        numpy_ns,
        numpy_above_rust_ns: numpy_ns - rust_ns,
        torch: version,
    };
    let findings = Findings {
        command: "cargo xtask bench python".to_owned(),
        settings: vec![format!(
            "a world of one, eight elements of f32 in the host's memory, {TURNS} turns"
        )],
        results: record::results(&results)?,
    };
    Record::new(workspace, findings)
}

fn python(environment: &Environment) -> Result<Python, XtaskError> {
    let mut command = environment.program("python", &["benches/python/overhead.py"]);
    let lines = process::capture(&mut command, DEADLINE)?;
    let told = lines.iter().find_map(|line| serde_json::from_str(line).ok());
    told.ok_or_else(|| XtaskError::Unreadable {
        command: process::describe(&command),
        wanted: "one line of JSON",
        last_lines: process::last_lines(&lines),
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
