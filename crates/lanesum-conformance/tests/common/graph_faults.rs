//! What the ranks of `cuda_graphs.rs` do where something goes wrong, as it must: found, told, and never a wrong result.

use std::time::{Duration, Instant};

use lanesum::cuda::Stream;
use lanesum::{CallIdentity, Communicator, Error, Fault, FaultKind, Refused};
use lanesum_conformance::Choice;
use rustix::process::{Signal, getpid, kill_process};

use super::driver;
use super::graph_scenes::CHOICES;
use super::graphs::{Hall, Part, Seen, Song, fault_of, with_stream};
use super::life_scenes::{LONG, Place, SHORT, stream_of};
use super::twins::Twins;

/// As many calls as a step of decoding makes.
const STEP: usize = 122;

/// What other work on the machine may add to a deadline.
fn margin() -> Duration {
    Duration::from_secs(if driver::is_real() { 2 } else { 1 })
}

const fn captured(capture: u32, position: u32) -> CallIdentity {
    CallIdentity::Captured { capture, position }
}

/// Checks that nothing works after a fault, and nothing is recorded.
fn is_poisoned(communicator: &Communicator, song: &mut Song, stream: &Stream) {
    let first = fault_of(communicator);
    song.gives_nan(communicator, 3, stream);
    let mut part = Part::new(communicator, 900);
    part.fill(communicator.rank().index(), 1, stream);
    let refused = part.issue(communicator, stream);
    assert!(matches!(&refused, Err(Error::Poisoned { .. })), "{refused:?}");
    stream.synchronize(LONG).unwrap();
    assert_eq!(part.seen(communicator.world().get(), 1, stream), Seen::Nan);
    let capture = stream.begin_capture().unwrap();
    let refused = part.issue(communicator, stream);
    assert!(
        matches!(&refused, Err(Error::Refused(Refused::Poisoned { .. }))),
        "{refused:?}"
    );
    assert_eq!(capture.finish().unwrap().nodes(), 0);
    song.gives_nan(communicator, 4, stream);
    assert_eq!(fault_of(communicator), first);
}

fn was_late(fault: &Fault, ranks: &[usize]) {
    let FaultKind::Late {
        ranks: late, waited, ..
    } = &fault.kind
    else {
        panic!("{fault}")
    };
    let late: Vec<usize> = late.iter().map(|rank| rank.index()).collect();
    assert_eq!(late, ranks, "{fault}");
    assert!(*waited >= SHORT && *waited < SHORT + margin(), "{fault}");
}

/// A launch whose peers do not come ends within one deadline, whatever the number of its calls.
fn ends_late(communicator: &Communicator, song: &mut Song, stream: &Stream) -> Fault {
    let start = Instant::now();
    song.launch(stream);
    stream.synchronize(LONG).unwrap();
    let took = start.elapsed();
    assert!(took >= SHORT && took < SHORT + margin(), "ended after {took:?}");
    fault_of(communicator)
}

/// Nobody but rank 0 plays the step: it ends within one deadline, and names all others.
pub fn a_step_without_peers_ends_within_one_deadline(place: &Place) {
    let hall = Hall::new(place);
    for (which, choice) in CHOICES.into_iter().enumerate() {
        let builder = place.builder(&format!("{choice:?}")).algorithm(choice.policy());
        let (communicator, stream) = with_stream(builder.join().unwrap());
        // So short that each thread of a block has one frame, on the stand-in too.
        let mut song = Song::capture(&communicator, &stream, &[100; STEP]);
        song.plays(&communicator, 1, &stream);
        // A deadline that is changed later holds for what was captured before.
        communicator.set_deadline(SHORT).unwrap();
        song.fill(&communicator, 2, &stream);
        if place.rank == which % place.world {
            let fault = ends_late(&communicator, &mut song, &stream);
            let others: Vec<usize> = (0..place.world).filter(|rank| *rank != place.rank).collect();
            was_late(&fault, &others);
            assert_eq!(fault.ours.identity(), captured(0, 0));
            let seen = song.seen(&communicator, &stream);
            assert!(seen.iter().all(|seen| *seen == Seen::Nan), "{seen:?}");
            is_poisoned(&communicator, &mut song, &stream);
        }
        hall.meet();
        if place.rank != which % place.world {
            // Who comes now is told by the one that has given up.
            let start = Instant::now();
            song.launch(&stream);
            stream.synchronize(LONG).unwrap();
            assert!(start.elapsed() < SHORT + margin());
            let fault = fault_of(&communicator);
            assert!(matches!(fault.kind, FaultKind::Late { .. }), "{fault}");
            let seen = song.seen(&communicator, &stream);
            // The first call's words of the rank that gave up are here.
            assert!(seen[1..].iter().all(|seen| *seen == Seen::Nan), "{seen:?}");
            assert!(matches!(seen[0], Seen::Nan | Seen::Right), "{seen:?}");
        }
        hall.meet();
    }
}

