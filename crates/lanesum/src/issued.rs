//! What a call returns: proof that a named reduction was issued.

use std::sync::Arc;

use lanesum_cuda::{Pending, Unfinished};
use lanesum_host::Closed;
use lanesum_plan::{Algorithm, AlgorithmName, Bytes, Engine, Path};
use lanesum_segment::ForkGuard;

use crate::error::{Error, Refused};

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
    /// It was enqueued on the caller's stream. The receipt proves local enqueue, not completion: for that there is
    /// [`Receipt::wait`]. Calls on GPU memory are.
    Enqueued(Receipt),
    /// It was recorded into the graph that the stream is captured into, and runs each time that the graph is launched. Calls on
    /// GPU memory are, where the stream is being captured.
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
    stage: Stage,
}

/// How far the call has come.
#[derive(Debug)]
enum Stage {
    /// It is complete; the epoch of its last exchange.
    Closed(u64),
    /// It is on a stream. On the heap, so that receipts of the host's calls stay a few words.
    Enqueued(Box<(Pending, Arc<ForkGuard>)>),
}

/// The call, for the process that made it: a forked child would ask its parent's GPU.
fn own((pending, guard): &(Pending, Arc<ForkGuard>)) -> Result<&Pending, Error> {
    match guard.is_forked() {
        true => Err(Refused::Forked.into()),
        false => Ok(pending),
    }
}

/// Proof that a call has completed on this rank: its output holds the result.
#[must_use = "says that the output holds the result"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed(());

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
    #[inline]
    pub(crate) fn of(named: Named, closed: Closed) -> Self {
        Self::at(named, Stage::Closed(closed.epoch()))
    }

    /// The receipt of a call that the driver has accepted.
    #[inline]
    pub(crate) fn pending(named: Named, pending: Pending, guard: Arc<ForkGuard>) -> Self {
        Self::at(named, Stage::Enqueued(Box::new((pending, guard))))
    }

    #[inline]
    fn at(named: Named, stage: Stage) -> Self {
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
            stage,
        }
    }

    /// Waits until the call has completed; for a call on a stream, until all that was enqueued there since has completed too.
    ///
    /// # Errors
    /// [`Error::Fault`] if it, or a call before it, has failed; its output holds NaN. [`Error::Cuda`] if it has not ended, and
    /// no eager call of the communicator has for two seconds more than the deadline, because other work holds the stream up: nothing is
    /// known of the call then. [`Refused::Forked`] in a forked child, for a call on a stream.
    pub fn wait(&self) -> Result<Completed, Error> {
        match &self.stage {
            Stage::Closed(_) => Ok(Completed(())),
            Stage::Enqueued(enqueued) => match own(enqueued)?.wait() {
                Ok(_) => Ok(Completed(())),
                Err(Unfinished::Failed(fault)) => Err(fault.into()),
                Err(Unfinished::Late(error)) => Err(error.into()),
            },
        }
    }

    /// Whether the call has completed; never waits.
    ///
    /// # Errors
    /// [`Error::Fault`] as for [`Receipt::wait`].
    pub fn poll(&self) -> Result<Option<Completed>, Error> {
        match &self.stage {
            Stage::Closed(_) => Ok(Some(Completed(()))),
            Stage::Enqueued(enqueued) => Ok(own(enqueued)?.poll()?.map(|_| Completed(()))),
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

    /// Number of the call on its communicator, from 0; calls that are captured have none.
    pub fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Epoch of the call's last exchange. `None` for calls on GPU memory: their epochs live on the device.
    pub fn epoch(&self) -> Option<u64> {
        match self.stage {
            Stage::Closed(epoch) => Some(epoch),
            Stage::Enqueued(..) => None,
        }
    }
}

/// Proof that one reduction was recorded into a CUDA graph on this rank. It has not run, and runs once a launch of the graph.
///
/// A launch has no receipt: whether it went well is known when its stream is done, and then from
/// [`Communicator::check`](crate::Communicator::check) or the next call. A launch that failed leaves NaN in the outputs of the
/// failed call and of all after it; where it ran beside another one, or the communicator ended meanwhile, only in the parts that it
/// had not finished.
///
/// Peers compare capture and position when the graph runs: all ranks capture the same calls in the same order, and launch
/// the graphs in the same order. Launches of graphs and eager calls of one communicator are ordered by the caller, by one stream or
/// by events; two at once are found out, and poison.
#[must_use = "a captured reduction has not run"]
#[derive(Debug)]
pub struct Captured {
    algorithm: AlgorithmName,
    engine: Engine,
    path: Path,
    bytes: Bytes,
    capture: u32,
    position: u32,
}

impl Captured {
    /// Of a call that the driver has recorded.
    pub(crate) fn of(decided: &Algorithm, bytes: Bytes, (capture, position): (u32, u32)) -> Self {
        Self {
            algorithm: decided.name(),
            engine: decided.engine(),
            path: decided.path(),
            bytes,
            capture,
            position,
        }
    }

    /// The algorithm that will run.
    pub fn algorithm(&self) -> AlgorithmName {
        self.algorithm
    }

    /// The engine that will run it.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// How bytes will reach the peers.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Bytes of the message on one rank.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Number of the capture among those that the communicator has met, from 0.
    pub fn capture(&self) -> u32 {
        self.capture
    }

    /// Number of the call among those of the communicator in the capture, from 0.
    pub fn position(&self) -> u32 {
        self.position
    }
}
