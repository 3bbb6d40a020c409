//! `lanesum doctor`: what this machine is, what was found on it, what a sum would run and why, and what to mend.
//!
//! | module | role |
//! |---|---|
//! | `rank` | what each rank process that is tried does |
//! | `copying` | how fast one core copies what another wrote |
//! | `gpus` | what the GPUs' management library shows, and which of them ranks will see |
//! | `findings` | what of all that is to be remarked or mended |
//! | `report` | what is said in the end, and the page of `--report` |
//!
//! The plan that ranks made decides; here it is only told. This process never loads the driver, nor the management library.

mod copying;
mod findings;
pub mod gpus;
pub mod rank;
mod report;

use std::time::Duration;

use crate::arguments::Doctor;
use crate::bench::host::round_trip::{self, Regime, RoundTrip};
use crate::bench::record;
use crate::driver::Driver;
use crate::engines::{self, Found};
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::ranks::supervise::Failure;
use crate::ranks::{Crew, Outcome, worded};
use crate::{cores, deadline, page};
use findings::Seen;
use gpus::Asking;
use rank::{Assignment, RankReport, SIZES};
use report::Report;
pub use report::{Alternative, Gate, counted};

/// The bound of every wait of the ranks.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often the way between two CPUs is measured until nothing disturbs it.
const TRIES: usize = 3;

/// Examines the machine, and says so; returns the exit code.
pub fn run(arguments: &Doctor) -> Result<u8, CliError> {
    record::try_out(&[arguments.report.as_deref()])?;
    let usable = cores::usable().map_err(|source| CliError::System {
        what: "read which CPUs this process may use".into(),
        source,
    })?;
    let environment = environment();
    // Both at once: if one hangs so may the other.
    let asking = Asking::start(arguments.engine)?;
    let driver = Driver::ask(arguments.engine)?;
    let management = asking.told()?;
    let engine = driver.engine(arguments.engine);
    let ranks = match (arguments.ranks, engine.driver) {
        (Some(ranks), _) => usize::from(ranks),
        // As many as are sure to have one each.
        (None, Some(facts)) => facts.devices.clamp(1, 8),
        (None, None) => usable.len().clamp(2, 8),
    };
    engines::check_world(arguments.engine, ranks)?;
    let round_trip = undisturbed(&usable);
    let seen = Seen {
        host: lanesum_probe::host(),
        round_trip,
        copy_gb_per_s: copying::rate(&usable),
        environment,
        asked: arguments.engine,
        driver,
        visibility: management.visibility(),
        management,
        ranks,
        tried: tried(ranks, &engine, &usable)?,
        cpus: usable,
    };
    let report = Report::of(&seen);
    // What was found is said also where the file can't be written.
    let written = arguments
        .report
        .as_ref()
        .map(|file| record::write_whole(file, &page::html(&report::page::of(&report, &seen))));
    if arguments.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        say(&report.tables())?;
    }
    written.transpose()?;
    Ok(report.verdict.exit_code())
}

/// What an examination that could not be made ends with: something is to be mended, unless a signal or a reader that went away ended it.
pub fn exit_code(error: &CliError) -> u8 {
    match error.exit_code() {
        1 => findings::Verdict::Mend.exit_code(),
        code => code,
    }
}

/// What is wrong with the variables that ranks of this environment would read, if anything is.
fn environment() -> Option<(String, String)> {
    if let Err(error) = deadline::wanted(None) {
        return Some((error.to_string(), error.hint().unwrap_or_default()));
    }
    match lanesum::environment::identity(&|name| std::env::var_os(name)) {
        // Most shells are no ranks.
        Ok(_) | Err(lanesum::EnvironmentError::NoRank) => None,
        Err(error) => Some((error.to_string(), error.hint().unwrap_or("unset it").to_owned())),
    }
}

/// The way between the first two CPUs, as long as nothing else uses them; `None` where there is one only, or where they were never
/// left alone, or can't be pinned to.
fn undisturbed(cpus: &[usize]) -> Option<RoundTrip> {
    let mut measured = (0..TRIES).filter_map(|_| round_trip::measure(cpus).ok().flatten());
    measured.find(|trip| Regime::around(Some(*trip), Some(*trip)).compares())
}

/// Lets so many ranks join, and say what they would do. That they can't be started is a finding.
fn tried(ranks: usize, engine: &Found, usable: &[usize]) -> Result<Outcome<RankReport>, CliError> {
    let crew = Crew {
        subcommand: "doctor-rank",
        ranks,
        deadline: Some(DEADLINE),
        heeds_switch: false,
    };
    let assignment = |rank| {
        worded(&Assignment {
            parent: std::process::id(),
            engine: engine.choice,
            cpu: usable.get(rank).copied().filter(|_| ranks <= usable.len()),
        })
    };
    match crew.run(assignment, Progress::new("sizes", SIZES.len() as u64), |_, _| Ok(None)) {
        Err(error @ CliError::System { .. }) => Ok(Outcome::Failure(Failure {
            error: error.to_string(),
            hint: error.hint(),
            failed_ranks: vec![],
            noticed_ms: None,
            notices: vec![],
        })),
        outcome => outcome,
    }
}
