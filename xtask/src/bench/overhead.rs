//! `cargo xtask bench overhead`: what receipt, checks, header and digest cost together.

use super::record::{self, Findings, Record};
use crate::error::XtaskError;
use crate::workspace::Workspace;

/// Measures; `talk` prints the result.
///
/// # Errors
/// The two ranks of the measurement could not join.
pub fn run(workspace: &Workspace, talk: bool) -> Result<Record, XtaskError> {
    let overhead = lanesum::bench::overhead()?;
    if talk {
        println!("overhead of a call {:>8.1} ns", overhead.overhead_ns);
        println!("with one element   {:>8.1} ns", overhead.one_element_ns);
        println!("calls measured     {:>8}", overhead.calls);
    }
    let findings = Findings {
        command: "cargo xtask bench overhead".to_owned(),
        settings: vec!["two ranks of one process, no payload".to_owned()],
        results: record::results(&overhead)?,
    };
    Record::new(workspace, findings)
}