/// One rank stops in the middle of the others' graph: what was summed stays right, what comes after is NaN, and the late rank and
/// the place in the graph are named.
pub fn a_rank_that_stops_in_a_graph_is_named(place: &Place) {
    let hall = Hall::new(place);
    for round in 0..3 {
        let (communicator, stream) = with_stream(place.join(&round.to_string()));
        let lengths = [400, 1, 2500, 31, 7];
        let (late, made) = (round % place.world, 1 + round);
        let lengths = &lengths[..if place.rank == late { made } else { 5 }];
        let mut song = Song::capture(&communicator, &stream, lengths);
        song.fill(&communicator, round, &stream);
        communicator.set_deadline(SHORT).unwrap();
        hall.meet();
        song.launch(&stream);
        stream.synchronize(LONG).unwrap();
        let seen = song.seen(&communicator, &stream);
        assert!(seen[..made].iter().all(|seen| *seen == Seen::Right), "{seen:?}");
        assert!(seen[made..].iter().all(|seen| *seen == Seen::Nan), "{seen:?}");
        if place.rank != late {
            let fault = fault_of(&communicator);
            was_late(&fault, &[late]);
            assert_eq!(fault.ours.identity(), captured(0, made as u32), "{fault}");
            is_poisoned(&communicator, &mut song, &stream);
        }
        hall.meet();
    }
}

/// A deadline that is raised after the capture holds for its replays.
pub fn a_raised_deadline_holds_in_graphs(place: &Place) {
    let hall = Hall::new(place);
    let builder = place.builder("raised").deadline(SHORT).setup_deadline(LONG);
    let (communicator, stream) = with_stream(builder.join().unwrap());
    let mut song = Song::capture(&communicator, &stream, &[100, 2000]);
    song.fill(&communicator, 1, &stream);
    hall.meet();
    if place.rank == 1 {
        std::thread::sleep(SHORT * 3);
    }
    song.launch(&stream);
    // Also of one that waits already.
    communicator.set_deadline(LONG).unwrap();
    song.has_gone_well(&communicator, &stream);
}

/// How one rank's second graph differs from the others'.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Slip {
    Size,
    Label,
    Order,
}

pub fn other_calls_in_graphs_are_named(place: &Place) {
    for (round, slip) in [Slip::Size, Slip::Label, Slip::Order].into_iter().enumerate() {
        for choice in [CHOICES[round % 2], CHOICES[2]] {
            slipped(place, (round, slip), choice);
        }
    }
}

