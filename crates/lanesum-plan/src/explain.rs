//! Why a request gets the algorithm it gets: the decision of [`Plan::decide`], retold with every gate's answer and every
//! refused algorithm's numbers. It decides nothing itself.

use std::fmt;

use serde::Serialize;

use crate::gates::{self, Answer, Finding, Gate, Refusal};
use crate::words::counted;
use crate::{
    Algorithm, AlgorithmChoice, AlgorithmName, Buffers, Bytes, Elements, Engine, Path, Plan, ReductionTree, Request,
    WorldSize,
};

/// What became of one algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs the request.
    Chosen,
    /// It doesn't, for this reason.
    Refused(Refusal),
}

/// One algorithm with its prediction and verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: AlgorithmName,
    /// The predicted time of one call in microseconds; `None` if it can't run the request at all.
    pub predicted_us: Option<f64>,
    /// Whether it was chosen.
    pub verdict: Verdict,
}

/// The decision for one request, with all that was weighed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The request.
    pub request: Request,
    /// The number of ranks.
    pub world: WorldSize,
    /// The algorithm that runs it.
    pub chosen: AlgorithmName,
    /// How bytes reach a peer.
    pub path: Path,
    /// What executes it.
    pub engine: Engine,
    /// The predicted time of one call in microseconds.
    pub predicted_us: f64,
    /// How many epochs the call takes.
    pub epochs: u64,
    /// The number of elements from which two shots are taken for such requests, if lengths matter.
    pub two_shots_from: Option<Elements>,
    /// Every algorithm that exists.
    pub candidates: Vec<Candidate>,
    /// Every gate's answer.
    pub gates: Vec<Finding>,
    /// The order of combination.
    pub tree: ReductionTree,
}

impl Plan {
    /// Explains the decision for a request.
    #[must_use]
    pub fn explain(&self, request: &Request) -> Explanation {
        let algorithm = self.decide(request);
        let chosen = algorithm.name();
        let chosen_us = self.predict(chosen, request).unwrap_or_default();
        let candidates = AlgorithmName::ALL.map(|name| Candidate {
            algorithm: name,
            predicted_us: self
                .inadmissible(name, request)
                .is_none()
                .then(|| self.predict(name, request))
                .flatten(),
            verdict: if name == chosen {
                Verdict::Chosen
            } else {
                Verdict::Refused(self.refusal(name, request, chosen_us))
            },
        });
        Explanation {
            request: *request,
            world: self.world(),
            chosen,
            path: algorithm.path(),
            engine: algorithm.engine(),
            predicted_us: chosen_us,
            epochs: epochs(&algorithm),
            two_shots_from: self.threshold(request.operation, request.dtype, request.buffers),
            candidates: candidates.to_vec(),
            gates: self.findings(request),
            tree: self.tree().clone(),
        }
    }

    /// Why an algorithm that wasn't chosen wasn't.
    fn refusal(&self, name: AlgorithmName, request: &Request, chosen_us: f64) -> Refusal {
        if let Some(refusal) = self.inadmissible(name, request) {
            return refusal;
        }
        if let AlgorithmChoice::Only(pinned) = self.policy().algorithm {
            return Refusal::PinnedElsewhere { pinned };
        }
        let predicted_us = self.predict(name, request).unwrap_or_default();
        if predicted_us < chosen_us {
            Refusal::NotLasting {
                predicted_us,
                chosen_us,
            }
        } else {
            Refusal::Slower {
                predicted_us,
                chosen_us,
            }
        }
    }

    /// Why the algorithm can't run the request, if it can't.
    fn inadmissible(&self, name: AlgorithmName, request: &Request) -> Option<Refusal> {
        let peers = gates::company(self.world()).is_ok();
        let payload = gates::payload(request.elements).is_some();
        match name {
            AlgorithmName::Alone if peers => Some(Refusal::NeedsOneRank { world: self.world() }),
            AlgorithmName::Alone => None,
            AlgorithmName::HeaderOnly | AlgorithmName::OneShotPull | AlgorithmName::TwoShotPull if !peers => {
                Some(Refusal::NeedsPeers)
            }
            AlgorithmName::HeaderOnly => payload.then_some(Refusal::CarriesNoPayload),
            AlgorithmName::OneShotPull | AlgorithmName::TwoShotPull => (!payload).then_some(Refusal::NothingToExchange),
        }
    }

    /// The predicted time, if the algorithm could run among these ranks.
    fn predict(&self, name: AlgorithmName, request: &Request) -> Option<f64> {
        let chunk = match name {
            AlgorithmName::Alone | AlgorithmName::HeaderOnly => Elements::new(request.elements.get()),
            AlgorithmName::OneShotPull => gates::one_shot_fit(self.limits(), request.dtype)?.chunk(),
            AlgorithmName::TwoShotPull => {
                let peers = gates::company(self.world()).ok()?;
                gates::two_shot_fit(self.limits(), request.dtype, peers)?.chunk()
            }
        };
        let chunk = Request {
            elements: chunk,
            ..*request
        }
        .bytes();
        Some(self.model().predict_us(name, request.buffers, request.bytes(), chunk))
    }

