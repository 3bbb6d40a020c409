//! `lanesum selftest`: the conformance cases on this machine, on the host and on GPUs, with ranks as processes and as threads.
//!
//! The cases and their judge are the library's own test suite (`lanesum-conformance`); here it is only started and its
//! outcomes are told.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lanesum::EngineChoice;
use lanesum_conformance::processes::{self, Program};
use lanesum_conformance::{Budget, Case, Options, Outcome, Summary, cases_at, device_cases_at, threads};
use lanesum_plan::{Engine, PathChoice, WorldSize};
use serde_json::{Value, json};

use crate::arguments::Selftest;
use crate::engines::{self, Found, STAND_IN};
use crate::errors::{CliError, Reader, say};
use crate::progress::Progress;
use crate::spawn::end_on_signals;
use paths::Paths;

mod paths;

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
    end_on_signals(if arguments.json {
        Reader::Document
    } else {
        Reader::People
    })?;
    let start = Instant::now();
    let selection = Selection::of(arguments)?;
    let program = Program::this(RANK).map_err(|source| CliError::System {
        what: "find the path of this program".into(),
        source,
    })?;
    let on_threads = selection.on_threads();
    let total = selection.count() + selection.host.len() + on_threads.len();
    let mut telling = Telling::new(total as u64, arguments.json);
    let mut lost = None;
    let mut observe = |outcome: &Outcome| {
        // The first lost reader is told at the end: the suite goes on whatever its observer does.
        if let Err(error) = telling.note(outcome) {
            lost.get_or_insert(error);
        }
    };
    let mut summary = Summary::default();
    for (as_processes, as_threads) in [(&selection.host, &selection.host), (&selection.device, &on_threads)] {
        summary = summary + processes::run(&program, as_processes, &PATIENCE, &mut observe);
        summary = summary + threads::run(as_threads, &PATIENCE, &mut observe);
    }
    if let Some(error) = lost {
        return Err(error);
    }
    telling.conclude(&selection, summary, start.elapsed())
}

/// The cases to run.
struct Selection {
    /// The largest world.
    most: usize,
    host: Vec<Case>,
    device: Vec<Case>,
    /// How many GPUs there are.
    devices: usize,
    /// Whether the driver is the tests' stand-in.
    stand_in: bool,
    /// Why GPUs are not tested, or not at all world sizes, though nobody insisted on the host.
    not_cuda: Option<String>,
    /// What the cases on GPUs take, as far as that is known before.
    paths: Paths,
}

impl Selection {
    fn of(arguments: &Selftest) -> Result<Self, CliError> {
        if let Some(text) = &arguments.case {
            return Self::alone(read_case(text)?);
        }
        let most = arguments.ranks.map_or(8, usize::from);
        engines::check_world(arguments.engine, most)?;
        let found = engines::look(engine_of(arguments)?)?;
        let worlds = worlds_up_to(most);
        let host = match arguments.engine {
            EngineChoice::Auto | EngineChoice::Host => cases_at(Budget::Quick, &worlds),
            EngineChoice::Cuda => vec![],
        };
        let device = match found.choice {
            EngineChoice::Host => vec![],
            EngineChoice::Cuda | EngineChoice::Auto => {
                device_cases_at(Budget::Quick, &worlds, paths::choices(arguments.path))
            }
        };
        let (device, paths, apart) = match arguments.path {
            PathChoice::Auto if !device.is_empty() => paths::usable(device, &found)?,
            PathChoice::Auto | PathChoice::Peer | PathChoice::HostStaged => {
                let paths = Paths::pinned(&device);
                (device, paths, None)
            }
        };
        Ok(Self {
            most,
            host,
            device,
            devices: found.driver.map_or(0, |driver| driver.devices),
            stand_in: found.stand_in(),
            not_cuda: found.without.or(apart),
            paths,
        })
    }

