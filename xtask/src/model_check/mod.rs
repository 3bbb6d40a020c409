//! `cargo xtask model-check`: how well the fabric model foretells what people have published of machines whose GPUs talk over PCIe.
//!
//! | module | role |
//! |---|---|
//! | `published` | the rows, and the fabrics that their words stand for |
//! | `judge` | each host predicted with its own rows left out, and what is asked of that |
//!
//! What links carry and hops take is the model's and the same for all. What an implementation spends beside that (its start, and
//! for rings the longer step of raw bytes) is found from rows of the same algorithm on other hosts; where there are none, it counts as the
//! model has it.

mod judge;
mod published;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::XtaskError;
use crate::workspace::Workspace;

/// The rows that come with the project.
const ROWS: &str = "benches/published/all_reduce_latency.csv";

/// `cargo xtask model-check`
#[derive(clap::Args)]
pub struct Arguments {
    /// Rows of the same form instead of those that come with the project
    #[arg(long, value_name = "CSV")]
    file: Option<PathBuf>,
    /// Write one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    let path = arguments.file.clone().unwrap_or_else(|| workspace.root().join(ROWS));
    let text = std::fs::read_to_string(&path).map_err(|source| XtaskError::File {
        action: "read",
        path: path.clone(),
        source,
    })?;
    let rows = published::read(&text).map_err(|(line, reason)| XtaskError::Row { path, line, reason })?;
    let verdict = judge::judge(&rows);
    let text = if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&verdict).unwrap_or_default())
    } else {
        verdict.table()
    };
    // Who reads no further has seen enough.
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            return Err(XtaskError::Machine {
                action: "write to the standard output",
                source,
            });
        }
        Ok(()) | Err(_) => {}
    }
    Ok(ExitCode::from(u8::from(!verdict.passed())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_foretells_what_was_published() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join(ROWS)).expect("the rows");
        let rows = published::read(&text).expect("are read");
        assert_eq!(rows.len(), 40);
        let verdict = judge::judge(&rows);
        assert!(verdict.passed(), "{}", verdict.table());
        assert!(verdict.rows.iter().filter(|row| row.predicted_us.is_some()).count() > 35);
    }
}
