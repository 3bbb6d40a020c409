//! A process that joins, makes a few calls, leaves, and says how far it came: for machines whose driver fails in some way.
#![allow(unsafe_code, reason = "launches a graph")]

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lanesum::cuda::{DeviceBuffer, Event, Stream};
use lanesum::{AllReduce, Communicator, EngineChoice, Error};
use lanesum_plan::{Path, PathChoice};
use lanesum_standin::StandIn;
use serde::{Deserialize, Serialize};

use super::{leaks, paths};

/// The argument that makes a test binary such a process; a [`Job`] follows.
pub const JOIN: &str = "--join";

/// After this long a process hangs.
const HARD_LIMIT: Duration = Duration::from_secs(20);
const ELEMENTS: usize = 3000;
/// How often the captured call is replayed.
pub const REPLAYS: usize = 2;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub rank: usize,
    pub world: usize,
    pub name: String,
    pub device: Option<usize>,
    /// Join for host memory where there is no GPU.
    pub auto: bool,
    pub path: PathChoice,
    pub calls: usize,
    /// All ranks are threads of the process.
    pub threads: bool,
    /// Calls of one block of one warp first, behind one another on one stream.
    pub short: Short,
}

/// Short calls in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Short {
    None,
    /// All of the communicator.
    Own,
    /// By turns of the communicator and of a channel of it.
    ByTurns,
}

/// How far it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Told {
    pub joined: bool,
    /// Calls on GPU memory that ended well, with the right result.
    pub calls: usize,
    /// Replays of a captured call that did.
    pub replays: usize,
    /// Whether the communicator has a GPU.
    pub on_device: bool,
    /// Why not, where it was left open.
    pub without: Option<String>,
    /// What the receipts of calls on GPU memory say.
    pub path: Option<Path>,
    /// Why it is not the other.
    pub other_path: Option<String>,
    pub error: Option<String>,
    pub hint: Option<String>,
    /// Counts of [`leaks::stand_in`] after the end; none where no driver is loaded.
    pub leaks: Option<[u64; 4]>,
}

/// The process's side.
pub fn serve(job: &str) {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let job: Job = serde_json::from_str(job).unwrap();
    let mut told = if job.threads {
        let ranks: Vec<_> = (0..job.world)
            .map(|rank| Job { rank, ..job.clone() })
            .map(|job| std::thread::spawn(move || tell(&job)))
            .collect();
        let all: Vec<Told> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        assert!(all.iter().all(|told| told.is_like(&all[0])), "{all:?}");
        all[0].clone()
    } else {
        tell(&job)
    };
    if lanesum::cuda::driver().is_ok() {
        told.leaks = Some(leaks::stand_in());
    }
    println!("{}", serde_json::to_string(&told).unwrap());
}

fn tell(job: &Job) -> Told {
    let mut told = Told {
        joined: false,
        calls: 0,
        replays: 0,
        on_device: false,
        without: None,
        path: None,
        other_path: None,
        error: None,
        hint: None,
        leaks: None,
    };
    if let Err(error) = play(job, &mut told) {
        told.error = Some(error.to_string());
        told.hint = error.hint();
    }
    told
}

impl Told {
    /// Whether another rank came as far, in the same way.
    fn is_like(&self, other: &Told) -> bool {
        (self.joined, self.calls, self.replays, self.path) == (other.joined, other.calls, other.replays, other.path)
            && (self.error.is_some(), &self.other_path) == (other.error.is_some(), &other.other_path)
    }
}

fn play(job: &Job, told: &mut Told) -> Result<(), Error> {
    let builder = Communicator::builder(job.rank, job.world, job.name.as_str())
        .deadline(Duration::from_secs(2))
        .setup_deadline(Duration::from_secs(2))
        .engine(if job.auto {
            EngineChoice::Auto
        } else {
            EngineChoice::Cuda
        })
        .path(job.path);
    let builder = match job.device {
        Some(ordinal) => builder.device(ordinal),
        None => builder,
    };
    let communicator = builder.join()?;
    told.joined = true;
    told.on_device = communicator.device().is_some();
    told.without = communicator.without_device().map(str::to_owned);
    told.other_path = paths::other(&communicator);
    let issued = communicator.barrier()?;
    assert!(issued.receipt().is_some());
    if told.on_device {
        match job.short {
            Short::None => {}
            Short::Own => short(&[&communicator])?,
            Short::ByTurns => {
                let channel = communicator.channel()?;
                short(&[&communicator, &channel])?;
                channel.close()?;
            }
        }
        call(&communicator, job.calls, told)?;
        replay(&communicator, told)?;
    } else {
        let mut buffer = [1.0_f32; 100];
        let issued = communicator.all_reduce(AllReduce::in_place(&mut buffer))?;
        assert!(issued.receipt().is_some() && buffer == [job.world as f32; 100]);
    }
    communicator.close()
}

