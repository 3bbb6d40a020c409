//! `lanesum doctor`: what this machine is, what was found on it, what a sum would run and why, and what to mend.
//!
//! | module | role |
//! |---|---|
//! | `rank` | what each rank process that is tried does |
//! | `copying` | how fast one core copies what another wrote |
//! | `findings` | what of all that is to be remarked or mended |
//! | `report` | what is said in the end |
//!
//! The plan that ranks made decides; here it is only told. Whatever may hang is asked in a process or a thread that is not waited for.

mod copying;
mod findings;
pub mod rank;
mod report;

use std::sync::mpsc::channel;
use std::time::Duration;

use lanesum::EngineChoice;

use crate::arguments::Doctor;
use crate::bench::host::round_trip;
use crate::cores;
use crate::engines::{self, Found};
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::ranks::{Crew, Outcome, worded};
use findings::Seen;
use rank::{Assignment, RankReport, SIZES};
use report::Report;

/// The bound of every wait of the ranks.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long the driver may take to say what it is.
const ANSWER: Duration = Duration::from_secs(10);

/// Examines the machine, and says so; returns the exit code.
pub fn run(arguments: &Doctor) -> Result<u8, CliError> {
    let usable = cores::usable().map_err(|source| CliError::System {
        what: "read which CPUs this process may use".into(),
        source,
    })?;
    let driver = ask(arguments.engine)?;
    let engine = match &driver {
        Driver::Answered(found) => found.clone(),
        Driver::Refused(cause) => Found::host(Some(cause.to_string())),
        Driver::Silent => Found::host(Some("its driver does not answer".to_owned())),
    };
    let devices = engine.driver.map(|driver| driver.devices);
    let ranks = match arguments.ranks {
        Some(ranks) => usize::from(ranks),
        None => devices.unwrap_or(usable.len()).clamp(2, 8),
    };
    engines::check_world(engine.choice, ranks)?;
    let seen = Seen {
        host: lanesum_probe::host(),
        cpus: usable.clone(),
        round_trip: round_trip::measure(&usable).ok().flatten(),
        copy_gb_per_s: copying::rate(&usable),
        driver,
        ranks,
        tried: tried(ranks, &engine, &usable)?,
    };
    let report = Report::of(&seen);
    if arguments.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        say(&report.tables())?;
    }
    Ok(report.verdict.exit_code())
}

/// What became of the question for a driver.
enum Driver {
    /// There is one, or none is wanted, or none is needed.
    Answered(Found),
    /// Nothing but a GPU would do, and there is none.
    Refused(lanesum::CudaError),
    /// It was not heard of in time.
    Silent,
}

/// Asks for a driver, which may hang, in a thread that is left behind then.
fn ask(choice: EngineChoice) -> Result<Driver, CliError> {
    let (sender, answer) = channel();
    let asked = std::thread::Builder::new().spawn(move || sender.send(engines::look(choice)).ok());
    asked.map_err(|source| CliError::System {
        what: "start a thread".into(),
        source,
    })?;
    match answer.recv_timeout(ANSWER) {
        Ok(Ok(found)) => Ok(Driver::Answered(found)),
        Ok(Err(CliError::Cuda(error))) => Ok(Driver::Refused(error)),
        Ok(Err(error)) => Err(error),
        Err(_) => Ok(Driver::Silent),
    }
}

/// Lets so many ranks join, and say what they would do.
fn tried(ranks: usize, engine: &Found, usable: &[usize]) -> Result<Outcome<RankReport>, CliError> {
    let crew = Crew {
        subcommand: "doctor-rank",
        ranks,
        deadline: Some(DEADLINE),
    };
    let assignment = |rank| {
        worded(&Assignment {
            parent: std::process::id(),
            engine: engine.choice,
            cpu: usable.get(rank).copied().filter(|_| ranks <= usable.len()),
        })
    };
    crew.run(assignment, Progress::new("sizes", SIZES.len() as u64), |_, _| Ok(None))
}
