//! Every rank's bytes and descriptor reach every rank, or everybody learns whose did not. This binary runs itself again
//! where a rank has to be a process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]
mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{SHORT, directory, files, join, never, refusal, stop, together, world};
use lanesum_rendezvous::{Join, Meeting, PARCEL_MAX, Parcel, Refusal, RendezvousError, meet};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// A file with this text, at its beginning.
fn file(text: &str) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file.into()
}

fn bytes(rank: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 7 + rank) as u8).collect()
}

/// Ranks with even numbers give a descriptor.
fn give(meeting: &mut Meeting, length: usize) -> Result<Vec<Parcel>, RendezvousError> {
    let rank = meeting.rank();
    let descriptor = rank.is_multiple_of(2).then(|| file(&format!("rank {rank}")));
    meeting.exchange(&bytes(rank, length), descriptor)
}

fn check(parcels: &[Parcel], length: usize) {
    for (rank, parcel) in parcels.iter().enumerate() {
        assert_eq!(parcel.bytes, bytes(rank, length));
        assert_eq!(parcel.descriptor.is_some(), rank.is_multiple_of(2));
        if let Some(descriptor) = &parcel.descriptor {
            // All ranks read one open file: without its position, which they share.
            let mut text = [0; 16];
            let read = rustix::io::pread(descriptor, &mut text[..], 0).unwrap();
            assert_eq!(text[..read], *format!("rank {rank}").as_bytes());
        }
    }
}

#[test]
fn every_rank_gets_what_every_rank_gives_again_and_again() {
    for size in [1, 2, 5, 16] {
        let base = directory();
        let results = together(world(base.path(), size), move |mut meeting| {
            for length in [0, 1, 300] {
                let parcels = give(&mut meeting, length)?;
                assert_eq!(parcels.len(), size);
                check(&parcels, length);
            }
            meeting.agree("the plan", 7)?;
            check(&give(&mut meeting, 5)?, 5);
            meeting.finish().map(drop)
        });
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert!(files(base.path()).is_empty());
    }
}

