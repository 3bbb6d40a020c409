//! Memory that outlives its communicator because a late peer may still write there.
//!
//! Only plain allocations shared by CUDA IPC need it. They are looked at again whenever a communicator ends; what cannot be
//! freed by then stays until the process ends.

use std::sync::{Mutex, PoisonError};

use crate::inbox::Inbox;

struct Retired {
    _inbox: Inbox,
    peers_left: Box<dyn Fn() -> bool + Send>,
}

static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());

/// Frees an inbox, now or once no peer can write there any more.
pub(crate) fn keep_until(inbox: Inbox, peers_left: impl Fn() -> bool + Send + 'static) {
    let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
    retired.retain(|before| !(before.peers_left)());
    if inbox.dies_for_peers() && !peers_left() {
        retired.push(Retired {
            _inbox: inbox,
            peers_left: Box::new(peers_left),
        });
    }
}
