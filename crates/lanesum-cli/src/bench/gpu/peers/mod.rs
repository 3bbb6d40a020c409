//! Other people's all-reduces, each rank a Python process that runs the script in `benches/engines/gpu`.
//!
//! A peer is not ours: it may be absent, refuse a size, give wrong sums, or wait for ever. None of that may cost more than its own
//! rows. One team of processes goes through all peers, since starting one takes seconds; if it hangs or dies, it is killed, and a
//! new team goes on with the peers behind the one at fault.

mod gathering;

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::job::Job;
use super::ledger::Ledger;
use super::message::Effort;
use crate::arguments::PeerChoice;
use crate::errors::CliError;
use crate::spawn::{Change, Event, Team, read_lines, this_program};
pub use gathering::PeerRow;
use gathering::{Ended, Gathering, Verdict};

/// The peers that the script knows, in the order in which they run.
pub const NAMES: [&str; 6] = [
    "flashinfer_pcie_ipc",
    "flashinfer_pcie_ipc_tuned",
    "flashinfer_vllm",
    "flashinfer_trtllm",
    "torch_symm_mem",
    "nccl",
];

const SCRIPT: &str = "gpu_peers.py";
const FILES: [(&str, &str); 2] = [
    (
        SCRIPT,
        include_str!("../../../../../../benches/engines/gpu/gpu_peers.py"),
    ),
    (
        "gpu_engines.py",
        include_str!("../../../../../../benches/engines/gpu/gpu_engines.py"),
    ),
];

/// The peers of a job.
pub struct Peers {
    names: Vec<&'static str>,
    /// Those that were asked for and are not there.
    absent: Vec<(String, String)>,
    folder: Option<Folder>,
}

/// Where the script lies while it is needed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, CliError> {
        let refused = |source| CliError::System {
            what: "write the script of the peers into the folder for temporary files".into(),
            source,
        };
        // Nobody else's: Python runs what lies there.
        let folder = Self(own_folder().map_err(refused)?);
        for (name, text) in FILES {
            std::fs::write(folder.0.join(name), text).map_err(refused)?;
        }
        Ok(folder)
    }
}

/// A new folder that only this user may enter, whatever others have put beside it.
fn own_folder() -> std::io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let path = std::env::temp_dir().join(format!("lanesum-peers-{}-{tries}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl Peers {
    /// Asks the job's Python which of them it has, and lets it compile what they need.
    pub fn prepare(job: &Job) -> Result<Self, CliError> {
        let mut peers = Self {
            names: vec![],
            absent: vec![],
            folder: None,
        };
        let asked: Vec<&'static str> = match &job.peers {
            PeerChoice::None => return Ok(peers),
            // No GPU, no peers.
            PeerChoice::Auto if job.stand_in => return Ok(peers),
            PeerChoice::Auto => NAMES.to_vec(),
            PeerChoice::Named(names) => names.clone(),
        };
        let folder = peers.folder.insert(Folder::new()?);
        let words = ["--list", "--build", "--engine", &asked.join(",")].map(OsString::from);
        let mut gathering = Gathering::new(1, Instant::now());
        let ended = attend(job, folder, vec![words.to_vec()], &mut gathering, &mut |_| Ok(()))?;
        for name in asked {
            let reason = match (gathering.listed.get(name), &ended) {
                (Some(None), _) => {
                    peers.names.push(name);
                    continue;
                }
                (Some(Some(reason)), _) => reason.clone(),
                (None, Ended::Well) => "the script did not say whether it is there".to_owned(),
                (None, Ended::Badly { reason, .. }) => format!("{} cannot be asked: {reason}", job.python.display()),
            };
            peers.absent.push((name.to_owned(), reason));
        }
        Ok(peers)
    }

    /// Times all of them with so many ranks, as much of each size as was timed of ours.
    pub fn run(&self, job: &Job, ranks: usize, ledger: &mut Ledger<'_>) -> Result<(), CliError> {
        for (name, reason) in &self.absent {
            lacks(ledger, &[(name, None)], reason)?;
        }
        let (Some(folder), Some(found)) = (&self.folder, ledger.found()) else {
            return Ok(());
        };
        let efforts = found.efforts.clone();
        let mut left = self.names.as_slice();
        while !left.is_empty() {
            let mut gathering = Gathering::new(ranks, Instant::now());
            let words = words(job, ranks, &efforts, left)?;
            let ended = attend(job, folder, words, &mut gathering, &mut |gathering| {
                pass_on(ledger, &efforts, gathering)
            })?;
            let begun = gathering
                .begun()
                .and_then(|peer| left.iter().position(|name| *name == peer));
            left = match (ended, begun) {
                (Ended::Well, _) => &[],
                (Ended::Badly { reason, .. }, Some(at)) => {
                    let unsaid = gathering.unsaid(left[at], &job.sizes);
                    let undone: Vec<_> = unsaid.into_iter().map(|bytes| (left[at], Some(bytes))).collect();
                    lacks(ledger, &undone, &reason)?;
                    &left[at + 1..]
                }
                // It did not come so far as to begin with any: neither would another.
                (Ended::Badly { reason, .. }, None) => {
                    lacks(
                        ledger,
                        &left.iter().map(|name| (*name, None)).collect::<Vec<_>>(),
                        &reason,
                    )?;
                    &[]
                }
            };
        }
        Ok(())
    }
}

/// Notes what was not timed, all for one reason.
fn lacks(ledger: &mut Ledger<'_>, what: &[(&str, Option<u64>)], reason: &str) -> Result<(), CliError> {
    ledger.note(|_, found| {
        what.iter()
            .for_each(|(name, bytes)| found.lacks_peer(name, *bytes, reason));
        Ok(())
    })
}

