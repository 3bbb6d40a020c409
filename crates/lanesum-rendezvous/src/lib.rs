//! How the ranks of one host find each other, pass descriptors and byte strings, and notice deaths.
//!
//! Ranks meet at a Unix socket (`SOCK_SEQPACKET`, one message a packet) in a directory that only their user may enter.
//! Rank 0 serves, the others connect; nobody needs /dev/shm, ptrace rights or a common PID namespace:
//!
//! ```text
//! rank 0                                      rank r
//! lock <name>.lock, bind <name>.sock          connect, again after 0.2 ms growing to 5 ms
//! Greeting + pidfd of rank 0            --->  checks user, protocol, version
//!                                       <---  Hello: rank, world, terms, facts + own pidfd
//! checks; when all ranks are here:
//! Welcome, then one Member for each rank --->  facts and pidfds of everybody
//! Share + descriptor                    --->  (share)
//!                                       <---  Bring what, digest (agree)
//! Agreed                                --->
//!                                       <---  Give bytes + descriptor (exchange)
//! Given by each other rank + descriptor --->
//!                                       <---  Finish (finish)
//! unlink, unlock, then Done             --->  the name is free
//! ```
//!
//! Why it is built so:
//! 1. *Each rank sends a pidfd of itself.* A pid means nothing in another container, and a descriptor names one process
//!    for ever. A pidfd becomes readable within microseconds of a death, also where a forked child holds the dead
//!    process's sockets open and their end-of-file would come seconds later.
//! 2. *Rank 0 tells every rank why it failed* ([`Refusal`] travels in a packet), so that one wrong setting gives the same
//!    error everywhere instead of one error and many time-outs.
//! 3. *A lock besides the socket.* A socket file does not tell whether its server lives; the kernel drops a `flock` with
//!    its last holder, so a stale socket is removed only under the lock. Where a forked child of a dead rank 0 still
//!    holds the lock, the credentials of the listening socket show that its server is gone.
//! 4. *Every wait polls with a deadline*, and no thread is started before [`Peers::watch`].
//!
//! Known limit: ranks that are threads of one process are told apart from strangers by process id and a random token,
//! and are not watched, since a process cannot outlive itself: a thread that ends is noticed by deadlines alone.
#![deny(unsafe_code)]

mod claim;
mod client;
mod credentials;
mod deadline;
mod desk;
mod directory;
mod error;
mod exchange;
mod guests;
mod link;
mod meeting;
mod messages;
mod names;
mod phrases;
mod process;
mod server;
mod visit;
mod watch;

pub use error::{DirectoryProblem, Refusal, RendezvousError};
pub use exchange::{PARCEL_MAX, Parcel};
pub use meeting::{Join, Meeting, meet};
pub use watch::{Peers, Watch};
