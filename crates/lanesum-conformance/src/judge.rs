//! Judges receipts: each must name what was asked for, and come after the one before.

use std::fmt::Display;

use lanesum::{Communicator, Issued};
use lanesum_plan::{AlgorithmName, Buffers};

use crate::case::Case;
use crate::verdict::{Failure, ReceiptField};

/// What the receipts of a case must say.
pub(crate) struct ReceiptJudge {
    /// None where every algorithm is refused: no receipt is right then.
    algorithm: Option<AlgorithmName>,
    bytes: u64,
    /// Epoch and ordinal of the call before.
    last: Option<(Option<u64>, u64)>,
    /// Whether the call is done when it returns, as on the host, or enqueued.
    at_once: bool,
}

impl ReceiptJudge {
    /// The algorithm is the one that the case pins or, where it pins none, the one that `explain` names.
    pub(crate) fn new(case: &Case, communicator: &Communicator) -> ReceiptJudge {
        let request = case.request(0);
        let algorithm = case.pinned().or_else(|| communicator.explain(&request).chosen);
        ReceiptJudge {
            algorithm,
            bytes: request.bytes().get(),
            last: None,
            at_once: case.buffers != Buffers::Device,
        }
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
        if Some(receipt.algorithm()) != self.algorithm {
            let expected = self.algorithm.map_or("none", AlgorithmName::name);
            return Err(wrong(call, ReceiptField::Algorithm, expected, receipt.algorithm()));
        }
        if receipt.bytes().get() != self.bytes {
            return Err(wrong(call, ReceiptField::Bytes, self.bytes, receipt.bytes().get()));
        }
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
