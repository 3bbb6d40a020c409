//! What the ranks of `cuda_graphs.rs` do where all goes well; each is a process that panics where something is wrong.
#![allow(unsafe_code, reason = "launches graphs")]

use std::time::{Duration, Instant};

use lanesum::cuda::{DeviceBuffer, Event};
use lanesum::{AlgorithmName, AllReduce, Communicator, Engine, EngineChoice, Error, Path, Refused};
use lanesum_conformance::Choice;
use lanesum_plan::Bytes;

use super::graphs::{Hall, Part, Seen, Song, with_stream};
use super::life_scenes::{LONG, Place, stream_of, value};
use super::{driver, leaks, paths};

/// Both algorithms, and the plan's own choice.
pub const CHOICES: [Choice; 3] = [Choice::OneShotPush, Choice::TwoShotPush, Choice::Auto];

/// A receipt names what will run and where it stands; nothing has run by then, and ordinals are those of eager calls.
pub fn captured_says_what_will_run(place: &Place) {
    for choice in CHOICES {
        let builder = place.builder(&format!("{choice:?}")).algorithm(choice.policy());
        let (communicator, stream) = with_stream(builder.join().unwrap());
        let path = paths::of(&communicator);
        assert!(matches!(path, Path::Peer | Path::HostStaged), "{path}");
        paths::is_kept(&communicator, place.path);
        let lengths = [1000, 0, 3];
        let mut songs = [0, 1, 2].map(|_| Song::capture(&communicator, &stream, &lengths));
        for (capture, song) in songs.iter_mut().enumerate() {
            for (position, (captured, elements)) in song.captured.iter().zip(lengths).enumerate() {
                let algorithm = captured.algorithm();
                match (elements, choice) {
                    (0, _) => assert_eq!(algorithm, AlgorithmName::HeaderOnly),
                    (_, Choice::OneShotPush) => assert_eq!(algorithm, AlgorithmName::OneShotPush),
                    (_, Choice::TwoShotPush) => assert_eq!(algorithm, AlgorithmName::TwoShotPush),
                    _ => assert!(matches!(
                        algorithm,
                        AlgorithmName::OneShotPush | AlgorithmName::TwoShotPush
                    )),
                }
                assert_eq!((captured.engine(), captured.path()), (Engine::Cuda, path));
                assert_eq!(captured.bytes().get(), 4 * elements as u64);
                let numbers = (captured.capture() as usize, captured.position() as usize);
                assert_eq!(numbers, (capture, position));
            }
            song.fill(&communicator, 0, &stream);
            let seen = song.seen(&communicator, &stream);
            assert_eq!((seen[0], seen[2]), (Seen::Untouched, Seen::Untouched));
        }
        assert_eq!(communicator.counters().device.unwrap().calls, 0);
        assert_eq!(communicator.counters().calls, 0);
        let mut eager = Part::new(&communicator, 500);
        for ordinal in 0..2 {
            eager.fill(place.rank, 5, &stream);
            let receipt = eager.enqueue(&communicator, &stream);
            assert_eq!(receipt.ordinal(), ordinal);
            receipt.wait().map(|_| ()).unwrap();
            assert_eq!(eager.seen(place.world, 5, &stream), Seen::Right);
            songs[ordinal as usize].plays(&communicator, ordinal as usize, &stream);
        }
    }
}

