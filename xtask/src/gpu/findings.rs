//! What the script found, as it lies in the folders that it wrote, and the record of it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bench::machine::Machine;
use crate::bench::record::{self, Findings, Origin, Record};
use crate::error::XtaskError;
use crate::workspace::Workspace;

/// What the machine was.
pub const INFO: &str = "info.json";
/// One line a step.
pub const SUMMARY: &str = "summary.jsonl";

/// The part of info.json that a record needs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Info {
    date: String,
    commit: Option<String>,
    machine: Machine,
    mps: bool,
}

/// One step of the script.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Step {
    step: String,
    passed: bool,
    seconds: f64,
    /// How many passed and how many failed.
    tests: (u64, u64),
    /// The JSON of the programs that the step ran, by name.
    results: record::Results,
}

/// One or several runs of the script, on one machine and of one commit.
#[derive(Debug)]
pub struct Run {
    info: Info,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Results<'a> {
    steps: &'a [Step],
}

impl Run {
    /// Reads the folders that the script wrote.
    ///
    /// # Errors
    /// A file is missing or is not the script's, nothing was run, or the folders are of different machines or commits.
    pub fn read(folders: &[PathBuf]) -> Result<Run, XtaskError> {
        let nothing = || XtaskError::NothingRun {
            step: "gpu",
            expected: "steps in summary.jsonl",
        };
        let mut run: Option<Run> = None;
        for folder in folders {
            let info: Info = parsed(&folder.join(INFO), &Workspace::read(&folder.join(INFO))?)?;
            let path = folder.join(SUMMARY);
            let text = Workspace::read(&path)?;
            let steps = text.lines().map(|line| parsed(&path, line));
            let steps = steps.collect::<Result<Vec<Step>, _>>()?;
            match &mut run {
                None => run = Some(Run { info, steps }),
                Some(run) => run.add(folder, &info, steps)?,
            }
        }
        run.filter(|run| !run.steps.is_empty()).ok_or_else(nothing)
    }

    fn add(&mut self, folder: &Path, info: &Info, steps: Vec<Step>) -> Result<(), XtaskError> {
        if self.info.commit != info.commit || self.info.machine.gpu() != info.machine.gpu() || self.info.mps != info.mps
        {
            return Err(XtaskError::Refused {
                option: "--from",
                value: folder.display().to_string(),
                reason: "it is of another commit, GPU or driver, or of another use of MPS, than the first",
            });
        }
        self.steps.extend(steps);
        Ok(())
    }

    /// The steps that failed.
    pub fn failed(&self) -> Vec<&str> {
        let failed = self.steps.iter().filter(|step| !step.passed);
        failed.map(|step| step.step.as_str()).collect()
    }

    /// The record, with date, commit and machine of the run.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn record(&self) -> Result<Record, XtaskError> {
        let sharing = if self.info.mps {
            "processes that share a GPU do so under CUDA MPS, but not in the steps kills and sanitizer"
        } else {
            "no CUDA MPS"
        };
        let findings = Findings {
            command: "cargo xtask gpu".to_owned(),
            settings: vec![sharing.to_owned()],
            results: record::results(&Results { steps: &self.steps })?,
        };
        let origin = Origin {
            date: self.info.date.clone(),
            commit: self.info.commit.clone(),
            machine: self.info.machine.clone(),
        };
        Ok(Record::of(origin, findings))
    }
}

fn parsed<T: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Result<T, XtaskError> {
    serde_json::from_str(text).map_err(|source| XtaskError::File {
        action: "understand",
        path: path.to_owned(),
        source: source.into(),
    })
}
