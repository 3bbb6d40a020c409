//! The path between GPUs that the ranks of a scene take: most scenes are the same on each.

use std::cell::Cell;

use lanesum::Communicator;
use lanesum_plan::{Buffers, Dtype, Elements, Operation, Path, PathChoice, Request};

thread_local! {
    static CHOSEN: Cell<PathChoice> = const { Cell::new(PathChoice::Auto) };
}

/// Ends the choice, also where a scene panics.
struct Until;

impl Drop for Until {
    fn drop(&mut self) {
        CHOSEN.set(PathChoice::Auto);
    }
}

/// Plays scenes whose ranks, wherever they leave the path open, pin this one.
pub fn along(path: PathChoice, scenes: impl FnOnce()) {
    CHOSEN.set(path);
    let _until = Until;
    scenes();
}

/// What the ranks that are started now are to pin.
pub fn chosen() -> PathChoice {
    CHOSEN.get()
}

const ONE: Request = Request {
    operation: Operation::Sum,
    dtype: Dtype::F32,
    elements: Elements::new(1),
    buffers: Buffers::Device,
    label: None,
};

/// The path that calls on GPU memory take.
pub fn of(communicator: &Communicator) -> Path {
    communicator.explain(&ONE).path
}

/// Why they do not take the other.
pub fn other(communicator: &Communicator) -> Option<String> {
    communicator.explain(&ONE).other_path.map(|other| other.reason)
}

/// Checks that a communicator of several ranks has what was pinned.
pub fn is_kept(communicator: &Communicator, choice: PathChoice) {
    let expected = match choice {
        PathChoice::Auto => return,
        PathChoice::Peer => Path::Peer,
        PathChoice::HostStaged => Path::HostStaged,
    };
    if communicator.device().is_some() && communicator.world().get() > 1 {
        assert_eq!(of(communicator), expected);
    }
}
