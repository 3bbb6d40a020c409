//! `cargo xtask bench openmpi`: one all-reduce of f32 by sum, in place, private buffers, back to
//! back, rank r pinned to core r: lanesum against OpenMPI on the same work in the same run.
//!
//! Each engine is one small program (benches/engines) with the same loop: pin, check the answers,
//! warm up, time each call, report the slowest rank's median and 99th percentile. The engines
//! alternate for some rounds. A ratio compares medians over the rounds of one state of the machine.

mod engine;
mod report;

use clap::ValueEnum;
use serde::Serialize;

use super::record::{self, Findings, Record};
use super::round_trip::{self, Distance};
use crate::error::XtaskError;
use crate::workspace::Workspace;
use engine::{Engine, Engines, Work};

/// What to measure.
#[derive(clap::Args)]
pub struct Arguments {
    /// Ranks, rank r on core r
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=16))]
    ranks: u32,
    /// Bytes of each rank's buffer, several with commas
    #[arg(long, value_delimiter = ',', default_value = "43008")]
    bytes: Vec<u64>,
    /// How often each engine has its turn
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Timed calls in a turn [default: by size, so that a turn takes about half a second]
    #[arg(long)]
    calls: Option<u32>,
    /// Only these engines, with commas
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<Engine>,
}

impl Arguments {
    fn engines(&self) -> &[Engine] {
        match self.engines.is_empty() {
            true => Engine::value_variants(),
            false => &self.engines,
        }
    }

    fn work(&self, bytes: u64) -> Result<Work, XtaskError> {
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(XtaskError::Refused {
                option: "--bytes",
                value: bytes.to_string(),
                reason: "f32 elements take four bytes each, and there must be one",
            });
        }
        Ok(Work {
            ranks: self.ranks,
            bytes,
            calls: self.calls.unwrap_or_else(|| calls_for(bytes)),
        })
    }

    /// The command that measures this again.
    fn command(&self) -> String {
        let bytes: Vec<String> = self.bytes.iter().map(u64::to_string).collect();
        let engines: Vec<&str> = self.engines().iter().map(|engine| engine.name()).collect();
        let mut command = format!(
            "cargo xtask bench openmpi --ranks {} --bytes {} --rounds {} --engines {}",
            self.ranks,
            bytes.join(","),
            self.rounds,
            engines.join(","),
        );
        if let Some(calls) = self.calls {
            command.push_str(&format!(" --calls {calls}"));
        }
        command
    }
}

/// One measured point.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub round: u32,
    pub engine: Engine,
    pub ranks: u32,
    pub bytes: u64,
    pub distance: Distance,
    pub flag_round_trip_ns: [Option<f64>; 2],
    pub calls: u32,
    pub median_us: f64,
    pub p99_us: f64,
    /// Where the engine tells: OpenMPI does not.
    pub algorithm: Option<String>,
}

/// What a record of this bench holds.
#[derive(Serialize)]
struct Results {
    /// Every measured point.
    rows: Vec<Row>,
    /// What the points come to, for each size and state of the machine.
    summary: Vec<report::Line>,
}

/// Measures; `talk` prints the table and what is going on.
///
/// # Errors
/// An engine could not be built or started, gave a wrong sum, or was late.
pub fn run(workspace: &Workspace, arguments: &Arguments, talk: bool) -> Result<Record, XtaskError> {
    let works = arguments
        .bytes
        .iter()
        .map(|bytes| arguments.work(*bytes))
        .collect::<Result<Vec<Work>, XtaskError>>()?;
    let engines = Engines::build(workspace, arguments.engines())?;
    let mut rows = Vec::new();
    for work in &works {
        for round in 0..arguments.rounds {
            for engine in arguments.engines() {
                let row = point(&engines, *engine, *work, round)?;
                if talk {
                    eprintln!("{}", report::progress(&row, arguments.rounds));
                }
                rows.push(row);
            }
        }
    }
    let summary = report::summarise(&rows);
    if talk {
        print!("{}", report::table(&summary));
    }
    let findings = Findings {
        command: arguments.command(),
        settings: arguments.engines().iter().map(|e| e.settings()).collect(),
        results: record::results(&Results { rows, summary })?,
    };
    Record::new(workspace, findings)
}

fn point(engines: &Engines, engine: Engine, work: Work, round: u32) -> Result<Row, XtaskError> {
    let before = round_trip::measure()?;
    let answer = engines.run(engine, work)?;
    let after = round_trip::measure()?;
    Ok(Row {
        round,
        engine,
        ranks: work.ranks,
        bytes: work.bytes,
        distance: Distance::around(before, after),
        flag_round_trip_ns: [before, after],
        calls: work.calls,
        median_us: answer.median_us,
        p99_us: answer.p99_us,
        algorithm: answer.algorithm,
    })
}

/// About half a second a turn at some 10 GB/s, and never so few calls that a p99 says nothing.
fn calls_for(bytes: u64) -> u32 {
    let calls = 4_000_000_000 / bytes.max(1);
    u32::try_from(calls).unwrap_or(u32::MAX).clamp(200, 30_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_enough_calls_and_not_too_many() {
        assert_eq!(calls_for(4), 30_000);
        assert_eq!(calls_for(1 << 20), 3_814);
        assert_eq!(calls_for(1 << 30), 200);
    }
}