fn slipped(place: &Place, (round, slip): (usize, Slip), choice: lanesum_conformance::Choice) {
    let name = format!("{slip:?}-{choice:?}");
    let (hall, communicator, stream) = opened(place, &name, choice);
    let mut usual = Song::capture(&communicator, &stream, &[300, 40]);
    usual.plays(&communicator, 1, &stream);
    let deviator = round % place.world;
    let mut lengths = [900, 1300, 2200];
    let deviates = place.rank == deviator;
    match slip {
        Slip::Size if deviates => lengths[1] += 1,
        Slip::Order if deviates => lengths.swap(1, 2),
        Slip::Size | Slip::Order | Slip::Label => {}
    }
    let mut parts = lengths.map(|elements| Part::new(&communicator, elements));
    parts[1].label = Some(if slip == Slip::Label && deviates { 8 } else { 7 });
    let mut song = Song::capture_parts(&communicator, &stream, parts.into());
    song.fill(&communicator, 2, &stream);
    hall.meet();
    let start = Instant::now();
    song.launch(&stream);
    stream.synchronize(LONG).unwrap();
    assert!(start.elapsed() < margin() * 2, "{:?}", start.elapsed());
    let fault = fault_of(&communicator);
    let FaultKind::Mismatch {
        rank,
        against,
        called,
        against_called,
    } = &fault.kind
    else {
        panic!("{slip:?}: {fault}")
    };
    // Who is a call ahead by then has not gone further: the second call is what all name.
    let ranks = [rank.index(), against.index()];
    assert!(ranks.contains(&deviator), "{fault}");
    assert_eq!(
        (called.identity(), against_called.identity()),
        (captured(1, 1), captured(1, 1)),
        "{fault}"
    );
    assert_ne!(called, against_called);
    assert!(fault.to_string().contains("capture 1, position 1"), "{fault}");
    let seen = song.seen(&communicator, &stream);
    assert_eq!(seen, [Seen::Right, Seen::Nan, Seen::Nan], "{slip:?}");
    is_poisoned(&communicator, &mut usual, &stream);
    hall.meet();
}

fn names_captures(fault: &Fault, one: u32, other: u32) {
    let FaultKind::Mismatch {
        called, against_called, ..
    } = &fault.kind
    else {
        panic!("{fault}")
    };
    let mut names = [called, against_called].map(|call| match call.identity() {
        CallIdentity::Captured { capture, position } => (capture, position),
        CallIdentity::Eager { ordinal } => panic!("{ordinal}: {fault}"),
    });
    names.sort_unstable();
    assert_eq!(names, [(one, 0), (other, 0)], "{fault}");
}

/// A communicator of its own for one round of a scene, and the hall in which its ranks meet.
fn opened(place: &Place, name: &str, choice: Choice) -> (Hall, Communicator, Stream) {
    let hall = Hall::new(&Place {
        name: format!("{}-{name}", place.name),
        ..*place
    });
    let (communicator, stream) = with_stream(place.builder(name).algorithm(choice.policy()).join().unwrap());
    (hall, communicator, stream)
}

/// Two graphs of equal calls, which one rank replays the other way round: only their identities tell.
pub fn a_reordered_replay_is_found(place: &Place) {
    for (round, choice) in CHOICES.into_iter().enumerate() {
        let (hall, communicator, stream) = opened(place, &round.to_string(), choice);
        let lengths = [&[700][..], &[5000, 9], &[3]][round];
        let mut songs = [(); 2].map(|()| Song::capture(&communicator, &stream, lengths));
        for (turn, song) in songs.iter_mut().enumerate() {
            song.plays(&communicator, turn, &stream);
        }
        for (which, song) in songs.iter_mut().enumerate() {
            song.fill(&communicator, 10 + which, &stream);
        }
        hall.meet();
        let first = usize::from(place.rank == round % place.world);
        songs[first].launch(&stream);
        songs[1 - first].launch(&stream);
        stream.synchronize(LONG).unwrap();
        names_captures(&fault_of(&communicator), 0, 1);
        for song in &mut songs {
            let seen = song.seen(&communicator, &stream);
            assert!(seen.iter().all(|seen| *seen == Seen::Nan), "{seen:?}");
        }
        is_poisoned(&communicator, &mut songs[1], &stream);
        hall.meet();
    }
}

/// Ranks number captures by themselves: one that has recorded a call into a capture more than its peers is found, too.
pub fn a_capture_more_on_one_rank_is_found(place: &Place) {
    let (communicator, stream) = with_stream(place.join("more"));
    let odd = place.world - 1;
    if place.rank == odd {
        let mut part = Part::new(&communicator, 10);
        let capture = stream.begin_capture().unwrap();
        assert_eq!(part.record(&communicator, &stream).capture(), 0);
        drop(capture);
    }
    let mut song = Song::capture(&communicator, &stream, &[600, 80]);
    assert_eq!(song.captured[0].capture(), u32::from(place.rank == odd));
    song.fill(&communicator, 1, &stream);
    song.launch(&stream);
    stream.synchronize(LONG).unwrap();
    names_captures(&fault_of(&communicator), 0, 1);
    let seen = song.seen(&communicator, &stream);
    assert_eq!(seen, [Seen::Nan, Seen::Nan]);
    is_poisoned(&communicator, &mut song, &stream);
}

