//! Processes that are killed while their peers wait in kernels.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use lanesum_conformance::Choice;
use lanesum_standin::Config;
use rustix::process::{Pid, Signal, kill_process};

use super::crew::{Crew, Puppet};
use super::device_calls::DeviceCalls;
use super::device_scenes::{CHOICES, LONG, NOTICE, ROUNDS, endless, one, varied, work};
use super::driver;
use super::puppet::{Command, Did, Told, Where};
use super::scenes::PLAIN;

/// Kills a rank and checks what its peers, which are told something already, make of it.
fn kill(crew: &mut Crew, victim: usize, round: usize) {
    let killed = crew.puppets[victim].signal(Signal::KILL);
    for rank in crew.others(victim) {
        let (at, failed) = crew.hear_failure(rank);
        assert_eq!(failed.told, Told::Died { rank: victim }, "{}", failed.message);
        assert_eq!(failed.failed_ranks, [victim]);
        let noticed = at.saturating_sub(killed);
        assert!(noticed < NOTICE, "rank {rank} noticed after {noticed:?}");
        crew.is_poisoned(rank, &failed, &work(round));
    }
}

/// The processes that are left go on by themselves, and then with a new one in the dead one's place.
fn go_on(crew: &mut Crew, victim: usize, round: usize) {
    let left: Vec<usize> = crew.others(victim).collect();
    crew.join_some(&left, LONG, CHOICES[round % 2], Where::Device);
    for command in [one(varied(round)), Command::Barrier, Command::Reduce(PLAIN)] {
        left.iter().for_each(|rank| crew.puppets[*rank].tell(&command));
        for rank in &left {
            let reply = crew.puppets[*rank].hear();
            assert!(matches!(reply.did, Did::Well), "{reply:?}");
        }
    }
    crew.puppets[victim] = Puppet::start();
}

fn kill_in_each_round(world: usize, rounds: usize, tell: impl Fn(&mut Crew, usize, usize)) {
    let mut crew = Crew::start(world);
    for round in 0..rounds {
        let victim = (round + 1) % world;
        crew.join_device(LONG, CHOICES[round % 2]);
        tell(&mut crew, victim, round);
        kill(&mut crew, victim, round);
        go_on(&mut crew, victim, round);
    }
    crew.join_device(LONG, Choice::Auto);
    crew.agree(&one(PLAIN));
}

pub fn kill_a_rank_that_peers_wait_for_in_a_kernel() {
    for (world, rounds) in [(2, ROUNDS), (3, ROUNDS), (8, 2)] {
        kill_in_each_round(world, rounds, |crew, victim, round| {
            crew.agree(&one(varied(round)));
            for rank in crew.others(victim) {
                crew.puppets[rank].tell(&one(varied(round)));
            }
            sleep(Duration::from_millis(50));
        });
    }
}

pub fn kill_a_rank_in_its_calls() {
    for world in [2, 3] {
        kill_in_each_round(world, ROUNDS, |crew, _, round| {
            crew.tell(&endless(varied(round)));
            sleep(Duration::from_micros(40_000 + 1700 * round as u64));
        });
    }
}

pub fn kill_a_rank_before_any_call() {
    kill_in_each_round(3, 3, |crew, victim, round| {
        for rank in crew.others(victim) {
            crew.puppets[rank].tell(&endless(varied(round)));
        }
    });
}

pub fn kill_a_rank_with_calls_of_its_peers_queued() {
    kill_in_each_round(3, 3, |crew, victim, round| {
        for rank in crew.others(victim) {
            crew.puppets[rank].tell(&Command::Device(DeviceCalls::burst(varied(round), 10)));
        }
        sleep(Duration::from_millis(50));
    });
}

/// Whoever is noticed first is named; the poison holds, whoever dies later.
pub fn kill_two_ranks_of_four() {
    let mut crew = Crew::start(4);
    for round in 0..2 {
        let victims = [round, 3 - round];
        crew.join_device(LONG, Choice::Auto);
        crew.tell(&endless(varied(round)));
        sleep(Duration::from_millis(60));
        let killed = victims.map(|victim| crew.puppets[victim].signal(Signal::KILL))[1];
        for rank in (0..4).filter(|rank| !victims.contains(rank)) {
            let (at, failed) = crew.hear_failure(rank);
            let Told::Died { rank: named } = failed.told else {
                panic!("{}", failed.message)
            };
            assert!(victims.contains(&named), "{}", failed.message);
            assert!(at.saturating_sub(killed) < NOTICE);
            crew.is_poisoned(rank, &failed, &work(round));
        }
        for victim in victims {
            crew.puppets[victim] = Puppet::start();
        }
    }
}

/// The memory of a dead process is gone, that of the others stays as long as a late kernel may write there.
pub fn kill_a_rank_whose_memory_was_shared_by_ipc() {
    if driver::is_real() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lanesum-faults-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let machine = Config::new().without_vmm().write(&folder).unwrap();
    let mut crew = Crew::start(0);
    crew.puppets.extend((0..3).map(|_| Puppet::start_on(Some(&machine))));
    for round in 0..ROUNDS {
        let victim = round % 3;
        crew.join_device(LONG, CHOICES[round % 2]);
        crew.tell(&endless(varied(round)));
        sleep(Duration::from_micros(40_000 + 1700 * round as u64));
        kill(&mut crew, victim, round);
        crew.puppets[victim] = Puppet::start_on(Some(&machine));
    }
    crew.join_device(LONG, Choice::Auto);
    crew.agree(&one(PLAIN));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a forked child inherits must not keep its parent alive in the eyes of the peers.
pub fn kill_a_rank_whose_forked_child_lives_on() {
    let strays = RefCell::new(Vec::new());
    kill_in_each_round(3, 3, |crew, victim, round| {
        crew.puppets[victim].tell(&Command::Fork { stay: true });
        let reply = crew.puppets[victim].hear();
        let Did::Forked { pid, verdict } = reply.did else {
            panic!("{reply:?}")
        };
        strays.borrow_mut().push(pid);
        assert_eq!(verdict, 0, "the forked child's attempts went otherwise: {verdict:08b}");
        crew.tell(&endless(varied(round)));
        sleep(Duration::from_millis(40));
    });
    for pid in strays.into_inner() {
        // It lives on until its sleep ends, or this.
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
}
