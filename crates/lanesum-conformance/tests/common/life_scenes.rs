//! What the ranks of `cuda_life.rs` do; each is a process that panics where something is wrong.

use std::time::{Duration, Instant};

use lanesum::cuda::{DeviceBuffer, Stream};
use lanesum::{AllReduce, Builder, Communicator, EngineChoice, Error, FaultKind, Receipt, Refused};
use lanesum_conformance::{Pattern, Sample, Tables};
use lanesum_plan::{Bytes, Operation, PathChoice, ReductionTree};

use super::{driver, leaks, paths};

/// A deadline that is not reached.
pub const LONG: Duration = Duration::from_secs(20);
pub const SHORT: Duration = Duration::from_millis(600);
const ELEMENTS: usize = 5000;

/// Who plays.
pub struct Place {
    pub rank: usize,
    pub world: usize,
    pub name: String,
    /// Between GPUs.
    pub path: PathChoice,
}

impl Place {
    pub fn builder(&self, suffix: &str) -> Builder {
        Communicator::builder(self.rank, self.world, format!("{}-{suffix}", self.name))
            .engine(EngineChoice::Cuda)
            .path(self.path)
            .deadline(LONG)
    }

    pub fn join(&self, suffix: &str) -> Communicator {
        self.builder(suffix).join().unwrap()
    }

    /// One call that is waited for.
    pub fn check(&self, communicator: &Communicator, stream: &Stream, round: usize) {
        paths::is_kept(communicator, self.path);
        let (mut buffer, receipt) = begin(communicator, stream, round);
        receipt.wait().map(|_| ()).unwrap();
        judge(communicator, stream, round, &mut buffer);
    }
}

pub fn stream_of(communicator: &Communicator) -> Stream {
    Stream::new(communicator.device().unwrap()).unwrap()
}

pub fn value(rank: usize, round: usize, i: usize) -> f32 {
    ((i + round) % 31 + rank) as f32
}

/// Enqueues a call with its input.
fn begin(communicator: &Communicator, stream: &Stream, round: usize) -> (DeviceBuffer<f32>, Receipt) {
    let rank = communicator.rank().index();
    let input: Vec<f32> = (0..ELEMENTS).map(|i| value(rank, round, i)).collect();
    let mut buffer = DeviceBuffer::new(communicator.device().unwrap(), ELEMENTS).unwrap();
    buffer.copy_from(&input, stream).unwrap();
    let issued = communicator.all_reduce(AllReduce::device(&mut buffer, stream)).unwrap();
    let lanesum::Issued::Enqueued(receipt) = issued else {
        panic!("{issued:?}")
    };
    (buffer, receipt)
}

fn judge(communicator: &Communicator, stream: &Stream, round: usize, buffer: &mut DeviceBuffer<f32>) {
    let world = communicator.world().get();
    let mut output = vec![0.0; ELEMENTS];
    buffer.copy_to(&mut output, stream).unwrap();
    let right = |i: usize| (0..world).map(|rank| value(rank, round, i)).sum::<f32>();
    assert!((0..ELEMENTS).all(|i| output[i] == right(i)), "round {round} is wrong");
}

/// What a process has.
#[derive(Debug, Clone, Copy)]
struct Holdings {
    descriptors: usize,
    threads: usize,
    resident_kib: usize,
    /// Of the driver: the stand-in's counts, or how much of the device is taken.
    driver: [u64; 4],
}

