//! A rank that does what it is told, line by line: the tests pull the strings.

use std::io::{BufRead, Write};
use std::time::Duration;

use lanesum::cuda::{DeviceBuffer, Stream};
use lanesum::{AllReduce, Communicator, Element, EngineChoice, Error, FaultKind, Issued, Refused, SharedBuffer};
use lanesum_conformance::{Choice, Sample};
use lanesum_plan::{Call, Dtype, Operation, PathChoice};
use serde::{Deserialize, Serialize};

use super::clock;
use super::device_calls::{self, DeviceCalls};
use super::fork::forked;
use super::paths;

/// The argument that makes a test binary a puppet.
pub const PUPPET: &str = "--puppet";

/// An all-reduce to make.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub dtype: Dtype,
    pub operation: Operation,
    pub elements: usize,
    pub shared: bool,
    pub label: Option<u64>,
}

/// Which memory a communicator is for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Where {
    Host,
    Device,
}

/// What a puppet is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    Join {
        name: String,
        rank: usize,
        world: usize,
        deadline_ms: u64,
        choice: Choice,
        path: PathChoice,
        memory: Where,
    },
    SetDeadline {
        ms: u64,
    },
    /// Calls on GPU memory.
    Device(DeviceCalls),
    Reduce(Shape),
    ReduceUntilError(Shape),
    Barrier,
    Split,
    /// `channel`.
    Channel,
    /// Forks a child that tries everything; with `stay` it lives on.
    Fork {
        stay: bool,
    },
    /// Drops the communicator.
    Leave,
    /// Drops the communicator because its thread panics.
    Panic,
}

/// What it did, and when that was done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply {
    pub at: Duration,
    pub did: Did,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Did {
    /// Without an error, and with the right result where there is one.
    Well,
    /// Without an error, but the result is wrong.
    Wrong,
    Failed(Failed),
    /// Any other error.
    Erred {
        message: String,
    },
    Forked {
        pid: i32,
        verdict: u8,
    },
}

/// A call that failed after it started, or was made after that.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failed {
    /// Whether an earlier call was to blame.
    pub poisoned: bool,
    pub told: Told,
    pub noticed_by: usize,
    pub failed_ranks: Vec<usize>,
    pub message: String,
    pub hint: Option<String>,
    /// Whether all of the output is NaN; `None` where there is no output.
    pub all_nan: Option<bool>,
}

/// What the error blames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Told {
    Died { rank: usize },
    Late { ranks: Vec<usize>, waited: Duration },
    Mismatch { sides: [(usize, Call); 2] },
    Departed { rank: usize },
    Panicked { rank: usize },
    Other { text: String },
}

/// Reads commands from standard input until its end, and answers each on standard output.
pub fn serve() {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let mut communicator = None;
    for line in std::io::stdin().lock().lines() {
        let command: Command = serde_json::from_str(&line.unwrap()).unwrap();
        let did = obey(&command, &mut communicator);
        let reply = Reply { at: clock::now(), did };
        writeln!(std::io::stdout().lock(), "{}", serde_json::to_string(&reply).unwrap()).unwrap();
    }
}

