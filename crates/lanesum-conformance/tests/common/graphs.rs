//! Calls in graphs, as the scenes of `cuda_graphs.rs` capture, replay and judge them.
#![allow(unsafe_code, reason = "launches graphs")]

use lanesum::cuda::{DeviceBuffer, Graph, Stream};
use lanesum::{AllReduce, Captured, Communicator, Error, Fault, Issued, Receipt};

use super::life_scenes::{LONG, Place, stream_of, value};

/// What stands in an output before a call; no sum is negative.
const UNTOUCHED: f32 = -7.0;

/// What an output holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The sum.
    Right,
    /// NaN everywhere.
    Nan,
    /// Nothing was written.
    Untouched,
    /// Each element is right or NaN.
    Spoilt,
    /// Some element is neither.
    Wrong,
}

/// One call's buffers.
pub struct Part {
    pub label: Option<u64>,
    input: DeviceBuffer<f32>,
    output: DeviceBuffer<f32>,
    host: Vec<f32>,
}

impl Part {
    pub fn new(communicator: &Communicator, elements: usize) -> Part {
        let buffer = || DeviceBuffer::new(communicator.device().unwrap(), elements).unwrap();
        Part {
            label: None,
            input: buffer(),
            output: buffer(),
            host: vec![0.0; elements],
        }
    }

    /// Brings a rank's input of a turn, and something that is no result.
    pub fn fill(&mut self, rank: usize, turn: usize, stream: &Stream) {
        self.host.fill(UNTOUCHED);
        self.output.copy_from(&self.host, stream).unwrap();
        for (i, element) in self.host.iter_mut().enumerate() {
            *element = value(rank, turn, i);
        }
        self.input.copy_from(&self.host, stream).unwrap();
    }

    pub fn issue(&mut self, communicator: &Communicator, stream: &Stream) -> Result<Issued, Error> {
        let call = AllReduce::device_to(&self.input, &mut self.output, stream);
        communicator.all_reduce(match self.label {
            Some(label) => call.label(label),
            None => call,
        })
    }

    pub fn enqueue(&mut self, communicator: &Communicator, stream: &Stream) -> Receipt {
        match self.issue(communicator, stream).unwrap() {
            Issued::Enqueued(receipt) => receipt,
            other @ (Issued::Done(_) | Issued::Captured(_)) => panic!("not enqueued: {other:?}"),
        }
    }

    pub fn record(&mut self, communicator: &Communicator, stream: &Stream) -> Captured {
        match self.issue(communicator, stream).unwrap() {
            Issued::Captured(captured) => captured,
            other @ (Issued::Done(_) | Issued::Enqueued(_)) => panic!("not captured: {other:?}"),
        }
    }

    /// Waits for the output on a stream that is being captured, which the driver refuses; tells how.
    pub fn fetch_while_captured(&mut self, stream: &Stream) -> String {
        let fetched = self.output.copy_to(&mut self.host, stream);
        fetched.unwrap_err().to_string()
    }

    /// What the output holds, once the stream is done.
    pub fn seen(&mut self, world: usize, turn: usize, stream: &Stream) -> Seen {
        self.output.copy_to(&mut self.host, stream).unwrap();
        let right = |i: usize| (0..world).map(|rank| value(rank, turn, i)).sum::<f32>();
        let all = |judge: &dyn Fn(usize, f32) -> bool| self.host.iter().enumerate().all(|(i, found)| judge(i, *found));
        if all(&|i, found| found == right(i)) {
            Seen::Right
        } else if all(&|_, found| found.is_nan()) {
            Seen::Nan
        } else if all(&|_, found| found == UNTOUCHED) {
            Seen::Untouched
        } else if all(&|i, found| found == right(i) || found.is_nan()) {
            Seen::Spoilt
        } else {
            Seen::Wrong
        }
    }
}

/// A graph and what its calls name.
pub struct Song {
    pub graph: Graph,
    pub parts: Vec<Part>,
    pub captured: Vec<Captured>,
    turn: usize,
}

impl Song {
    /// Captures a call of each of these lengths.
    pub fn capture(communicator: &Communicator, stream: &Stream, lengths: &[usize]) -> Song {
        let parts = lengths.iter().map(|elements| Part::new(communicator, *elements));
        Song::capture_parts(communicator, stream, parts.collect())
    }

    pub fn capture_parts(communicator: &Communicator, stream: &Stream, mut parts: Vec<Part>) -> Song {
        let capture = stream.begin_capture().unwrap();
        let captured = parts.iter_mut().map(|part| part.record(communicator, stream)).collect();
        let graph = capture.finish().unwrap();
        assert_eq!(graph.nodes(), parts.len());
        Song {
            graph,
            parts,
            captured,
            turn: 0,
        }
    }

    /// Brings the inputs of the next turn.
    pub fn fill(&mut self, communicator: &Communicator, turn: usize, stream: &Stream) {
        self.turn = turn;
        for part in &mut self.parts {
            part.fill(communicator.rank().index(), turn, stream);
        }
        stream.synchronize(LONG).unwrap();
    }

    pub fn launch(&self, stream: &Stream) {
        // SAFETY: the scenes wait for their streams before they give up a song or look at its buffers.
        unsafe { self.graph.launch(stream) }.unwrap();
    }

    pub fn seen(&mut self, communicator: &Communicator, stream: &Stream) -> Vec<Seen> {
        let (world, turn) = (communicator.world().get(), self.turn);
        self.parts
            .iter_mut()
            .map(|part| part.seen(world, turn, stream))
            .collect()
    }

    /// One turn that goes well.
    pub fn plays(&mut self, communicator: &Communicator, turn: usize, stream: &Stream) {
        self.fill(communicator, turn, stream);
        self.launch(stream);
        self.has_gone_well(communicator, stream);
    }

    pub fn has_gone_well(&mut self, communicator: &Communicator, stream: &Stream) {
        stream.synchronize(LONG).unwrap();
        communicator.check().unwrap();
        let seen = self.seen(communicator, stream);
        assert!(
            seen.iter().all(|seen| *seen == Seen::Right),
            "turn {}: {seen:?}",
            self.turn
        );
    }

    /// A turn of a communicator that has failed or ended: it ends by itself, and all is NaN.
    pub fn gives_nan(&mut self, communicator: &Communicator, turn: usize, stream: &Stream) {
        self.fill(communicator, turn, stream);
        self.launch(stream);
        stream.synchronize(LONG).unwrap();
        let seen = self.seen(communicator, stream);
        assert!(seen.iter().all(|seen| *seen == Seen::Nan), "turn {turn}: {seen:?}");
    }
}

/// The fault that has been met.
pub fn fault_of(communicator: &Communicator) -> Fault {
    match communicator.check() {
        Err(Error::Poisoned { first }) => *first,
        other @ (Ok(()) | Err(_)) => panic!("no fault: {other:?}"),
    }
}

/// A communicator for host memory, that keeps ranks together.
pub struct Hall(Communicator);

impl Hall {
    pub fn new(place: &Place) -> Hall {
        let host = Communicator::builder(place.rank, place.world, format!("{}-hall", place.name));
        Hall(host.deadline(LONG).join().unwrap())
    }

    /// Returns when all ranks are here.
    pub fn meet(&self) {
        assert!(self.0.barrier().unwrap().receipt().is_some());
    }
}

/// A communicator with its stream.
pub fn with_stream(communicator: Communicator) -> (Communicator, Stream) {
    let stream = stream_of(&communicator);
    (communicator, stream)
}
