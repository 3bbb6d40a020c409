//! The command line as it is typed. What depends on several arguments is checked where a [job](crate::verify_cycle) is
//! made of them; everything else is checked here, so that the message names the flag.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, AlgorithmName, Buffers, Dtype, Operation, PathChoice, WORLD_MAX};

use crate::errors::Reader;
use crate::verify_cycle::speculation::KNOWN;
pub use bench::{Bench, PeerChoice};
pub use doctor::Doctor;
pub use plan::{Plan, Presets};
pub use reduce::Reduce;

mod bench;
mod doctor;
mod plan;
mod reduce;

/// Sums tensors over the processes of one host: check it, time it, sum files, start ranks
#[derive(Debug, Parser)]
#[command(name = "lanesum", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lanesum doctor                             what would a sum run here, and what is to mend?
  lanesum plan --topology topo.txt           what would it run there, by what nvidia-smi topo -m prints?
  lanesum verify-cycle                       the 122 sums of one speculative verify step, checked and timed
  lanesum selftest                           does everything work on this machine?
  lanesum bench                              what a sum costs, beside its peers; on GPUs if there are any
  lanesum reduce a.safetensors b.safetensors -o sum.safetensors
  lanesum launch -n 4 -- ./my-program --its-own-flags";

impl Command {
    /// What stands on stdout.
    pub fn reader(&self) -> Reader {
        let document = |json| if json { Reader::Document } else { Reader::People };
        match self {
            Self::VerifyCycle(arguments) => document(arguments.json),
            Self::Bench(arguments) if arguments.json => Reader::Lines,
            Self::Selftest(arguments) => document(arguments.json),
            Self::Reduce(arguments) => document(arguments.json),
            Self::Doctor(arguments) => document(arguments.json),
            Self::Plan(arguments) => document(arguments.json),
            Self::Presets(arguments) => document(arguments.json),
            Self::BenchLaunch => Reader::Document,
            Self::Bench(_)
            | Self::Launch(_)
            | Self::Rank(_)
            | Self::DoctorRank(_)
            | Self::AskDriver(_)
            | Self::AskNvml(_)
            | Self::BenchRank(_)
            | Self::ReduceRank(_)
            | Self::BenchHostRank(_)
            | Self::SelftestRank
            | Self::ExecRank(_) => Reader::People,
        }
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what this machine is, what a sum would run here and why, and what to mend
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(Doctor),
    /// Say what a sum would run on GPUs that are not at hand, from what their tools print
    #[command(after_help = plan::EXAMPLES)]
    Plan(Plan),
    /// Name common boxes that `plan` knows
    Presets(Presets),
    /// Run, check and time the all-reduces of one speculative verify step with real rank processes
    #[command(after_help = VERIFY_EXAMPLES)]
    VerifyCycle(VerifyCycle),
    /// Time sums on GPUs or in the host's memory, beside other people's all-reduces in the same run
    #[command(after_help = bench::EXAMPLES)]
    Bench(Bench),
    /// Run the conformance cases on this machine, in under a minute
    #[command(after_help = SELFTEST_EXAMPLES)]
    Selftest(Selftest),
    /// Sum the tensors of safetensors files into one, of any length, with a rank process a file
    #[command(after_help = reduce::EXAMPLES)]
    Reduce(Reduce),
    /// Start N ranks of any program, tell their output apart, end all when one fails
    #[command(after_help = LAUNCH_EXAMPLES)]
    Launch(Launch),
    /// One rank of a run of this program
    #[command(hide = true)]
    Rank(Assigned),
    /// Ask the GPU driver what it is
    #[command(hide = true)]
    AskDriver(Asking),
    /// Ask the GPUs' management library what it shows
    #[command(hide = true)]
    AskNvml(Asking),
    /// One rank that the doctor tries
    #[command(hide = true)]
    DoctorRank(Assigned),
    /// One rank of a bench
    #[command(hide = true)]
    BenchRank(Assigned),
    /// One rank of a sum of files
    #[command(hide = true)]
    ReduceRank(Assigned),
    /// One rank of a bench of the host
    #[command(hide = true)]
    BenchHostRank(HostRank),
    /// One rank of a conformance run
    #[command(hide = true)]
    SelftestRank,
    /// What enqueuing a call on GPU memory costs the host, beside a bare launch; as JSON
    #[command(hide = true)]
    BenchLaunch,
    /// Become the program of one launched rank
    #[command(hide = true)]
    ExecRank(ExecRank),
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  lanesum verify-cycle
  lanesum verify-cycle --ranks 8 --json
  lanesum verify-cycle --engine cuda --ranks 4 --graph
  lanesum verify-cycle --layers 80 --tokens 4 --hidden 8192 --dtype f16
  lanesum verify-cycle --compute-ms 6.2 --draft-ms 0.8 --accepted 2.1

Every result of every rank is compared bit for bit with a plain reference before anything is reported.
Exit code: 0 if all were right, 1 if not or if a rank was lost, 2 for bad arguments.";

const SELFTEST_EXAMPLES: &str = "\
Examples:
  lanesum selftest
  lanesum selftest --ranks 3 --json
  lanesum selftest --engine cuda
  lanesum selftest --engine cuda --path host_staged";

const LAUNCH_EXAMPLES: &str = "\
Examples:
  lanesum launch -n 4 -- ./my-program --its-own-flags
  lanesum launch -n 2 -- python3 train.py
  lanesum launch -n 3 -- sh -c 'echo I am rank $RANK of $WORLD_SIZE'

Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and LANESUM_RENDEZVOUS. Its lines appear behind `[rank] `.
Rank 0 reads the standard input unless that is a terminal; the others read nothing.
Exit code: that of the first rank that failed, or 128 + the number of the signal that ended it.

If the launcher itself is killed (SIGKILL), only its direct children die with it.
A script should therefore `exec` its program: what it starts otherwise would live on.
Background processes are killed when all ranks have ended, those that still hold the output 2 s later.";

const RANKS: std::ops::RangeInclusive<i64> = 1..=WORLD_MAX as i64;

/// `lanesum verify-cycle`
#[derive(Debug, Args)]
pub struct VerifyCycle {
    /// How many ranks [default: the GPUs or, on the host, the CPUs that this process may use, but 2 to 8]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u8).range(RANKS))]
    pub ranks: Option<u8>,
    /// Layers of the model; each has two sums
    #[arg(long, default_value_t = 61, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub layers: u32,
    /// Tokens in the verified batch
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub tokens: u64,
    /// Width of the model
    #[arg(long, default_value_t = 7168, value_parser = clap::value_parser!(u64).range(1..))]
    pub hidden: u64,
    /// Type of an element
    #[arg(long, default_value_t = Dtype::Bf16, value_parser = dtypes())]
    pub dtype: Dtype,
    /// How often the cycle is timed
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub cycles: u32,
    /// Sum from memory of the caller's own (with the engine cuda that of its GPU), or, on the host, from memory that the
    /// communicator shares
    #[arg(long, default_value_t = Buffers::Private, value_parser = buffers())]
    pub buffers: Buffers,
    /// Sum on GPUs if all ranks can attach one, insist on the host, or insist on GPUs
    #[arg(long, default_value_t = EngineChoice::Auto, value_parser = engines())]
    pub engine: EngineChoice,
    /// Let the plan decide, or insist on one algorithm
    #[arg(long, default_value_t = AlgorithmChoice::Auto, value_parser = algorithms())]
    pub algorithm: AlgorithmChoice,
    /// On GPUs: peer access where it works and pinned host memory where not, or insist on one of the two
    #[arg(long, default_value_t = PathChoice::Auto, value_parser = paths())]
    pub path: PathChoice,
    /// How calls on GPUs are made.
    #[command(flatten)]
    pub mode: Mode,
    /// Bound of every wait [default: LANESUM_DEADLINE_MS, else the library's]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub deadline_ms: Option<u64>,
    /// Leave each rank on whatever CPU the system likes
    #[arg(long)]
    pub no_pin: bool,
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// What the report on speculation assumes.
    #[command(flatten)]
    pub economy: Economy,
}

/// How calls on GPUs are made.
#[derive(Debug, Clone, Copy, Default, Args)]
#[group(multiple = false)]
pub struct Mode {
    /// On GPUs: replay the calls from a CUDA graph
    #[arg(long)]
    pub graph: bool,
    /// On GPUs: enqueue one call after the other
    #[arg(long)]
    pub eager: bool,
}

impl Mode {
    /// The flag that was given, if one was.
    pub fn named(self) -> Option<&'static str> {
        match (self.graph, self.eager) {
            (true, _) => Some("--graph"),
            (false, true) => Some("--eager"),
            (false, false) => None,
        }
    }
}

/// What the report on speculation assumes.
#[derive(Debug, Args)]
#[command(next_help_heading = "What speculation is judged by")]
pub struct Economy {
    /// Compute of one step of the model, without its sums
    #[arg(long, value_name = "MS", default_value_t = KNOWN.compute_ms, allow_negative_numbers = true, value_parser = at_least_zero)]
    pub compute_ms: f64,
    /// The draft model's share of a step
    #[arg(long, value_name = "MS", default_value_t = KNOWN.draft_ms, allow_negative_numbers = true, value_parser = at_least_zero)]
    pub draft_ms: f64,
    /// Tokens that a verify step yields on average
    #[arg(long, value_name = "TOKENS", default_value_t = KNOWN.accepted, allow_negative_numbers = true, value_parser = above_zero)]
    pub accepted: f64,
    /// One sum of a plain decoding step, in the known case
    #[arg(long, value_name = "US", default_value_t = KNOWN.plain_sum_us, allow_negative_numbers = true, value_parser = at_least_zero)]
    pub plain_sum_us: f64,
    /// One sum of a verify step, in the known case
    #[arg(long, value_name = "US", default_value_t = KNOWN.verify_sum_us, allow_negative_numbers = true, value_parser = at_least_zero)]
    pub verify_sum_us: f64,
}

/// `lanesum selftest`
#[derive(Debug, Args)]
pub struct Selftest {
    /// The largest number of ranks to test [default: 8]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u8).range(RANKS))]
    pub ranks: Option<u8>,
    /// Test the host and, if there are any, GPUs; or only one of them
    #[arg(long, default_value_t = EngineChoice::Auto, value_parser = engines())]
    pub engine: EngineChoice,
    /// On GPUs: peer access and pinned host memory, whichever of the two works; or insist on one of them
    #[arg(long, default_value_t = PathChoice::Auto, value_parser = paths())]
    pub path: PathChoice,
    /// Run only this case, as a failure printed it
    #[arg(long, value_name = "JSON", conflicts_with_all = ["ranks", "engine", "path"])]
    pub case: Option<String>,
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `lanesum launch`
#[derive(Debug, Args)]
pub struct Launch {
    /// How many ranks
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u8).range(RANKS))]
    pub ranks: u8,
    /// Bound of every wait of lanesum in the ranks [default: LANESUM_DEADLINE_MS, else the library's]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub deadline_ms: Option<u64>,
    /// The program of every rank and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<OsString>,
}

