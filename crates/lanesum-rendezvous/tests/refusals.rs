//! Meetings that fail: each with an error that says so on every rank, by a deadline.
mod common;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{PATIENT, SHORT, directory, files, join, never, start, together, world};
use lanesum_rendezvous::{DirectoryProblem, Join, Meeting, Refusal, RendezvousError, meet};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, send, socket_with,
};

fn refusal<T: std::fmt::Debug>(result: Result<T, RendezvousError>) -> Refusal {
    match result {
        Err(RendezvousError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn packet_socket() -> std::os::fd::OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// Connects as a stranger as soon as somebody serves.
fn stranger(path: &Path) -> std::os::fd::OwnedFd {
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

fn hello(rank: usize, version: &str) -> String {
    format!(
        r#"{{"magic":"lanesum-rendezvous","protocol":1,"version":"{version}","rank":{rank},"name":"job","world":3,
            "process":{{"pid":1,"token":1}},"terms":[],"facts":""}}"#
    )
}

#[test]
fn missing_ranks_are_named_on_all_ranks_at_the_deadline() {
    let base = directory();
    let here = [0, 1, 3, 4].map(|rank| Join {
        deadline: SHORT,
        ..join(base.path(), rank, 6)
    });
    let begin = Instant::now();
    for (index, result) in together(here.to_vec(), |_| Ok(())).into_iter().enumerate() {
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "ranks 2, 5 have not arrived after 400 ms (4 of 6 are here)",
            "{index}"
        );
        assert_eq!(error.ranks(), [2, 5]);
        assert!(error.hint().unwrap().contains("LANESUM_DEADLINE_MS"));
    }
    assert!(begin.elapsed() < SHORT * 4);
    assert!(files(base.path()).is_empty());
}

#[test]
fn a_rank_whose_deadline_passes_first_names_the_missing_too() {
    let base = directory();
    let mut here = [0, 1].map(|rank| join(base.path(), rank, 4));
    here[1].deadline = SHORT;
    for result in together(here.to_vec(), |_| Ok(())) {
        assert!(matches!(refusal(result), Refusal::Missing { ranks, .. } if ranks == [2, 3]));
    }
}

#[test]
fn a_missing_rank_0_is_named() {
    let base = directory();
    let error = meet(
        &Join {
            deadline: SHORT,
            ..join(base.path(), 1, 2)
        },
        &never,
    )
    .unwrap_err();
    assert!(
        error.to_string().starts_with("rank 1 waited 400 ms for rank 0 at /"),
        "{error}"
    );
    assert!(error.to_string().contains("has not started"), "{error}");
    assert_eq!(error.ranks(), [0]);
}

#[test]
fn a_stale_socket_is_told_and_replaced() {
    let base = directory();
    let path = base.path().join("job.sock");
    let stale = packet_socket();
    bind(&stale, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    drop(stale);
    std::fs::write(base.path().join("job.lock"), "").unwrap();
    let error = meet(
        &Join {
            deadline: SHORT,
            ..join(base.path(), 1, 2)
        },
        &never,
    )
    .unwrap_err();
    assert!(error.to_string().contains("a stale socket is there"), "{error}");
    assert!(
        together(world(base.path(), 2), Meeting::finish)
            .iter()
            .all(Result::is_ok)
    );
    assert!(files(base.path()).is_empty());
}

#[test]
fn a_second_job_with_the_same_name_is_refused() {
    let base = directory();
    let first = start(Join {
        deadline: Duration::from_secs(2),
        ..join(base.path(), 0, 2)
    });
    drop(stranger(&base.path().join("job.sock")));
    let begin = Instant::now();
    let error = meet(&join(base.path(), 0, 2), &never).unwrap_err();
    assert!(matches!(error, RendezvousError::NameInUse { .. }), "{error}");
    assert!(error.hint().unwrap().contains("LANESUM_RENDEZVOUS"));
    assert!(begin.elapsed() < Duration::from_secs(2));
    // The first job is not disturbed.
    let other = start(join(base.path(), 1, 2));
    assert!(first.join().unwrap().is_ok());
    assert!(other.join().unwrap().is_ok());
}

#[test]
fn a_duplicate_rank_fails_all() {
    let base = directory();
    let joins = [0, 1, 2, 2].map(|rank| join(base.path(), rank, 4));
    for result in together(joins.to_vec(), |_| Ok(())) {
        let found = refusal(result);
        assert_eq!(found, Refusal::Duplicate { rank: 2 });
        assert_eq!(found.to_string(), "two processes or threads came as rank 2");
    }
}

#[test]
fn a_rank_too_many_is_told_that_all_are_here() {
    let base = directory();
    let first = start(join(base.path(), 1, 2));
    let zero = meet(&join(base.path(), 0, 2), &never).unwrap();
    let one = first.join().unwrap().unwrap();
    let late = start(Join {
        deadline: Duration::from_secs(5),
        ..join(base.path(), 1, 2)
    });
    std::thread::sleep(Duration::from_millis(50));
    let other = std::thread::spawn(move || one.finish());
    zero.finish().unwrap();
    other.join().unwrap().unwrap();
    assert_eq!(refusal(late.join().unwrap()), Refusal::Complete { world: 2 });
}

#[test]
fn a_rank_outside_the_world_is_refused_at_once() {
    for (rank, world) in [(2, 2), (0, 0), (usize::MAX, 16)] {
        let found = refusal(meet(&join("/".as_ref(), rank, world), &never));
        assert_eq!(found, Refusal::OutsideWorld { rank, world });
    }
}

#[test]
fn other_terms_are_named_with_both_values_on_all_ranks() {
    let base = directory();
    let mut joins = world(base.path(), 4);
    joins[2].terms = vec![("staging".to_owned(), "4096".to_owned())];
    for result in together(joins, |_| Ok(())) {
        let text = refusal(result).to_string();
        assert_eq!(
            text,
            "the ranks disagree on staging: rank 2 has \"4096\", rank 0 has \"1048576\""
        );
    }
    for (theirs, ours) in [(Some("x"), None), (None, Some("x"))] {
        let mut joins = world(base.path(), 2);
        joins[0].terms = ours
            .map(|value| ("tree".to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        joins[1].terms = theirs
            .map(|value| ("tree".to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        for result in together(joins, |_| Ok(())) {
            let text = refusal(result).to_string();
            assert!(
                text.contains("on tree") && text.contains("(not set)") && text.contains("\"x\""),
                "{text}"
            );
        }
    }
}

#[test]
fn the_order_of_terms_does_not_matter() {
    let base = directory();
    let pairs = [("a", "1"), ("b", "2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut joins = world(base.path(), 2);
    joins[0].terms = pairs.to_vec();
    joins[1].terms = pairs.iter().rev().cloned().collect();
    assert!(together(joins, Meeting::finish).iter().all(Result::is_ok));
}

#[test]
fn another_world_size_is_refused_also_for_ranks_that_come_later() {
    let base = directory();
    let mut joins = world(base.path(), 3);
    joins[1].world = 4;
    let late = joins.pop().unwrap();
    let threads: Vec<_> = joins.into_iter().map(start).collect();
    std::thread::sleep(Duration::from_millis(100));
    let threads = threads.into_iter().chain([start(late)]);
    for result in threads.map(|thread| thread.join().unwrap()) {
        let text = refusal(result).to_string();
        assert_eq!(
            text,
            "the ranks disagree on world size: rank 1 has \"4\", rank 0 has \"3\""
        );
    }
}

#[test]
fn a_conflict_is_told_at_once() {
    let base = directory();
    let mut joins = world(base.path(), 2);
    joins[1].terms.clear();
    let begin = Instant::now();
    together(joins, |_| Ok(()));
    assert!(begin.elapsed() < Duration::from_millis(900), "{:?}", begin.elapsed());
}

#[test]
fn disagreement_on_a_digest_names_rank_and_both_values_on_all_ranks() {
    let base = directory();
    let results = together(world(base.path(), 4), |mut meeting| {
        meeting.agree("the tree", 1)?;
        let digest = if meeting.rank() == 3 { 0xbad } else { 0xabc };
        meeting.agree("the plan", digest)
    });
    for result in results {
        let text = refusal(result).to_string();
        assert!(
            text.contains("the plan") && text.contains("rank 3 has 0x0000000000000bad"),
            "{text}"
        );
        assert!(text.contains("rank 0 has 0x0000000000000abc"), "{text}");
    }
}

#[test]
fn after_an_error_no_step_goes_on() {
    let base = directory();
    for found in together(world(base.path(), 2), |mut meeting| {
        let first = meeting.agree("the plan", meeting.rank() as u64).is_err();
        let again = meeting.agree("the plan", 1).unwrap_err();
        Ok((first, again.to_string(), meeting.finish().is_err()))
    }) {
        assert_eq!(
            found.unwrap(),
            (true, "the meeting cannot go on: it has failed before".to_owned(), true)
        );
    }
}

#[test]
fn ranks_at_different_steps_are_told() {
    let base = directory();
    let results = together(world(base.path(), 3), |mut meeting| match meeting.rank() {
        2 => meeting.finish().map(|_| ()),
        _ => meeting.agree("the plan", 7),
    });
    for result in results {
        let found = refusal(result);
        assert!(matches!(&found, Refusal::OutOfStep { rank: 2, .. }), "{found}");
        assert!(found.to_string().contains("the end of its set-up"), "{found}");
    }
}

#[test]
fn sharing_on_the_wrong_rank_is_refused() {
    let base = directory();
    let mut results = together(world(base.path(), 2), |mut meeting| {
        let file = tempfile::tempfile().unwrap();
        let own = (meeting.rank() == 1).then(|| file.into());
        meeting.share(own).map(|_| ())
    });
    let one = results.pop().unwrap().unwrap_err();
    assert!(matches!(one, RendezvousError::Misuse { .. }), "{one}");
    assert!(matches!(
        results.pop().unwrap().unwrap_err(),
        RendezvousError::Misuse { .. }
    ));
}

#[test]
fn a_rank_that_leaves_is_named_by_the_others() {
    let base = directory();
    for gone in [0, 2] {
        let results = together(world(base.path(), 3), move |mut meeting| {
            if meeting.rank() == gone {
                return Ok(());
            }
            meeting.agree("the plan", 7)
        });
        for (rank, result) in results.into_iter().enumerate().filter(|(rank, _)| *rank != gone) {
            let found = refusal(result);
            assert!(
                matches!(&found, Refusal::Left { rank, .. } if *rank == gone),
                "rank {rank}: {found}"
            );
        }
    }
}

#[test]
fn a_rank_that_does_not_answer_is_named_at_the_deadline() {
    let base = directory();
    let joins = world(base.path(), 3).into_iter().map(|join| Join {
        deadline: SHORT,
        ..join
    });
    let results = together(joins.collect(), |mut meeting| {
        if meeting.rank() == 1 {
            std::thread::sleep(SHORT * 3);
        }
        meeting.agree("the plan", 7)
    });
    for (rank, result) in results.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let found = refusal(result);
        // Rank 2 may be the first whose deadline passes; all it knows is that rank 0 has not answered.
        assert!(
            matches!(&found, Refusal::Late { ranks, .. } if *ranks == [1] || *ranks == [0]),
            "rank {rank}: {found}"
        );
    }
}

#[test]
fn cancelling_ends_the_meeting_on_all_ranks() {
    for who in [0, 1] {
        let base = directory();
        let threads: Vec<_> = world(base.path(), 3)
            .into_iter()
            .take(2)
            .map(|join| {
                std::thread::spawn(move || {
                    let begin = Instant::now();
                    let cancel = || (join.rank == who && begin.elapsed() > Duration::from_millis(150)).then_some(5);
                    (meet(&join, &cancel), begin.elapsed())
                })
            })
            .collect();
        for thread in threads {
            let (result, elapsed) = thread.join().unwrap();
            assert_eq!(refusal(result), Refusal::ParentDied { rank: 5 });
            assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
        }
    }
    let alone = meet(&join(directory().path(), 1, 2), &|| Some(3));
    assert_eq!(refusal(alone), Refusal::ParentDied { rank: 3 });
}

#[test]
fn another_version_is_named_on_all_ranks() {
    let base = directory();
    let one = start(join(base.path(), 1, 3));
    let zero = start(join(base.path(), 0, 3));
    let other = stranger(&base.path().join("job.sock"));
    send(&other, hello(2, "9.9.9").as_bytes(), SendFlags::empty()).unwrap();
    for thread in [zero, one] {
        let found = refusal(thread.join().unwrap());
        let text = found.to_string();
        assert!(
            text.starts_with("rank 2 runs lanesum 9.9.9 (protocol 1), rank 0 runs "),
            "{text}"
        );
        assert_eq!(found.ranks(), [2]);
    }
}

/// A server that accepts one connection after the other and answers each with the same packet.
fn impostor(path: &Path, answer: Vec<u8>) {
    let listener = packet_socket();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 8).unwrap();
    std::thread::spawn(move || {
        while let Ok(connection) = rustix::net::accept(&listener) {
            if send(&connection, &answer, SendFlags::NOSIGNAL).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
}

#[test]
fn an_impostor_in_place_of_rank_0_is_told() {
    let wrong: [&[u8]; 4] = [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"{}",
        b"\xff\x00\xfe",
        br#"{"magic":"lanesum-rendezvous","protocol":1"#,
    ];
    for answer in wrong {
        let base = directory();
        impostor(&base.path().join("job.sock"), answer.to_vec());
        let error = meet(&join(base.path(), 1, 2), &never).unwrap_err();
        assert!(matches!(error, RendezvousError::Impostor { .. }), "{error}");
        assert!(
            error.to_string().contains("is not rank 0 of a lanesum job: it sent \""),
            "{error}"
        );
    }
    let base = directory();
    let old = br#"{"magic":"lanesum-rendezvous","protocol":0,"version":"0.0.1","rank":0}"#;
    impostor(&base.path().join("job.sock"), old.to_vec());
    let found = refusal(meet(&join(base.path(), 1, 2), &never));
    assert!(found.to_string().ends_with("rank 0 runs 0.0.1 (protocol 0)"), "{found}");
}

#[test]
fn a_socket_of_another_kind_and_a_mute_server_are_told() {
    let base = directory();
    let stream = UnixListener::bind(base.path().join("job.sock")).unwrap();
    let error = meet(
        &Join {
            deadline: SHORT,
            ..join(base.path(), 1, 2)
        },
        &never,
    )
    .unwrap_err();
    assert!(error.to_string().contains("a socket of another kind"), "{error}");
    drop(stream);
    std::fs::remove_file(base.path().join("job.sock")).unwrap();
    let mute = packet_socket();
    bind(&mute, &SocketAddrUnix::new(base.path().join("job.sock")).unwrap()).unwrap();
    listen(&mute, 8).unwrap();
    let begin = Instant::now();
    let error = meet(
        &Join {
            deadline: SHORT,
            ..join(base.path(), 1, 2)
        },
        &never,
    )
    .unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(begin.elapsed() < SHORT * 3);
    // As soon as a real rank 0 takes the socket over, the one who waits there finds it.
    let waiting = start(join(base.path(), 1, 2));
    std::thread::sleep(Duration::from_millis(50));
    let zero = start(join(base.path(), 0, 2));
    assert!(waiting.join().unwrap().is_ok());
    assert!(zero.join().unwrap().is_ok());
}

#[test]
fn strangers_who_connect_are_ignored_and_counted() {
    let base = directory();
    let zero = start(Join {
        deadline: Duration::from_secs(1),
        ..join(base.path(), 0, 3)
    });
    let path = base.path().join("job.sock");
    let garbage: [&[u8]; 6] = [
        b"hello",
        b"{\"magic\":\"lanesum-rendezvous\"}",
        // The right opening and nothing, or nonsense, after it; no descriptor.
        hello(1, env!("CARGO_PKG_VERSION"))
            .replace("\"world\":3,", "")
            .leak()
            .as_bytes(),
        hello(1, env!("CARGO_PKG_VERSION"))
            .replace("[]", "[[[[[[[]]]]]]]")
            .leak()
            .as_bytes(),
        hello(1, env!("CARGO_PKG_VERSION"))
            .replace("\"terms\":[]", "\"terms\":[[\"staging\",\"1048576\"]]")
            .leak()
            .as_bytes(),
        &[b'x'; 150_000],
    ];
    let mut kept = Vec::new();
    for packet in garbage {
        let socket = stranger(&path);
        send(&socket, packet, SendFlags::empty()).unwrap();
        kept.push(socket);
    }
    // Connections that say nothing, more than rank 0 keeps.
    kept.extend((0..70).map(|_| stranger(&path)));
    let one = start(join(base.path(), 1, 3));
    for result in [zero.join().unwrap(), one.join().unwrap()] {
        let found = refusal(result);
        assert!(
            matches!(&found, Refusal::Missing { ranks, strangers, .. } if *ranks == [2] && *strangers >= 6),
            "{found}"
        );
        assert!(
            found.to_string().contains("connections did not speak this protocol"),
            "{found}"
        );
    }
}

#[test]
fn a_seated_rank_that_sends_garbage_fails_the_meeting_without_a_panic() {
    let garbage = ["{\"Finish\":7}", "\"Done\"", "\"Finish\"", "{\"Leave\":{}}", "[]"];
    for packet in garbage {
        let base = directory();
        let zero = start(join(base.path(), 0, 3));
        let other = stranger(&base.path().join("job.sock"));
        let text = hello(1, env!("CARGO_PKG_VERSION")).replace("\"terms\":[]", "\"terms\":[[\"staging\",\"1048576\"]]");
        send_with_descriptor(&other, text.as_bytes());
        send(&other, packet.as_bytes(), SendFlags::empty()).unwrap();
        let found = refusal(zero.join().unwrap());
        assert_eq!(found.ranks(), [1], "{packet}: {found}");
    }
}

fn send_with_descriptor(socket: &std::os::fd::OwnedFd, bytes: &[u8]) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    use std::os::fd::AsFd;
    // A pipe with nothing in it never becomes readable, as the pidfd of a live process.
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    std::mem::forget(writer);
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [reader.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(
        socket,
        &[std::io::IoSlice::new(bytes)],
        &mut control,
        SendFlags::empty(),
    )
    .unwrap();
}

#[test]
fn a_directory_that_others_may_enter_is_refused_on_both_sides() {
    let base = directory();
    std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
    for rank in [0, 1] {
        let error = meet(&join(base.path(), rank, 2), &never).unwrap_err();
        let loose = matches!(
            error,
            RendezvousError::Directory {
                problem: DirectoryProblem::TooOpen { mode: 0o750 },
                ..
            }
        );
        assert!(loose, "{error}");
        assert!(error.hint().unwrap().starts_with("chmod 700 "));
    }
}

#[test]
fn a_file_in_the_way_is_an_error_not_a_loss() {
    let base = directory();
    std::fs::create_dir(base.path().join("job.sock")).unwrap();
    let error = meet(
        &Join {
            deadline: SHORT,
            ..join(base.path(), 0, 2)
        },
        &never,
    )
    .unwrap_err();
    assert!(matches!(error, RendezvousError::System { .. }), "{error}");
    std::os::unix::fs::symlink("/etc/passwd", base.path().join("other.lock")).unwrap();
    let other = Join {
        name: "other".to_owned(),
        deadline: SHORT,
        ..join(base.path(), 0, 2)
    };
    assert!(matches!(meet(&other, &never), Err(RendezvousError::System { .. })));
    let mut text = String::new();
    std::fs::File::open("/etc/passwd")
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(!text.is_empty());
}

#[test]
fn a_deadline_of_nothing_or_of_ages_is_no_panic() {
    let base = directory();
    let zero = Join {
        deadline: Duration::ZERO,
        ..join(base.path(), 0, 2)
    };
    assert!(matches!(refusal(meet(&zero, &never)), Refusal::Missing { .. }));
    let joins = world(base.path(), 2).into_iter().map(|join| Join {
        deadline: Duration::MAX,
        ..join
    });
    assert!(together(joins.collect(), Meeting::finish).iter().all(Result::is_ok));
    std::io::stdout().flush().unwrap();
}