fn obey(command: &Command, slot: &mut Option<Communicator>) -> Did {
    if let Command::Join {
        name,
        rank,
        world,
        deadline_ms,
        choice,
        path,
        memory,
    } = command
    {
        let engine = match memory {
            Where::Host => EngineChoice::Host,
            Where::Device => EngineChoice::Cuda,
        };
        // A new communicator while the old one still exists: that must be possible after a fault.
        let joined = Communicator::builder(*rank, *world, name.as_str())
            .deadline(Duration::from_millis(*deadline_ms))
            .setup_deadline(Duration::from_secs(10))
            .algorithm(choice.policy())
            .engine(engine)
            .path(*path)
            .join();
        return match joined {
            Ok(new) => {
                paths::is_kept(&new, *path);
                *slot = Some(new);
                Did::Well
            }
            Err(error) => Did::Erred {
                message: error.to_string(),
            },
        };
    }
    if *command == Command::Leave {
        drop(slot.take());
        return Did::Well;
    }
    if *command == Command::Panic {
        let communicator = slot.take();
        let thread = std::thread::spawn(move || {
            let _held = communicator;
            // Without the panic hook, whose words nobody needs.
            std::panic::resume_unwind(Box::new("as told"));
        });
        assert!(thread.join().is_err());
        return Did::Well;
    }
    let communicator = slot.as_ref().expect("joined before");
    match command {
        Command::Join { .. } | Command::Leave | Command::Panic => Did::Well,
        Command::SetDeadline { ms } => done(communicator.set_deadline(Duration::from_millis(*ms))),
        Command::Reduce(shape) => reduce(communicator, shape, 1),
        Command::ReduceUntilError(shape) => reduce(communicator, shape, u64::MAX),
        Command::Device(calls) => device_calls::make(communicator, calls),
        Command::Barrier => done(communicator.barrier().map(drop)),
        Command::Split => done(communicator.split(Some(0), 0).map(drop)),
        Command::Channel => done(communicator.channel().map(drop)),
        Command::Fork { stay } => fork_and_try(slot, *stay),
    }
}

fn done(result: Result<(), Error>) -> Did {
    result.map_or_else(|error| failed(&error, None), |()| Did::Well)
}

fn reduce(communicator: &Communicator, shape: &Shape, times: u64) -> Did {
    match shape.dtype {
        Dtype::F32 => repeat::<f32>(communicator, shape, times),
        Dtype::F16 => repeat::<lanesum::f16>(communicator, shape, times),
        Dtype::Bf16 => repeat::<lanesum::bf16>(communicator, shape, times),
    }
}

/// Small whole numbers, exact in every dtype: element `i` of rank `r` is `i mod 7 + r`.
fn repeat<T: Sample>(communicator: &Communicator, shape: &Shape, times: u64) -> Did {
    let input: Vec<T> = input(communicator, shape);
    let mut private = input.clone();
    let mut shared = shape
        .shared
        .then(|| communicator.allocate_shared::<T>(shape.elements).unwrap());
    for _ in 0..times {
        let output: &mut [T] = shared.as_deref_mut().unwrap_or(&mut private);
        output.copy_from_slice(&input);
        let result = issue(communicator, shape, &mut private, shared.as_mut());
        let output: &[T] = shared.as_deref().unwrap_or(&private);
        match result {
            Err(error) => return failed(&error, Some(output.iter().all(|element| is_nan(*element)))),
            Ok(issued) => assert!(issued.receipt().is_some()),
        }
        if !is_right(communicator, shape, output) {
            return Did::Wrong;
        }
    }
    Did::Well
}

/// What a rank gives.
pub fn input<T: Sample>(communicator: &Communicator, shape: &Shape) -> Vec<T> {
    let rank = communicator.rank().index();
    (0..shape.elements).map(|i| whole::<T>(i % 7 + rank)).collect()
}

/// Whether that is what all get.
pub fn is_right<T: Sample>(communicator: &Communicator, shape: &Shape, output: &[T]) -> bool {
    let world = communicator.world().get();
    let right = |i: usize| match shape.operation {
        Operation::Sum => world * (i % 7) + world * (world - 1) / 2,
        Operation::Max => i % 7 + world - 1,
        Operation::Min => i % 7,
    };
    let mut elements = output.iter().enumerate();
    elements.all(|(i, element)| element.bits() == whole::<T>(right(i)).bits())
}

fn issue<T: Element>(
    communicator: &Communicator,
    shape: &Shape,
    private: &mut [T],
    shared: Option<&mut SharedBuffer<T>>,
) -> Result<Issued, Error> {
    let call = match shared {
        Some(buffer) => AllReduce::shared(buffer),
        None => AllReduce::in_place(private),
    };
    let call = call.operation(shape.operation);
    communicator.all_reduce(match shape.label {
        Some(label) => call.label(label),
        None => call,
    })
}

