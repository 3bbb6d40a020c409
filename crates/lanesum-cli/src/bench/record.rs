//! The document of `--record`: everything that was found, with the command, the machine and the commit that it is of.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::errors::CliError;

/// How far the bench is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There may be more.
    Open,
    /// This is all.
    Complete,
    /// There will be no more, for this reason.
    Failed(String),
}

/// Whether these files can be written; none is. What is no file stays what it is: a rename would replace a device or a link.
pub fn try_out(files: &[Option<&Path>]) -> Result<(), CliError> {
    let mut found: Vec<&Path> = Vec::new();
    for file in files.iter().copied().flatten() {
        if found.contains(&file) {
            return Err(CliError::Usage {
                cause: format!("{} is asked for twice", file.display()),
                hint: "give the record and the plot names of their own".into(),
            });
        }
        try_out_one(file)?;
        found.push(file);
    }
    Ok(())
}

fn try_out_one(file: &Path) -> Result<(), CliError> {
    if file.file_name().is_none() || file.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Err(CliError::Usage {
            cause: format!("{} is no regular file", file.display()),
            hint: "name a file that may be replaced, or a new one".into(),
        });
    }
    let part = part_of(file);
    let tried = std::fs::write(&part, "").and_then(|()| std::fs::remove_file(&part));
    tried.map_err(|source| not_written(file, source))
}

/// Where a file lies until it is whole.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    file.with_file_name(name)
}

/// Writes the document, whole or not at all.
pub fn keep(file: &Path, document: &Value) -> Result<(), CliError> {
    write_whole(file, &format!("{document:#}\n"))
}

/// Writes the file, whole or not at all: a reader, or a crash, finds the former one or this one.
pub fn write_whole(file: &Path, text: &str) -> Result<(), CliError> {
    let part = part_of(file);
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, file));
    written.map_err(|source| not_written(file, source))
}

fn not_written(file: &Path, source: std::io::Error) -> CliError {
    CliError::NotWritten {
        file: file.to_owned(),
        source,
    }
}

/// What was found, with the command, the date, the commit and the machine that it is of. `more` of the machine and the findings are
/// objects; keys are sorted.
pub fn document(commit: Option<&str>, state: &State, more: Value, findings: Value) -> Value {
    let words = again(std::env::args().skip(1));
    let head = json!({
        "command": format!("lanesum {}", words.join(" ")),
        "commit": commit,
        "complete": *state == State::Complete,
        "date": today(),
        "error": match state {
            State::Failed(error) => Some(without_folders(error)),
            State::Open | State::Complete => None,
        },
        "machine": joined(machine(), more),
    });
    joined(head, findings)
}

/// The keys of both objects.
fn joined(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// What every bench ran on.
pub fn machine() -> Value {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    json!({
        "cores": std::thread::available_parallelism().ok(),
        "cpu_model": cpu_model(),
        "kernel": kernel.map(|release| release.trim().to_owned()),
    })
}

/// As the system names it.
pub fn cpu_model() -> Option<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    model.map(|model| model.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// Today's date in UTC, as `2026-11-29`.
pub fn today() -> String {
    date(SystemTime::now())
}

/// The arguments that find out the same: without where it is kept and what it is of, and without a place of this machine.
fn again(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut of: Option<String> = None;
    for word in words {
        let (flag, value) = match (of.take(), word.split_once('=')) {
            (Some(flag), _) => (flag, word),
            (None, Some((flag, value))) if TAKES_A_PLACE.contains(&flag) => (flag.to_owned(), value.to_owned()),
            (None, _) if TAKES_A_PLACE.contains(&word.as_str()) => {
                of = Some(word);
                continue;
            }
            (None, _) => {
                kept.push(word);
                continue;
            }
        };
        if flag == PYTHON {
            let name = Path::new(&value)
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            kept.extend([flag, name.unwrap_or(value)]);
        }
    }
    kept
}

const PYTHON: &str = "--python";
const TAKES_A_PLACE: [&str; 5] = ["--record", "--plot", "--commit", "--peers-dir", PYTHON];

/// The commit of the folder that this was started in, with `+changes` where the sources differ from it.
pub fn commit() -> Option<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
    Some(if changed { format!("{commit}+changes") } else { commit })
}

/// By Hinnant's algorithm for the Gregorian calendar ("chrono-Compatible Low-Level Date Algorithms").
fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The text with the last part alone of each absolute path.
pub fn without_folders(text: &str) -> String {
    let begins =
        |before: Option<char>| before.is_none_or(|before| before.is_whitespace() || "'\"`([{<=:,".contains(before));
    let ends = |letter: char| letter.is_whitespace() || "'\"`)]}>,:;".contains(letter);
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('/') {
        kept.push_str(&rest[..at]);
        let path = &rest[at..];
        let length = path.find(ends).unwrap_or(path.len());
        // A second slash is that of an address, `https://`.
        let absolute = length > 1 && !path.starts_with("//");
        if absolute && begins(kept.chars().last()) {
            kept.push_str(path[..length].rsplit('/').next().unwrap_or_default());
        } else {
            kept.push_str(&path[..length]);
        }
        rest = &path[length..];
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_record_holds_no_places_of_its_machine() {
        let words = "bench --ranks 2 --record /a/b.json --python=/c/python3 --commit abc --json --plot=/e.svg --peers-dir /f --python /d/python3";
        let kept = again(words.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(kept, "bench --ranks 2 --python python3 --json --python python3");
    }

    #[test]
    fn days_have_dates() {
        for (days, wanted) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_786, "2026-11-29"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(days * 86_400 + 3_600)), wanted);
        }
    }

    #[test]
    fn reasons_name_files_and_no_folders() {
        for (text, wanted) in [
            ("/home/me/venv/bin/python3 cannot be asked", "python3 cannot be asked"),
            ("No such file: '/a/b/c.so', see /d/e", "No such file: 'c.so', see e"),
            ("File \"/x/y.py\", line 3", "File \"y.py\", line 3"),
            ("(/a/b.py:12) in path=/c/d", "(b.py:12) in path=d"),
            ("see https://example.org/a/b", "see https://example.org/a/b"),
            ("16 bytes/s, and/or 3 / 4", "16 bytes/s, and/or 3 / 4"),
            ("nothing of the kind", "nothing of the kind"),
        ] {
            assert_eq!(without_folders(text), wanted);
        }
    }
}
