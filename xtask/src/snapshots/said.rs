//! What a snapshot looks like. The test that compares them (crates/lanesum-cli/tests/cli/snapshots.rs) has this file, too.

/// A command, what it said, and what it ended with.
pub fn snapshot(command: &str, said: &str, code: Option<i32>) -> String {
    let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    format!("$ {command}\n{said}exit code {code}\n")
}
