//! Judges receipts: each must name what was asked for, and come after the one before.

use std::fmt::Display;

use lanesum::{Communicator, Issued};
use lanesum_plan::AlgorithmName;

use crate::case::Case;
use crate::verdict::{Failure, ReceiptField};

/// What the receipts of a case must say.
pub(crate) struct ReceiptJudge {
    algorithm: AlgorithmName,
    bytes: u64,
    /// Epoch and ordinal of the call before.
    last: Option<(u64, u64)>,
}

impl ReceiptJudge {
    /// The algorithm is the one that the case pins or, where it pins none, the one that `explain` names.
    pub(crate) fn new(case: &Case, communicator: &Communicator) -> ReceiptJudge {
        let request = case.request(0);
        let algorithm = case.pinned().unwrap_or_else(|| communicator.explain(&request).chosen);
        ReceiptJudge {
            algorithm,
            bytes: request.bytes().get(),
            last: None,
        }
    }

    pub(crate) fn judge(&mut self, call: u32, issued: &Issued) -> Result<(), Failure> {
        let Issued::Done(receipt) = issued else {
            return Err(wrong(call, ReceiptField::Presence, "done", "not done"));
        };
        let (epoch, ordinal) = (receipt.epoch(), receipt.ordinal());
        let last = self.last.replace((epoch, ordinal));
        if receipt.algorithm() != self.algorithm {
            return Err(wrong(
                call,
                ReceiptField::Algorithm,
                self.algorithm,
                receipt.algorithm(),
            ));
        }
        if receipt.bytes().get() != self.bytes {
            return Err(wrong(call, ReceiptField::Bytes, self.bytes, receipt.bytes().get()));
        }
        let Some((last_epoch, last_ordinal)) = last else {
            return Ok(());
        };
        // Epochs wrap: the later one is a short way ahead, whatever the numbers.
        let ahead = epoch.wrapping_sub(last_epoch);
        let shared_epochs = self.algorithm != AlgorithmName::Alone;
        if shared_epochs && (ahead == 0 || ahead > u64::from(u32::MAX)) {
            return Err(wrong(call, ReceiptField::Epoch, format!("above {last_epoch}"), epoch));
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
