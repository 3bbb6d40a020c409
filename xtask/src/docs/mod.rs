//! `cargo xtask docs`: the documents, and the header for C, that have their source in the code.
//!
//! Each is written whole from one list, so that nobody keeps two in step; `--check` fails where the
//! file in the repository says something else.

mod cli;
mod difference;
mod environment;
mod header;

use std::process::ExitCode;

use crate::error::XtaskError;
use crate::workspace::Workspace;

/// What to do with the generated files.
#[derive(clap::Args)]
pub struct Arguments {
    /// Change nothing; fail where a file is stale, and show how
    #[arg(long)]
    check: bool,
}

/// A generated file: where it lies, from the root, and what it has to say.
struct Document {
    path: &'static str,
    text: String,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    if arguments.check {
        check(workspace)?;
        return Ok(ExitCode::SUCCESS);
    }
    for document in documents(workspace)? {
        let path = workspace.root().join(document.path);
        Workspace::write(&path, &document.text)?;
        println!("wrote {}", document.path);
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares the files with the sources.
///
/// # Errors
/// The first file that is missing or stale, with the difference.
pub fn check(workspace: &Workspace) -> Result<(), XtaskError> {
    for document in documents(workspace)? {
        let written = std::fs::read_to_string(workspace.root().join(document.path));
        let written = written.unwrap_or_default();
        if written != document.text {
            return Err(XtaskError::Stale {
                path: document.path.into(),
                difference: difference::between(&written, &document.text),
            });
        }
    }
    Ok(())
}

fn documents(workspace: &Workspace) -> Result<[Document; 3], XtaskError> {
    Ok([
        Document {
            path: "docs/environment.md",
            text: environment::render(),
        },
        Document {
            path: "docs/cli.md",
            text: cli::render(workspace)?,
        },
        Document {
            path: "crates/lanesum-c/include/lanesum.h",
            text: header::render(workspace)?,
        },
    ])
}
