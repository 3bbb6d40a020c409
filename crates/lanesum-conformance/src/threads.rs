//! Ranks as threads of this process.
//!
//! A thread can't be killed: one that hangs is left behind and its group is reported as hung.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use crate::carrier::{Carry, Job, Message, Options, Report, drive, serve};
use crate::case::Case;
use crate::verdict::{Carrier, Failure, Outcome, Summary};

struct Threads;

/// Runs the cases, ranks being threads, and calls `observe` with each outcome as it is known.
pub fn run(cases: &[Case], options: &Options, observe: &mut dyn FnMut(&Outcome)) -> Summary {
    drive(&Threads, cases, options, observe)
}

impl Carry for Threads {
    const CARRIER: Carrier = Carrier::Threads;
    type Group = ();

    fn start(&self, jobs: Vec<Job>, to: &Sender<Message>) -> Result<(), Failure> {
        for job in jobs {
            let to = to.clone();
            // The handle is let go: the last message tells that the thread has nothing more to do.
            thread::Builder::new()
                .name(format!("rank {}", job.rank))
                .spawn(move || run_rank_thread(&job, &to))
                .map_err(|error| Failure::Join {
                    error: format!("no thread for a rank: {error}"),
                })?;
        }
        Ok(())
    }

    fn stop(&self, (): (), _grace: Duration) {}
}

fn run_rank_thread(job: &Job, to: &Sender<Message>) {
    // A send fails only when the driver has given the group up.
    let mut report = |report| drop(to.send((job.rank, report)));
    let caught = catch_unwind(AssertUnwindSafe(|| serve(job, &mut report)));
    if caught.is_err() {
        let status = "its thread panicked".to_owned();
        report(Report::Ended {
            failure: Some(Failure::Crashed { status }),
        });
    }
}
