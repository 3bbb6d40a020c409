//! Ranks as threads of one process, maximum instead of sum, labels, and what the communicator tells:
//!
//!     cargo run --release -p lanesum --example 02-threads

use lanesum::{AllReduce, Buffers, Communicator, Dtype, Elements, Operation, Request};

const WORLD: usize = 3;

fn rank(index: usize, name: &str) -> Result<f32, lanesum::Error> {
    let communicator = Communicator::builder(index, WORLD, name).join()?;
    let losses = [index as f32, -1.0, 0.5];
    let mut worst = [0.0; 3];
    // Equal labels prove that all ranks mean the same call, also where sizes alone would not tell.
    let call = AllReduce::out_of_place(&losses, &mut worst)
        .operation(Operation::Max)
        .label(1);
    let _receipt = communicator.all_reduce(call)?;
    if index == 0 {
        let request = Request {
            operation: Operation::Sum,
            dtype: Dtype::Bf16,
            elements: Elements::new(21_504),
            buffers: Buffers::Private,
            label: None,
        };
        println!("{}", communicator.explain(&request));
        println!("{:#?}", communicator.counters());
    }
    communicator.close()?;
    Ok(worst[0])
}

fn main() {
    let name = format!("threads-{}", std::process::id());
    std::thread::scope(|scope| {
        for index in 0..WORLD {
            let name = &name;
            scope.spawn(move || match rank(index, name) {
                Ok(worst) => assert_eq!(worst, (WORLD - 1) as f32),
                Err(error) => eprintln!("rank {index}: {error}"),
            });
        }
    });
}
