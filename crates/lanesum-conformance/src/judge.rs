//! Judges receipts: each must name what was asked for, and come after the one before.

use std::fmt::Display;

use lanesum::{Communicator, Issued};
use lanesum_plan::{AlgorithmName, Buffers, Bytes, Path};

use crate::case::Case;
use crate::verdict::{Failure, ReceiptField};

/// What the receipts of a case must say.
pub(crate) struct ReceiptJudge {
    /// None where every algorithm is refused: no receipt is right then.
    algorithm: Option<AlgorithmName>,
    path: Path,
    bytes: u64,
    /// Epoch and ordinal of the call before.
    last: Option<(Option<u64>, u64)>,
    /// Whether the call is done when it returns, as on the host, or enqueued.
    at_once: bool,
    /// The number of the capture before.
    last_capture: Option<u32>,
}

impl ReceiptJudge {
    /// Algorithm and path are those that the case pins or, where it pins none, those that `explain` names.
    pub(crate) fn new(case: &Case, communicator: &Communicator) -> ReceiptJudge {
        let request = case.request(0);
        let explanation = communicator.explain(&request);
        ReceiptJudge {
            algorithm: case.pinned().or(explanation.chosen),
            path: case.pinned_path().unwrap_or(explanation.path),
            bytes: request.bytes().get(),
            last: None,
            at_once: case.buffers != Buffers::Device,
            last_capture: None,
        }
    }

    /// Judges what the only call of a capture gave.
    pub(crate) fn judge_captured(&mut self, issued: &Issued) -> Result<(), Failure> {
        let captured = match issued {
            Issued::Captured(captured) => captured,
            Issued::Done(_) => return Err(wrong(0, ReceiptField::Presence, "captured", "done")),
            Issued::Enqueued(_) => return Err(wrong(0, ReceiptField::Presence, "captured", "enqueued")),
        };
        self.judge_what(0, (captured.algorithm(), captured.path()), captured.bytes())?;
        let last = self.last_capture.replace(captured.capture());
        let expected = last.map_or(captured.capture(), |last| last + 1);
        if (captured.capture(), captured.position()) != (expected, 0) {
            let place = |(capture, position)| format!("{capture}, {position}");
            let found = place((captured.capture(), captured.position()));
            return Err(wrong(0, ReceiptField::Place, place((expected, 0)), found));
        }
        Ok(())
    }

    fn judge_what(&self, call: u32, (algorithm, path): (AlgorithmName, Path), bytes: Bytes) -> Result<(), Failure> {
        if Some(algorithm) != self.algorithm {
            let expected = self.algorithm.map_or("none", AlgorithmName::name);
            return Err(wrong(call, ReceiptField::Algorithm, expected, algorithm));
        }
        if path != self.path {
            return Err(wrong(call, ReceiptField::Path, self.path, path));
        }
        if bytes.get() != self.bytes {
            return Err(wrong(call, ReceiptField::Bytes, self.bytes, bytes.get()));
        }
        Ok(())
    }

    pub(crate) fn judge(&mut self, call: u32, issued: &Issued) -> Result<(), Failure> {
        let receipt = match (issued, self.at_once) {
            (Issued::Done(receipt), true) | (Issued::Enqueued(receipt), false) => receipt,
            (Issued::Done(_), false) => return Err(wrong(call, ReceiptField::Presence, "enqueued", "done")),
            (Issued::Enqueued(_), true) => return Err(wrong(call, ReceiptField::Presence, "done", "enqueued")),
            (Issued::Captured(_), _) => return Err(wrong(call, ReceiptField::Presence, "run", "captured")),
        };
        let (epoch, ordinal) = (receipt.epoch(), receipt.ordinal());
        let last = self.last.replace((epoch, ordinal));
        self.judge_what(call, (receipt.algorithm(), receipt.path()), receipt.bytes())?;
        let Some((last_epoch, last_ordinal)) = last else {
            return Ok(());
        };
        // Epochs wrap: the later one is a short way ahead, whatever the numbers.
        let shared_epochs = self.algorithm != Some(AlgorithmName::Alone);
        if let (true, Some(epoch), Some(last_epoch)) = (shared_epochs, epoch, last_epoch) {
            let ahead = epoch.wrapping_sub(last_epoch);
            if ahead == 0 || ahead > u64::from(u32::MAX) {
                return Err(wrong(call, ReceiptField::Epoch, format!("above {last_epoch}"), epoch));
            }
        }
        if ordinal != last_ordinal.wrapping_add(1) {
            return Err(wrong(
                call,
                ReceiptField::Ordinal,
                last_ordinal.wrapping_add(1),
                ordinal,
            ));
        }
        Ok(())
    }
}

fn wrong(call: u32, field: ReceiptField, expected: impl Display, found: impl Display) -> Failure {
    Failure::Receipt {
        call,
        field,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}
