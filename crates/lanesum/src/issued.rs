//! What a call returns: proof that a named reduction was issued.

use lanesum_host::Closed;
use lanesum_plan::{AlgorithmName, Bytes, Engine, Path};

/// A reduction that was issued. There is no other way to succeed, and it can't be overlooked:
///
/// ```
/// #![deny(unused_must_use)]
/// fn noted(communicator: &lanesum::Communicator) -> Result<(), lanesum::Error> {
///     let _issued = communicator.barrier()?;
///     Ok(())
/// }
/// ```
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn ignored(communicator: &lanesum::Communicator) -> Result<(), lanesum::Error> {
///     communicator.barrier()?;
///     Ok(())
/// }
/// ```
#[must_use = "a receipt says what ran; dropping it unread hides whether anything did"]
#[derive(Debug)]
pub enum Issued {
    /// It is complete: the output holds the result. Calls on host memory are.
    Done(Receipt),
    /// It was enqueued on the caller's stream. The receipt proves local enqueue, not completion. No engine of
    /// this version makes it.
    Enqueued(Receipt),
    /// It was recorded into the graph that the stream captures, and runs when the graph is replayed. No engine of
    /// this version makes it.
    Captured(Captured),
}

impl Issued {
    /// The receipt of a call that runs now.
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Done(receipt) | Self::Enqueued(receipt) => Some(receipt),
            Self::Captured(_) => None,
        }
    }
}

/// Proof that one reduction was issued on this rank, and what ran. Minted only from what an engine hands over after the
/// fact; it can't be copied or made up.
///
/// ```
/// fn kept(receipt: lanesum::Receipt) -> lanesum::Receipt {
///     receipt
/// }
/// ```
/// ```compile_fail
/// fn twice(receipt: &lanesum::Receipt) -> lanesum::Receipt {
///     receipt.clone()
/// }
/// ```
/// ```compile_fail
/// fn forged() -> lanesum::Receipt {
///     lanesum::Receipt::default()
/// }
/// ```
#[must_use = "a receipt says what ran"]
#[derive(Debug)]
pub struct Receipt {
    algorithm: AlgorithmName,
    engine: Engine,
    path: Path,
    bytes: Bytes,
    ordinal: u64,
    epoch: u64,
}

/// What a decision names of a reduction, for its receipt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) algorithm: AlgorithmName,
    pub(crate) engine: Engine,
    pub(crate) path: Path,
    pub(crate) bytes: Bytes,
    pub(crate) ordinal: u64,
}

impl Receipt {
    /// The receipt of a host call whose last epoch is closed.
    pub(crate) fn of(named: Named, closed: Closed) -> Self {
        let Named {
            algorithm,
            engine,
            path,
            bytes,
            ordinal,
        } = named;
        Self {
            algorithm,
            engine,
            path,
            bytes,
            ordinal,
            epoch: closed.epoch(),
        }
    }

    /// The algorithm that ran.
    pub fn algorithm(&self) -> AlgorithmName {
        self.algorithm
    }

    /// The engine that ran it.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// How bytes reached the peers.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Bytes of the message on one rank.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Number of the call on its communicator, from 0.
    pub fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Epoch of the call's last exchange.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// A reduction recorded into a graph.
#[must_use = "a captured reduction has not run"]
#[derive(Debug)]
pub struct Captured {
    /// Made by engines that capture; the host engine does not.
    _recorded: core::convert::Infallible,
}
