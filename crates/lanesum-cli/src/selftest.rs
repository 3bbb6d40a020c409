//! `lanesum selftest`: the conformance cases on this machine, with ranks as processes and as threads.
//!
//! The cases and their judge are the library's own test suite (`lanesum-conformance`); here it is only started and its
//! outcomes are told.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lanesum_conformance::processes::{self, Program};
use lanesum_conformance::{Budget, Case, Options, Outcome, Summary, cases_at, threads};
use lanesum_plan::WorldSize;
use serde_json::{Value, json};

use crate::arguments::Selftest;
use crate::errors::{CliError, say};
use crate::progress::Progress;
use crate::spawn::end_on_signals;

/// The hidden subcommand that is a rank.
const RANK: &str = "selftest-rank";
/// World sizes to test: none, a pair, an odd one, one that fits no power of two, a full machine.
const WORLDS: [usize; 5] = [1, 2, 3, 5, 8];
/// Long for any call of the list, short enough for somebody who waits for the result.
const PATIENCE: Options = Options {
    deadline: Duration::from_secs(10),
    patience: Duration::from_secs(25),
};

/// Runs the cases and reports.
pub fn run(arguments: &Selftest) -> Result<(), CliError> {
    end_on_signals(arguments.json)?;
    let start = Instant::now();
    let (most, cases) = match &arguments.case {
        Some(text) => {
            let case = read_case(text)?;
            (case.setting.world.get(), vec![case])
        }
        None => {
            let most = arguments.ranks.map_or(8, usize::from);
            (most, cases_at(Budget::Quick, &worlds_up_to(most)))
        }
    };
    let program = Program::this(RANK).map_err(|source| CliError::System {
        what: "find the path of this program".into(),
        source,
    })?;
    let mut telling = Telling::new(2 * cases.len() as u64, arguments.json);
    let mut lost = None;
    let mut observe = |outcome: &Outcome| {
        // The first lost reader is told at the end: the suite goes on whatever its observer does.
        if let Err(error) = telling.note(outcome) {
            lost.get_or_insert(error);
        }
    };
    let summary =
        processes::run(&program, &cases, &PATIENCE, &mut observe) + threads::run(&cases, &PATIENCE, &mut observe);
    if let Some(error) = lost {
        return Err(error);
    }
    telling.conclude(most, &cases, summary, start.elapsed())
}

fn read_case(text: &str) -> Result<Case, CliError> {
    Case::from_json(text).map_err(|error| CliError::Usage {
        cause: format!("--case: {error}"),
        hint: "copy the JSON of a case from what `lanesum selftest` said of it, in single quotes".into(),
    })
}

/// One rank of the cases with processes; what to do comes by its standard input.
pub fn run_rank() -> ExitCode {
    match processes::serve_rank() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = "this subcommand is started by `lanesum selftest`".into();
            CliError::Run {
                cause: error.to_string(),
                hint: Some(hint),
                reported: false,
            }
            .print();
            ExitCode::FAILURE
        }
    }
}

fn worlds_up_to(most: usize) -> Vec<WorldSize> {
    let smaller = WORLDS.into_iter().filter(|&world| world < most);
    smaller
        .chain([most])
        .filter_map(|world| WorldSize::new(world).ok())
        .collect()
}

/// What is told while and after the cases run.
struct Telling {
    progress: Progress,
    done: u64,
    failures: Vec<Value>,
    as_json: bool,
}

impl Telling {
    fn new(total: u64, as_json: bool) -> Self {
        Self {
            progress: Progress::new("cases", total),
            done: 0,
            failures: Vec::new(),
            as_json,
        }
    }

    fn note(&mut self, outcome: &Outcome) -> Result<(), CliError> {
        self.done += 1;
        self.progress.at(self.done);
        if outcome.passed() {
            return Ok(());
        }
        self.failures.push(serde_json::to_value(outcome)?);
        if self.as_json {
            return Ok(());
        }
        self.progress.clear();
        say(&format!("{outcome}\n"))
    }

    fn conclude(mut self, most: usize, cases: &[Case], summary: Summary, time: Duration) -> Result<(), CliError> {
        self.progress.clear();
        let failed = summary.failed > 0;
        let cause = format!("{} of {} cases failed", summary.failed, summary.passed + summary.failed);
        let hint =
            "please report it with this output and the CPU's model; `lanesum selftest --case JSON` runs a case again";
        if self.as_json {
            let mut object = json!({
                "ranks": most,
                "cases": cases.len(),
                "carriers": ["processes", "threads"],
                "passed": summary.passed,
                "failed": summary.failed,
                "seconds": time.as_secs_f64(),
                "stand_in": false,
                "failures": self.failures,
            });
            if failed {
                object["error"] = json!(cause);
                object["hint"] = json!(hint);
            }
            say(&format!("{}\n", serde_json::to_string_pretty(&object)?))?;
        } else {
            say(&format!(
                "{} case{} at up to {most} ranks, each with processes and with threads, in {:.1} s\n{summary}\n",
                cases.len(),
                if cases.len() == 1 { "" } else { "s" },
                time.as_secs_f64(),
            ))?;
        }
        if !failed {
            return Ok(());
        }
        Err(CliError::Run {
            cause,
            hint: Some(hint.into()),
            reported: self.as_json,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asked_world_is_always_tested() {
        let worlds = |most| worlds_up_to(most).iter().map(|world| world.get()).collect::<Vec<_>>();
        assert_eq!(worlds(1), [1]);
        assert_eq!(worlds(4), [1, 2, 3, 4]);
        assert_eq!(worlds(8), [1, 2, 3, 5, 8]);
        assert_eq!(worlds(16), [1, 2, 3, 5, 8, 16]);
    }
}