/// Notes what all ranks have said since the last time.
fn pass_on(ledger: &mut Ledger<'_>, efforts: &[(u64, Effort)], gathering: &mut Gathering) -> Result<(), CliError> {
    if gathering.rows.is_empty() && gathering.missing.is_empty() {
        return Ok(());
    }
    ledger.note(|job, found| {
        for row in gathering.rows.drain(..) {
            match efforts.iter().find(|(bytes, _)| *bytes == row.bytes) {
                Some((_, effort)) => found.add_peer(job, effort, row),
                None => found.lacks_peer(&row.peer, Some(row.bytes), "it timed a size that nobody asked for"),
            }
        }
        for (peer, bytes, reason) in gathering.missing.drain(..) {
            found.lacks_peer(&peer, bytes, &reason);
        }
        Ok(())
    })
}

/// The arguments of each rank.
fn words(job: &Job, ranks: usize, efforts: &[(u64, Effort)], names: &[&str]) -> Result<Vec<Vec<OsString>>, CliError> {
    let port = free_port().map_err(|source| CliError::System {
        what: "find a free port on this host".into(),
        source,
    })?;
    let list = |number: fn(&(u64, Effort)) -> u64| {
        let numbers: Vec<String> = efforts.iter().map(|size| number(size).to_string()).collect();
        numbers.join(",")
    };
    let words = |rank: usize| {
        let mut words = vec![
            "--engine".to_owned(),
            names.join(","),
            format!("--rank={rank}"),
            format!("--world={ranks}"),
            format!("--port={port}"),
            format!("--sizes={}", list(|(bytes, _)| *bytes)),
            format!("--calls={}", list(|(_, effort)| effort.calls.into())),
            format!("--warm-ups={}", list(|(_, effort)| effort.warm_ups.into())),
            format!("--replays={}", list(|(_, effort)| effort.replays.into())),
            format!("--dtype={}", job.dtype),
        ];
        if !job.graph {
            words.push("--no-graph".into());
        }
        if job.eager {
            words.push("--eager".into());
        }
        words.into_iter().map(OsString::from).collect()
    };
    Ok((0..ranks).map(words).collect())
}

/// One that was free a moment ago, which is all that can be had for others.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Starts a process of the script for each list of arguments.
fn team(job: &Job, folder: &Folder, ranks: Vec<Vec<OsString>>) -> Result<Team, CliError> {
    let mut team = Team::new()?;
    for (rank, words) in ranks.into_iter().enumerate() {
        let mut command: Command = this_program()?;
        command
            .arg("exec-rank")
            .arg("--parent")
            .arg(std::process::id().to_string())
            .arg("--");
        command
            .arg(&job.python)
            .arg(folder.0.join(SCRIPT))
            .args(words)
            .arg("--cache")
            .arg(cache());
        let log = std::fs::File::create(log_of(folder, rank)).map_err(|source| CliError::System {
            what: "write what the peers say of themselves".into(),
            source,
        })?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let child = team.start(command)?;
        if let Some(source) = child.stdout.take() {
            read_lines(rank, source, team.sender())?;
        }
    }
    Ok(team)
}

/// What they compile and tune is kept from run to run.
fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    base.unwrap_or_else(std::env::temp_dir).join("lanesum/peers")
}

fn log_of(folder: &Folder, rank: usize) -> PathBuf {
    folder.0.join(format!("rank-{rank}.log"))
}

/// Starts a team, and listens until all are through, one has ended badly, or nobody says anything any more. None of them lives on.
/// `heard` is called whenever something may have been said.
fn attend(
    job: &Job,
    folder: &Folder,
    ranks: Vec<Vec<OsString>>,
    gathering: &mut Gathering,
    heard: &mut dyn FnMut(&mut Gathering) -> Result<(), CliError>,
) -> Result<Ended, CliError> {
    let mut team = team(job, folder, ranks)?;
    let ended = loop {
        while let Some(event) = team.happened() {
            absorb(event, gathering)?;
        }
        heard(gathering)?;
        match gathering.verdict(Instant::now()) {
            Verdict::Wait(until) => {
                if let Some(event) = team.next(until) {
                    absorb(event, gathering)?;
                }
            }
            Verdict::Ended(ended) => break ended,
        }
    };
    team.end();
    Ok(match ended {
        Ended::Badly {
            reason,
            rank: Some(rank),
        } => Ended::Badly {
            reason: with_last_line(
                reason,
                &std::fs::read_to_string(log_of(folder, rank)).unwrap_or_default(),
            ),
            rank: Some(rank),
        },
        ended @ (Ended::Well | Ended::Badly { rank: None, .. }) => ended,
    })
}

/// What a Python program writes last is what it died of.
fn with_last_line(reason: String, log: &str) -> String {
    match log.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{reason}: {}", line.trim().chars().take(200).collect::<String>()),
        None => reason,
    }
}

fn absorb(event: Event, gathering: &mut Gathering) -> Result<(), CliError> {
    match event {
        Event::Line { rank, line, at } => gathering.said(rank, &line, at),
        Event::Closed { rank } => gathering.closed(rank),
        Event::Changed {
            rank,
            change: Change::Exited(ending),
            ..
        } => gathering.exited(rank, ending),
        Event::Changed {
            change: Change::Stopped | Change::Continued,
            ..
        } => {}
        Event::Interrupted { signal } => return Err(CliError::Interrupted { signal }),
        Event::OutputLost(cause) => return Err(CliError::Output(cause)),
    }
    Ok(())
}

/// Peers by name, with the reason where one is not there.
type Listed = HashMap<String, Option<String>>;