/// Several graphs, of odd and even numbers of calls, among eager calls of other lengths, at epochs where tags wrap and halves are
/// swept: no epoch is stale, whoever ran before.
pub fn replays_among_eager_calls(place: &Place) {
    for (choice, first_epoch) in [
        (Choice::OneShotPush, 1),
        (Choice::TwoShotPush, (1 << 16) - 40),
        (Choice::Auto, (1 << 14) - 31),
    ] {
        let builder = place.builder(&first_epoch.to_string()).algorithm(choice.policy());
        let builder = builder.staging(Bytes::new(4096)).first_epoch(first_epoch);
        let (communicator, stream) = with_stream(builder.join().unwrap());
        // Of one exchange each, and of several.
        let songs: [&[usize]; 4] = [&[33], &[1000, 7, 2000], &[5, 191], &[3001, 1, 0, 64, 900]];
        let mut songs = songs.map(|lengths| Song::capture(&communicator, &stream, lengths));
        let mut eager = [1, 1500, 6].map(|elements| Part::new(&communicator, elements));
        let rounds = if driver::is_real() { 200 } else { 24 };
        for round in 0..rounds {
            let song = &mut songs[(round * 7 + round / 4) % 4];
            let part = &mut eager[round % 3];
            song.fill(&communicator, round, &stream);
            part.fill(place.rank, round + 3, &stream);
            // Neither is waited for before the next is enqueued.
            let before = (round % 5 < 2).then(|| part.enqueue(&communicator, &stream));
            for _ in 0..1 + round % 2 {
                song.launch(&stream);
            }
            let receipt = before.unwrap_or_else(|| part.enqueue(&communicator, &stream));
            receipt.wait().map(|_| ()).unwrap();
            assert_eq!(part.seen(place.world, round + 3, &stream), Seen::Right, "round {round}");
            song.has_gone_well(&communicator, &stream);
        }
        communicator.close().unwrap();
    }
}

/// A graph whose calls write over the input of the next, on two streams by turns: the communicator orders what the fork leaves open.
pub fn calls_of_one_capture_on_two_streams(place: &Place) {
    const ELEMENTS: usize = 3000;
    let communicator = place.join("fork");
    let device = communicator.device().unwrap();
    let streams = [stream_of(&communicator), stream_of(&communicator)];
    let (fork, join) = (Event::new(device).unwrap(), Event::new(device).unwrap());
    let mut buffer = DeviceBuffer::<f32>::new(device, ELEMENTS).unwrap();
    let capture = streams[0].begin_capture().unwrap();
    fork.record(&streams[0]).unwrap();
    streams[1].wait_for(&fork).unwrap();
    for call in 0..5 {
        let stream = &streams[call % 2];
        let issued = communicator.all_reduce(AllReduce::device(&mut buffer, stream)).unwrap();
        let lanesum::Issued::Captured(captured) = issued else {
            panic!("{issued:?}")
        };
        assert_eq!((captured.capture(), captured.position() as usize), (0, call));
    }
    join.record(&streams[1]).unwrap();
    streams[0].wait_for(&join).unwrap();
    let graph = capture.finish().unwrap();
    for round in 0..7 {
        let input: Vec<f32> = (0..ELEMENTS).map(|i| value(place.rank, round, i)).collect();
        let stream = &streams[round % 2];
        buffer.copy_from(&input, stream).unwrap();
        // SAFETY: the buffer exists until the stream is done.
        unsafe { graph.launch(stream) }.unwrap();
        stream.synchronize(LONG).unwrap();
        communicator.check().unwrap();
        let mut output = vec![0.0; ELEMENTS];
        buffer.copy_to(&mut output, stream).unwrap();
        let first = |i: usize| (0..place.world).map(|rank| value(rank, round, i)).sum::<f32>();
        let factor = (place.world as f32).powi(4);
        assert!((0..ELEMENTS).all(|i| output[i] == first(i) * factor), "round {round}");
    }
}

