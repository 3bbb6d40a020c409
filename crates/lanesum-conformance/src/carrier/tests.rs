//! Plays reports of ranks to the driver that no healthy library would give.

use std::cell::RefCell;

use lanesum_plan::Bytes;

use super::*;
use crate::suite::{Budget, cases};

/// What each rank of a group reports, in the order of the messages.
type Script = Vec<Message>;

/// Plays one script for each group that is started, and notes how many cases each group was given.
struct Player {
    scripts: RefCell<Vec<Script>>,
    given: RefCell<Vec<usize>>,
}

impl Player {
    fn new(scripts: Vec<Script>) -> Player {
        Player {
            scripts: RefCell::new(scripts),
            given: RefCell::default(),
        }
    }
}

impl Carry for Player {
    const CARRIER: Carrier = Carrier::Threads;
    type Group = ();

    fn start(&self, jobs: Vec<Job>, to: &Sender<Message>) -> Result<(), Failure> {
        self.given.borrow_mut().push(jobs[0].cases.len());
        assert!(jobs.iter().all(|job| job.name == jobs[0].name));
        for message in self.scripts.borrow_mut().remove(0) {
            to.send(message).unwrap();
        }
        Ok(())
    }

    fn stop(&self, (): (), _grace: Duration) {}
}

/// Three cases that two ranks run on one communicator.
fn three_cases() -> Vec<Case> {
    let case = cases(Budget::Quick)
        .into_iter()
        .find(|case| case.setting.world.get() == 2)
        .unwrap();
    vec![case; 3]
}

fn well(rank: usize, place: usize) -> Message {
    (
        rank,
        Report::Case {
            place,
            result: Ok(Verdict {
                calls: 1,
                bytes: Bytes::new(4),
            }),
        },
    )
}

fn ill(rank: usize, place: usize, failure: Failure) -> Message {
    (
        rank,
        Report::Case {
            place,
            result: Err(failure),
        },
    )
}

fn ended(rank: usize) -> Message {
    (rank, Report::Ended { failure: None })
}

fn call(error: &str) -> Failure {
    Failure::Call {
        call: 0,
        error: error.to_owned(),
    }
}

/// For each case the ranks that failed, and the numbers of cases that the groups were given.
fn play(scripts: Vec<Script>) -> (Vec<Vec<usize>>, Vec<usize>) {
    let player = Player::new(scripts);
    let mut failed = Vec::new();
    let options = Options {
        patience: Duration::from_millis(20),
        ..Options::default()
    };
    let summary = drive(&player, &three_cases(), &options, &mut |outcome| {
        assert_eq!(
            outcome.index,
            failed.len(),
            "outcomes come in the order of the cases, each once"
        );
        failed.push(outcome.failures.iter().map(|(rank, _)| *rank).collect::<Vec<_>>());
    });
    assert_eq!(
        summary.failed as usize,
        failed.iter().filter(|ranks| !ranks.is_empty()).count()
    );
    assert_eq!(summary.passed + summary.failed, 3);
    assert!(player.scripts.borrow().is_empty());
    (failed, player.given.into_inner())
}

fn all_well(cases: usize) -> Script {
    let ranks = [0, 1].into_iter();
    ranks
        .flat_map(|rank| (0..cases).map(move |place| well(rank, place)).chain([ended(rank)]))
        .collect()
}

#[test]
fn a_wrong_result_does_not_end_the_communicator() {
    let guard = Failure::Input {
        call: 0,
        index: 3,
        found: 1,
    };
    let script = vec![
        well(0, 0),
        ill(1, 0, guard),
        well(1, 1),
        well(1, 2),
        ended(1),
        well(0, 1),
        well(0, 2),
        ended(0),
    ];
    assert_eq!(play(vec![script]), (vec![vec![1], vec![], vec![]], vec![3]));
}

#[test]
fn a_failed_call_makes_later_cases_run_again() {
    // Rank 0 got through the first case and met the poison in the second, which is not the second's fault.
    let script = vec![
        well(0, 0),
        ill(0, 1, call("poisoned")),
        ended(0),
        ill(1, 0, call("fault")),
        ended(1),
    ];
    assert_eq!(
        play(vec![script, all_well(2)]),
        (vec![vec![1], vec![], vec![]], vec![3, 2])
    );
}

#[test]
fn a_crash_fails_the_case_it_happened_in() {
    let crash = Report::Ended {
        failure: Some(Failure::Crashed {
            status: "killed".to_owned(),
        }),
    };
    let script = vec![
        well(0, 0),
        well(1, 0),
        (1, crash),
        ill(0, 1, call("rank 1 died")),
        ended(0),
    ];
    assert_eq!(
        play(vec![script, all_well(1)]),
        (vec![vec![], vec![1, 0], vec![]], vec![3, 1])
    );
}

#[test]
fn ranks_that_cannot_join_fail_all_their_cases() {
    let lost = Report::Ended {
        failure: Some(Failure::Join {
            error: "nobody there".to_owned(),
        }),
    };
    let (failed, given) = play(vec![vec![(0, lost.clone()), (1, lost)]]);
    assert!(failed.iter().all(|ranks| !ranks.is_empty()));
    assert_eq!(given, [3]);
}

#[test]
fn silence_is_a_hang() {
    let script = vec![well(0, 0), well(1, 0), well(0, 1), well(0, 2), ended(0)];
    assert_eq!(
        play(vec![script, all_well(1)]),
        (vec![vec![], vec![1], vec![]], vec![3, 1])
    );
}

#[test]
fn a_rank_that_skips_cases_does_not_pass_them() {
    let script = vec![well(0, 0), ended(0), well(1, 0), ended(1)];
    assert_eq!(
        play(vec![script, all_well(1)]),
        (vec![vec![], vec![0], vec![]], vec![3, 1])
    );
}

#[test]
fn a_communicator_that_cannot_be_closed_fails_the_last_case() {
    let stuck = Report::Ended {
        failure: Some(Failure::Close { error: "no".to_owned() }),
    };
    let mut script = all_well(3);
    script[3] = (0, stuck);
    assert_eq!(play(vec![script]), (vec![vec![], vec![], vec![0]], vec![3]));
}
