//! What `lanesum bench` takes.

use std::path::PathBuf;

use clap::Args;
use lanesum::EngineChoice;
use lanesum_plan::{AlgorithmChoice, Dtype, PathChoice, WORLD_MAX};

use super::{Mode, algorithms, dtypes, engines, paths};
use crate::bench::{gpu, host};

/// `lanesum bench`
#[derive(Debug, Args)]
pub struct Bench {
    /// How many ranks, or several numbers of them [default: the GPUs or, on the host, the CPUs that this process may use, but 2 to 8]
    #[arg(long, short = 'n', value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(2..=WORLD_MAX as i64))]
    pub ranks: Vec<u8>,
    /// Bytes that each rank brings to a sum, such as 8KiB or 43008 [default: on the host 1KiB,8KiB,42KiB,256KiB,1MiB,16MiB; on GPUs
    /// 8KiB,14KiB,42KiB,128KiB,256KiB,1MiB]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = size)]
    pub sizes: Vec<u64>,
    /// Type of an element; on the host several too [default: f32; on GPUs bf16]
    #[arg(long, value_name = "DTYPE,...", value_delimiter = ',', value_parser = dtypes())]
    pub dtype: Vec<Dtype>,
    /// Which engine to time: GPUs if there are any, the host, or GPUs
    #[arg(long, default_value_t = EngineChoice::Auto, value_parser = engines())]
    pub engine: EngineChoice,
    /// Let the plan decide, or insist on one algorithm
    #[arg(long, default_value_t = AlgorithmChoice::Auto, value_parser = algorithms())]
    pub algorithm: AlgorithmChoice,
    /// On GPUs: peer access where it works and pinned host memory where not, or insist on one of the two
    #[arg(long, default_value_t = PathChoice::Auto, value_parser = paths())]
    pub path: PathChoice,
    /// How calls are made; both ways if neither is named.
    #[command(flatten)]
    pub mode: Mode,
    /// Other people's all-reduces: all that are found, none, or those named: on the host of openmpi, openmpi_ucx, mpich, impi, oneccl,
    /// gloo; on GPUs of flashinfer_pcie_ipc, flashinfer_pcie_ipc_tuned, flashinfer_vllm, flashinfer_trtllm, torch_symm_mem, nccl
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto", value_parser = peers)]
    pub peers: PeerChoice,
    /// The Python that has PyTorch: the peers of GPUs, and gloo
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub python: PathBuf,
    /// On the host: where peers are looked for before PATH, as `cargo xtask peers` installs them [default: target/peers]
    #[arg(long, value_name = "DIR")]
    pub peers_dir: Option<PathBuf>,
    /// Bound of every wait [default: LANESUM_DEADLINE_MS, else the library's]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub deadline_ms: Option<u64>,
    /// Write JSON lines, an object each, instead of tables; each says its kind
    #[arg(long)]
    pub json: bool,
    /// Also write everything into this file, as one JSON document with command, machine and commit, as soon as it is known
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Also draw sizes against microseconds into this file, a line for each engine
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// On the host: how often each size of each engine has its turn [default: 9]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: Option<u32>,
    /// On GPUs: timed replays of each graph [default: 100, or fewer where that would take minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replays: Option<u32>,
    /// On GPUs: calls of a graph, each with an output of its own [default: 122, or fewer where that would take minutes or 128 MiB]; on the
    /// host: timed calls of a turn [default: as many as take a tenth of a second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub calls: Option<u32>,
    /// The commit that is measured, where git cannot tell.
    #[arg(long, hide = true)]
    pub commit: Option<String>,
}

/// What stands below the options.
pub const EXAMPLES: &str = "\
Examples:
  lanesum bench --engine host --plot host.svg
  lanesum bench --engine host --ranks 2,4 --dtype f32,bf16 --peers impi,mpich,openmpi
  lanesum bench --engine cuda --ranks 2,4,8
  lanesum bench --engine cuda --graph --sizes 8KiB,43008 --peers none
  lanesum bench --engine cuda --peers flashinfer_vllm,torch_symm_mem --python ./venv/bin/python3
  lanesum bench --engine cuda --json --record gpu.json

On the host, calls in place and back to back are timed one by one, and the largest of the ranks' medians counts; lanesum from private and from
shared buffers.
All engines of a run take turns, round after round, each rank on a CPU of its own if there are enough.
Cores of a rented machine move: the flag round trip between those of ranks 0 and 1 is measured around every turn, and only rounds
are put together and compared in which they were all near each other (below 250 ns) or all far.
The others are moved or, with round trips above 700 ns or interrupted ones, busy.
Every element of a sum is compared before and after each turn, on every rank. A peer that is wrong, hangs or dies costs its own rows.
MPI libraries are looked for in the folder of --peers-dir, then in PATH; the program that times them is compiled for each.
Variables that tune them (OMPI_MCA_*, I_MPI_*, UCX_* and the like) do not reach them.

