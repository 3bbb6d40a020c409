//! `lanesum bench`: what a sum costs, beside other people's all-reduces in the same run.
//!
//! | module | role |
//! |---|---|
//! | `choice` | which of the two |
//! | `gpu` | sums on GPUs, beside their floors and guards |
//! | `host` | sums in the host's memory |
//! | `sizes` | how much a rank brings |
//! | `plot` | what `--plot` draws |
//! | `record` | what a document of `--record` says whatever was timed |
//! | `statistics` | the middle and the spread of times |

mod choice;
pub mod gpu;
pub mod host;
pub mod plot;
pub mod record;
mod sizes;
pub mod statistics;

use crate::arguments::Bench;
use crate::errors::CliError;
use choice::Side;

/// Times what was asked for, on GPUs if there are any, and reports.
pub fn run(arguments: &Bench) -> Result<(), CliError> {
    match choice::side_of(arguments)? {
        Side::Gpu => gpu::run(arguments),
        Side::Host { without } => host::run(arguments, without),
    }
}