/// A stream that was never drawn into the capture is not captured: its call is eager, and waits for nothing of the capture.
pub fn an_eager_call_beside_a_capture(place: &Place) {
    let (communicator, stream) = with_stream(place.join("beside"));
    let other = stream_of(&communicator);
    let (mut recorded, mut eager) = (Part::new(&communicator, 700), Part::new(&communicator, 800));
    eager.fill(place.rank, 1, &other);
    other.synchronize(LONG).unwrap();
    let capture = stream.begin_capture().unwrap();
    assert_eq!(recorded.record(&communicator, &stream).position(), 0);
    let receipt = eager.enqueue(&communicator, &other);
    receipt.wait().map(|_| ()).unwrap();
    let graph = capture.finish().unwrap();
    assert_eq!(eager.seen(place.world, 1, &other), Seen::Right);
    recorded.fill(place.rank, 2, &stream);
    // SAFETY: the buffers exist until the stream is done.
    unsafe { graph.launch(&stream) }.unwrap();
    stream.synchronize(LONG).unwrap();
    communicator.check().unwrap();
    assert_eq!(recorded.seen(place.world, 2, &stream), Seen::Right);
    // The last eager call was on a stream that is captured now: a call elsewhere would have to wait for what only gets recorded.
    let capture = other.begin_capture().unwrap();
    let refused = eager.issue(&communicator, &stream);
    assert!(
        matches!(refused, Err(Error::Refused(Refused::Capturing))),
        "{refused:?}"
    );
    drop(capture);
    eager.fill(place.rank, 3, &stream);
    eager.enqueue(&communicator, &stream).wait().map(|_| ()).unwrap();
    assert_eq!(eager.seen(place.world, 3, &stream), Seen::Right);
}

/// Captures that come to nothing, by being dropped or made invalid, leave communicator and stream as they were.
pub fn captures_that_come_to_nothing(place: &Place) {
    let (communicator, stream) = with_stream(place.join("nothing"));
    let mut song = Song::capture(&communicator, &stream, &[900, 40]);
    let mut part = Part::new(&communicator, 1000);
    for round in 0..6 {
        if place.rank == 0 {
            // Without a call in it, a capture is no business of the communicator's.
            drop(stream.begin_capture().unwrap());
        }
        let capture = stream.begin_capture().unwrap();
        assert_eq!(part.record(&communicator, &stream).position(), 0);
        if round % 2 == 1 {
            // A copy to pageable memory waits for the stream.
            let error = part.fetch_while_captured(&stream);
            assert!(error.contains("captur"), "{error}");
            let refused = part.issue(&communicator, &stream);
            assert!(
                matches!(refused, Err(Error::Refused(Refused::CaptureInvalid { .. }))),
                "{refused:?}"
            );
            let error = capture.finish().map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("captur"), "{error}");
        } else {
            assert_eq!(part.record(&communicator, &stream).position(), 1);
            drop(capture);
        }
        communicator.check().unwrap();
        part.fill(place.rank, round, &stream);
        part.enqueue(&communicator, &stream).wait().map(|_| ()).unwrap();
        assert_eq!(part.seen(place.world, round, &stream), Seen::Right);
        song.plays(&communicator, round, &stream);
        song = Song::capture(&communicator, &stream, &[900 - round, 40, 7]);
        assert_eq!(song.captured[0].capture() as usize, 2 * round + 2);
        song.plays(&communicator, round + 1, &stream);
    }
}

/// A graph that is destroyed while a peer is still awaited runs to its end.
pub fn graphs_destroyed_in_flight(place: &Place) {
    let hall = Hall::new(place);
    let (communicator, stream) = with_stream(place.join("flight"));
    for round in 0..4 {
        let mut song = Song::capture(&communicator, &stream, &[500, 6000, 1]);
        song.fill(&communicator, round, &stream);
        hall.meet();
        if place.rank == round % place.world {
            std::thread::sleep(Duration::from_millis(100));
        }
        song.launch(&stream);
        song.launch(&stream);
        let Song { graph, mut parts, .. } = song;
        drop(graph);
        stream.synchronize(LONG).unwrap();
        communicator.check().unwrap();
        for part in &mut parts {
            assert_eq!(part.seen(place.world, round, &stream), Seen::Right, "round {round}");
        }
    }
}

