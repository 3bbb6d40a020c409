//! `lanesum bench --engine host`: what a sum in the host's memory costs, beside other people's all-reduces.
//!
//! | module | role |
//! |---|---|
//! | `job` | what was asked for, checked |
//! | `peers` | who else is there, and how each is started |
//! | `folder`, `tool` | a place for what is written and compiled; programs that are waited for |
//! | `program`, `conversation` | how an engine is started, and its processes |
//! | `output`, `said` | what they write, and what of that is an answer |
//! | `rank` | what one of our ranks does |
//! | `turns` | whose turn it is, for how many calls |
//! | `round_trip` | where the cores were meanwhile |
//! | `row`, `table`, `picture`, `ledger` | what is said of it |
//!
//! Every engine's ranks are started once and stay, asleep while others have their turn. A turn is one size: check a sum, time calls
//! back to back, check another sum. Round after round each engine has a turn at each size, so that no change of the machine's pace
//! falls on one of them alone. The flag round trip between two cores is measured between any two turns; what moved meanwhile is
//! compared with nothing.

mod conversation;
mod folder;
mod job;
mod ledger;
mod output;
pub mod peers;
mod picture;
mod program;
pub mod rank;
pub mod round_trip;
mod row;
mod said;
mod table;
mod tool;
mod turns;

use crate::arguments::Bench;
use crate::errors::CliError;
use folder::Folder;
use job::Job;
use ledger::Ledger;
use peers::Peers;
use turns::Turns;

/// Runs the job, for each number of ranks, and reports.
pub fn run(arguments: &Bench, without: Option<String>) -> Result<(), CliError> {
    let job = Job::checked(arguments, without)?;
    let mut ledger = Ledger::open(&job)?;
    match all(&job, &mut ledger) {
        Ok(()) => ledger.complete(),
        Err(error) => {
            ledger.failed(&error)?;
            Err(error)
        }
    }
}

fn all(job: &Job, ledger: &mut Ledger<'_>) -> Result<(), CliError> {
    let folder = Folder::new()?;
    let peers = Peers::find(job, &folder)?;
    for &ranks in &job.ranks {
        ledger.begin(ranks);
        for (name, reason) in &peers.absent {
            ledger.lacks(name, None, reason)?;
        }
        let outcome = Turns::start(job, ranks, &folder, &peers, ledger).and_then(|mut turns| turns.all(ledger));
        // Also of a run that fails: what was measured was measured.
        ledger.tell()?;
        outcome?;
    }
    Ok(())
}
