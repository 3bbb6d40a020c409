//! What `lanesum reduce` takes.

use std::path::PathBuf;

use clap::Args;
use lanesum_plan::Operation;

use super::operations;

/// `lanesum reduce`
#[derive(Debug, Args)]
pub struct Reduce {
    /// The files to sum, 2 to 16
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the sum goes
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    pub force: bool,
    /// How the values of a place become one
    #[arg(long = "op", value_name = "OP", default_value_t = Operation::Sum, value_parser = operations())]
    pub operation: Operation,
    /// Bound of every wait, also for a file that is slow to read [default: LANESUM_DEADLINE_MS, else the library's]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub deadline_ms: Option<u64>,
    /// Write one JSON object instead of lines
    #[arg(long)]
    pub json: bool,
}

/// What stands below the options.
pub const EXAMPLES: &str = "\
Examples:
  lanesum reduce a.safetensors b.safetensors -o sum.safetensors
  lanesum reduce rank-*.safetensors -o sum.safetensors --force --json
  lanesum reduce a.safetensors b.safetensors --op max -o largest.safetensors

Tensors of the same name are summed, F32, F16 and BF16: in f32, in the order that the report prints,
and rounded once. All files have the same names, shapes and dtypes, in whatever order; else nothing
is written, and the first difference is told.
Files may be longer than memory: each rank, one a file, holds some MiB of its file at a time.

The sum has the first file's header, byte for byte: its order, offsets and __metadata__.
What other files have as __metadata__ may differ, and is not kept.
It is written to a file `.lanesum-*.part` beside the output and gets its name when all of it is on
disk. A run that fails or is interrupted removes that file; one that SIGKILL ends leaves it behind.
An input that changes meanwhile is an error.

GB/s are bytes read of all files, by the time of the whole run.
Exit code: 0 if the sum is there; 2 for bad arguments, such as an output that exists or is an input;
1 if the files cannot be summed or the run failed; 128 + the number of a signal.";