On GPUs, graphs and eager calls are both timed unless one is named; floors and guards are timed in graphs.
The result of every call is compared before and after it is timed: bit for bit with a plain reference; a peer's with sums in double precision.
A time is the device's for one replay of a graph of 122 calls, on the slowest rank, divided by its calls; all ranks begin together.
The floor is one word to each peer and one from each, measured in the same run.
Where a size would take minutes, less is timed, and a warning says so first. As a rule ranks share a GPU without CUDA MPS then.

With --json each line is an object of a `kind`:
  row      our sums; on the host also those of peers, named by `peer`
  peer     on GPUs: other people's
  guard    on GPUs: ours without some
  floor    on GPUs: what none beats
  missing  what was not timed, and why
  error    the last line of a run that fails
Lines come as soon as they are known, rows of the host when all rounds of a number of ranks are through.
So does the record, which says \"complete\": true only in the end.

Exit code: 0 if all of our results were right, whatever peers did; 2 for bad arguments;
1 if a result was wrong, a rank was lost or there is no GPU for --engine cuda; 128 + the number of a signal.";

/// Which peers to time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerChoice {
    /// All that are there.
    Auto,
    /// None.
    None,
    /// These, and a word on each that is not there.
    Named(Vec<&'static str>),
}

/// Of every peer.
fn names() -> impl Iterator<Item = &'static str> {
    host::peers::NAMES.into_iter().chain(gpu::peers::NAMES)
}

fn peers(text: &str) -> Result<PeerChoice, String> {
    let known = |word: &str| {
        let name = names().find(|name| *name == word);
        name.ok_or_else(|| {
            format!(
                "{word:?} is no peer; there are auto, none, on the host {}, and on GPUs {}",
                host::peers::NAMES.join(", "),
                gpu::peers::NAMES.join(", ")
            )
        })
    };
    match text {
        "auto" => Ok(PeerChoice::Auto),
        "none" => Ok(PeerChoice::None),
        list => list
            .split(',')
            .map(known)
            .collect::<Result<_, _>>()
            .map(PeerChoice::Named),
    }
}

const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// `43008`, `42KiB`, `1MiB`
pub(super) fn size(text: &str) -> Result<u64, String> {
    let unit = SIZE_UNITS
        .into_iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1));
    let size = number
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(bytes));
    match size {
        Some(size) if size > 0 => Ok(size),
        Some(_) | None => Err("a size is a whole number of bytes above 0, such as 43008, 8KiB or 1MiB".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn bench(words: &[&str]) -> Result<Bench, clap::Error> {
        let command = Arguments::try_parse_from([&["lanesum", "bench"], words].concat())?.command;
        let Command::Bench(bench) = command else {
            panic!("another subcommand")
        };
        Ok(bench)
    }

    #[test]
    fn the_help_names_every_peer() {
        let mut command = <Arguments as clap::CommandFactory>::command();
        let bench = command.find_subcommand_mut("bench").expect("is there");
        let help = bench.render_long_help().to_string();
        let words: Vec<&str> = help.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        for name in names() {
            assert!(words.contains(&name), "{name}: {help}");
        }
    }

    #[test]
    fn a_bench_takes_lists_of_ranks_sizes_and_peers() {
        let parsed = bench(&[]).expect("needs nothing");
        assert!(
            parsed.sizes.is_empty() && parsed.dtype.is_empty(),
            "each bench has its own"
        );
        assert_eq!(
            (parsed.peers, parsed.mode.named(), parsed.calls),
            (PeerChoice::Auto, None, None)
        );
        let words = [
            "--ranks=2,4,8",
            "--sizes=8KiB,43008,1MiB,6 B",
            "--peers=flashinfer_vllm,nccl",
            "--dtype=f32,bf16",
            "--eager",
        ];
        let parsed = bench(&words).expect("makes sense");
        assert_eq!(parsed.ranks, [2, 4, 8]);
        assert_eq!(parsed.sizes, [8192, 43_008, 1 << 20, 6]);
        assert_eq!(parsed.dtype, [Dtype::F32, Dtype::Bf16]);
        assert_eq!(parsed.peers, PeerChoice::Named(vec!["flashinfer_vllm", "nccl"]));
        assert_eq!(parsed.mode.named(), Some("--eager"));
        for words in [
            "--ranks=1",
            "--ranks=2,17",
            "--sizes=0",
            "--sizes=8kb",
            "--sizes=99999999999GiB",
            "--sizes=",
            "--peers=mpi",
            "--peers=nccl,",
            "--replays=0",
            "--rounds=0",
        ] {
            assert!(bench(&[words]).is_err(), "{words}");
        }
        assert!(bench(&["--graph", "--eager"]).is_err());
    }
}
