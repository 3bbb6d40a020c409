//! One test in a process of its own, since it counts the process's descriptors and threads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]
mod common;

use common::{directory, join, never, together, world};
use lanesum_rendezvous::{Join, meet};

fn count(what: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}

#[test]
fn neither_descriptors_nor_threads_are_left_behind() {
    let base = directory();
    let before = (count("fd"), count("task"));
    for round in 0..20 {
        let results = together(world(base.path(), 4), move |mut meeting| {
            let own = (meeting.rank() == 0).then(|| tempfile::tempfile().unwrap().into());
            drop(meeting.share(own)?);
            let own = (meeting.rank() != 2).then(|| tempfile::tempfile().unwrap().into());
            drop(meeting.exchange(b"bytes", own)?);
            // Every other round fails.
            let digest = if round % 2 == 0 { 7 } else { meeting.rank() as u64 };
            meeting.agree("the plan", digest)?;
            drop(meeting.finish()?.watch(|_| ())?);
            Ok(())
        });
        assert!(
            results.iter().all(|result| result.is_ok() == (round % 2 == 0)),
            "{results:?}"
        );
    }
    for rank in [0, 1] {
        assert!(
            meet(
                &Join {
                    deadline: std::time::Duration::from_millis(20),
                    ..join(base.path(), rank, 2)
                },
                &never
            )
            .is_err()
        );
    }
    // A joined thread may still be listed for a moment.
    let end = std::time::Instant::now() + common::PATIENT;
    while (count("fd"), count("task")) != before {
        assert!(
            std::time::Instant::now() < end,
            "{:?}, before {before:?}",
            (count("fd"), count("task"))
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
