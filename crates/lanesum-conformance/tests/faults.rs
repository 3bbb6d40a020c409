//! Real processes that are killed, stopped, forked or leave: everyone gets an error that names the right rank, in
//! time; afterwards nothing can be mistaken for a result, and the same processes make a new communicator.
//!
//! Each scene is played twenty times. A rank that doesn't answer within a hard limit fails the test: nothing may hang.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::process::ExitCode;
use std::time::Duration;

use common::crew::{Crew, Puppet};
use common::harness;
use common::puppet::{self, Command, Did, PUPPET, Shape, Told};
use common::scenes::{CHOICES, LONG, PLAIN, ROUNDS, varied, work};
use lanesum::{AllReduce, Communicator, Error, FaultKind};
use lanesum_conformance::Choice;
use rustix::process::{Pid, Signal, kill_process};

const SHORT: Duration = Duration::from_millis(300);
/// By when all peers must have noticed a killed rank.
const NOTICE: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(PUPPET) {
        puppet::serve();
        return ExitCode::SUCCESS;
    }
    harness::main(harness::tests![
        a_killed_rank_is_named_by_all_within_100_ms,
        an_idle_rank_that_is_killed_is_noticed_too,
        a_forked_child_does_not_keep_its_parent_alive,
        a_forked_child_can_neither_use_nor_poison,
        a_stopped_rank_is_named_at_the_deadline,
        a_stopped_rank_takes_nothing_spoilt_for_a_result,
        a_rank_that_leaves_is_named,
        a_thread_that_calls_no_more_is_late,
    ])
}

/// Plays the scene of [`kill_in_each_round`] and judges the slowest notice. Other work on the machine can delay any process
/// by a tenth of a second, so a second play decides where the first was too slow.
fn all_notice_in_time(world: usize, busy: bool, before: impl Fn(&mut Crew, usize)) {
    let in_time = (0..2).any(|_| kill_in_each_round(world, busy, &before) < NOTICE);
    assert!(in_time, "a killed rank was noticed too late, twice");
}

/// Kills a rank in each round, `busy` in its calls or while its peers wait for it, and gives the slowest notice.
///
/// The signal alone ends no process: the kernel must find it a turn on a processor first. Where many ranks share few, that
/// takes tens of milliseconds; there the slowest is counted from the end.
fn kill_in_each_round(world: usize, busy: bool, before: &impl Fn(&mut Crew, usize)) -> Duration {
    let mut crew = Crew::start(world);
    let (mut since_signal, mut since_end) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let victim = round % world;
        crew.join(LONG, CHOICES[round % 3]);
        before(&mut crew, victim);
        let call = Command::ReduceUntilError(varied(round));
        for rank in (0..world).filter(|rank| busy || *rank != victim) {
            crew.puppets[rank].tell(&call);
        }
        std::thread::sleep(Duration::from_micros(4000 + 1700 * round as u64));
        let killed = crew.puppets[victim].signal(Signal::KILL);
        let ended = crew.puppets[victim].await_end();
        for rank in crew.others(victim) {
            let (at, failed) = crew.hear_failure(rank);
            assert_eq!(failed.told, Told::Died { rank: victim }, "{}", failed.message);
            assert_eq!(failed.failed_ranks, [victim]);
            assert!(!failed.poisoned);
            since_signal.push(at.saturating_sub(killed));
            since_end.push(at.saturating_sub(ended));
            crew.is_poisoned(rank, &failed, &work(round));
        }
        crew.puppets[victim] = Puppet::start();
    }
    crew.join(LONG, Choice::Auto);
    crew.agree(&Command::Reduce(PLAIN));
    since_signal.sort_unstable();
    let (median, worst) = (
        since_signal[since_signal.len() / 2],
        since_signal[since_signal.len() - 1],
    );
    let worst_since_end = since_end.into_iter().max().unwrap();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    print!(
        "[{world} ranks: {:.1} ms after the signal, at most {:.1}, {:.1} after the end] ",
        ms(median),
        ms(worst),
        ms(worst_since_end)
    );
    if world > 3 { median.max(worst_since_end) } else { worst }
}

fn a_killed_rank_is_named_by_all_within_100_ms() {
    for world in [2, 3, 8] {
        all_notice_in_time(world, true, |_, _| {});
    }
}

fn an_idle_rank_that_is_killed_is_noticed_too() {
    all_notice_in_time(3, false, |_, _| {});
}

/// A process that would outlive the test.
struct Stray(i32);

impl Drop for Stray {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0) {
            // It may have ended by itself.
            assert!(matches!(
                kill_process(pid, Signal::KILL),
                Ok(()) | Err(rustix::io::Errno::SRCH)
            ));
        }
    }
}

/// Lets a rank fork and checks that its child could do nothing.
fn fork(crew: &mut Crew, rank: usize, stay: bool) -> Stray {
    crew.puppets[rank].tell(&Command::Fork { stay });
    let reply = crew.puppets[rank].hear();
    let Did::Forked { pid, verdict } = reply.did else {
        panic!("{reply:?}")
    };
    let stray = Stray(if stay { pid } else { 0 });
    assert_eq!(
        verdict, 0,
        "the forked child's attempts went otherwise: bits {verdict:08b}"
    );
    stray
}

