//! How fast this machine combines buffers that are in its caches: one thread, each instruction set it has.
//!
//!     cargo run --release -p lanesum-host --example reduce_rate
//!
//! A rate counts the bytes of all sources and of the output. Each answer is compared with the scalar code's before it is
//! timed; that code is compared with the oracle in the tests. The fastest of many samples is shown: what the core can
//! do when nothing else takes it away.

use std::error::Error;
use std::time::Instant;

use lanesum_host::reduce::{Isa, Reducer};
use lanesum_plan::{Dtype, Operation, ReductionTree, WorldSize};

/// 3 tokens x 7168 in bf16, and a buffer that exceeds most second level caches.
const SIZES: [usize; 2] = [43_008, 1 << 20];
const WORLDS: [usize; 5] = [2, 3, 4, 8, 16];
const SAMPLES: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:<8} {:<5} {:>5} {:>9} {:>10} {:>8}",
        "isa", "dtype", "world", "bytes", "us", "GB/s"
    );
    for isa in Isa::available() {
        for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
            for world in WORLDS {
                for bytes in SIZES {
                    let micros = measure(isa, dtype, world, bytes)?;
                    let rate = ((world + 1) * bytes) as f64 / micros / 1000.0;
                    println!(
                        "{:<8} {dtype:<5} {world:>5} {bytes:>9} {micros:>10.2} {rate:>8.1}",
                        isa.name()
                    );
                }
            }
        }
    }
    Ok(())
}

/// Microseconds of one call, after its answer was found right.
fn measure(isa: Isa, dtype: Dtype, world: usize, bytes: usize) -> Result<f64, Box<dyn Error>> {
    let tree = ReductionTree::canonical(WorldSize::new(world)?);
    let inputs: Vec<Vec<u8>> = (0..world).map(|rank| finite(dtype, rank, bytes)).collect();
    let sources: Vec<*const u8> = inputs.iter().map(|input| input.as_ptr()).collect();
    let elements = bytes / dtype.size();
    let mut out = vec![0_u8; bytes];
    let mut expected = vec![0_u8; bytes];
    let reducer = Reducer::new(isa, &tree);
    let run = |reducer: &Reducer, out: &mut [u8]| {
        // SAFETY: one source a rank; each, like the output, holds `bytes` bytes and is a vector of its own.
        unsafe { reducer.reduce(Operation::Sum, dtype, &sources, out.as_mut_ptr(), elements) }
    };
    run(&Reducer::new(Isa::Scalar, &tree), &mut expected);
    run(&reducer, &mut out);
    if out != expected {
        return Err(format!(
            "{} differs from scalar: {dtype}, world {world}, {bytes} bytes",
            isa.name()
        )
        .into());
    }
    let calls = (200_000 / (world * elements)).max(1);
    let fastest = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                run(&reducer, std::hint::black_box(&mut out));
            }
            start.elapsed().as_secs_f64() * 1e6 / calls as f64
        })
        .fold(f64::INFINITY, f64::min);
    Ok(fastest)
}

/// Finite values of mixed signs around one.
fn finite(dtype: Dtype, rank: usize, bytes: usize) -> Vec<u8> {
    let mut state = rank as u64 * 2 + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    (0..bytes / dtype.size())
        .flat_map(|_| {
            let noise = next();
            match dtype {
                Dtype::F32 => ((noise & 0x80FF_FFFF) | 0x3F00_0000).to_le_bytes().to_vec(),
                Dtype::F16 => ((noise as u16 & 0x87FF) | 0x3800).to_le_bytes().to_vec(),
                Dtype::Bf16 => ((noise as u16 & 0x80FF) | 0x3F00).to_le_bytes().to_vec(),
            }
        })
        .collect()
}
