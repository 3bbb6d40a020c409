//! Rank processes on strings: the side of the test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command as Program, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use lanesum_conformance::Choice;
use lanesum_standin::StandIn;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::puppet::{Command, Did, Failed, PUPPET, Reply, Where};
use super::{clock, paths};

/// After this long without a reply something hangs, and the test fails.
const HARD_LIMIT: Duration = Duration::from_secs(20);

/// One rank process. It is killed when it is dropped.
pub struct Puppet {
    child: Child,
    strings: ChildStdin,
    replies: Receiver<Reply>,
}

impl Puppet {
    pub fn start() -> Puppet {
        Puppet::start_on(None)
    }

    /// On a machine of its own, where one is given.
    pub fn start_on(machine: Option<&StandIn>) -> Puppet {
        let mut program = Program::new(std::env::current_exe().unwrap());
        if let Some(machine) = machine {
            machine.apply(&mut program);
        }
        let mut child = program
            .arg(PUPPET)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, replies) = channel();
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for reply in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if to.send(reply).is_err() {
                    return;
                }
            }
        });
        Puppet {
            strings: child.stdin.take().unwrap(),
            child,
            replies,
        }
    }

    pub fn tell(&mut self, command: &Command) {
        writeln!(self.strings, "{}", serde_json::to_string(command).unwrap()).unwrap();
    }

    pub fn hear(&self) -> Reply {
        self.replies.recv_timeout(HARD_LIMIT).expect("a rank hangs, or crashed")
    }

    /// Sends a signal and tells when.
    pub fn signal(&self, signal: Signal) -> Duration {
        let at = clock::now();
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        at
    }

    /// Waits until the process has ended, and tells when.
    pub fn await_end(&self) -> Duration {
        let which = WaitId::Pid(Pid::from_child(&self.child));
        let status = waitid(which, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(status.is_some());
        clock::now()
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// All ranks of a communicator, each a process.
pub struct Crew {
    pub puppets: Vec<Puppet>,
    communicators: u32,
}

impl Crew {
    pub fn start(world: usize) -> Crew {
        Crew {
            puppets: (0..world).map(|_| Puppet::start()).collect(),
            communicators: 0,
        }
    }

    pub fn world(&self) -> usize {
        self.puppets.len()
    }

    /// All make a new communicator for host memory, whatever became of the last.
    pub fn join(&mut self, deadline: Duration, choice: Choice) {
        let all: Vec<usize> = (0..self.world()).collect();
        self.join_some(&all, deadline, choice, Where::Host);
    }

    /// All make a new communicator for GPU memory too.
    pub fn join_device(&mut self, deadline: Duration, choice: Choice) {
        let all: Vec<usize> = (0..self.world()).collect();
        self.join_some(&all, deadline, choice, Where::Device);
    }

    /// These make a new communicator, as ranks in this order.
    pub fn join_some(&mut self, members: &[usize], deadline: Duration, choice: Choice, memory: Where) {
        self.communicators += 1;
        let first = Pid::from_child(&self.puppets[members[0]].child).as_raw_nonzero();
        let name = format!("crew-{}-{first}-{}", std::process::id(), self.communicators);
        for (rank, member) in members.iter().enumerate() {
            self.puppets[*member].tell(&Command::Join {
                name: name.clone(),
                rank,
                world: members.len(),
                deadline_ms: deadline.as_millis() as u64,
                choice,
                path: paths::chosen(),
                memory,
            });
        }
        for member in members {
            let reply = self.puppets[*member].hear();
            assert!(matches!(reply.did, Did::Well), "{reply:?}");
        }
    }

    /// Tells all the same.
    pub fn tell(&mut self, command: &Command) {
        self.puppets.iter_mut().for_each(|puppet| puppet.tell(command));
    }

    /// Tells all the same and hears that it went well.
    pub fn agree(&mut self, command: &Command) {
        self.tell(command);
        for (rank, puppet) in self.puppets.iter().enumerate() {
            let reply = puppet.hear();
            assert!(matches!(reply.did, Did::Well), "rank {rank}, {command:?}: {reply:?}");
        }
    }

    /// All ranks but one.
    pub fn others(&self, than: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.world()).filter(move |rank| *rank != than)
    }

    /// Hears of a rank that its call failed, with the output spoilt.
    pub fn hear_failure(&self, rank: usize) -> (Duration, Failed) {
        let reply = self.puppets[rank].hear();
        let Did::Failed(failed) = reply.did else {
            panic!("rank {rank} did not fail: {reply:?}")
        };
        assert_ne!(
            failed.all_nan,
            Some(false),
            "rank {rank} kept a part of its output: {}",
            failed.message
        );
        assert!(failed.hint.is_some(), "no hint with {}", failed.message);
        (reply.at, failed)
    }

    /// Checks that a rank refuses work after a fault, names the same ranks as before, and spoils its output.
    pub fn is_poisoned(&mut self, rank: usize, by: &Failed, calls: &[Command]) {
        for call in calls {
            self.puppets[rank].tell(call);
            let (_, failed) = self.hear_failure(rank);
            assert!(
                failed.poisoned,
                "rank {rank} did not refuse {call:?}: {}",
                failed.message
            );
            assert_eq!((&failed.told, &failed.failed_ranks), (&by.told, &by.failed_ranks));
        }
    }
}
