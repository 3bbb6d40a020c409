//! The proof of a way between the ranks' GPUs.
//!
//! A way is believed only after the owner's device has read, by itself, what the writer's kernel stored: drivers advertise access that
//! drops or mirrors bytes. Nothing spins before that.

use std::time::{Duration, Instant};

use lanesum_plan::{PeerVerdict, Rank};

use crate::buffer::Memory;
use crate::error::CudaError;
use crate::launch::{Entry, launch};
use crate::layout::{self, Notice, WORLD_MAX};
use crate::staged::Staged;

/// How long the owner waits for a proof once the writer's kernel has ended: stores on their way land within microseconds.
const PROOF_PATIENCE: Duration = Duration::from_millis(20);

impl Staged {
    /// Writes this rank's proof into the inbox of every peer, all of which are mapped.
    ///
    /// # Errors
    /// [`CudaError`] if the kernel fails or does not end within the deadline.
    pub fn prove(&self, nonce: u64) -> Result<(), CudaError> {
        self.run_proof(&self.notice(0, nonce))
    }

    /// Writes proofs, or reads them, and waits until that is done.
    fn run_proof(&self, notice: &Notice) -> Result<(), CudaError> {
        let entry = Entry::notice(self.module.prove);
        launch(&self.device, entry, notice, self.stream.raw())?;
        self.stream.synchronize(self.deadline)
    }

    /// What the peers' proofs in this rank's own inbox say of them as writers, by rank, as this rank's device reads them.
    ///
    /// # Errors
    /// [`CudaError`] if the kernel that reads them fails or does not end within the deadline.
    pub fn judge(&self, nonce: u64) -> Result<Vec<PeerVerdict>, CudaError> {
        let _relaxed = self.device.relaxed()?;
        let count = WORLD_MAX * layout::PROOF_WORDS;
        let seen = Memory::new(&self.device, "proofs as the device reads them", count * 8)?;
        let notice = Notice {
            seen: seen.address,
            ..self.notice(0, nonce)
        };
        let start = Instant::now();
        loop {
            self.run_proof(&notice)?;
            let words = self.read_words(seen.address, count)?;
            let verdicts: Vec<PeerVerdict> = self
                .world
                .ranks()
                .map(|from| self.verdict(&words, nonce, from))
                .collect();
            let open = verdicts
                .iter()
                .any(|verdict| matches!(verdict, PeerVerdict::Disproven { .. }));
            if !open || start.elapsed() > PROOF_PATIENCE {
                return Ok(verdicts);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn verdict(&self, words: &[u64], nonce: u64, from: Rank) -> PeerVerdict {
        if from == self.rank {
            return PeerVerdict::Own;
        }
        let proof = words.chunks(layout::PROOF_WORDS).nth(from.index()).unwrap_or_default();
        let expected = |index| layout::proof_word(nonce, from.index(), self.rank.index(), index);
        let right = proof
            .iter()
            .enumerate()
            .filter(|(index, word)| **word == expected(*index))
            .count();
        if right == layout::PROOF_WORDS {
            return PeerVerdict::Proven;
        }
        let untouched = proof.iter().filter(|word| **word == 0).count();
        PeerVerdict::Disproven {
            found: format!(
                "of {} words that its kernel stored, {right} arrived, {untouched} never did, {} were wrong",
                layout::PROOF_WORDS,
                proof.len() - right - untouched
            ),
        }
    }
}
