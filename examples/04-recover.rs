//! What to do after a fault: the ranks that are left number themselves anew and join again. Here the ranks are
//! threads and one of them panics; a process that is killed is told the same way, as `FaultKind::Died`.
//!
//!     cargo run --release -p lanesum --example 04-recover

use std::time::Duration;

use lanesum::{AllReduce, Communicator, Error};

const WORLD: usize = 4;
const FAILING: usize = 2;

/// One rank: sums until a peer fails, then goes on with the others.
fn rank(index: usize, job: &str) -> Result<f32, Error> {
    let communicator = Communicator::builder(index, WORLD, job)
        .deadline(Duration::from_secs(5))
        .join()?;
    let mut values = [1.0f32; 1000];
    let _receipt = communicator.all_reduce(AllReduce::in_place(&mut values))?;
    assert!(index != FAILING, "this rank fails on purpose");

    let mut values = [1.0f32; 1000];
    let error = match communicator.all_reduce(AllReduce::in_place(&mut values)) {
        Ok(_) => return Ok(values[0]),
        Err(error) => error,
    };
    // Whatever was in the output is gone: nobody can take a part of a sum for the sum.
    assert!(values.iter().all(|value| value.is_nan()));
    let failed = error.failed_ranks();
    println!("rank {index}: {error}");
    drop(communicator);

    // All that are left agree on who failed, so they agree on the new numbers. A fresh name keeps them apart
    // from anybody who still waits under the old one.
    let left: Vec<usize> = (0..WORLD)
        .filter(|rank| failed.iter().all(|gone| gone.index() != *rank))
        .collect();
    let Some(new_index) = left.iter().position(|&rank| rank == index) else {
        return Err(error);
    };
    let smaller = Communicator::builder(new_index, left.len(), format!("{job}-again")).join()?;
    let mut values = [1.0f32; 1000];
    let _receipt = smaller.all_reduce(AllReduce::in_place(&mut values))?;
    smaller.close()?;
    Ok(values[0])
}

fn main() {
    let job = format!("recover-{}", std::process::id());
    std::thread::scope(|scope| {
        let job = &job;
        let ranks: Vec<_> = (0..WORLD).map(|index| scope.spawn(move || rank(index, job))).collect();
        for (index, rank) in ranks.into_iter().enumerate() {
            match rank.join() {
                Ok(Ok(sum)) => assert_eq!(sum, (WORLD - 1) as f32),
                Ok(Err(error)) => {
                    eprintln!("rank {index}: {error}");
                    std::process::exit(1);
                }
                Err(_panic) => assert_eq!(index, FAILING),
            }
        }
    });
    println!("{} ranks went on", WORLD - 1);
}