#[test]
fn a_ranks_own_descriptor_comes_back_and_others_are_closed_on_exec() {
    let base = directory();
    let results = together(world(base.path(), 3), |mut meeting| {
        let own = file("own");
        let number = std::os::fd::AsRawFd::as_raw_fd(&own);
        let rank = meeting.rank();
        let parcels = meeting.exchange(&[], Some(own))?;
        let descriptors = parcels.iter().map(|parcel| parcel.descriptor.as_ref().unwrap());
        for (other, descriptor) in descriptors.enumerate() {
            let same = std::os::fd::AsRawFd::as_raw_fd(descriptor) == number;
            assert_eq!(same, other == rank);
            let flags = rustix::io::fcntl_getfd(descriptor.as_fd()).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        meeting.finish().map(drop)
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[test]
fn bytes_may_be_long_but_not_endless() {
    let base = directory();
    for result in together(world(base.path(), 5), |mut meeting| give(&mut meeting, PARCEL_MAX)) {
        check(&result.unwrap(), PARCEL_MAX);
    }
    for size in [1, 3] {
        for long in [0, size - 1] {
            let results = together(world(directory().path(), size), move |mut meeting| {
                let length = if meeting.rank() == long { PARCEL_MAX + 1 } else { 8 };
                give(&mut meeting, length)
            });
            for (rank, result) in results.into_iter().enumerate() {
                let error = result.unwrap_err();
                if let RendezvousError::TooLarge { bytes, limit, .. } = error {
                    assert_eq!((rank, bytes, limit), (long, PARCEL_MAX + 1, PARCEL_MAX));
                } else {
                    assert_eq!(error.ranks(), [long], "{error}");
                }
            }
        }
    }
}

#[test]
fn a_rank_at_another_step_or_gone_is_named() {
    for gone in [0, 1, 2] {
        for leaves in [false, true] {
            let base = directory();
            let results = together(world(base.path(), 3), move |mut meeting| {
                if meeting.rank() != gone {
                    return give(&mut meeting, 9).map(drop);
                }
                match leaves {
                    true => Ok(()),
                    false => meeting.agree("the plan", 7),
                }
            });
            for (rank, result) in results.into_iter().enumerate().filter(|(rank, _)| *rank != gone) {
                let found = refusal(result);
                // Rank 0 can't know of itself that it is at another step: it names the first that is elsewhere.
                let named = found.ranks() == [gone] || (gone == 0 && !leaves);
                assert!(named, "rank {rank}: {found}");
            }
        }
    }
}

#[test]
fn a_rank_that_gives_nothing_is_named_at_the_deadline() {
    let base = directory();
    let joins = world(base.path(), 4).into_iter().map(|join| Join {
        deadline: SHORT,
        ..join
    });
    let results = together(joins.collect(), |mut meeting| {
        if meeting.rank() == 2 {
            std::thread::sleep(SHORT * 2);
        }
        give(&mut meeting, 9)
    });
    for (rank, result) in results.into_iter().enumerate() {
        let found = refusal(result);
        assert!(
            matches!(&found, Refusal::Late { ranks, .. } if *ranks == [2]),
            "{rank}: {found}"
        );
    }
}

/// Ends the process when dropped, whatever happened.
struct Rank {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Rank {
    fn start(role: &str, directory: &Path, rank: usize, world: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "as_another_process", "--nocapture"])
            .env("TEST_ROLE", role)
            .env("TEST_DIRECTORY", directory)
            .env("TEST_RANK", format!("{rank}/{world}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The line with this word.
    fn line(&mut self, word: &str) -> String {
        let mut lines = self.lines.by_ref().lines().map(Result::unwrap);
        lines.find(|line| line.contains(word)).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the other processes do. Without the variables this is no test.
#[test]
fn as_another_process() {
    let variable = |name| std::env::var(name).ok();
    let (Some(role), Some(base), Some(place)) =
        (variable("TEST_ROLE"), variable("TEST_DIRECTORY"), variable("TEST_RANK"))
    else {
        return;
    };
    let (rank, world) = place.split_once('/').unwrap();
    let mut meeting = meet(
        &join(base.as_ref(), rank.parse().unwrap(), world.parse().unwrap()),
        &never,
    )
    .unwrap();
    println!("met");
    match role.as_str() {
        "waiting" => {
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "giving" => drop(meeting.exchange(&bytes(1, PARCEL_MAX), None)),
        "exhausted" => {
            let own = file("own");
            forbid_files();
            let error = meeting.exchange(&bytes(1, 9), Some(own)).unwrap_err();
            println!("failed: {error}; {}", error.hint().unwrap());
        }
        other => panic!("no role {other}"),
    }
}

/// From now on this process may open no more files.
fn forbid_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let next = std::os::fd::AsRawFd::as_raw_fd(&File::open("/dev/null").unwrap());
    let current = Some(next as u64);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

#[test]
fn a_rank_killed_in_the_step_is_named() {
    for dead in [0, 1] {
        let base = directory();
        let mut other = Rank::start("waiting", base.path(), dead, 3);
        let others = world(base.path(), 3).into_iter().filter(|join| join.rank != dead);
        let threads: Vec<_> = others
            .map(|join| std::thread::spawn(move || give(&mut meet(&join, &never).unwrap(), 9)))
            .collect();
        other.line("met");
        std::thread::sleep(Duration::from_millis(50));
        let killed = Instant::now();
        other.signal(Signal::KILL);
        for thread in threads {
            assert_eq!(refusal(thread.join().unwrap()), Refusal::Died { rank: dead });
        }
        assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    }
}

/// Rank 1 has given its bytes and reads nothing any more: its socket fills up.
#[test]
fn a_rank_that_stops_reading_is_named_by_all() {
    for killed in [false, true] {
        let base = directory();
        let mut other = Rank::start("giving", base.path(), 1, 4);
        let threads: Vec<_> = [0, 2, 3]
            .map(|rank| Join {
                deadline: SHORT * 3,
                ..join(base.path(), rank, 4)
            })
            .map(|join| std::thread::spawn(move || meet(&join, &never).unwrap()))
            .into_iter()
            .collect();
        let meetings: Vec<Meeting> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        other.line("met");
        std::thread::sleep(Duration::from_millis(200));
        stop(&other.child);
        let begin = Instant::now();
        let threads: Vec<_> = meetings
            .into_iter()
            .map(|mut meeting| std::thread::spawn(move || give(&mut meeting, PARCEL_MAX)))
            .collect();
        if killed {
            std::thread::sleep(Duration::from_millis(150));
            other.signal(Signal::KILL);
        }
        for thread in threads {
            let found = refusal(thread.join().unwrap());
            let expected = if killed {
                found == Refusal::Died { rank: 1 }
            } else {
                matches!(&found, Refusal::Late { ranks, .. } if *ranks == [1])
            };
            assert!(expected, "{found}");
        }
        assert!(begin.elapsed() < SHORT * 6, "{:?}", begin.elapsed());
    }
}

#[test]
fn a_rank_that_may_open_no_more_files_says_so() {
    for exhausted in [0, 1] {
        let base = directory();
        let mut other = Rank::start("exhausted", base.path(), exhausted, 2);
        let mut meeting = meet(&join(base.path(), 1 - exhausted, 2), &never).unwrap();
        // Rank 1's failure comes after rank 0's last packet, so rank 0 hears of it in the step after.
        let found = meeting
            .exchange(&bytes(0, 9), Some(file("other")))
            .and_then(|_| meeting.agree("the plan", 7));
        let found = refusal(found);
        assert_eq!(found.ranks(), [exhausted]);
        assert!(found.to_string().contains("may open no more files"), "{found}");
        let line = other.line("failed");
        let from = 1 - exhausted;
        assert!(
            line.contains(&format!("dropped a descriptor that rank {from} sent")),
            "{line}"
        );
        assert!(line.contains("ulimit -n"), "{line}");
    }
}
