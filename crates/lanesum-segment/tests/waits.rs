//! Waits on real memory: each ends, names who is to blame, and costs little.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lanesum_segment::{
    Announcement, Epoch, Geometry, Lost, Member, Pace, Phase, RankSet, Record, RecordKind, Segment, Tally, Trouble,
    WaitContext,
};
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

const WORLD: usize = 3;
const FIRST: Epoch = Epoch::new(u64::MAX);
const CALL: Announcement = Announcement {
    digest: 5,
    descriptor: [1, 2, 3, 4],
    offset: 64,
};
const RECORD: Record = Record {
    kind: RecordKind::Late,
    by: 1,
    ranks: RankSet::only(2),
    epoch: 9,
    waited_us: 8,
    phase: Phase::Result,
    ours: [1; 4],
    theirs: [2; 4],
};

/// A member for each rank, each with a mapping of its own, and the memory as a file.
fn members() -> (Vec<Member>, File) {
    let geometry = Geometry::new(WORLD, 4096, 4096, FIRST.get(), 0).unwrap();
    let (_made, fd) = Segment::create(geometry).unwrap();
    let join = |rank| Member::new(Arc::new(Segment::open(&fd, geometry).unwrap()), rank).unwrap();
    ((0..WORLD).map(join).collect(), File::from(fd))
}

/// What a wait needs, with a place to keep it.
struct Waiter {
    lost: Lost,
    tally: Tally,
    deadline: Duration,
    pace: Pace,
}

impl Waiter {
    fn new(deadline_ms: u64) -> Self {
        Self {
            lost: Lost::default(),
            tally: Tally::default(),
            deadline: Duration::from_millis(deadline_ms),
            pace: Pace::OWN_CORE,
        }
    }

    fn context(&self) -> WaitContext<'_> {
        WaitContext {
            deadline: self.deadline,
            pace: self.pace,
            lost: &self.lost,
            tally: &self.tally,
        }
    }
}

#[test]
fn there_are_no_members_beyond_the_world() {
    let (members, _file) = members();
    assert!(Member::new(Arc::clone(members[0].segment()), WORLD).is_none());
    assert_eq!(members[1].peers().iter().collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn late_peers_are_named_at_the_deadline() {
    let (members, _file) = members();
    let waiter = Waiter::new(30);
    members[0].announce(FIRST, &CALL);
    members[1].announce(FIRST, &CALL);
    let start = Instant::now();
    match members[0].await_headers(FIRST, 5, || waiter.context()) {
        Err(Trouble::Late { late, waited }) => {
            assert_eq!(late, RankSet::only(2));
            assert!(waited >= waiter.deadline);
        }
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < Duration::from_secs(5));
    // A rank that comes later still finds all that was posted in time.
    members[2].announce(FIRST, &CALL);
    assert_eq!(members[2].await_headers(FIRST, 5, || waiter.context()), Ok(()));
    assert_eq!(members[2].announcement(1, FIRST), CALL);
    for outcome in [
        members[0].await_results(FIRST, || waiter.context()),
        members[0].await_closings(FIRST, || waiter.context()),
    ] {
        assert!(matches!(outcome, Err(Trouble::Late { .. })), "{outcome:?}");
    }
}

#[test]
fn faults_of_peers_end_waits_at_once() {
    let (members, _file) = members();
    let waiter = Waiter::new(60_000);
    let wait = || members[0].await_headers(FIRST, 5, || waiter.context());
    members[1].announce(FIRST, &CALL);
    members[2].depart();
    assert_eq!(wait(), Err(Trouble::Departed { peer: 2 }));
    waiter.lost.note(2);
    assert_eq!(wait(), Err(Trouble::Died { dead: RankSet::only(2) }));
    // All that are known dead are named, also those that are not waited for.
    waiter.lost.note(1);
    assert_eq!(
        wait(),
        Err(Trouble::Died {
            dead: RankSet::all(3).without(0)
        })
    );
    // A peer that is not waited for has failed: its record holds the cause. Only the first counts.
    assert_eq!(members[0].confirm_reads(), Ok(()));
    members[1].fail(&RECORD);
    members[1].fail(&Record { epoch: 1, ..RECORD });
    members[1].depart();
    let reported = Err(Trouble::Reported {
        by: 1,
        record: Box::new(RECORD),
    });
    assert_eq!(wait(), reported);
    assert_eq!(members[0].confirm_reads(), reported);
    // All that is waited for is there: what happened to the peers since does not matter.
    members[2].announce(FIRST, &CALL);
    assert_eq!(wait(), Ok(()));
}

#[test]
fn another_digest_is_a_mismatch() {
    let (members, _file) = members();
    let waiter = Waiter::new(60_000);
    members[1].announce(FIRST, &CALL);
    let outcome = members[0].await_headers(FIRST, 6, || waiter.context());
    assert_eq!(outcome, Err(Trouble::Mismatch { peer: 1 }));
}

#[test]
fn a_loss_is_noticed_while_waiting() {
    let (members, _file) = members();
    let waiter = Waiter::new(60_000);
    let context = waiter.context();
    members[2].announce(FIRST, &CALL);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(30));
            waiter.lost.note(1);
        });
        // The tally belongs to this thread; the other sees only `lost`.
        let context = WaitContext {
            tally: &Tally::default(),
            ..context
        };
        let outcome = members[0].await_headers(FIRST, 5, || context);
        assert_eq!(outcome, Err(Trouble::Died { dead: RankSet::only(1) }));
    });
}

