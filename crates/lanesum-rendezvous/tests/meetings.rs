//! Meetings that succeed, with threads as ranks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]
mod common;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use common::{PATIENT, directory, files, join, never, start, together, world};
use lanesum_rendezvous::{Join, Meeting, RendezvousError, meet};

/// Everything a communicator does at set-up.
fn whole(mut meeting: Meeting) -> Result<(Vec<Vec<u8>>, u64, String), RendezvousError> {
    let own = (meeting.rank() == 0).then(|| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"shared by rank 0").unwrap();
        OwnedFd::from(file)
    });
    let mut file = File::from(meeting.share(own)?);
    meeting.agree("the plan", 0x1234_5678_9abc_def0)?;
    meeting.agree("the layout", u64::MAX)?;
    let mut text = String::new();
    // One open file for all ranks: rank 0 reads it before anybody else may have moved its position.
    if meeting.rank() == 0 {
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
    } else {
        text = format!("{}", file.metadata().unwrap().len());
    }
    let found = (meeting.facts().to_vec(), meeting.token(), text);
    assert!((0..meeting.world()).all(|rank| meeting.same_process(rank)));
    let peers = meeting.finish()?;
    assert!(
        (0..found.0.len()).all(|rank| !peers.is_watched(rank)),
        "threads are not watched"
    );
    Ok(found)
}

#[test]
fn every_world_meets_and_leaves_nothing_behind() {
    for size in 1..=16 {
        let base = directory();
        let results = together(world(base.path(), size), whole);
        let expected: Vec<Vec<u8>> = (0..size)
            .map(|rank| format!("facts of rank {rank}").into_bytes())
            .collect();
        let found: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        for (rank, (facts, token, text)) in found.iter().enumerate() {
            assert_eq!(*facts, expected);
            assert_eq!(*token, found[0].1);
            assert_eq!(text, if rank == 0 { "shared by rank 0" } else { "16" });
        }
        assert!(files(base.path()).is_empty(), "{:?}", files(base.path()));
    }
}

#[test]
fn a_world_of_one_touches_no_socket() {
    let alone = Join {
        directory: Some("/no/such/directory".into()),
        ..join("/".as_ref(), 0, 1)
    };
    let mut meeting = meet(&alone, &never).unwrap();
    assert_eq!(meeting.facts(), [b"facts of rank 0".to_vec()]);
    let file = tempfile::tempfile().unwrap();
    meeting.share(Some(file.into())).unwrap();
    meeting.agree("anything", 1).unwrap();
    drop(meeting.finish().unwrap().watch(|_| panic!("nobody can die")).unwrap());
}

#[test]
fn the_name_is_free_when_finish_returns() {
    let base = directory();
    let mut tokens = Vec::new();
    for _ in 0..30 {
        let path = base.path().to_path_buf();
        let found = together(world(base.path(), 3), move |meeting| {
            let token = meeting.token();
            let peers = meeting.finish()?;
            assert!(files(&path).is_empty(), "the name is still held");
            drop(peers);
            Ok(token)
        });
        tokens.push(*found[0].as_ref().unwrap());
        assert!(found.into_iter().all(|result| result.is_ok()));
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 30);
}

#[test]
fn several_jobs_meet_in_one_directory() {
    let base = directory();
    let names = ["one", "two", "a/b", "a_b", "../x", "日本", "", &"long".repeat(100)];
    let jobs: Vec<_> = names
        .iter()
        .map(|name| {
            let joins = world(base.path(), 2).into_iter().map(|join| Join {
                name: (*name).to_owned(),
                ..join
            });
            let joins: Vec<Join> = joins
                .map(|join| Join {
                    facts: join.name.clone().into_bytes(),
                    ..join
                })
                .collect();
            std::thread::spawn(move || together(joins, |meeting| Ok(meeting.facts().to_vec())))
        })
        .collect();
    for (name, job) in names.iter().zip(jobs) {
        for facts in job.join().unwrap() {
            assert_eq!(facts.unwrap(), [name.as_bytes(), name.as_bytes()]);
        }
    }
}

#[test]
fn ranks_may_come_in_any_order_and_late() {
    let base = directory();
    let early = start(join(base.path(), 2, 3));
    std::thread::sleep(Duration::from_millis(60));
    let middle = start(join(base.path(), 0, 3));
    std::thread::sleep(Duration::from_millis(120));
    let late = start(join(base.path(), 1, 3));
    // Dropped before the end each meeting tells the others; all that counts here is that they met.
    let met: Vec<_> = [early, middle, late]
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(met.iter().all(Result::is_ok), "{met:?}");
}

#[test]
fn facts_may_be_long_but_not_endless() {
    let base = directory();
    let long = |length| {
        world(base.path(), 2).into_iter().map(move |join| Join {
            facts: vec![0xa5; length],
            ..join
        })
    };
    for result in together(long(60_000).collect(), |meeting| Ok(meeting.facts().to_vec())) {
        assert_eq!(result.unwrap(), [vec![0xa5; 60_000], vec![0xa5; 60_000]]);
    }
    let mut joins: Vec<Join> = long(70_000).collect();
    joins[0].deadline = common::SHORT;
    let results = together(joins, |meeting| meeting.finish().map(|_| ()));
    assert!(
        matches!(results[1], Err(RendezvousError::TooLarge { .. })),
        "{results:?}"
    );
}

#[test]
fn eight_threads_meet_within_milliseconds() {
    let base = directory();
    let mut best = PATIENT;
    for _ in 0..10 {
        let start = Instant::now();
        assert!(together(world(base.path(), 8), whole).iter().all(Result::is_ok));
        best = best.min(start.elapsed());
    }
    // A few milliseconds where nothing else runs; the bound leaves room for a loaded machine.
    assert!(best < Duration::from_millis(60), "{best:?}");
    println!("eight threads met in {best:?}");
}

#[test]
fn what_killed_jobs_left_is_swept_and_names_in_use_are_not() {
    let base = directory();
    let path = |name: &str| base.path().join(name);
    drop(std::os::unix::net::UnixListener::bind(path("killed.sock")).unwrap());
    std::fs::write(path("killed.lock"), "").unwrap();
    let busy = std::fs::File::create(path("busy.lock")).unwrap();
    busy.lock().unwrap();
    std::fs::write(path("busy.sock"), "").unwrap();
    std::fs::write(path("unrelated.txt"), "").unwrap();
    for result in together(world(base.path(), 2), |meeting| meeting.finish().map(drop)) {
        result.unwrap();
    }
    let mut left: Vec<_> = base
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["busy.lock", "busy.sock", "unrelated.txt"]);
}
