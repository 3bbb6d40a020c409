//! The segment for loom: control words on the heap, no payload (tests bring their own), no futex.

use std::time::Duration;

use crate::layout::{Bell, Control, Geometry, Head, Line, Sleepers, Status};
use crate::sync::{AtomicU32, AtomicU64, yield_now};

/// The control words of a segment on the heap.
#[derive(Debug)]
pub struct Segment {
    geometry: Geometry,
    head: Head,
    controls: Vec<Control>,
}

fn word(value: u64) -> AtomicU64 {
    AtomicU64::new(value)
}

fn line(stale: u64) -> Line {
    Line {
        header: word(u64::from(stale as u32)),
        descriptor: std::array::from_fn(|_| word(0)),
        offset: word(0),
        result: word(stale),
        closing: word(stale),
    }
}

fn control(geometry: &Geometry) -> Control {
    Control {
        lines: [line(geometry.stale(0)), line(geometry.stale(1))],
        status: Status {
            word: word(0),
            kind: word(0),
            ranks: word(0),
            epoch: word(0),
            waited: word(0),
            phase: word(0),
            ours: std::array::from_fn(|_| word(0)),
            theirs: std::array::from_fn(|_| word(0)),
            by: word(0),
        },
        bell: Bell {
            word: AtomicU32::new(0),
        },
    }
}

impl Segment {
    /// Formats control words for the model checker.
    pub fn for_loom(geometry: Geometry) -> Self {
        let head = Head {
            magic: word(0),
            version: AtomicU32::new(0),
            world: AtomicU32::new(0),
            mailbox: word(0),
            shared: word(0),
            first_epoch: word(0),
            digest: word(0),
            total: word(0),
            reserved: [0; 49],
            sleepers: Sleepers { bits: word(0) },
        };
        let controls = (0..geometry.world()).map(|_| control(&geometry)).collect();
        Self {
            geometry,
            head,
            controls,
        }
    }

    /// Its geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn control(&self, rank: usize) -> &Control {
        &self.controls[rank]
    }
}

pub(crate) fn futex_wake(_bell: &AtomicU32) {}

pub(crate) fn futex_wait(_bell: &AtomicU32, _number: u32, _time: Duration) {
    yield_now();
}
