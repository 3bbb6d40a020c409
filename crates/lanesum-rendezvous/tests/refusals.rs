//! Meetings that fail: each with an error that says so on every rank, by a deadline.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]
mod common;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{SHORT, directory, files, join, never, packet_socket, refusal, start, stranger, together, world};
use lanesum_rendezvous::{DirectoryProblem, Join, Meeting, Refusal, RendezvousError, meet};
use rustix::net::{SocketAddrUnix, bind};

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
    let [zero, one, two] = joins.try_into().unwrap();
    let zero = start(zero);
    let told = |thread: JoinHandle<_>| refusal(thread.join().unwrap()).to_string();
    let expected = "the ranks disagree on world size: rank 1 has \"4\", rank 0 has \"3\"";
    // Rank 2 comes once the conflict is known, whenever that is: rank 0 stays for a second from then on.
    assert_eq!(told(start(one)), expected);
    assert_eq!(told(start(two)), expected);
    assert_eq!(told(zero), expected);
}

#[test]
fn a_conflict_is_told_at_once() {
    // Who stays for ranks that have come already does so each time; a busy machine is slow now and then.
    let took = (0..5).map(|_| {
        let base = directory();
        let mut joins = world(base.path(), 2);
        joins[1].terms.clear();
        let begin = Instant::now();
        together(joins, |_| Ok(()));
        begin.elapsed()
    });
    let most = Duration::from_millis(900);
    assert!(took.into_iter().any(|took| took < most), "never within {most:?}");
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
        deadline: SHORT * 2,
        ..join
    });
    let threads: Vec<_> = joins
        .map(|join| {
            std::thread::spawn(move || {
                // So late that it is told to be absent, before it is late again.
                if join.rank == 1 {
                    std::thread::sleep(Duration::from_millis(200));
                }
                let mut meeting = meet(&join, &never)?;
                match meeting.rank() {
                    0 => std::thread::sleep(Duration::from_millis(100)),
                    1 => std::thread::sleep(SHORT * 4),
                    _ => {}
                }
                meeting.agree("the plan", 7)
            })
        })
        .collect();
    for (rank, thread) in threads.into_iter().enumerate() {
        let found = refusal(thread.join().unwrap());
        assert!(
            matches!(&found, Refusal::Late { ranks, .. } if *ranks == [1]),
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
                    let cancel = || {
                        (join.rank == who && begin.elapsed() > Duration::from_millis(150))
                            .then_some(Refusal::ParentDied { rank: 5 })
                    };
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
    let alone = meet(&join(directory().path(), 1, 2), &|| {
        Some(Refusal::ParentDied { rank: 3 })
    });
    assert_eq!(refusal(alone), Refusal::ParentDied { rank: 3 });
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
}
