//! The graphs of a soak.
#![allow(unsafe_code, reason = "launches graphs")]

use lanesum::cuda::{Graph, Stream};
use lanesum::{Communicator, Error};

use super::device_soak::{Desks, Draw};
use super::soak::drawn;

/// How many graphs there are at a time.
const GRAPHS: usize = 4;
/// After how many stretches one of them is captured anew.
const RENEWAL: usize = 16;
/// The most calls of a graph.
const CALLS: usize = 9;

/// Graphs, with what their calls are and name.
#[derive(Default)]
pub struct Songs(Vec<Song>);

struct Song {
    graph: Graph,
    draws: Vec<Draw>,
    desks: Desks,
    played: bool,
}

impl Song {
    fn capture(communicator: &Communicator, stream: &Stream, seed: &mut u64, number: usize) -> Result<Song, Error> {
        let calls = 1 + drawn(seed, CALLS);
        let draws: Vec<Draw> = (0..calls)
            .map(|call| Draw::next(seed, (number * CALLS + call) as u64))
            .collect();
        let mut desks = Desks::new(communicator, calls)?;
        let capture = stream.begin_capture()?;
        for (place, draw) in draws.iter().enumerate() {
            desks.issue(communicator, place, draw, stream)?;
        }
        Ok(Song {
            graph: capture.finish()?,
            draws,
            desks,
            played: false,
        })
    }
}

impl Songs {
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Captures a graph now and then, in the place of the oldest.
    pub fn renew(
        &mut self,
        communicator: &Communicator,
        on: &Stream,
        seed: &mut u64,
        stretch: usize,
    ) -> Result<(), Error> {
        // The first stretch goes without, on several streams.
        if stretch == 0 || (self.0.len() == GRAPHS && !stretch.is_multiple_of(RENEWAL)) {
            return Ok(());
        }
        if self.0.len() == GRAPHS {
            drop(self.0.remove(0));
        }
        self.0.push(Song::capture(communicator, on, seed, stretch)?);
        Ok(())
    }

    /// Brings other inputs.
    pub fn turn(&mut self, communicator: &Communicator, turn: usize, stream: &Stream) -> Result<(), Error> {
        for song in &mut self.0 {
            song.played = false;
            song.desks.turn(communicator, turn, stream)?;
        }
        Ok(())
    }

    /// Replays one of them, and says how many calls that makes.
    pub fn play(&mut self, seed: &mut u64, stream: &Stream) -> Result<usize, Error> {
        if !self.any() {
            return Ok(0);
        }
        let which = drawn(seed, self.0.len());
        let song = &mut self.0[which];
        song.played = true;
        // SAFETY: the soak waits for the stream before it gives up a graph or looks at its buffers.
        unsafe { song.graph.launch(stream)? };
        Ok(song.draws.len())
    }

    /// A call of a graph that was replayed since the inputs changed, and has left something wrong.
    pub fn wrong(&mut self, world: usize, stream: &Stream) -> Result<Option<Draw>, Error> {
        for song in self.0.iter_mut().filter(|song| song.played) {
            for (place, draw) in song.draws.iter().enumerate() {
                if !song.desks.is_right(world, place, draw, stream)? {
                    return Ok(Some(draw.clone()));
                }
            }
        }
        Ok(None)
    }
}