/// A graph against an eager call of the same shape: which it is, is told too.
pub fn a_replay_against_an_eager_call_is_found(place: &Place) {
    let hall = Hall::new(place);
    let (communicator, stream) = with_stream(place.join("against"));
    let mut song = Song::capture(&communicator, &stream, &[700]);
    let mut part = Part::new(&communicator, 700);
    part.fill(place.rank, 1, &stream);
    part.enqueue(&communicator, &stream).wait().map(|_| ()).unwrap();
    song.fill(&communicator, 2, &stream);
    part.fill(place.rank, 3, &stream);
    hall.meet();
    if place.rank == 0 {
        song.launch(&stream);
        stream.synchronize(LONG).unwrap();
        assert_eq!(song.seen(&communicator, &stream), [Seen::Nan]);
    } else {
        let ended = part.enqueue(&communicator, &stream).wait().map(|_| ());
        assert!(matches!(ended, Err(Error::Fault(_))), "{ended:?}");
        assert_eq!(part.seen(place.world, 3, &stream), Seen::Nan);
    }
    let fault = fault_of(&communicator);
    let text = fault.to_string();
    assert!(matches!(fault.kind, FaultKind::Mismatch { .. }), "{fault}");
    assert!(
        text.contains("capture 0, position 0") && text.contains("call 1"),
        "{text}"
    );
    is_poisoned(&communicator, &mut song, &stream);
    hall.meet();
}

/// What two at once may come to: a fault that says so, with no element that is neither right nor NaN; or, where they did not meet,
/// the right results.
fn met_or_not(communicator: &Communicator, seen: &[Seen], must: bool) {
    match communicator.check() {
        Ok(()) => assert!(
            !must && seen.iter().all(|seen| *seen == Seen::Right),
            "no fault, but {seen:?}"
        ),
        Err(Error::Poisoned { first }) => {
            assert!(
                matches!(first.kind, FaultKind::Overlap { .. } | FaultKind::Mismatch { .. }),
                "{first}"
            );
            let never = |seen: &Seen| matches!(seen, Seen::Right | Seen::Nan | Seen::Spoilt);
            assert!(seen.iter().all(never), "{first}: {seen:?}");
        }
        Err(error) => panic!("{error}"),
    }
}

/// Two graphs of one communicator on two streams, while the peers are still away: the second finds its lane taken.
pub fn two_replays_at_once_are_found(place: &Place) {
    for (round, choice) in CHOICES.into_iter().enumerate() {
        let (hall, communicator, stream) = opened(place, &round.to_string(), choice);
        let other = stream_of(&communicator);
        let mut songs = [&[700][..], &[6000, 9]].map(|lengths| Song::capture(&communicator, &stream, lengths));
        for (turn, song) in songs.iter_mut().enumerate() {
            song.plays(&communicator, turn, &stream);
            song.fill(&communicator, turn + 5, &stream);
        }
        let reckless = round % place.world;
        hall.meet();
        if place.rank == reckless {
            songs[0].launch(&stream);
            // Until its kernel waits.
            std::thread::sleep(Duration::from_millis(50));
            songs[1].launch(&other);
            stream.synchronize(LONG).unwrap();
            other.synchronize(LONG).unwrap();
            let fault = fault_of(&communicator);
            assert!(
                matches!(fault.kind, FaultKind::Overlap { rank } if rank.index() == reckless),
                "{fault}"
            );
        }
        hall.meet();
        if place.rank != reckless {
            let start = Instant::now();
            songs[0].launch(&stream);
            songs[1].launch(&stream);
            stream.synchronize(LONG).unwrap();
            assert!(start.elapsed() < margin() * 2);
            let fault = fault_of(&communicator);
            assert!(
                matches!(fault.kind, FaultKind::Overlap { rank } if rank.index() == reckless),
                "{fault}"
            );
        }
        let seen: Vec<Seen> = songs
            .iter_mut()
            .flat_map(|song| song.seen(&communicator, &stream))
            .collect();
        met_or_not(&communicator, &seen, true);
        is_poisoned(&communicator, &mut songs[0], &stream);
        hall.meet();
    }
}