    fn alone(case: Case) -> Result<Self, CliError> {
        let (found, host, device): (Found, _, _) = match case.setting.engine {
            Engine::Host => (engines::look(EngineChoice::Host)?, vec![case], vec![]),
            Engine::Cuda => (engines::look(EngineChoice::Cuda)?, vec![], vec![case]),
        };
        Ok(Self {
            most: case.setting.world.get(),
            host,
            paths: Paths::pinned(&device),
            device,
            devices: found.driver.map_or(0, |driver| driver.devices),
            stand_in: found.stand_in(),
            not_cuda: None,
        })
    }

    fn count(&self) -> usize {
        self.host.len() + self.device.len()
    }

    /// The cases on GPUs that ranks run as threads too: those where each has a GPU to itself. Threads that share one share its context,
    /// in which freeing memory of one waits for kernels of the other.
    fn on_threads(&self) -> Vec<Case> {
        let apart = |case: &&Case| case.setting.world.get() <= self.devices;
        self.device.iter().filter(apart).copied().collect()
    }

    /// What was run, in words.
    fn told(&self, time: Duration) -> String {
        let mut text = String::new();
        if self.stand_in {
            text.push_str(&format!("{STAND_IN}\n"));
        }
        text.push_str(&format!(
            "{} case{} at up to {} ranks, each with processes and with threads, in {:.1} s\n",
            self.count(),
            if self.count() == 1 { "" } else { "s" },
            self.most,
            time.as_secs_f64(),
        ));
        let engines: Vec<String> = self.engines().iter().map(Engine::to_string).collect();
        text.push_str(&format!("engines: {}\n", engines.join(", ")));
        if !self.paths.paths.is_empty() {
            text.push_str(&format!("paths between GPUs: {}\n", self.paths));
        }
        if self.on_threads().len() < self.device.len() {
            text.push_str(&format!(
                "ranks share GPUs above {}: as processes only, since threads that share one may wait for each other\n",
                self.devices
            ));
        }
        if let Some(reason) = &self.not_cuda {
            text.push_str(&format!("not cuda: {reason}\n"));
        }
        text
    }

    /// The engines with cases.
    fn engines(&self) -> Vec<Engine> {
        let lists = [(Engine::Host, &self.host), (Engine::Cuda, &self.device)];
        let run = lists.into_iter().filter(|(_, cases)| !cases.is_empty());
        run.map(|(engine, _)| engine).collect()
    }
}

/// The engine that the other flags leave room for: who names a path insists on GPUs.
fn engine_of(arguments: &Selftest) -> Result<EngineChoice, CliError> {
    match (arguments.engine, arguments.path) {
        (choice, PathChoice::Auto) => Ok(choice),
        (EngineChoice::Auto | EngineChoice::Cuda, PathChoice::Peer | PathChoice::HostStaged) => Ok(EngineChoice::Cuda),
        (EngineChoice::Host, path @ (PathChoice::Peer | PathChoice::HostStaged)) => Err(CliError::Usage {
            cause: format!("--engine host asks for the host's memory, and --path {path} is a path between GPUs"),
            hint: "leave out one of the two".into(),
        }),
    }
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

    fn conclude(mut self, selection: &Selection, summary: Summary, time: Duration) -> Result<(), CliError> {
        self.progress.clear();
        let failed = summary.failed > 0;
        let cause = format!("{} of {} cases failed", summary.failed, summary.passed + summary.failed);
        let hint = "please report it with this output and the model of the CPU or GPU; `lanesum selftest --case JSON` runs a case again";
        if self.as_json {
            let mut object = json!({
                "ranks": selection.most,
                "cases": selection.count(),
                "engines": selection.engines(),
                "not_cuda": selection.not_cuda,
                "paths": selection.paths.paths,
                "other_path": selection.paths.other_path,
                "carriers": ["processes", "threads"],
                "device_cases_with_threads": selection.on_threads().len(),
                "passed": summary.passed,
                "failed": summary.failed,
                "seconds": time.as_secs_f64(),
                "stand_in": selection.stand_in,
                "failures": self.failures,
            });
            if failed {
                object["error"] = json!(cause);
                object["hint"] = json!(hint);
            }
            say(&format!("{}\n", serde_json::to_string_pretty(&object)?))?;
        } else {
            say(&format!("{}{summary}\n", selection.told(time)))?;
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
