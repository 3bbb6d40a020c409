//! Ranks as real processes that are killed, stopped and forked. This binary runs itself again as the other ranks.
#![allow(unsafe_code, reason = "a forked child is made with pre_exec")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]
mod common;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use common::{PATIENT, SHORT, directory, files, join, never, refusal, start, stop, together, world};
use lanesum_rendezvous::{Join, Meeting, Refusal, RendezvousError, meet};

/// Ends the process when dropped, whatever happened.
struct Rank(Child);

impl Rank {
    /// Starts this binary as `ranks` (threads of one process) of a world.
    fn start(role: &str, directory: &Path, ranks: &[usize], world: usize) -> Self {
        let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "as_another_process", "--nocapture"])
            .env("TEST_ROLE", role)
            .env("TEST_DIRECTORY", directory)
            .env("TEST_RANKS", ranks.join(","))
            .env("TEST_WORLD", world.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    /// Waits until it has written a line with this word.
    fn wait_for(&mut self, word: &str) {
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(word)), "it never said {word}");
    }

    fn kill(&mut self) -> Instant {
        let now = Instant::now();
        self.0.kill().unwrap();
        now
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What the other processes do. Without the variables this is no test.
#[test]
fn as_another_process() {
    let variable = |name| std::env::var(name).ok();
    let (Some(role), Some(directory)) = (variable("TEST_ROLE"), variable("TEST_DIRECTORY")) else {
        return;
    };
    let world = variable("TEST_WORLD").unwrap().parse().unwrap();
    let ranks = variable("TEST_RANKS").unwrap();
    let joins = ranks
        .split(',')
        .map(|rank| join(directory.as_ref(), rank.parse().unwrap(), world));
    if role == "forking" {
        std::thread::spawn(fork_and_hold);
    }
    let results = together(joins.collect(), move |meeting| {
        println!("met");
        if role == "finishing" {
            let peers = meeting.finish()?;
            println!("finished");
            wait_for_the_end();
            drop(peers);
        } else {
            wait_for_the_end();
        }
        Ok(())
    });
    println!("{results:?}");
}

fn wait_for_the_end() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Forks when the meeting has begun. The forked child keeps all descriptors for some seconds.
fn fork_and_hold() {
    std::thread::sleep(Duration::from_millis(150));
    println!("forking");
    let mut command = Command::new("/bin/true");
    // SAFETY: the closure calls sleep alone, which a forked child of a process with threads may.
    unsafe {
        command.pre_exec(|| {
            std::thread::sleep(Duration::from_secs(6));
            Ok(())
        });
    }
    drop(command.status());
}

#[test]
fn a_killed_process_is_noticed_within_milliseconds_by_the_watch() {
    let base = directory();
    let mut delays = Vec::new();
    for _ in 0..20 {
        let mut others = [1, 2].map(|rank| Rank::start("finishing", base.path(), &[rank], 3));
        let peers = meet(&join(base.path(), 0, 3), &never).unwrap().finish().unwrap();
        assert!(!peers.is_watched(0) && peers.is_watched(1) && peers.is_watched(2));
        let (tell, told) = mpsc::channel();
        let watch = peers
            .watch(move |rank| tell.send((rank, Instant::now())).unwrap())
            .unwrap();
        for rank in [2, 1] {
            let killed = others[rank - 1].kill();
            let (dead, noticed) = told.recv_timeout(PATIENT).unwrap();
            assert_eq!(dead, rank);
            delays.push(noticed - killed);
        }
        drop(watch);
    }
    // On a busy machine a killed process may itself wait for a processor before it can end: the median counts.
    delays.sort_unstable();
    assert!(delays[delays.len() / 2] < Duration::from_millis(50), "{delays:?}");
    assert!(files(base.path()).is_empty());
}

#[test]
fn threads_of_another_process_end_with_it() {
    let base = directory();
    let mut other = Rank::start("finishing", base.path(), &[0, 3], 4);
    let results = together(vec![join(base.path(), 1, 4), join(base.path(), 2, 4)], |meeting| {
        let same: Vec<bool> = (0..4).map(|rank| meeting.same_process(rank)).collect();
        assert_eq!(same, [false, true, true, false]);
        meeting.finish()
    });
    let (tell, told) = mpsc::channel();
    let watches: Vec<_> = results
        .into_iter()
        .map(|peers| {
            let tell = tell.clone();
            peers.unwrap().watch(move |rank| tell.send(rank).unwrap()).unwrap()
        })
        .collect();
    other.kill();
    let mut dead: Vec<usize> = (0..4).map(|_| told.recv_timeout(PATIENT).unwrap()).collect();
    dead.sort_unstable();
    assert_eq!(dead, [0, 0, 3, 3]);
    drop(watches);
    assert!(told.try_recv().is_err());
}

#[test]
fn a_rank_killed_before_all_have_arrived_is_named_though_a_forked_child_holds_its_sockets() {
    for role in ["waiting", "forking"] {
        let base = directory();
        let here = [0, 2].map(|rank| start(join(base.path(), rank, 4)));
        let mut other = Rank::start(role, base.path(), &[1], 4);
        match role {
            "forking" => other.wait_for("forking"),
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
        std::thread::sleep(Duration::from_millis(100));
        let killed = other.kill();
        for thread in here {
            assert_eq!(refusal(thread.join().unwrap()), Refusal::Died { rank: 1 });
        }
        assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
        assert!(files(base.path()).is_empty());
    }
}

#[test]
fn a_killed_rank_0_is_named_and_its_name_usable_though_a_forked_child_holds_lock_and_socket() {
    let base = directory();
    let mut zero = Rank::start("forking", base.path(), &[0], 4);
    let here = [1, 2].map(|rank| start(join(base.path(), rank, 4)));
    zero.wait_for("forking");
    std::thread::sleep(Duration::from_millis(100));
    let killed = zero.kill();
    for thread in here {
        assert_eq!(refusal(thread.join().unwrap()), Refusal::Died { rank: 0 });
    }
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    assert_eq!(files(base.path()).len(), 2, "socket and lock are left behind");
    // Rank 1 comes first and sits in the queue of the dead server's socket until rank 0 replaces it.
    let one = start(join(base.path(), 1, 2));
    std::thread::sleep(Duration::from_millis(50));
    let zero = start(join(base.path(), 0, 2));
    let results = [one, zero].map(|thread| std::thread::spawn(|| thread.join().unwrap().and_then(Meeting::finish)));
    assert!(results.into_iter().all(|thread| thread.join().unwrap().is_ok()));
    assert!(killed.elapsed() < Duration::from_secs(4), "{:?}", killed.elapsed());
}

#[test]
fn a_rank_killed_after_the_arrival_is_named_in_the_next_step() {
    for dead in [0, 1] {
        let base = directory();
        let mut other = Rank::start("waiting", base.path(), &[dead], 3);
        let others = world(base.path(), 3).into_iter().filter(|join| join.rank != dead);
        let threads: Vec<_> = others
            .map(|join| std::thread::spawn(move || meet(&join, &never).unwrap().agree("the plan", 7)))
            .collect();
        other.wait_for("met");
        other.kill();
        for thread in threads {
            assert_eq!(refusal(thread.join().unwrap()), Refusal::Died { rank: dead });
        }
    }
}

#[test]
fn a_stopped_rank_is_named_at_the_deadline() {
    let base = directory();
    let mut other = Rank::start("finishing", base.path(), &[1], 3);
    let joins = [0, 2].map(|rank| Join {
        deadline: SHORT * 3,
        ..join(base.path(), rank, 3)
    });
    let threads = joins.map(|join| {
        std::thread::spawn(move || {
            let meeting = meet(&join, &never).unwrap();
            std::thread::sleep(SHORT);
            meeting
        })
    });
    other.wait_for("met");
    stop(&other.0);
    let begin = Instant::now();
    let results = threads.map(|thread| {
        let mut meeting = thread.join().unwrap();
        std::thread::spawn(move || meeting.agree("the plan", 7))
    });
    for (index, thread) in results.into_iter().enumerate() {
        let found = refusal(thread.join().unwrap());
        // Rank 1 had said before it was stopped that it finishes, which is another step.
        let named = matches!(&found, Refusal::Late { ranks, .. } if *ranks == [1]);
        assert!(
            named || matches!(&found, Refusal::OutOfStep { rank: 1, .. }),
            "{index}: {found}"
        );
    }
    assert!(begin.elapsed() < SHORT * 10);
}

#[test]
fn a_rank_stopped_on_its_way_is_named() {
    let base = directory();
    let other = Rank::start("waiting", base.path(), &[2], 3);
    // Stopped right at its start, or in the middle of the hello: missing, or late in the first step.
    stop(&other.0);
    let joins = [0, 1].map(|rank| Join {
        deadline: SHORT,
        ..join(base.path(), rank, 3)
    });
    for result in together(joins.to_vec(), |mut meeting| meeting.agree("the plan", 7)) {
        assert_eq!(refusal(result).ranks(), [2]);
    }
}

/// Runs `act` in a forked child of this process; tells whether it returned true.
fn in_a_forked_child(act: impl FnMut() -> bool + Send + Sync + 'static) -> bool {
    let mut act = act;
    let mut command = Command::new("/bin/true");
    // SAFETY: glibc makes malloc usable in a forked child; other than that, `act` takes no lock that another thread of
    // this process could have held when it forked: each test guards its own value with a mutex that nobody else knows.
    unsafe {
        command.pre_exec(move || {
            if act() {
                Ok(())
            } else {
                Err(std::io::ErrorKind::Other.into())
            }
        });
    }
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn a_forked_child_can_neither_use_nor_end_a_meeting() {
    let base = directory();
    let other = start(join(base.path(), 1, 2));
    let zero = meet(&join(base.path(), 0, 2), &never).unwrap();
    let one = other.join().unwrap().unwrap();
    let meetings = [zero, one].map(|meeting| Arc::new(Mutex::new(Some(meeting))));
    for meeting in &meetings {
        let copy = Arc::clone(meeting);
        assert!(in_a_forked_child(move || {
            let mut copy = copy.lock().unwrap().take().unwrap();
            let refused = matches!(copy.agree("the plan", 1), Err(RendezvousError::Misuse { .. }));
            drop(copy);
            refused
        }));
        assert_eq!(
            files(base.path()).len(),
            2,
            "the child has removed what its parent needs"
        );
    }
    let threads = meetings.map(|meeting| {
        std::thread::spawn(move || {
            let mut meeting = meeting.lock().unwrap().take().unwrap();
            meeting.agree("the plan", 7).unwrap();
            meeting.finish().unwrap();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(files(base.path()).is_empty());
}

#[test]
fn a_forked_child_does_not_end_its_parents_watch() {
    let base = directory();
    let mut other = Rank::start("finishing", base.path(), &[1], 2);
    let peers = meet(&join(base.path(), 0, 2), &never).unwrap().finish().unwrap();
    let (tell, told) = mpsc::channel();
    let watch = peers.watch(move |rank| tell.send(rank).unwrap()).unwrap();
    let watch = Arc::new(Mutex::new(Some(watch)));
    let copy = Arc::clone(&watch);
    assert!(in_a_forked_child(move || copy.lock().unwrap().take().is_some()));
    other.kill();
    assert_eq!(told.recv_timeout(PATIENT).unwrap(), 1);
    drop(watch);
}