/// All ranks launch two at once, at about the same time, and again: never is anything wrong.
pub fn replays_that_race_are_never_wrong(place: &Place) {
    let rounds = if driver::is_real() { 40 } else { 12 };
    for round in 0..rounds {
        let choice = CHOICES[round % 3];
        let (hall, communicator, stream) = opened(place, &round.to_string(), choice);
        communicator.set_deadline(Duration::from_secs(3)).unwrap();
        let other = stream_of(&communicator);
        let lengths = [&[700, 4000][..], &[6000, 9, 33], &[2]][round / 3 % 3];
        let mut songs = [(); 2].map(|()| Song::capture(&communicator, &stream, lengths));
        for (turn, song) in songs.iter_mut().enumerate() {
            song.fill(&communicator, turn + 5, &stream);
        }
        hall.meet();
        songs[0].launch(&stream);
        std::thread::sleep(Duration::from_micros(30 * (round * (1 + place.rank)) as u64));
        songs[1].launch(&other);
        stream.synchronize(LONG).unwrap();
        other.synchronize(LONG).unwrap();
        let seen: Vec<Seen> = songs
            .iter_mut()
            .flat_map(|song| song.seen(&communicator, &stream))
            .collect();
        met_or_not(&communicator, &seen, false);
        hall.meet();
    }
}

/// Two executables of one captured graph on two streams of each rank, in any order: nothing in their headers tells them apart. Their
/// buffers are the same, so either both have left the sum or it is a fault; inputs change from turn to turn, so that what an earlier
/// one has left somewhere would be seen.
pub fn executables_of_one_graph_are_never_silently_wrong(place: &Place) {
    let rounds = if driver::is_real() { 40 } else { 12 };
    for round in 0..rounds {
        let (hall, communicator, stream) = opened(place, &round.to_string(), CHOICES[round % 3]);
        communicator.set_deadline(Duration::from_secs(3)).unwrap();
        let other = stream_of(&communicator);
        let lengths = [&[700][..], &[6000, 9], &[2], &[30_000]][round / 3 % 4];
        let mut parts: Vec<Part> = lengths
            .iter()
            .map(|elements| Part::new(&communicator, *elements))
            .collect();
        let twins = Twins::capture(&communicator, &stream, &mut parts);
        for turn in 0..6 {
            parts.iter_mut().for_each(|part| part.fill(place.rank, turn, &stream));
            stream.synchronize(LONG).unwrap();
            hall.meet();
            let first = (turn + place.rank) % 2;
            twins.launch(first, &stream);
            // Ever shorter, so that the first ones of a round come one after the other and later ones meet.
            std::thread::sleep(Duration::from_micros(20_000 >> (3 * turn + round % 3 * place.rank)));
            twins.launch(1 - first, &other);
            stream.synchronize(LONG).unwrap();
            other.synchronize(LONG).unwrap();
            let seen = parts.iter_mut().map(|part| part.seen(place.world, turn, &stream));
            met_or_not(&communicator, &seen.collect::<Vec<_>>(), false);
            hall.meet();
        }
    }
}