fn a_forked_child_does_not_keep_its_parent_alive() {
    let strays = std::cell::RefCell::new(Vec::new());
    all_notice_in_time(3, true, |crew, victim| {
        strays.borrow_mut().push(fork(crew, victim, true))
    });
    assert!(strays.borrow().len() >= ROUNDS);
}

fn a_forked_child_can_neither_use_nor_poison() {
    let mut crew = Crew::start(2);
    for round in 0..ROUNDS {
        crew.join(LONG, CHOICES[round % 3]);
        crew.agree(&Command::Reduce(varied(round)));
        drop(fork(&mut crew, round % 2, false));
        crew.agree(&Command::Reduce(varied(round + 1)));
        crew.agree(&Command::Barrier);
    }
}

fn a_stopped_rank_is_named_at_the_deadline() {
    let mut crew = Crew::start(3);
    let slowest = (0..ROUNDS)
        .map(|round| stop(&mut crew, round, varied(round)))
        .max()
        .unwrap();
    crew.join(LONG, Choice::Auto);
    crew.agree(&Command::Reduce(PLAIN));
    print!("[named after at most {:.1} ms] ", slowest.as_secs_f64() * 1e3);
    assert!(slowest < 2 * SHORT);
}

/// A rank that is stopped while it reads its peers' shared buffers goes on reading them after the peers gave up and
/// spoilt them, with every flag of that call long posted. Most of these calls' time is spent reading.
fn a_stopped_rank_takes_nothing_spoilt_for_a_result() {
    let mut crew = Crew::start(3);
    for round in 0..ROUNDS {
        let elements = if round % 2 == 0 { 1_000_000 } else { 250_000 };
        let shape = Shape {
            elements,
            shared: true,
            ..PLAIN
        };
        stop(&mut crew, round, shape);
    }
}

/// Stops a rank in the middle of its calls until all others gave it up, and tells how long that took.
fn stop(crew: &mut Crew, round: usize, shape: Shape) -> Duration {
    let victim = round % crew.world();
    // A deadline given at the start and one changed later must both hold.
    crew.join(if round.is_multiple_of(2) { SHORT } else { LONG }, CHOICES[round % 3]);
    if !round.is_multiple_of(2) {
        crew.agree(&Command::SetDeadline {
            ms: SHORT.as_millis() as u64,
        });
    }
    crew.tell(&Command::ReduceUntilError(shape));
    std::thread::sleep(Duration::from_micros(4000 + 900 * round as u64));
    let stopped = crew.puppets[victim].signal(Signal::STOP);
    let mut slowest = Duration::ZERO;
    for rank in crew.others(victim) {
        let (at, failed) = crew.hear_failure(rank);
        let Told::Late { ranks, waited } = &failed.told else {
            panic!("{}", failed.message)
        };
        assert_eq!((ranks, &failed.failed_ranks), (&vec![victim], &vec![victim]));
        assert!(*waited >= SHORT && *waited < 2 * SHORT, "waited {waited:?}");
        slowest = slowest.max(at.saturating_sub(stopped));
        crew.is_poisoned(rank, &failed, &work(round));
    }
    crew.puppets[victim].signal(Signal::CONT);
    let (_, failed) = crew.hear_failure(victim);
    crew.is_poisoned(victim, &failed, &work(round));
    slowest
}

fn a_rank_that_leaves_is_named() {
    let mut crew = Crew::start(3);
    for round in 0..ROUNDS {
        let leaver = round % 3;
        crew.join(LONG, CHOICES[round % 3]);
        crew.agree(&Command::Reduce(varied(round)));
        for rank in crew.others(leaver) {
            crew.puppets[rank].tell(&Command::ReduceUntilError(varied(round)));
        }
        crew.puppets[leaver].tell(&Command::Leave);
        assert!(matches!(crew.puppets[leaver].hear().did, Did::Well));
        for rank in crew.others(leaver) {
            let (_, failed) = crew.hear_failure(rank);
            assert_eq!(failed.told, Told::Departed { rank: leaver }, "{}", failed.message);
            crew.is_poisoned(rank, &failed, &work(round));
        }
    }
}

/// A thread's end can't be seen from outside: its peers know it by the deadline alone.
fn a_thread_that_calls_no_more_is_late() {
    let name = format!("threads-{}", std::process::id());
    let join = |rank| {
        Communicator::builder(rank, 2, name.as_str())
            .deadline(SHORT)
            .join()
            .unwrap()
    };
    std::thread::scope(|scope| {
        let silent = scope.spawn(|| join(1));
        let communicator = join(0);
        // Held to the end: dropping it would be leaving.
        let _silent = silent.join().unwrap();
        let mut buffer = [1.0f32; 10];
        let error = communicator.all_reduce(AllReduce::in_place(&mut buffer)).unwrap_err();
        let Error::Fault(fault) = &error else { panic!("{error}") };
        assert!(matches!(fault.kind, FaultKind::Late { .. }), "{error}");
        assert_eq!(
            error.failed_ranks().iter().map(|rank| rank.index()).collect::<Vec<_>>(),
            [1]
        );
        assert!(buffer.iter().all(|element| element.is_nan()));
    });
}
