//! A program that is run to its end, within a bound: compilers, and launchers that are asked what they are.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::conversation::{bound_to_us, listen_to, telling_line};
use super::folder::Folder;
use super::output::CHATTER;
use crate::errors::CliError;
use crate::spawn::{Change, Event, Team};

/// Compilers of large headers take a while on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Its output, or the reason why there is none to be trusted.
pub fn run(folder: &Folder, words: &[OsString]) -> Result<Result<String, String>, CliError> {
    let mut team = Team::new()?;
    let mut command = bound_to_us()?;
    command.args(words);
    listen_to(&mut team, command, folder.log("tool.log")?)?;
    let (mut output, mut ended, mut closed) = (String::new(), None, false);
    let until = Instant::now() + PATIENCE;
    while ended.is_none() || !closed {
        match team.next(until) {
            Some(Event::Line { line, .. }) => {
                output.push_str(&String::from_utf8_lossy(&line));
                output.push('\n');
                if output.len() > CHATTER {
                    return Ok(Err(format!("{} writes more than {} KiB", named(words), CHATTER >> 10)));
                }
            }
            Some(Event::Closed { .. }) => closed = true,
            Some(Event::Changed {
                change: Change::Exited(ending),
                ..
            }) => ended = Some(ending),
            Some(Event::Changed { .. }) => {}
            Some(Event::Interrupted { signal }) => return Err(CliError::Interrupted { signal }),
            Some(Event::OutputLost(cause)) => return Err(CliError::Output(cause)),
            None => return Ok(Err(too_slow(words))),
        }
        // There is always a next line of who writes faster than we read.
        if Instant::now() >= until {
            return Ok(Err(too_slow(words)));
        }
    }
    Ok(match ended {
        Some(ending) if !ending.succeeded() => {
            let log = std::fs::read_to_string(folder.path("tool.log")).unwrap_or_default();
            let why = telling_line(&log).map_or_else(String::new, |line| format!(": {line}"));
            Err(format!("{} ended with {ending}{why}", named(words)))
        }
        Some(_) | None => Ok(output),
    })
}

fn too_slow(words: &[OsString]) -> String {
    format!("{} takes more than {} s", named(words), PATIENCE.as_secs())
}

fn named(words: &[OsString]) -> String {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Where a program lies that PATH leads to.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&folders).map(|folder| folder.join(name));
    places.into_iter().find(|place| place.is_file())
}

/// Words of several kinds as arguments.
pub fn words<const N: usize>(words: [&dyn AsRef<OsStr>; N]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

/// This program's own launcher, for programs that no other is needed for.
pub fn launcher(flags: &[&str]) -> Result<Vec<OsString>, CliError> {
    let this = std::env::current_exe().map_err(|source| CliError::System {
        what: "find the path of this program".into(),
        source,
    })?;
    let mut launcher = words([&this, &"launch"]);
    launcher.extend(flags.iter().map(OsString::from));
    Ok(launcher)
}