    fn findings(&self, request: &Request) -> Vec<Finding> {
        let mut findings = vec![self.peers_finding()];
        if let Ok(peers) = gates::company(self.world()) {
            let fits = |gate, what: &str, chunk: Elements| Finding {
                gate,
                answer: Answer::Yes,
                evidence: format!("{chunk} elements{what} fit {} of staging", self.limits().staging),
            };
            findings.push(payload_finding(request));
            findings.extend(
                gates::one_shot_fit(self.limits(), request.dtype).map(|fit| fits(Gate::OneShotFit, "", fit.chunk())),
            );
            findings.extend(
                gates::two_shot_fit(self.limits(), request.dtype, peers)
                    .map(|fit| fits(Gate::TwoShotFit, " and the largest shard's result", fit.chunk())),
            );
            findings.push(in_place_finding(request.buffers));
        }
        findings.push(self.cores_finding());
        findings
    }

    fn peers_finding(&self) -> Finding {
        match gates::company(self.world()) {
            Ok(peers) => finding(Gate::Peers, Answer::Yes, counted(peers.world().get() as u64, "rank")),
            Err(_) => finding(Gate::Peers, Answer::No, "1 rank".to_owned()),
        }
    }

    fn cores_finding(&self) -> Finding {
        let world = self.world();
        match self.model().cores() {
            None => finding(
                Gate::Cores,
                Answer::Unknown,
                "not observed; predicted as if each rank had one".to_owned(),
            ),
            Some(cores) if cores >= world.get() => finding(
                Gate::Cores,
                Answer::Yes,
                format!("{world} ranks may run on {}", counted(cores as u64, "processor")),
            ),
            Some(cores) => finding(
                Gate::Cores,
                Answer::No,
                format!(
                    "{world} ranks share {}; work is divided and waits hand cores over",
                    counted(cores as u64, "processor")
                ),
            ),
        }
    }
}

fn finding(gate: Gate, answer: Answer, evidence: String) -> Finding {
    Finding { gate, answer, evidence }
}

fn payload_finding(request: &Request) -> Finding {
    match gates::payload(request.elements) {
        Some(_) => finding(Gate::Payload, Answer::Yes, format!("{} a rank", request.bytes())),
        None => finding(Gate::Payload, Answer::No, "zero elements".to_owned()),
    }
}

fn in_place_finding(buffers: Buffers) -> Finding {
    match buffers {
        Buffers::Shared => finding(
            Gate::InPlace,
            Answer::Yes,
            "shared buffers are read where they are".to_owned(),
        ),
        Buffers::Private => finding(
            Gate::InPlace,
            Answer::No,
            "private buffers are copied to staging".to_owned(),
        ),
    }
}

fn epochs(algorithm: &Algorithm) -> u64 {
    match algorithm {
        Algorithm::Alone(_) => 0,
        Algorithm::HeaderOnly(_) => 1,
        Algorithm::OneShotPull(one) => one.chunks(),
        Algorithm::TwoShotPull(two) => two.chunks(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request {
            operation,
            dtype,
            elements,
            buffers,
            ..
        } = self.request;
        let bytes: Bytes = self.request.bytes();
        let ranks = counted(self.world.get() as u64, "rank");
        let epochs = counted(self.epochs, "epoch");
        writeln!(
            f,
            "all_reduce of {elements} {dtype} ({bytes}) by {operation} over {ranks}, {buffers} buffers"
        )?;
        writeln!(
            f,
            "  runs {} on engine {}, path {}, {epochs}, predicted {:.2} us",
            self.chosen, self.engine, self.path, self.predicted_us
        )?;
        if let Some(elements) = self.two_shots_from {
            writeln!(f, "  two shots from {elements} elements on")?;
        }
        writeln!(f, "  order of combination {}", self.tree)?;
        writeln!(f, "algorithms")?;
        for Candidate { algorithm, verdict, .. } in &self.candidates {
            match verdict {
                Verdict::Chosen => writeln!(f, "  {algorithm:<14} chosen, predicted {:.2} us", self.predicted_us)?,
                Verdict::Refused(refusal) => writeln!(f, "  {algorithm:<14} refused: {refusal}")?,
            }
        }
        writeln!(f, "gates")?;
        for Finding { gate, answer, evidence } in &self.gates {
            writeln!(f, "  {gate:<14} {answer:<8} {evidence}")?;
        }
        Ok(())
    }
}
