//! Meetings for tests: ranks as threads, each test in a directory of its own.
#![allow(dead_code, reason = "every test binary uses a part of it")]
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lanesum_rendezvous::{Join, Meeting, Refusal, RendezvousError, meet};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Long enough for a slow machine, where a test expects success.
pub const PATIENT: Duration = Duration::from_secs(20);
/// Short, where a test expects that it passes.
pub const SHORT: Duration = Duration::from_millis(400);

pub fn join(directory: &Path, rank: usize, world: usize) -> Join {
    Join {
        name: "job".to_owned(),
        rank,
        world,
        deadline: PATIENT,
        terms: vec![("staging".to_owned(), "1048576".to_owned())],
        facts: format!("facts of rank {rank}").into_bytes(),
        directory: Some(directory.to_path_buf()),
    }
}

pub fn never() -> Option<Refusal> {
    None
}

pub fn start(join: Join) -> JoinHandle<Result<Meeting, RendezvousError>> {
    std::thread::spawn(move || meet(&join, &never))
}

/// All ranks as threads; each runs `rank` with its meeting.
pub fn together<T: Send + 'static>(
    joins: Vec<Join>,
    rank: impl Fn(Meeting) -> Result<T, RendezvousError> + Send + Clone + 'static,
) -> Vec<Result<T, RendezvousError>> {
    let threads: Vec<_> = joins
        .into_iter()
        .map(|join| {
            let rank = rank.clone();
            std::thread::spawn(move || meet(&join, &never).and_then(rank))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

pub fn world(directory: &Path, world: usize) -> Vec<Join> {
    (0..world).map(|rank| join(directory, rank, world)).collect()
}

pub fn directory() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

/// What is left in the directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

pub fn refusal<T: std::fmt::Debug>(result: Result<T, RendezvousError>) -> Refusal {
    match result {
        Err(RendezvousError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

pub fn packet_socket() -> std::os::fd::OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// Stops a process. Returns once all its threads stand still: the one that takes the signal may be another than the one that
/// works, which goes on until then.
pub fn stop(process: &Child) {
    let process = Pid::from_child(process);
    kill_process(process, Signal::STOP).unwrap();
    waitid(WaitId::Pid(process), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).unwrap();
}

/// Connects as a stranger as soon as somebody serves.
pub fn stranger(path: &Path) -> std::os::fd::OwnedFd {
    let address = SocketAddrUnix::new(path).unwrap();
    let end = Instant::now() + PATIENT;
    loop {
        let socket = packet_socket();
        if connect(&socket, &address).is_ok() {
            return socket;
        }
        assert!(Instant::now() < end, "nobody serves");
        std::thread::sleep(Duration::from_millis(1));
    }
}