/// Graphs outlive their communicator: their replays write NaN and return, and with the last one the memory is given back.
pub fn graphs_outlive(place: &Place) {
    let hall = Hall::new(place);
    let rounds = if driver::is_real() { 100 } else { 24 };
    if driver::is_real() {
        // From here on each rank keeps its context, which takes half a GiB of the device that they share.
        leaks::free_device_memory();
    }
    hall.meet();
    let mut free = None;
    for round in 0..rounds {
        outlived_once(place, &hall, round);
        if round == 3 || round + 1 == rounds {
            hall.meet();
            let wanted = free.unwrap_or(0);
            free = Some(free_once_given_back(place, round, wanted));
        }
        hall.meet();
    }
}

fn outlived_once(place: &Place, hall: &Hall, round: usize) {
    let (communicator, stream) = with_stream(place.join(&round.to_string()));
    let mut songs = [&[800][..], &[5000, 3]].map(|lengths| Song::capture(&communicator, &stream, lengths));
    songs[0].plays(&communicator, round, &stream);
    songs[1].fill(&communicator, 8, &stream);
    hall.meet();
    if place.rank == 0 {
        // A replay under way, which nobody joins, gives up when the communicator ends.
        songs[1].launch(&stream);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut communicator = Some(communicator);
    for leaver in 0..place.world {
        if leaver == place.rank {
            communicator.take().unwrap().close().unwrap();
            stream.synchronize(LONG).unwrap();
        }
        hall.meet();
    }
    for turn in 0..2 {
        songs[1].launch(&stream);
        songs[turn].launch(&stream);
    }
    stream.synchronize(LONG).unwrap();
    for part in songs.iter_mut().flat_map(|song| &mut song.parts) {
        assert_eq!(part.seen(place.world, 8, &stream), Seen::Nan, "round {round}");
    }
    hall.meet();
}

/// Bytes of the device that are free once all is given back: of a real one at least so many but a few, as ranks may share it. The
/// driver gives up what graphs held on a thread of its own, and the next communicator that begins or ends finds it.
fn free_once_given_back(place: &Place, round: usize, wanted: u64) -> u64 {
    let start = Instant::now();
    loop {
        let alone = format!("{}-alone-{}-{round}", place.name, place.rank);
        let alone = Communicator::builder(0, 1, alone).engine(EngineChoice::Cuda).join();
        drop(alone.unwrap());
        let (held, free) = match driver::is_real() {
            true => ([0; 4], leaks::free_device_memory()),
            false => (leaks::stand_in(), 0),
        };
        if held == [0; 4] && free + (16 << 20) >= wanted {
            return free;
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{held:?} are held, {free} are free of {wanted}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A communicator that ends while a capture has its calls: the graph is none the worse, and its replays write NaN.
pub fn closed_in_the_middle_of_a_capture(place: &Place) {
    let mut part = {
        let (communicator, stream) = with_stream(place.join("middle"));
        let (mut song, mut part) = (
            Song::capture(&communicator, &stream, &[50]),
            Part::new(&communicator, 3000),
        );
        song.plays(&communicator, 1, &stream);
        part.fill(place.rank, 2, &stream);
        stream.synchronize(LONG).unwrap();
        let capture = stream.begin_capture().unwrap();
        assert_eq!(part.record(&communicator, &stream).capture(), 1);
        communicator.close().unwrap();
        let graph = capture.finish().unwrap();
        assert_eq!(graph.nodes(), 1);
        for _ in 0..3 {
            // SAFETY: the buffers exist until the stream is done.
            unsafe { graph.launch(&stream) }.unwrap();
        }
        stream.synchronize(LONG).unwrap();
        assert_eq!(part.seen(place.world, 2, &stream), Seen::Nan);
        part
    };
    let (communicator, stream) = with_stream(place.join("next"));
    part.fill(place.rank, 4, &stream);
    part.enqueue(&communicator, &stream).wait().map(|_| ()).unwrap();
    assert_eq!(part.seen(place.world, 4, &stream), Seen::Right);
}

/// Calls of two communicators overlap: one is through while the other still waits.
pub fn channels_overlap(place: &Place) {
    let hall = Hall::new(place);
    let (parent, stream) = with_stream(place.join("parent"));
    let (channel, other) = with_stream(parent.channel().unwrap());
    let mut songs = [
        Song::capture(&parent, &stream, &[5000, 20]),
        Song::capture(&channel, &other, &[20, 5000, 1]),
    ];
    let mut parts = [Part::new(&parent, 3000), Part::new(&channel, 2000)];
    for round in 0..4 {
        let first = place.rank == round % place.world;
        songs[0].fill(&parent, round, &stream);
        songs[1].fill(&channel, round + 1, &other);
        parts[0].fill(place.rank, round, &stream);
        parts[1].fill(place.rank, round, &other);
        for stream in [&stream, &other] {
            stream.synchronize(LONG).unwrap();
        }
        hall.meet();
        if first {
            songs[0].launch(&stream);
        }
        songs[1].launch(&other);
        songs[1].has_gone_well(&channel, &other);
        // Nobody joins the first before all are through with the second.
        hall.meet();
        if !first {
            songs[0].launch(&stream);
        }
        songs[0].has_gone_well(&parent, &stream);
        hall.meet();
        let early = first.then(|| parts[0].enqueue(&parent, &stream));
        parts[1].enqueue(&channel, &other).wait().map(|_| ()).unwrap();
        hall.meet();
        let late = early.unwrap_or_else(|| parts[0].enqueue(&parent, &stream));
        late.wait().map(|_| ()).unwrap();
        assert_eq!(parts[0].seen(place.world, round, &stream), Seen::Right);
        assert_eq!(parts[1].seen(place.world, round, &other), Seen::Right);
    }
    channel.close().unwrap();
    songs[0].plays(&parent, 9, &stream);
    songs[1].gives_nan(&parent, 9, &other);
}

/// The device counts calls of replays, and how long it has waited for whom.
pub fn counters_count_replays(place: &Place) {
    const PAUSE: Duration = Duration::from_millis(300);
    let hall = Hall::new(place);
    let builder = place.builder("counters").staging(Bytes::new(4096));
    let builder = builder.algorithm(Choice::OneShotPush.policy());
    let (communicator, stream) = with_stream(builder.join().unwrap());
    // With room for 64 frames of 3 elements in an exchange of each of five lanes: 1, 2 and 1 exchanges.
    let mut song = Song::capture(&communicator, &stream, &[192, 961, 0]);
    let mut part = Part::new(&communicator, 5);
    for round in 1..=5 {
        song.plays(&communicator, round as usize, &stream);
        part.fill(place.rank, 0, &stream);
        part.enqueue(&communicator, &stream).wait().map(|_| ()).unwrap();
        let device = communicator.counters().device.unwrap();
        assert_eq!((device.calls, device.exchanges), (4 * round, 5 * round));
    }
    assert_eq!(communicator.counters().calls, 5);
    let waited = |communicator: &Communicator| {
        let waited = communicator.counters().device.unwrap().waited;
        let peers: Vec<usize> = waited.iter().map(|(rank, _)| rank.index()).collect();
        let all: Vec<usize> = (0..place.world).filter(|rank| *rank != place.rank).collect();
        assert_eq!(peers, all);
        waited.into_iter().map(|(_, time)| time).collect::<Vec<_>>()
    };
    let before = waited(&communicator);
    song.fill(&communicator, 9, &stream);
    hall.meet();
    let late = place.world - 1;
    if place.rank == late {
        std::thread::sleep(PAUSE);
    }
    song.launch(&stream);
    song.has_gone_well(&communicator, &stream);
    if place.rank != late {
        let more = waited(&communicator)[late - 1].saturating_sub(before[late - 1]);
        assert!(
            more > PAUSE * 4 / 5 && more < PAUSE + Duration::from_secs(3),
            "{more:?}"
        );
    }
}
