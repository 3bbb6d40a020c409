//! The machine and the sources that a number comes from.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::XtaskError;
use crate::process;
use crate::workspace::Workspace;

/// What stands beside every number; what could not be found out is null, never a guess.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    cpu_model: Option<String>,
    cores: Option<usize>,
    kernel: Option<String>,
    /// The GPUs that took part, where any did.
    #[serde(flatten)]
    gpu: Option<Gpu>,
}

/// The GPUs of a machine, and what drives them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    gpus: Vec<String>,
    driver: String,
}

impl Machine {
    pub fn look() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Machine {
            cpu_model: cpu_model(&cpuinfo),
            cores: std::thread::available_parallelism().ok().map(std::num::NonZero::get),
            kernel: kernel.map(|release| release.trim().to_owned()),
            gpu: None,
        }
    }

    pub fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }
}

/// The commit that was measured, with `+changes` where the sources differ from it.
pub fn commit(workspace: &Workspace) -> Option<String> {
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(words).current_dir(workspace.root());
        process::capture(&mut command, Duration::from_secs(30)).ok()
    };
    let mut commit = git(&["rev-parse", "--short=12", "HEAD"])?.first()?.clone();
    if !git(&["status", "--porcelain"])?.is_empty() {
        commit.push_str("+changes");
    }
    Some(commit)
}

/// Today in UTC, as `2026-11-29`.
///
/// # Errors
/// The clock cannot be asked.
pub fn date() -> Result<String, XtaskError> {
    let mut command = std::process::Command::new("date");
    command.args(["--utc", "+%Y-%m-%d"]);
    let lines = process::capture(&mut command, Duration::from_secs(30))?;
    Ok(lines.concat())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map(|(_, model)| model.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_where_there_is_one() {
        let text = "processor\t: 0\nmodel name\t: Some CPU 7\n";
        assert_eq!(cpu_model(text).as_deref(), Some("Some CPU 7"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }
}
