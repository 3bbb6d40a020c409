//! Sockets that are served or visited by something else than a rank of this version: told, or ignored, never a panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]
mod common;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{SHORT, directory, join, never, packet_socket, refusal, start, stranger};
use lanesum_rendezvous::{Join, Refusal, RendezvousError, meet};
use rustix::net::{SendFlags, SocketAddrUnix, bind, listen, send};

fn hello(rank: usize, version: &str) -> String {
    format!(
        r#"{{"magic":"lanesum-rendezvous","protocol":2,"version":"{version}","rank":{rank},"name":"job","world":3,
            "process":{{"pid":1,"token":1}},"terms":[],"facts":""}}"#
    )
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
            text.starts_with("rank 2 runs lanesum 9.9.9 (protocol 2), rank 0 runs "),
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
        br#"{"magic":"lanesum-rendezvous","protocol":2"#,
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