/// A replay whose peers are away, and an eager call on another stream: the call finds its lane taken, and its receipt says so.
pub fn a_replay_beside_an_eager_call_is_found(place: &Place) {
    for round in 0..4 {
        let hall = Hall::new(&Place {
            name: format!("{}-{round}", place.name),
            ..*place
        });
        let (communicator, stream) = with_stream(place.join(&round.to_string()));
        let other = stream_of(&communicator);
        let mut song = Song::capture(&communicator, &stream, &[700, 5000]);
        let mut part = Part::new(&communicator, 900);
        song.plays(&communicator, 1, &stream);
        song.fill(&communicator, 2, &stream);
        part.fill(place.rank, 3, &other);
        other.synchronize(LONG).unwrap();
        hall.meet();
        let reckless = round % place.world;
        let eager_first = round / 2 % 2 == 1;
        if place.rank == reckless {
            let mut receipt = None;
            if eager_first {
                receipt = Some(part.enqueue(&communicator, &other));
                std::thread::sleep(Duration::from_millis(50));
            }
            song.launch(&stream);
            std::thread::sleep(Duration::from_millis(50));
            // A replay that has failed meanwhile refuses the call; here it still waits.
            let receipt = receipt.unwrap_or_else(|| part.enqueue(&communicator, &other));
            let ended = receipt.wait().map(|_| ());
            stream.synchronize(LONG).unwrap();
            let Err(Error::Fault(fault)) = &ended else {
                panic!("{ended:?}")
            };
            assert!(matches!(fault.kind, FaultKind::Overlap { .. }), "{fault}");
        }
        hall.meet();
        if place.rank != reckless {
            song.launch(&stream);
            stream.synchronize(LONG).unwrap();
            let fault = fault_of(&communicator);
            // Where the eager call came first, its header may be met before the alert.
            let ranks: Vec<usize> = fault.ranks().iter().map(|rank| rank.index()).collect();
            assert!(ranks.contains(&reckless), "{fault}");
            assert!(
                eager_first || matches!(fault.kind, FaultKind::Overlap { .. }),
                "{fault}"
            );
        }
        let mut seen = song.seen(&communicator, &stream);
        if place.rank == reckless {
            seen.push(part.seen(place.world, 3, &other));
        }
        met_or_not(&communicator, &seen, true);
        is_poisoned(&communicator, &mut song, &stream);
        hall.meet();
    }
}

/// A rank that leaves is named by the replays of those that stay.
pub fn a_rank_that_leaves_is_named_in_graphs(place: &Place) {
    let hall = Hall::new(place);
    for round in 0..3 {
        let (communicator, stream) = with_stream(place.join(&round.to_string()));
        let mut song = Song::capture(&communicator, &stream, &[800, 70]);
        song.plays(&communicator, round, &stream);
        let leaver = round % place.world;
        song.fill(&communicator, 5, &stream);
        hall.meet();
        if place.rank == leaver {
            communicator.close().unwrap();
            hall.meet();
            continue;
        }
        let start = Instant::now();
        song.launch(&stream);
        stream.synchronize(LONG).unwrap();
        assert!(start.elapsed() < margin() * 2);
        let fault = fault_of(&communicator);
        assert!(
            matches!(fault.kind, FaultKind::Departed { rank } if rank.index() == leaver),
            "{fault}"
        );
        let seen = song.seen(&communicator, &stream);
        assert!(seen.iter().all(|seen| *seen == Seen::Nan), "{seen:?}");
        is_poisoned(&communicator, &mut song, &stream);
        hall.meet();
    }
}

/// The last rank is killed while the others replay: theirs end soon, with NaN from there on.
pub fn a_rank_is_killed(place: &Place) {
    let (communicator, stream) = with_stream(place.join("killed"));
    let mut song = Song::capture(&communicator, &stream, &[1000; STEP]);
    song.plays(&communicator, 1, &stream);
    song.fill(&communicator, 2, &stream);
    let victim = place.world - 1;
    if place.rank == victim {
        std::thread::sleep(Duration::from_millis(300));
        kill_process(getpid(), Signal::KILL).unwrap();
    }
    let start = Instant::now();
    song.launch(&stream);
    stream.synchronize(LONG).unwrap();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let fault = fault_of(&communicator);
    let FaultKind::Died { ranks } = &fault.kind else {
        panic!("{fault}")
    };
    assert!(ranks.iter().all(|rank| rank.index() == victim), "{fault}");
    let seen = song.seen(&communicator, &stream);
    assert!(seen.iter().all(|seen| *seen == Seen::Nan), "{seen:?}");
    is_poisoned(&communicator, &mut song, &stream);
}
