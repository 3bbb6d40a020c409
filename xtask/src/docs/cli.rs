//! docs/cli.md, from what the command line says about itself with `--help`.

use std::process::Command;
use std::time::Duration;

use crate::error::XtaskError;
use crate::process;
use crate::workspace::Workspace;

const HEAD: &str = "\
# The command line

<!-- Written by `cargo xtask docs` from the program's own --help: change it in
     crates/lanesum-cli. -->
";

/// Help is wrapped to the terminal's width; without a terminal, to this.
const COLUMNS: &str = "100";

pub fn render(workspace: &Workspace) -> Result<String, XtaskError> {
    let words = ["build", "--quiet", "--package", "lanesum-cli"];
    process::capture(&mut workspace.cargo(&words), Duration::from_secs(15 * 60))?;
    let overview = help(workspace, None)?;
    let mut text = HEAD.to_owned();
    text.push_str(&section("lanesum", &overview));
    for command in subcommands(&overview) {
        let help = help(workspace, Some(&command))?;
        text.push_str(&section(&format!("lanesum {command}"), &help));
    }
    Ok(text)
}

fn help(workspace: &Workspace, subcommand: Option<&str>) -> Result<Vec<String>, XtaskError> {
    let mut command = Command::new(workspace.built("debug", "lanesum"));
    command
        .args(subcommand)
        .arg("--help")
        .env("COLUMNS", COLUMNS)
        .env("NO_COLOR", "1");
    process::capture(&mut command, Duration::from_secs(30))
}

fn section(title: &str, help: &[String]) -> String {
    let help = help.join("\n");
    format!("\n## `{title}`\n\n```text\n{}\n```\n", help.trim_end())
}

/// The first word of each entry under `Commands:`, clap's own `help` left out.
fn subcommands(overview: &[String]) -> Vec<String> {
    overview
        .iter()
        .skip_while(|line| line.as_str() != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_read_from_the_overview() {
        let overview = "\
Sums tensors

Usage: lanesum <COMMAND>

Commands:
  verify-cycle  Does the 122 sums of a step and
                checks each of them
  launch        Starts ranks
  help          Print this message

Options:
  -h, --help  Print help";
        let overview: Vec<String> = overview.lines().map(str::to_owned).collect();
        assert_eq!(subcommands(&overview), ["verify-cycle", "launch"]);
    }
}
