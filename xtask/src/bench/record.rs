//! Records: the only source of numbers in documents.

use std::path::Path;

use serde::Serialize;

use super::machine::{self, Machine};
use crate::error::XtaskError;
use crate::workspace::Workspace;

/// One run of a bench.
#[derive(Debug, Serialize)]
pub struct Record {
    /// The command that makes it again.
    command: String,
    date: String,
    commit: Option<String>,
    machine: Machine,
    /// What the engines were told, in words.
    settings: Vec<String>,
    /// What was found, under keys of the bench.
    #[serde(flatten)]
    results: Results,
}

/// Results by name, as a record holds them.
pub type Results = serde_json::Map<String, serde_json::Value>;

/// The part of a record that a bench finds out.
pub struct Findings {
    pub command: String,
    pub settings: Vec<String>,
    pub results: Results,
}

/// When, of which sources and on what something was found out.
pub struct Origin {
    pub date: String,
    pub commit: Option<String>,
    pub machine: Machine,
}

impl Record {
    /// Adds what every record says.
    ///
    /// # Errors
    /// The date cannot be told.
    pub fn new(workspace: &Workspace, findings: Findings) -> Result<Record, XtaskError> {
        let origin = Origin {
            date: machine::date()?,
            commit: machine::commit(workspace),
            machine: Machine::look(),
        };
        Ok(Record::of(origin, findings))
    }

    /// The record of a run that may have been made elsewhere.
    pub fn of(origin: Origin, findings: Findings) -> Record {
        Record {
            command: findings.command,
            date: origin.date,
            commit: origin.commit,
            machine: origin.machine,
            settings: findings.settings,
            results: findings.results,
        }
    }

    pub fn json(&self) -> String {
        format!("{:#}", serde_json::json!(self))
    }

    /// Writes the record below benches/records/.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, workspace: &Workspace, file: &Path) -> Result<(), XtaskError> {
        let path = workspace.root().join("benches/records").join(file);
        Workspace::write(&path, &format!("{}\n", self.json()))
    }
}

/// Turns a bench's struct of results into the keys of a record.
///
/// # Errors
/// It cannot be written as a JSON object.
pub fn results(of: &impl Serialize) -> Result<Results, XtaskError> {
    let value = serde_json::to_value(of).and_then(serde_json::from_value);
    value.map_err(|source| XtaskError::Machine {
        action: "write the results as JSON",
        source: source.into(),
    })
}