#[test]
fn ranks_that_share_a_core_go_on() {
    const EPOCHS: usize = 2_000;
    let (members, _file) = members();
    let run = |member: Member, pace| {
        let waiter = Waiter {
            pace,
            ..Waiter::new(60_000)
        };
        let mut epoch = FIRST;
        for _ in 0..EPOCHS {
            member.announce(epoch, &CALL);
            member.await_headers(epoch, 5, || waiter.context()).unwrap();
            member.post_result(epoch);
            member.await_results(epoch, || waiter.context()).unwrap();
            member.post_closing(epoch);
            member.await_closings(epoch, || waiter.context()).unwrap();
            epoch = epoch.next();
        }
    };
    let sleepy = Pace { spins: 0, yields: 0 };
    thread::scope(|scope| {
        for (member, pace) in members.into_iter().zip([Pace::OWN_CORE, Pace::SHARED_CORE, sleepy]) {
            scope.spawn(move || run(member, pace));
        }
    });
}

#[test]
fn long_waits_sleep() {
    let (members, _file) = members();
    // Each yield lasts as long as the others have something to do, and all of a usual budget can last longer than this wait.
    let pace = Pace {
        yields: 2,
        ..Pace::OWN_CORE
    };
    let waiter = Waiter {
        pace,
        ..Waiter::new(300)
    };
    let spent = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let before = spent();
    let outcome = members[0].await_headers(FIRST, 5, || waiter.context());
    let used = spent() - before;
    assert!(matches!(outcome, Err(Trouble::Late { .. })));
    assert!(used < waiter.deadline / 10, "{used:?} of processor time");
    assert!(waiter.tally.naps() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A peer may write anything into the control blocks: waits end with an answer, whatever it is.
    #[test]
    fn hostile_words_spoil_answers_only(
        bytes in prop::collection::vec(any::<u8>(), 512 * WORLD),
        // Without these, random words would hardly ever say that a rank has failed or has left.
        words in prop::collection::vec((0..64 * WORLD as u64, 0u64..6), 0..40),
        sleepers in any::<u64>(),
    ) {
        let (members, file) = members();
        let waiter = Waiter { pace: Pace { spins: 2, yields: 2 }, ..Waiter::new(1) };
        file.write_all_at(&sleepers.to_le_bytes(), 128).unwrap();
        file.write_all_at(&bytes, 4096).unwrap();
        for (place, word) in words {
            file.write_all_at(&word.to_le_bytes(), 4096 + place * 8).unwrap();
        }
        for member in &members {
            member.announce(FIRST, &CALL);
            let waits = [
                member.await_headers(FIRST, 5, || waiter.context()),
                member.await_results(FIRST, || waiter.context()),
                member.await_closings(FIRST, || waiter.context()),
                member.confirm_reads(),
            ];
            for trouble in waits.into_iter().filter_map(Result::err) {
                if let Trouble::Reported { by, record } = trouble {
                    prop_assert!(by < WORLD && record.ranks.iter().all(|rank| rank < 16));
                }
            }
            for peer in member.peers().iter() {
                member.announcement(peer, FIRST.next());
                member.has_departed(peer);
            }
            member.fail(&RECORD);
            member.depart();
        }
    }
}