fn holdings() -> Holdings {
    // Asked first: it may bring up a context, which has descriptors, threads and memory of its own.
    let driver = if driver::is_real() {
        [0, u64::MAX - leaks::free_device_memory(), 0, 0]
    } else {
        leaks::stand_in()
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let number = |name: &str| -> usize {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    Holdings {
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        threads: number("Threads:"),
        resident_kib: number("VmRSS:"),
        driver,
    }
}

/// What a process has when the threads that are on their way out have ended: the counts that ten looks in a row find.
fn settled() -> Holdings {
    let counts = |seen: &Holdings| (seen.descriptors, seen.threads, seen.driver[0]);
    let (mut last, mut alike) = (holdings(), 0);
    for _ in 0..400 {
        std::thread::sleep(Duration::from_millis(5));
        let now = holdings();
        alike = if counts(&now) == counts(&last) { alike + 1 } else { 0 };
        last = now;
        if alike == 10 {
            break;
        }
    }
    last
}

fn nothing_was_left(before: Holdings, after: Holdings) {
    let scene = format!("{before:?}, then {after:?}");
    assert_eq!(before.descriptors, after.descriptors, "{scene}");
    assert!(after.threads <= before.threads + 1, "{scene}");
    assert!(after.resident_kib < before.resident_kib + 12 * 1024, "{scene}");
    if driver::is_real() {
        assert!(after.driver[1] < before.driver[1].saturating_add(16 << 20), "{scene}");
    } else {
        assert_eq!(before.driver, after.driver, "{scene}");
    }
}

/// Compares what the process has after a tenth of the rounds and after all. A communicator for host memory keeps ranks together.
fn in_rounds(place: &Place, rounds: usize, play: impl Fn(usize)) {
    let host = Communicator::builder(place.rank, place.world, format!("{}-host", place.name));
    let host = host.deadline(LONG).join().unwrap();
    let together = || assert!(host.barrier().unwrap().receipt().is_some());
    let mut before = None;
    for round in 0..rounds {
        if round == rounds / 10 {
            // Ranks may share a GPU, and looking may bring up a context there: what counts is what is there when all have looked.
            holdings();
            together();
            before = Some(settled());
            together();
        }
        play(round);
    }
    together();
    nothing_was_left(before.unwrap(), settled());
    together();
}

pub fn rounds() -> usize {
    if driver::is_real() { 1000 } else { 60 }
}

pub fn create_and_destroy(place: &Place) {
    in_rounds(place, rounds(), |round| {
        let communicator = place.join(&round.to_string());
        let stream = stream_of(&communicator);
        place.check(&communicator, &stream, round);
        // Who leaves first must not take anything from under the other.
        if round % 3 == place.rank {
            std::thread::sleep(Duration::from_millis(2));
        }
        if round % 2 == 0 {
            communicator.close().unwrap();
        }
    });
}

/// Memory that is shared through CUDA IPC may stay until a later communicator ends, and no longer.
pub fn create_and_destroy_with_ipc(place: &Place) {
    let mut most = [0; 4];
    for round in 0..30 {
        let communicator = place.join(&round.to_string());
        place.check(&communicator, &stream_of(&communicator), round);
        drop(communicator);
        let now = leaks::stand_in();
        most = if round < 5 { most.max(now) } else { most };
        assert!(
            round < 5 || now[0] <= 2 * most[0].max(1),
            "in round {round}: {now:?}, before at most {most:?}"
        );
    }
}

/// Ranks that differ in what they ask for, and ranks that do not come.
pub fn unfinished_set_ups(place: &Place) {
    in_rounds(place, 20, |round| {
        let builder = place.builder(&format!("terms-{round}"));
        let error = builder
            .staging(Bytes::new(4096 << (place.rank + 1)))
            .join()
            .unwrap_err();
        assert!(error.to_string().contains("staging"), "{error}");
        assert!(error.hint().is_some());
        if place.rank == round % 2 {
            let builder = place
                .builder(&format!("alone-{round}"))
                .setup_deadline(Duration::from_millis(20));
            let error = builder.join().unwrap_err();
            assert!(
                error.failed_ranks().iter().any(|rank| rank.index() != place.rank),
                "{error}"
            );
        }
    });
}

pub fn receipts_outlive(place: &Place) {
    in_rounds(place, 20, |round| {
        let communicator = place.join(&round.to_string());
        let stream = stream_of(&communicator);
        let calls: Vec<_> = (0..4).map(|call| begin(&communicator, &stream, call)).collect();
        // Neither its receipt nor its buffer is looked at again.
        drop(begin(&communicator, &stream, 9));
        let (other, device) = (place.world, communicator.device().unwrap().clone());
        communicator.close().unwrap();
        for (call, (buffer, receipt)) in calls.into_iter().enumerate() {
            receipt.wait().map(|_| ()).unwrap();
            assert!(receipt.poll().unwrap().is_some());
            let mut output = vec![0.0; ELEMENTS];
            buffer.copy_to(&mut output, &stream).unwrap();
            let right = |i: usize| (0..other).map(|rank| value(rank, call, i)).sum::<f32>();
            assert!((0..ELEMENTS).all(|i| output[i] == right(i)), "call {call} is wrong");
        }
        assert!(device.ordinal() < 64);
    });
}

/// Rank 0 leaves with a call on the stream that nobody joins: leaving takes no longer than the deadline, and the receipt, which
/// outlives the communicator, tells the fault.
pub fn failed_receipts_outlive(place: &Place) {
    let communicator = place
        .builder("failed")
        .deadline(SHORT)
        .setup_deadline(LONG)
        .join()
        .unwrap();
    let stream = stream_of(&communicator);
    place.check(&communicator, &stream, 0);
    if place.rank != 0 {
        std::thread::sleep(4 * SHORT);
        return;
    }
    let (buffer, receipt) = begin(&communicator, &stream, 1);
    let start = Instant::now();
    drop(communicator);
    assert!(
        start.elapsed() < SHORT + Duration::from_secs(1),
        "left after {:?}",
        start.elapsed()
    );
    let error = receipt.wait().map(|_| ()).unwrap_err();
    let Error::Fault(fault) = &error else { panic!("{error}") };
    assert!(matches!(fault.kind, FaultKind::Late { .. }), "{error}");
    let mut output = vec![0.0; ELEMENTS];
    buffer.copy_to(&mut output, &stream).unwrap();
    assert!(output.iter().all(|element| element.is_nan()));
}

/// Each on a stream of its own: ranks may enqueue on them in different orders.
pub fn several_at_once(place: &Place) {
    let communicators: Vec<Communicator> = (0..3).map(|which| place.join(&which.to_string())).collect();
    let streams: Vec<Stream> = communicators.iter().map(stream_of).collect();
    for round in 0..20 {
        let mut calls: Vec<_> = (0..3)
            .map(|turn| {
                let which = (turn + round * (1 + place.rank)) % 3;
                (which, begin(&communicators[which], &streams[which], round + which))
            })
            .collect();
        for (which, (buffer, receipt)) in &mut calls {
            receipt.wait().map(|_| ()).unwrap();
            judge(&communicators[*which], &streams[*which], round + *which, buffer);
        }
    }
    // They end in different orders, too.
    let mut communicators = communicators;
    communicators.rotate_left(place.rank % 3);
}

/// The same buffer on two streams by turns, and nobody waits: each sum builds on the one before.
pub fn alternating_streams_are_ordered(place: &Place) {
    let communicator = place.join("chain");
    let device = communicator.device().unwrap();
    let streams = [
        stream_of(&communicator),
        stream_of(&communicator),
        stream_of(&communicator),
    ];
    for round in 0..10 {
        let mut buffer = DeviceBuffer::new(device, ELEMENTS).unwrap();
        let input: Vec<f32> = (0..ELEMENTS).map(|i| value(place.rank, round, i)).collect();
        buffer.copy_from(&input, &streams[round % 3]).unwrap();
        let mut last = None;
        for call in 0..7 {
            let stream = &streams[(round + call * (1 + round % 2)) % 3];
            let issued = communicator.all_reduce(AllReduce::device(&mut buffer, stream)).unwrap();
            last = Some((issued, stream));
        }
        let (issued, stream) = last.unwrap();
        issued.receipt().unwrap().wait().map(|_| ()).unwrap();
        let mut output = vec![0.0; ELEMENTS];
        buffer.copy_to(&mut output, stream).unwrap();
        let first = |i: usize| (0..place.world).map(|rank| value(rank, round, i)).sum::<f32>();
        let factor = (place.world as f32).powi(6);
        assert!(
            (0..ELEMENTS).all(|i| output[i] == first(i) * factor),
            "round {round} is out of order"
        );
    }
}

/// Joined on one thread, called on others, ended on yet another.
pub fn threads_take_turns(place: &Place) {
    let mut communicator = place.join("threads");
    for round in 0..5 {
        let scope = |communicator: Communicator| {
            place.check(&communicator, &stream_of(&communicator), round);
            communicator
        };
        communicator = std::thread::scope(|threads| threads.spawn(move || scope(communicator)).join().unwrap());
    }
    let pending = {
        let stream = stream_of(&communicator);
        let (buffer, receipt) = begin(&communicator, &stream, 3);
        // The stream's owner is gone; the receipt keeps it.
        drop(stream);
        (buffer, receipt)
    };
    std::thread::spawn(move || pending.1.wait().map(|_| ()).unwrap())
        .join()
        .unwrap();
    std::thread::spawn(move || communicator.close().unwrap())
        .join()
        .unwrap();
}

/// Children have the same device; each works by itself, and beside its parent.
pub fn channel_and_split(place: &Place) {
    let parent = place.join("parent");
    let channel = parent.channel().unwrap();
    let pair = parent
        .split(Some(place.rank as u32 % 2), 9 - place.rank as u32)
        .unwrap()
        .unwrap();
    assert_eq!(pair.world().get(), place.world / 2);
    for child in [&channel, &pair] {
        assert_eq!(child.device().unwrap().ordinal(), parent.device().unwrap().ordinal());
    }
    let three = [&parent, &channel, &pair];
    for round in 0..5 {
        three
            .iter()
            .for_each(|communicator| place.check(communicator, &stream_of(communicator), round));
    }
    drop(parent);
    place.check(&channel, &stream_of(&channel), 1);
    let apart = channel.split((place.rank > 0).then_some(1), 0).unwrap();
    assert_eq!(apart.is_none(), place.rank == 0);
    if let Some(apart) = apart {
        place.check(&apart, &stream_of(&apart), 2);
    }
    place.check(&pair, &stream_of(&pair), 3);
}

/// Trees that no default makes.
const TREES: [&str; 9] = [
    "(0+2)+1",
    "0+(1+2)",
    "2+(1+0)",
    "0+(1+(2+3))",
    "(3+1)+(0+2)",
    "0+((3+1)+(4+2))",
    "(((4+3)+2)+1)+0",
    "0+(1+(2+(3+(4+5))))",
    "((5+0)+(3+1))+(4+2)",
];

pub fn pinned_trees(place: &Place) {
    let trees = TREES.iter().map(|text| text.parse::<ReductionTree>().unwrap());
    for (which, tree) in trees.filter(|tree| tree.world().get() == place.world).enumerate() {
        let builder = place.builder(&which.to_string()).tree(tree.clone());
        let communicator = builder.join().unwrap();
        assert_eq!(communicator.tree(), &tree);
        for operation in Operation::ALL {
            as_the_oracle::<f32>(&communicator, operation);
            as_the_oracle::<lanesum::f16>(&communicator, operation);
            as_the_oracle::<lanesum::bf16>(&communicator, operation);
        }
    }
}

fn as_the_oracle<T: Sample + lanesum::Element>(communicator: &Communicator, operation: Operation) {
    let stream = stream_of(communicator);
    for pattern in [Pattern::Wide, Pattern::Bits, Pattern::Ties] {
        let tables = Tables::<T>::new(pattern, operation, communicator.tree(), 5);
        let mut elements = vec![T::of_bits(0); 2100];
        tables.fill(communicator.rank().index(), 1, &mut elements);
        let mut buffer = DeviceBuffer::new(communicator.device().unwrap(), elements.len()).unwrap();
        buffer.copy_from(&elements, &stream).unwrap();
        let call = AllReduce::device(&mut buffer, &stream).operation(operation);
        let issued = communicator.all_reduce(call).unwrap();
        issued.receipt().unwrap().wait().map(|_| ()).unwrap();
        buffer.copy_to(&mut elements, &stream).unwrap();
        let difference = tables.judge(1, &elements);
        assert!(
            difference.is_none(),
            "{}, {operation}, {pattern:?}: {difference:?}",
            communicator.tree()
        );
    }
}

/// Memory and streams of another device are refused before anything happens.
pub fn foreign_devices_are_refused(place: &Place) {
    let communicator = place.join("foreign");
    let own = communicator.device().unwrap();
    let count = lanesum::cuda::device_count().unwrap();
    if count > 1 {
        let foreign = lanesum::cuda::Device::open((own.ordinal() + 1) % count).unwrap();
        let (here, there) = (Stream::new(own).unwrap(), Stream::new(&foreign).unwrap());
        let mut mine = DeviceBuffer::<f32>::new(own, 10).unwrap();
        let mut other = DeviceBuffer::<f32>::new(&foreign, 10).unwrap();
        let calls = [
            communicator.all_reduce(AllReduce::device(&mut other, &here)),
            communicator.all_reduce(AllReduce::device(&mut mine, &there)),
            communicator.all_reduce(AllReduce::device_to(&mine, &mut other, &here)),
        ];
        for call in calls {
            assert!(
                matches!(call, Err(Error::Refused(Refused::ForeignDevice { .. }))),
                "{call:?}"
            );
        }
    }
    place.check(&communicator, &stream_of(&communicator), 0);
}
