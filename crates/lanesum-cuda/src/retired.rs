//! What outlives its communicator: memory where a late peer may still write, and what graphs still run with.
//!
//! It is looked at again whenever a communicator of the process is made or ends, and never from a callback of the driver, which
//! forbids its calls there; what can't be freed by then stays until the process ends.

use std::sync::{Mutex, PoisonError};

use crate::inbox::Inbox;
use crate::staged::Staged;

enum Kept {
    /// Plain memory, shared by CUDA IPC.
    Inbox(Inbox),
    /// Module and memory of a communicator whose captured calls are in graphs.
    Staged(Box<Staged>),
}

struct Retired {
    kept: Kept,
    peers_left: Box<dyn Fn() -> bool + Send>,
}

impl Retired {
    fn may_go(&mut self) -> bool {
        match &mut self.kept {
            Kept::Inbox(inbox) => !inbox.dies_for_peers() || (self.peers_left)(),
            Kept::Staged(staged) => !staged.graphs.any() && (!staged.dies_for_peers() || (self.peers_left)()),
        }
    }

    fn go(self) {
        match self.kept {
            Kept::Inbox(inbox) => drop(inbox),
            Kept::Staged(mut staged) => {
                // Nobody writes there any more: it is not to be kept again.
                drop(staged.take_own_inbox());
            }
        }
    }
}

static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());

/// Frees an inbox, now or once no peer can write there any more.
pub(crate) fn keep_inbox(inbox: Inbox, peers_left: impl Fn() -> bool + Send + 'static) {
    keep(Kept::Inbox(inbox), Box::new(peers_left));
}

/// Frees what an ended communicator has, once no graph runs with it and no peer can write there any more.
pub(crate) fn keep_staged(staged: Box<Staged>, peers_left: impl Fn() -> bool + Send + 'static) {
    keep(Kept::Staged(staged), Box::new(peers_left));
}

fn keep(kept: Kept, peers_left: Box<dyn Fn() -> bool + Send>) {
    let retired = Retired { kept, peers_left };
    RETIRED.lock().unwrap_or_else(PoisonError::into_inner).push(retired);
    collect();
}

/// Frees what is not needed any more.
pub(crate) fn collect() {
    let gone: Vec<Retired> = {
        let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
        retired.extract_if(.., Retired::may_go).collect()
    };
    // With the list open again: what ends may have something to retire.
    gone.into_iter().for_each(Retired::go);
}
