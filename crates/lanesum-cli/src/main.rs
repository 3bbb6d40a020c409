//! The lanesum command line: words in, words out. It starts rank processes, supervises them and reports; what is
//! summed, and how, is decided in the library.
#![deny(unsafe_code)]

mod arguments;
mod asked;
mod bench;
mod cores;
mod deadline;
mod doctor;
mod driver;
mod engines;
mod errors;
mod launch;
mod page;
mod plan;
mod progress;
mod ranks;
mod reduce;
mod selftest;
mod spawn;
mod verify_cycle;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use errors::{CliError, Reader, say};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => return answer_of_the_parser(&answer),
    };
    let outcome = match &arguments.command {
        Command::Doctor(doctor) => match doctor::run(doctor) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => {
                error.tell(arguments.command.reader());
                return ExitCode::from(doctor::exit_code(&error));
            }
        },
        Command::Plan(plan) => match plan::run(plan) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error),
        },
        Command::Presets(arguments) => plan::list(arguments),
        Command::VerifyCycle(arguments) => verify_cycle::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Selftest(arguments) => selftest::run(arguments),
        Command::Launch(arguments) => launch::run(arguments),
        Command::Reduce(arguments) => reduce::run(arguments),
        Command::BenchLaunch => bench_launch(),
        Command::ExecRank(arguments) => launch::exec_rank(arguments),
        Command::Rank(arguments) => return verify_cycle::rank::run(&arguments.assignment),
        Command::AskDriver(arguments) => return driver::answer(arguments.parent),
        Command::AskNvml(arguments) => return doctor::gpus::answer(arguments.parent),
        Command::DoctorRank(arguments) => return doctor::rank::run(&arguments.assignment),
        Command::ReduceRank(arguments) => return reduce::rank::run(&arguments.assignment),
        Command::BenchRank(arguments) => return bench::gpu::rank::run(&arguments.assignment),
        Command::BenchHostRank(arguments) => return bench::host::rank::run(arguments),
        Command::SelftestRank => return selftest::run_rank(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => end(&error, arguments.command.reader()),
    }
}

fn bench_launch() -> Result<(), CliError> {
    let failed = |error: lanesum::Error| CliError::Run {
        cause: error.to_string(),
        hint: error.hint(),
        reported: false,
    };
    let overhead = lanesum::bench::launch_overhead(0).map_err(failed)?;
    say(&format!("{}\n", serde_json::to_string(&overhead)?))
}

fn end(error: &CliError, reader: Reader) -> ExitCode {
    error.tell(reader);
    ExitCode::from(error.exit_code())
}

/// Help goes to stdout; a refusal to stderr, as cause and hint like every other error.
fn answer_of_the_parser(answer: &clap::Error) -> ExitCode {
    let text = answer.render().to_string();
    if !answer.use_stderr() {
        return match say(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => end(&error, Reader::People),
        };
    }
    let text = text.replace("For more information, try '", "hint: for more information, try '");
    // Without a stderr there is nobody left to tell.
    io::stderr().lock().write_all(text.as_bytes()).ok();
    ExitCode::from(2)
}
