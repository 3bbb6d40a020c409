//! The C ABI of lanesum: what C says becomes a call of the Rust library, and what that answers becomes C's. Nothing is decided here.
//!
//! Five rules shape it:
//!
//! 1. A function that can fail returns a [`status::Status`], and says why in an [`error::Error`] that the caller owns.
//! 2. No panic crosses the boundary, and no NULL is followed: both are statuses ([`boundary`]).
//! 3. Words and numbers of C are compared with what there is before they become enums of Rust ([`words`]).
//! 4. A communicator has one caller at a time. A second thread that comes meanwhile is refused and does not wait: which of two calls
//!    goes first is for the caller to order, as it must be the same on all ranks.
//! 5. What grows is opaque, or begins with its size.
//!
//! The functions are in private modules, as nobody calls them from Rust. Their comments are the header's
//! (`cargo xtask docs` writes include/lanesum.h), and what all of them ask of pointers stands in its head (cbindgen.toml).

mod boundary;
mod calls;
mod communicator;
mod error;
mod failure;
mod issued;
mod join;
mod options;
mod refusal;
mod reports;
mod status;
mod version;
mod words;
