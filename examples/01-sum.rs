//! One call that sums a tensor over the ranks that a launcher started:
//!
//!     cargo build --release -p lanesum --examples
//!     cargo run --release -- launch -n 4 -- target/release/examples/01-sum

use std::process::ExitCode;

use lanesum::{AllReduce, Communicator, bf16};

fn run() -> Result<(), lanesum::Error> {
    let communicator = Communicator::from_env()?;
    let rank = communicator.rank().index() as f32;

    // 3 tokens x hidden 7168: what one layer of a verify step sums.
    let mut hidden = vec![bf16::from_f32(rank + 1.0); 3 * 7168];
    let issued = communicator.all_reduce(AllReduce::in_place(&mut hidden))?;

    let ranks = communicator.world().get() as f32;
    assert!(hidden.iter().all(|sum| sum.to_f32() == ranks * (ranks + 1.0) / 2.0));
    if let Some(receipt) = issued.receipt() {
        println!(
            "{} elements by {} over {}",
            hidden.len(),
            receipt.algorithm(),
            receipt.path()
        );
    }
    communicator.close()
}

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    if let Some(hint) = error.hint() {
        eprintln!("hint: {hint}");
    }
    ExitCode::FAILURE
}
