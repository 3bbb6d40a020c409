//! Buffers that peers read in place, and a second communicator to overlap with the first:
//!
//!     cargo build --release -p lanesum --examples
//!     cargo run --release -- launch -n 2 -- target/release/examples/03-shared

use std::process::ExitCode;

use lanesum::{AllReduce, Communicator};

fn run() -> Result<(), lanesum::Error> {
    let communicator = Communicator::from_env()?;
    let channel = communicator.channel()?;
    let ranks = communicator.world().get() as f32;

    // No copy into staging: the engine's activations live where the peers can read them.
    let mut activations = communicator.allocate_shared::<f32>(4096)?;
    activations.fill(1.0);
    let _receipt = communicator.all_reduce(AllReduce::shared(&mut activations))?;
    assert!(activations.iter().all(|&sum| sum == ranks));

    // Another thread may use the channel at the same time.
    let overlapped = std::thread::spawn(move || {
        let mut logits = vec![0.5f32; 1000];
        let outcome = channel.all_reduce(AllReduce::in_place(&mut logits));
        outcome.map(|_receipt| logits[999])
    });
    // A decode step sums fewer tokens than the buffer holds.
    let _receipt = communicator.all_reduce(AllReduce::shared(&mut activations).first(1024))?;
    assert_eq!(activations[1023], ranks * ranks);
    assert_eq!(activations[1024], ranks);
    if let Ok(sum) = overlapped.join() {
        assert_eq!(sum?, 0.5 * ranks);
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