/// The work of one rank, in JSON.
#[derive(Debug, Args)]
pub struct Assigned {
    /// What this rank does.
    pub assignment: String,
}

/// `lanesum bench-host-rank`
#[derive(Debug, Args)]
pub struct HostRank {
    /// What this rank does, in JSON.
    pub assignment: String,
    /// Where the pipes of orders are.
    pub folder: PathBuf,
    /// The CPU of each rank, or `-`.
    #[arg(allow_hyphen_values = true)]
    pub cpus: String,
    /// The bound of an order, which ours keep by the deadline of their waits.
    pub seconds: u64,
}

/// `lanesum ask-driver` and `lanesum ask-nvml`
#[derive(Debug, Args)]
pub struct Asking {
    /// The process that wants to know.
    pub parent: u32,
}

/// `lanesum exec-rank`
#[derive(Debug, Args)]
pub struct ExecRank {
    /// The launcher.
    #[arg(long)]
    pub parent: u32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

fn algorithms() -> impl TypedValueParser<Value = AlgorithmChoice> {
    let words = std::iter::once("auto").chain(AlgorithmName::pinnable().map(AlgorithmName::name));
    PossibleValuesParser::new(words.collect::<Vec<_>>()).try_map(|word| word.parse::<AlgorithmChoice>())
}

fn paths() -> impl TypedValueParser<Value = PathChoice> {
    PossibleValuesParser::new(PathChoice::ALL.map(PathChoice::name)).try_map(|word| word.parse::<PathChoice>())
}

fn engines() -> impl TypedValueParser<Value = EngineChoice> {
    PossibleValuesParser::new(EngineChoice::ALL.map(|(name, _)| name)).try_map(|word| word.parse::<EngineChoice>())
}

fn dtypes() -> impl TypedValueParser<Value = Dtype> {
    PossibleValuesParser::new(Dtype::ALL.map(Dtype::name)).try_map(|word| word.parse::<Dtype>())
}

fn operations() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(Operation::ALL.map(Operation::name)).try_map(|word| word.parse::<Operation>())
}

