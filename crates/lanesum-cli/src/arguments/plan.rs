//! What `lanesum plan` takes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lanesum_plan::{Dtype, PcieLink, PlanError, WORLD_MAX};

use super::bench::size;
use super::dtypes;
use crate::plan::asked::Word;

/// `lanesum plan`
#[derive(Debug, Args)]
pub struct Plan {
    /// A file with what a tool printed, or - for the standard input; may be given several times. What each holds is told from its content
    #[arg(long, value_name = "FILE|-", visible_aliases = ["p2p", "bandwidth", "lspci"], required_unless_present = "preset", conflicts_with = "preset")]
    pub topology: Vec<String>,
    /// A common box instead; `lanesum presets` names them
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The GPUs of ranks 0, 1, ..., by the numbers of the input [default: all, or the best --ranks of them]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32))]
    pub gpus: Vec<u32>,
    /// How many ranks [default: the GPUs]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u8).range(1..=WORLD_MAX as i64), conflicts_with = "gpus")]
    pub ranks: Option<u8>,
    /// The links of all GPUs, whatever the input tells; matrices tell nothing
    #[arg(long, value_name = "genGxW", value_parser = pcie)]
    pub pcie: Option<PcieLink>,
    /// Bytes that each rank brings to a sum, such as 8KiB or 43008 [default: those of --tokens and --hidden]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bytes: Option<u64>,
    /// Tokens of a verify step
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=65_536), conflicts_with = "bytes")]
    pub tokens: u32,
    /// Elements of a token
    #[arg(long, value_name = "N", default_value_t = 7168, value_parser = clap::value_parser!(u32).range(1..=1_048_576), conflicts_with = "bytes")]
    pub hidden: u32,
    /// Type of an element
    #[arg(long, default_value_t = Dtype::Bf16, value_parser = dtypes())]
    pub dtype: Dtype,
    /// What is not left to the plan: exact hands nothing to another library, fastest does where that is faster; least_memory; avoid_peer; or
    /// a path or an algorithm to insist on. Several stand with commas between them
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', default_value = "exact", value_parser = words())]
    pub policy: Vec<Word>,
    /// Also say what each length from 1 KiB to 64 MiB would run, and by how much it is ahead
    #[arg(long)]
    pub sweep: bool,
    /// Also write all of it, with the tree and a chart, as one HTML file to send to somebody
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `lanesum presets`
#[derive(Debug, Args)]
pub struct Presets {
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What stands below the options.
pub const EXAMPLES: &str = "\
Examples:
  nvidia-smi topo -m | lanesum plan --topology -
  lanesum plan --topology topo.txt --p2p p2p.txt --pcie gen4x16
  lanesum plan --topology topo.txt --ranks 4 --bytes 43008 --sweep
  lanesum plan --topology topo.txt --p2p p2p.txt --report box.html
  lanesum plan --preset pro6000x8-epyc --policy fastest --sweep
  lanesum plan --preset pro6000x8-switches --gpus 0,1,2,3 --json

No GPU is needed, and nothing is asked of this machine. Read are `nvidia-smi topo -m` and -mp, `nvidia-smi topo -p2p w`, `nvidia-smi -L`
and -q, `lspci -vvv` and -tv, and what p2pBandwidthLatencyTest prints; a text that is none of them, or is cut off, is refused with line
and column. Several must be of one machine, with all its GPUs.
With fewer ranks than GPUs, the plan takes those that are predicted to be the fastest at this length.
A dump does not tell whether bytes arrive, how fast links are, or what kernels cost: what is assumed is listed.
Peer access goes first where it works, as in the library, also where host memory is predicted to be faster; not where measurements show that
it is staged or redirected. Kernels serve up to 8 ranks: more sum in the host's memory, unless a path or an algorithm of GPUs is named.
Exit code: 0 with a plan, 1 where no algorithm may run or the plan could not be written, 2 where the input was refused.";

/// `gen5x16`
fn pcie(text: &str) -> Result<PcieLink, String> {
    let refused = |error: PlanError| format!("{error}; {}", error.hint().unwrap_or_default());
    text.parse().map_err(refused)
}

/// What can be asked of a plan.
fn words() -> impl TypedValueParser<Value = Word> {
    let names = Word::all().into_iter().map(Word::name);
    PossibleValuesParser::new(names).try_map(|name| {
        let mut all = Word::all().into_iter();
        all.find(|word| word.name() == name).ok_or("there is no such word")
    })
}
