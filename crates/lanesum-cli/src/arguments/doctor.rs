//! What `lanesum doctor` takes.

use std::path::PathBuf;

use clap::Args;
use lanesum::EngineChoice;

use super::{RANKS, engines};

/// `lanesum doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// How many ranks to try [default: the GPUs, but at most 8, or, on the host, the CPUs that this process may use, but 2 to 8]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u8).range(RANKS))]
    pub ranks: Option<u8>,
    /// Sum on GPUs if all ranks can attach one, insist on the host, or insist on GPUs
    #[arg(long, default_value_t = EngineChoice::Auto, value_parser = engines())]
    pub engine: EngineChoice,
    /// Also write all of it, with the tree and a chart, as one HTML file to send to somebody
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// What stands below the options.
pub const EXAMPLES: &str = "\
Examples:
  lanesum doctor
  lanesum doctor --json
  lanesum doctor --report box.html
  lanesum doctor --ranks 4 --engine cuda

Ranks are started as processes, join, and say what a sum of bf16 would run, length by length, and why.
They make such sums and check them, on GPUs up to 1 MiB; in the host's memory they also time them, and
the largest median of a rank is told. `lanesum bench` measures GPUs, `lanesum selftest` checks all.
Where there are GPUs, their management library (NVML) shows them, their links, and what
CUDA_VISIBLE_DEVICES leaves of them; a link at rest is slow and no remark.
It takes about a second, and ends within two minutes whatever hangs.
Exit code: 0 if all is fine, 1 if it works with remarks, 2 if there is something to mend or for bad
arguments, 128 + the number of a signal.";