fn short(turns: &[&Communicator]) -> Result<(), Error> {
    let device = turns[0].device().unwrap();
    let stream = Stream::new(device)?;
    let mut buffer = DeviceBuffer::<f32>::new(device, 9)?;
    buffer.copy_from(&[1.0; 9], &stream)?;
    for communicator in turns.iter().cycle().take(4) {
        let issued = communicator.all_reduce(AllReduce::device(&mut buffer, &stream))?;
        issued.receipt().unwrap().wait().map(|_| ())?;
    }
    Ok(())
}

/// On two streams by turns, so that one must wait for the other.
fn call(communicator: &Communicator, calls: usize, told: &mut Told) -> Result<(), Error> {
    let device = communicator.device().unwrap();
    let streams = [Stream::new(device)?, Stream::new(device)?];
    let mut buffer = DeviceBuffer::<f32>::new(device, ELEMENTS)?;
    let mut host = vec![0.0; ELEMENTS];
    for round in 0..calls {
        let stream = &streams[round % 2];
        let value = |i: usize, rank: usize| (i % 97 + rank + round) as f32;
        let input: Vec<f32> = (0..ELEMENTS).map(|i| value(i, communicator.rank().index())).collect();
        buffer.copy_from(&input, stream)?;
        let issued = communicator.all_reduce(AllReduce::device(&mut buffer, stream))?;
        let receipt = issued.receipt().unwrap();
        told.path = Some(receipt.path());
        receipt.wait().map(|_| ())?;
        buffer.copy_to(&mut host, stream)?;
        let world = communicator.world().get();
        let right = |i: usize| (0..world).map(|rank| value(i, rank)).sum::<f32>();
        assert!(
            (0..ELEMENTS).all(|i| host[i] == right(i)),
            "a wrong result without an error"
        );
        told.calls += 1;
    }
    Ok(())
}

/// A captured call, replayed with other inputs, and the time that it takes.
fn replay(communicator: &Communicator, told: &mut Told) -> Result<(), Error> {
    let device = communicator.device().unwrap();
    let stream = Stream::new(device)?;
    let (start, end) = (Event::new(device)?, Event::new(device)?);
    let mut buffer = DeviceBuffer::<f32>::new(device, ELEMENTS)?;
    let mut host = vec![0.0; ELEMENTS];
    let capture = stream.begin_capture()?;
    let issued = communicator.all_reduce(AllReduce::device(&mut buffer, &stream))?;
    assert!(issued.receipt().is_none(), "not captured: {issued:?}");
    let graph = capture.finish()?;
    let world = communicator.world().get();
    for round in 0..REPLAYS {
        let value = |i: usize, rank: usize| (i % 89 + rank + round) as f32;
        let input: Vec<f32> = (0..ELEMENTS).map(|i| value(i, communicator.rank().index())).collect();
        buffer.copy_from(&input, &stream)?;
        start.record(&stream)?;
        // SAFETY: the buffer exists until the driver is done with it: freeing it waits.
        unsafe { graph.launch(&stream)? };
        end.record(&stream)?;
        stream.synchronize(Duration::from_secs(5))?;
        communicator.check()?;
        buffer.copy_to(&mut host, &stream)?;
        let right = |i: usize| (0..world).map(|rank| value(i, rank)).sum::<f32>();
        assert!(
            (0..ELEMENTS).all(|i| host[i] == right(i)),
            "a wrong result of a replay without an error"
        );
        if round == 0 {
            // Only where peers still need this rank: nobody would hear of an error after the last call.
            assert!(end.elapsed_since(&start)? < Duration::from_secs(5));
        }
        told.replays += 1;
    }
    Ok(())
}

/// Kills its process when a test fails.
pub struct Joiner(Child);

impl Drop for Joiner {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The test's side.
pub fn start(job: &Job, machine: &StandIn) -> Joiner {
    start_with(job, machine.environment())
}

/// A process that finds `libcuda.so.1` in this folder, or not.
pub fn start_beside(job: &Job, folder: &std::path::Path) -> Joiner {
    start_with(job, [("LD_LIBRARY_PATH", folder.as_os_str().to_owned())])
}

/// A process with this in its environment.
pub fn start_with(job: &Job, environment: impl IntoIterator<Item = (&'static str, OsString)>) -> Joiner {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(JOIN).arg(serde_json::to_string(job).unwrap());
    command.envs(environment);
    Joiner(command.stdout(Stdio::piped()).spawn().unwrap())
}

impl Joiner {
    /// What it told. It must neither hang nor crash nor panic, and an error must say what to do.
    pub fn end(mut self, scene: &str) -> Told {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < HARD_LIMIT, "{scene}: hangs");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success(), "{scene}: {status}");
        let text = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        let told: Told = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap();
        assert_eq!(told.error.is_some(), told.hint.is_some(), "{scene}: no hint: {told:?}");
        told
    }
}