pub fn whole<T: Sample>(number: usize) -> T {
    let value = number as f32;
    T::of_bits(match T::DTYPE {
        Dtype::F32 => value.to_bits(),
        Dtype::F16 => u32::from(lanesum::f16::from_f32(value).to_bits()),
        Dtype::Bf16 => u32::from(lanesum::bf16::from_f32(value).to_bits()),
    })
}

pub fn is_nan<T: Sample>(element: T) -> bool {
    let magnitude = element.bits() & (u32::MAX >> (33 - 8 * T::DTYPE.size()));
    magnitude
        > match T::DTYPE {
            Dtype::F32 => 0x7F80_0000,
            Dtype::F16 => 0x7C00,
            Dtype::Bf16 => 0x7F80,
        }
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else there is, now or later, the test prints"
)]
pub fn failed(error: &Error, all_nan: Option<bool>) -> Did {
    let (poisoned, fault) = match error {
        Error::Fault(fault) => (false, fault),
        Error::Poisoned { first } => (true, first),
        other => {
            return Did::Erred {
                message: other.to_string(),
            };
        }
    };
    let told = match &fault.kind {
        FaultKind::Died { ranks } => Told::Died {
            rank: ranks.first().map_or(usize::MAX, |rank| rank.index()),
        },
        FaultKind::Late { ranks, waited, .. } => Told::Late {
            ranks: ranks.iter().map(|rank| rank.index()).collect(),
            waited: *waited,
        },
        FaultKind::Mismatch {
            rank,
            called,
            against,
            against_called,
        } => Told::Mismatch {
            sides: [(rank.index(), *called), (against.index(), *against_called)],
        },
        FaultKind::Departed { rank } => Told::Departed { rank: rank.index() },
        FaultKind::Panicked { rank } => Told::Panicked { rank: rank.index() },
        other => Told::Other {
            text: other.to_string(),
        },
    };
    Did::Failed(Failed {
        poisoned,
        told,
        noticed_by: fault.noticed_by.index(),
        failed_ranks: error.failed_ranks().iter().map(|rank| rank.index()).collect(),
        message: error.to_string(),
        hint: error.hint(),
        all_nan,
    })
}

/// Forks a child that tries to use what it inherited. Its verdict has a bit for each thing that went otherwise than it must.
fn fork_and_try(slot: &mut Option<Communicator>, stay: bool) -> Did {
    let shared = slot
        .as_ref()
        .expect("joined before")
        .allocate_shared::<f32>(100)
        .unwrap();
    let mut on_device = slot.as_ref().and_then(|communicator| {
        let device = communicator.device()?;
        Some((
            DeviceBuffer::<f32>::new(device, 100).unwrap(),
            Stream::new(device).unwrap(),
        ))
    });
    let attempt = || {
        let communicator = slot.take().expect("joined before");
        let mut buffer = vec![1.5f32; 100];
        let refused = |error: Option<Error>| matches!(error, Some(Error::Refused(Refused::Forked)));
        let well = [
            refused(communicator.all_reduce(AllReduce::in_place(&mut buffer)).err()),
            buffer.iter().all(|element| *element == 1.5),
            refused(communicator.barrier().err()),
            refused(communicator.allocate_shared::<f32>(1).err()),
            refused(communicator.split(Some(0), 0).err()),
            refused(communicator.set_deadline(Duration::from_secs(1)).err()),
            shared.is_empty(),
            on_device.as_mut().is_none_or(|(buffer, stream)| {
                refused(communicator.all_reduce(AllReduce::device(buffer, stream)).err())
            }),
            refused(communicator.close().err()),
        ];
        well.iter()
            .enumerate()
            .filter(|(_, well)| !**well)
            .map(|(bit, _)| 1 << bit)
            .sum()
    };
    let forked = forked(attempt, || {
        if stay {
            std::thread::sleep(Duration::from_secs(60));
        }
    });
    if !stay {
        let pid = rustix::process::Pid::from_raw(forked.pid);
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap();
    }
    Did::Forked {
        pid: forked.pid,
        verdict: forked.verdict,
    }
}
