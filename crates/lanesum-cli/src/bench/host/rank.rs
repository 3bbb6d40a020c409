//! lanesum as an engine of the bench: one of its ranks, a process of its own that `lanesum launch` started as
//! `lanesum bench-host-rank`.
//!
//! Same loop and same pipes as benches/engines/host/mpi_all_reduce.c, which says what goes over them: change all together.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::DerefMut;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use lanesum::{AlgorithmName, AllReduce, Builder, Communicator, Element, EngineChoice, Issued, Operation, bf16, f16};
use lanesum_plan::{AlgorithmChoice, Buffers, Bytes, Dtype};
use serde::{Deserialize, Serialize};

use super::said::{Said, Timed};
use crate::arguments::HostRank;
use crate::bench::statistics::{in_tenths, quantiles};
use crate::cores;
use crate::ranks::speech::microseconds;

/// Where private buffers begin, as those of the other engines.
const ALIGNMENT: usize = 64;

/// What our ranks are told besides what all engines are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Who chooses the algorithm.
    pub algorithm: AlgorithmChoice,
    /// Bytes of the largest size.
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("this subcommand is started by others, not typed: {0}")]
    Assignment(#[from] serde_json::Error),
    #[error("cannot find the number of this rank: {0}")]
    Identity(#[from] lanesum::environment::EnvironmentError),
    #[error("cannot stay on its CPU: {0}")]
    Pin(std::io::Error),
    #[error("cannot read its orders from {}: {source}", .path.display())]
    Orders { path: PathBuf, source: std::io::Error },
    #[error("cannot read the order {0:?}")]
    Order(String),
    #[error("element {index} is {found}, expected {expected}")]
    Wrong { index: usize, found: f32, expected: f32 },
    #[error("a call on host memory returned before it was complete")]
    Incomplete,
    #[error(transparent)]
    Lanesum(#[from] lanesum::Error),
}

/// Does what it is ordered, until there are no more orders.
pub fn run(arguments: &HostRank) -> ExitCode {
    let rank = lanesum::environment::identity(&|name| std::env::var_os(name)).map(|identity| identity.rank);
    let outcome = rank.map_err(Trouble::from).and_then(|rank| {
        work(arguments, rank).map_err(|trouble| {
            let reason = format!("rank {rank}: {trouble}");
            say(&match trouble {
                Trouble::Wrong { .. } => Said::Wrong { reason },
                Trouble::Assignment(_)
                | Trouble::Identity(_)
                | Trouble::Pin(_)
                | Trouble::Orders { .. }
                | Trouble::Order(_)
                | Trouble::Incomplete
                | Trouble::Lanesum(_) => Said::Failed { reason },
            });
            trouble
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            // The same for who looks at the log; without a stderr nobody does.
            writeln!(std::io::stderr(), "error: {trouble}").ok();
            ExitCode::FAILURE
        }
    }
}

/// Who cannot be told has gone, and ends this process too.
fn say(said: &Said) {
    if let Ok(line) = serde_json::to_string(said) {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{line}\n").as_bytes())
            .and_then(|()| out.flush())
            .ok();
    }
}

fn work(arguments: &HostRank, rank: usize) -> Result<(), Trouble> {
    let assignment: Assignment = serde_json::from_str(&arguments.assignment)?;
    // Before it joins: the plan is made for the CPUs that the ranks may use.
    let cpu = arguments.cpus.split(',').nth(rank).and_then(|cpu| cpu.parse().ok());
    cpu.map_or(Ok(()), cores::pin).map_err(Trouble::Pin)?;
    let path = arguments.folder.join(format!("rank-{rank}"));
    let unreadable = |source| Trouble::Orders {
        path: path.clone(),
        source,
    };
    let orders = BufReader::new(File::open(&path).map_err(unreadable)?);
    let communicator = Builder::from_env()?
        .engine(EngineChoice::Host)
        .algorithm(assignment.algorithm)
        .shared_capacity(Bytes::new(assignment.bytes.next_multiple_of(4096) + 8192))
        .join()?;
    if rank == 0 {
        say(&Said::Ready {
            ranks: communicator.world().get(),
            version: format!("lanesum {} ({})", env!("CARGO_PKG_VERSION"), communicator.isa()),
        });
    }
    for order in orders.lines() {
        obey(&communicator, &order.map_err(unreadable)?)?;
    }
    Ok(communicator.close()?)
}

/// One turn, as it is ordered.
struct Order {
    buffers: Buffers,
    elements: usize,
    warm_ups: usize,
    calls: usize,
    salt: u32,
}

fn obey(communicator: &Communicator, line: &str) -> Result<(), Trouble> {
    let (dtype, order) = read(line).ok_or_else(|| Trouble::Order(line.to_owned()))?;
    match dtype {
        Dtype::F32 => turn::<f32>(communicator, &order),
        Dtype::F16 => turn::<f16>(communicator, &order),
        Dtype::Bf16 => turn::<bf16>(communicator, &order),
    }
}

fn read(line: &str) -> Option<(Dtype, Order)> {
    let [dtype, buffers, elements, warm_ups, calls, salt] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let order = Order {
        buffers: buffers.parse().ok()?,
        elements: elements.parse().ok().filter(|&elements| elements > 0)?,
        warm_ups: warm_ups.parse().ok()?,
        calls: calls.parse().ok().filter(|&calls| calls > 0)?,
        salt: salt.parse().ok()?,
    };
    Some((dtype.parse().ok()?, order))
}

/// A type that holds whole numbers up to 256 exactly.
trait Whole: Element + Copy + Default {
    fn whole(number: u32) -> Self;
    fn value(self) -> f32;
}

impl Whole for f32 {
    fn whole(number: u32) -> Self {
        number as f32
    }

    fn value(self) -> f32 {
        self
    }
}

impl Whole for f16 {
    fn whole(number: u32) -> Self {
        f16::from_f32(number as f32)
    }

    fn value(self) -> f32 {
        self.to_f32()
    }
}

impl Whole for bf16 {
    fn whole(number: u32) -> Self {
        bf16::from_f32(number as f32)
    }

    fn value(self) -> f32 {
        self.to_f32()
    }
}

fn turn<T: Whole>(communicator: &Communicator, order: &Order) -> Result<(), Trouble> {
    let timed = match order.buffers {
        Buffers::Device => return Err(Trouble::Order("sums of memory of GPUs".into())),
        Buffers::Private => {
            let spare = ALIGNMENT / size_of::<T>();
            let mut memory = vec![T::default(); order.elements + spare];
            let begin = memory.as_ptr().align_offset(ALIGNMENT).min(spare);
            let mut buffer = &mut memory[begin..begin + order.elements];
            measured(communicator, order, &mut buffer, |buffer| AllReduce::in_place(buffer))?
        }
        Buffers::Shared => {
            let mut buffer = communicator.allocate_shared::<T>(order.elements)?;
            measured(communicator, order, &mut buffer, |buffer| AllReduce::shared(buffer))?
        }
    };
    if communicator.rank().index() == 0 {
        say(&Said::Point(timed));
    }
    Ok(())
}

/// The loop of every engine.
fn measured<T: Whole, B: DerefMut<Target = [T]>>(
    communicator: &Communicator,
    order: &Order,
    buffer: &mut B,
    call: impl for<'a> Fn(&'a mut B) -> AllReduce<'a, T>,
) -> Result<Timed, Trouble> {
    let sum = |buffer: &mut B| completed(&communicator.all_reduce(call(buffer))?);
    let world = communicator.world().get() as u32;
    let check = |buffer: &mut B, salt: u32| {
        let mine = communicator.rank().index() as u32;
        let numbers = buffer.iter_mut().zip(0..);
        numbers.for_each(|(element, index)| *element = T::whole(number(mine, index, salt)));
        let algorithm = sum(buffer)?;
        for (index, element) in (0..).zip(buffer.iter()) {
            let expected: u32 = (0..world).map(|rank| number(rank, index, salt)).sum();
            let (found, expected) = (element.value(), expected as f32);
            if found != expected {
                return Err(Trouble::Wrong {
                    index: index as usize,
                    found,
                    expected,
                });
            }
        }
        Ok(algorithm)
    };
    let algorithm = check(buffer, order.salt.wrapping_mul(2))?;
    buffer.fill(T::default());
    for _ in 0..order.warm_ups {
        sum(buffer)?;
    }
    completed(&communicator.barrier()?)?;
    let mut times = Vec::with_capacity(order.calls);
    for _ in 0..order.calls {
        let started = Instant::now();
        sum(buffer)?;
        times.push(started.elapsed());
    }
    check(buffer, order.salt.wrapping_mul(2).wrapping_add(1))?;
    let own = quantiles(times.into_iter().map(microseconds).collect());
    let mut slowest = [own.p50 as f32, own.p99 as f32];
    let slowest_of_all = AllReduce::in_place(&mut slowest).operation(Operation::Max);
    completed(&communicator.all_reduce(slowest_of_all)?)?;
    Ok(Timed {
        p50: in_tenths(slowest[0].into()),
        p99: in_tenths(slowest[1].into()),
        algorithm: Some(algorithm.to_string()),
    })
}

/// Only a complete call may be timed.
fn completed(issued: &Issued) -> Result<AlgorithmName, Trouble> {
    match issued {
        Issued::Done(receipt) => Ok(receipt.algorithm()),
        Issued::Enqueued(_) | Issued::Captured(_) => Err(Trouble::Incomplete),
    }
}

/// A whole number below 16: sums of sixteen ranks are exact in every type and in every order.
fn number(rank: u32, index: u32, salt: u32) -> u32 {
    let mixed = index ^ rank.wrapping_mul(0x9e37_79b9) ^ salt.wrapping_mul(0x85eb_ca6b);
    let mixed = mixed.wrapping_mul(0x2c1b_3c6d);
    (mixed ^ (mixed >> 15)).wrapping_mul(0x297a_2d39) >> 28
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_whole() {
        let (dtype, order) = read("bf16 shared 21504 10 1000 7").expect("is one");
        assert_eq!(
            (dtype, order.buffers, order.elements),
            (Dtype::Bf16, Buffers::Shared, 21_504)
        );
        assert_eq!((order.warm_ups, order.calls, order.salt), (10, 1000, 7));
        for wrong in [
            "",
            "f32 private 1 2 3",
            "f32 private 0 1 1 1",
            "f32 mine 1 1 1 1",
            "f32 private 1 1 0 1",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn sums_of_sixteen_ranks_are_exact_in_sixteen_bits() {
        let mut seen = [0; 16];
        for index in 0..10_000 {
            let sum: u32 = (0..16).map(|rank| number(rank, index, 3)).sum();
            assert_eq!(
                (bf16::whole(sum).value(), f16::whole(sum).value()),
                (sum as f32, sum as f32)
            );
            seen[number(1, index, 3) as usize] += 1;
        }
        assert!(seen.iter().all(|&often| (400..900).contains(&often)), "{seen:?}");
    }

    /// The values that the other engines' sources give.
    #[test]
    fn numbers_are_those_of_the_other_engines() {
        let numbers: Vec<u32> = (0..8).map(|index| number(1, index, 2)).collect();
        assert_eq!(numbers, [10, 12, 4, 3, 15, 4, 13, 1]);
    }
}
