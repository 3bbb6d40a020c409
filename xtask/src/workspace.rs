//! Where things are: asked of cargo once, never assumed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::error::XtaskError;
use crate::process;

/// Facts about this workspace.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
    examples: Vec<Example>,
}

/// An example of the numbered tour, `01-...`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Example {
    pub name: String,
    pub package: String,
}

/// The part of `cargo metadata` that is used here.
#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    /// There is no cargo, or its answer is not the promised JSON.
    pub fn find() -> Result<Workspace, XtaskError> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let lines = process::capture(&mut command, Duration::from_secs(60))?;
        let metadata: Option<Metadata> = lines.iter().find_map(|line| serde_json::from_str(line).ok());
        let metadata = metadata.ok_or_else(|| XtaskError::Unreadable {
            command: process::describe(&command),
            wanted: "workspace metadata",
            last_lines: process::last_lines(&lines),
        })?;
        Ok(Workspace {
            examples: numbered_examples(&metadata.packages),
            root: metadata.workspace_root,
            target: metadata.target_directory,
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The numbered examples, in their order.
    pub fn examples(&self) -> &[Example] {
        &self.examples
    }

    /// `cargo` with these words, at the root.
    pub fn cargo(&self, words: &[&str]) -> Command {
        let mut command = Command::new(cargo_program());
        command.args(words).current_dir(&self.root);
        command
    }

    /// A program that cargo built with the profile of this name (`debug`, `release`).
    pub fn built(&self, profile: &str, name: &str) -> PathBuf {
        self.target.join(profile).join(name)
    }

    /// Whether Rust's standard library for this target is installed: `rustup target add` brings it.
    pub fn has_standard_library(target: &str) -> bool {
        let answer = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", target])
            .output();
        answer.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
    }

    /// Makes a folder that is empty, whatever was in it.
    ///
    /// # Errors
    /// It can't be removed or made.
    pub fn clear(folder: &Path) -> Result<(), XtaskError> {
        let failed = |source| XtaskError::file("clear", folder, source);
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(failed)?;
        }
        std::fs::create_dir_all(folder).map_err(failed)
    }

    /// What is in a folder, in the order of the names.
    ///
    /// # Errors
    /// It can't be read.
    pub fn files_in(folder: &Path) -> Result<Vec<PathBuf>, XtaskError> {
        let entries = std::fs::read_dir(folder).and_then(|entries| {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<Result<Vec<PathBuf>, _>>()
        });
        let mut paths = entries.map_err(|source| XtaskError::file("read", folder, source))?;
        paths.sort();
        Ok(paths)
    }

    /// Reads a text file.
    ///
    /// # Errors
    /// The file is missing or is not text.
    pub fn read(path: &Path) -> Result<String, XtaskError> {
        std::fs::read_to_string(path).map_err(|source| XtaskError::File {
            action: "read",
            path: path.to_owned(),
            source,
        })
    }

    /// Writes a file, making the folder it lies in.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn write(path: &Path, text: &str) -> Result<(), XtaskError> {
        let failed = |source| XtaskError::File {
            action: "write",
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        std::fs::write(path, text).map_err(failed)
    }
}

/// The cargo that started us, so that the toolchain stays the same.
fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn numbered_examples(packages: &[Package]) -> Vec<Example> {
    let mut examples: Vec<Example> = packages
        .iter()
        .flat_map(|package| {
            package
                .targets
                .iter()
                .filter(|target| target.kind.iter().any(|kind| kind == "example"))
                .filter(|target| target.name.starts_with(|c: char| c.is_ascii_digit()))
                .map(|target| Example {
                    name: target.name.clone(),
                    package: package.name.clone(),
                })
        })
        .collect();
    examples.sort();
    examples
}