fn buffers() -> impl TypedValueParser<Value = Buffers> {
    PossibleValuesParser::new(Buffers::HOST.map(Buffers::name)).try_map(|word| word.parse::<Buffers>())
}

/// A step of a quarter of an hour, or a million tokens, is no step.
const ABSURD: f64 = 1e6;
/// Neither is one this small, unless it is nothing at all.
const TINY: f64 = 1e-6;

fn at_least_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(0.0),
        Ok(value) if (TINY..=ABSURD).contains(&value) => Ok(value),
        Ok(_) => Err(format!("it has to be 0, or from {TINY} to {ABSURD}")),
        Err(_) => Err("a number is needed, such as 4.6".into()),
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    match at_least_zero(text)? {
        0.0 => Err("it has to be more than 0".into()),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_the_known_case() {
        let parsed = Arguments::try_parse_from(["lanesum", "verify-cycle"]).expect("needs nothing");
        let Command::VerifyCycle(arguments) = parsed.command else {
            panic!("another subcommand")
        };
        assert_eq!((arguments.layers, arguments.tokens, arguments.hidden), (61, 3, 7168));
        assert_eq!(
            (arguments.dtype, arguments.cycles, arguments.ranks),
            (Dtype::Bf16, 50, None)
        );
        assert_eq!(arguments.algorithm, AlgorithmChoice::Auto);
        assert_eq!(arguments.engine, EngineChoice::Auto);
    }

    #[test]
    fn launch_takes_the_flags_of_the_program_as_they_are() {
        for words in [
            &["lanesum", "launch", "-n", "2", "--", "prog", "-n", "--json"][..],
            &["lanesum", "launch", "-n", "2", "prog", "-n", "--json"][..],
        ] {
            let parsed = Arguments::try_parse_from(words).expect("is complete");
            let Command::Launch(launch) = parsed.command else {
                panic!("another subcommand")
            };
            assert_eq!(launch.ranks, 2);
            assert_eq!(launch.command, ["prog", "-n", "--json"]);
        }
    }

    #[test]
    fn senseless_numbers_are_refused() {
        for flag in [
            "--ranks=0",
            "--ranks=17",
            "--layers=0",
            "--tokens=0",
            "--hidden=0",
            "--cycles=0",
            "--dtype=fp8",
            "--compute-ms=-1",
            "--compute-ms=nan",
            "--accepted=0",
            "--draft-ms=inf",
            "--draft-ms=1e300",
            "--compute-ms=1e-300",
            "--accepted=1000001",
            "--plain-sum-us=-0.1",
            "--algorithm=alone",
            "--buffers=mine",
            "--buffers=device",
            "--engine=rocm",
            "--deadline-ms=0",
        ] {
            assert!(
                Arguments::try_parse_from(["lanesum", "verify-cycle", flag]).is_err(),
                "{flag}"
            );
        }
    }
}
