//! Why a request gets the algorithm it gets: the decision of [`Plan::decide`], retold with every gate's answer and every
//! refused algorithm's numbers. It decides nothing itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gates::{self, Finding, Way};
use crate::words::counted;
use crate::{
    Algorithm, AlgorithmChoice, AlgorithmName, Bytes, Elements, Engine, Estimate, Path, PathChoice, Plan,
    ReductionTree, Refusal, Request, WorldSize,
};

mod beyond;
mod findings;
mod surroundings;

pub use beyond::{Alternative, Beyond, Decision, Preference};

/// What became of one algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs the request.
    Chosen,
    /// It doesn't, for this reason.
    Refused(Refusal),
}

/// One algorithm with its prediction and verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: AlgorithmName,
    /// The predicted time of one call in microseconds; `None` if it can't run the request at all.
    pub predicted_us: Option<f64>,
    /// The same by its parts.
    pub parts: Option<Estimate>,
    /// Whether it was chosen.
    pub verdict: Verdict,
}

/// The path between GPUs that calls do not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRefusal {
    /// Which.
    pub path: Path,
    /// Why, for people.
    pub reason: String,
}

/// The decision for one request, with all that was weighed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The request.
    pub request: Request,
    /// The number of ranks.
    pub world: WorldSize,
    /// The algorithm that runs it; `None` if all are refused, which happens to buffers of GPUs alone.
    pub chosen: Option<AlgorithmName>,
    /// How bytes reach a peer.
    pub path: Path,
    /// Between GPUs, the path that is not taken.
    pub other_path: Option<PathRefusal>,
    /// What executes it, or would.
    pub engine: Engine,
    /// The predicted time of one call in microseconds, if one runs.
    pub predicted_us: Option<f64>,
    /// How many epochs the call takes.
    pub epochs: u64,
    /// The number of elements from which two shots are taken for such requests, if lengths matter.
    pub two_shots_from: Option<Elements>,
    /// The number of elements from which calls on GPU memory move chunks of raw bytes instead of frames, if they ever do.
    pub chunks_from: Option<Elements>,
    /// Every algorithm that exists.
    pub candidates: Vec<Candidate>,
    /// Between GPUs, what else there could be: algorithms that are not built, and another library.
    pub beyond: Vec<Beyond>,
    /// Every gate's answer.
    pub gates: Vec<Finding>,
    /// The order of combination.
    pub tree: ReductionTree,
}

impl Plan {
    /// What a request is predicted to take, in microseconds; `None` where it is refused.
    #[must_use]
    pub fn predict_us(&self, request: &Request) -> Option<f64> {
        let algorithm = self.decide(request).ok()?;
        Some(self.predict(algorithm.name(), request)?.total_us())
    }

    /// Explains the decision for a request.
    #[must_use]
    pub fn explain(&self, request: &Request) -> Explanation {
        let decided = self.decide(request).ok();
        let chosen = decided.map(|algorithm| algorithm.name());
        let estimate = |name| self.predict(name, request);
        let predicted_us = chosen.and_then(estimate).map(|estimate| estimate.total_us());
        let candidates = AlgorithmName::ALL.map(|algorithm| {
            let inadmissible = self.inadmissible(algorithm, request);
            let parts = match inadmissible {
                Some(_) => None,
                None => estimate(algorithm),
            };
            let own_us = parts.map(|parts| parts.total_us());
            let verdict = match inadmissible {
                _ if chosen == Some(algorithm) => Verdict::Chosen,
                Some(refusal) => Verdict::Refused(refusal),
                None => Verdict::Refused(self.outdone(request.buffers.engine(), own_us, predicted_us)),
            };
            Candidate {
                algorithm,
                predicted_us: own_us,
                parts,
                verdict,
            }
        });
        Explanation {
            request: *request,
            world: self.world(),
            chosen,
            path: decided.map_or(Path::None, |algorithm| algorithm.path()),
            other_path: decided.and_then(|algorithm| self.other_path(algorithm.path())),
            engine: request.buffers.engine(),
            predicted_us,
            epochs: decided.as_ref().map_or(0, epochs),
            two_shots_from: self.threshold(request.operation, request.dtype, request.buffers),
            chunks_from: self.chunks(request),
            candidates: candidates.to_vec(),
            beyond: self.beyond(request),
            gates: self.findings(request),
            tree: self.tree().clone(),
        }
    }

    /// The path between GPUs that isn't this one, and why it is not taken.
    fn other_path(&self, taken: Path) -> Option<PathRefusal> {
        let (path, way) = match taken {
            Path::None | Path::SharedMemory => return None,
            Path::Peer => (Path::HostStaged, Way::HostStaged),
            Path::HostStaged => (Path::Peer, Way::Peer),
        };
        let choice = self.policy().path;
        let refused = match way {
            Way::Peer => gates::peer_by_choice(self.topology(), self.world()),
            Way::HostStaged => gates::proven_along(way, self.topology().gpus.as_ref(), self.world()),
        };
        let reason = match (choice, refused) {
            (PathChoice::Peer | PathChoice::HostStaged, _) => format!("the policy asks for {choice}"),
            (PathChoice::Auto, Err(refusal)) if path == Path::Peer => refusal.to_string(),
            (PathChoice::Auto, _) => {
                let supposed = self
                    .topology()
                    .gpus
                    .as_ref()
                    .is_some_and(|gpus| gates::supposed(Way::Peer, gpus));
                let how = if supposed { "supposed" } else { "proven" };
                format!("peer access is {how} for all pairs, and goes first")
            }
        };
        Some(PathRefusal { path, reason })
    }

    /// Why an algorithm that could run wasn't chosen.
    fn outdone(&self, engine: Engine, own_us: Option<f64>, chosen_us: Option<f64>) -> Refusal {
        if let AlgorithmChoice::Only(pinned) = self.policy().algorithm
            && pinned.engine() == Some(engine)
        {
            return Refusal::PinnedElsewhere { pinned };
        }
        let (predicted_us, chosen_us) = (own_us.unwrap_or_default(), chosen_us.unwrap_or_default());
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
        let buffers = request.buffers;
        if let Some(engine) = name.engine().filter(|engine| *engine != buffers.engine()) {
            return Some(Refusal::WrongBuffers { engine, buffers });
        }
        match buffers.engine() {
            Engine::Host => self.unfit(name, request),
            Engine::Cuda => self
                .fit()
                .err()
                .or_else(|| self.unfit(name, request))
                .or_else(|| match name {
                    AlgorithmName::Alone => None,
                    AlgorithmName::HeaderOnly
                    | AlgorithmName::OneShotPull
                    | AlgorithmName::TwoShotPull
                    | AlgorithmName::OneShotPush
                    | AlgorithmName::TwoShotPush => self.proven().err(),
                }),
        }
    }

    /// Whether the algorithm is for another number of ranks, or for calls with, or without, a payload.
    fn unfit(&self, name: AlgorithmName, request: &Request) -> Option<Refusal> {
        let peers = gates::company(self.world()).is_ok();
        let payload = gates::payload(request.elements).is_some();
        match name {
            AlgorithmName::Alone if peers => Some(Refusal::NeedsOneRank { world: self.world() }),
            AlgorithmName::Alone => None,
            AlgorithmName::HeaderOnly
            | AlgorithmName::OneShotPull
            | AlgorithmName::TwoShotPull
            | AlgorithmName::OneShotPush
            | AlgorithmName::TwoShotPush
                if !peers =>
            {
                Some(Refusal::NeedsPeers)
            }
            AlgorithmName::HeaderOnly => payload.then_some(Refusal::CarriesNoPayload),
            AlgorithmName::OneShotPull
            | AlgorithmName::TwoShotPull
            | AlgorithmName::OneShotPush
            | AlgorithmName::TwoShotPush => (!payload).then_some(Refusal::NothingToExchange),
        }
    }

    /// From where on such requests move chunks.
    fn chunks(&self, request: &Request) -> Option<Elements> {
        match request.buffers.engine() {
            Engine::Host => None,
            Engine::Cuda => self.chunks_from(request.dtype),
        }
    }

    /// The predicted time, if the algorithm could run among these ranks.
    fn predict(&self, name: AlgorithmName, request: &Request) -> Option<Estimate> {
        let in_chunks = self.chunks(request).is_some_and(|from| request.elements >= from);
        if let Some(fit) = self
            .fit()
            .ok()
            .filter(|fit| in_chunks && name == fit.chunk_shots().push())
        {
            let exchange = fit.bulk_exchange(self.model().link().path())?;
            return self.model().estimate_chunks(request.bytes(), exchange);
        }
        let bytes = |elements| Request { elements, ..*request }.bytes();
        let chunk = match name {
            AlgorithmName::Alone | AlgorithmName::HeaderOnly => request.bytes(),
            AlgorithmName::OneShotPull => {
                let peers = gates::company(self.world()).ok()?;
                bytes(gates::one_shot_fit(self.limits(), request.dtype, peers)?.chunk())
            }
            AlgorithmName::TwoShotPull => {
                let peers = gates::company(self.world()).ok()?;
                bytes(gates::two_shot_fit(self.limits(), request.dtype, peers)?.chunk())
            }
            AlgorithmName::OneShotPush => self.fit().ok()?.one_shot_exchange(),
            AlgorithmName::TwoShotPush => self.fit().ok()?.two_shot_exchange(),
        };
        self.model().estimate(name, request.buffers, request.bytes(), chunk)
    }
}

fn epochs(algorithm: &Algorithm) -> u64 {
    match algorithm {
        Algorithm::Alone(_) | Algorithm::DeviceAlone(_) => 0,
        Algorithm::HeaderOnly(_) | Algorithm::DeviceHeaderOnly(_) => 1,
        Algorithm::OneShotPull(one) => one.chunks(),
        Algorithm::TwoShotPull(two) => two.chunks(),
        Algorithm::OneShotPush(push) => push.exchanges(),
        Algorithm::TwoShotPush(push) => push.exchanges(),
    }
}

impl Explanation {
    /// The algorithms, but for those of another engine which [`Explanation::beyond`] has for this one.
    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        let is_told = |candidate: &&Candidate| {
            let elsewhere = matches!(candidate.verdict, Verdict::Refused(Refusal::WrongBuffers { .. }));
            let name = candidate.algorithm.name();
            !(elsewhere && self.beyond.iter().any(|beyond| beyond.method.name() == name))
        };
        self.candidates.iter().filter(is_told)
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
        let predicted_us = self.predicted_us.unwrap_or_default();
        writeln!(
            f,
            "all_reduce of {elements} {dtype} ({bytes}) by {operation} over {ranks}, {buffers} buffers"
        )?;
        match self.chosen {
            Some(chosen) => writeln!(
                f,
                "  runs {chosen} on engine {}, path {}, {epochs}, predicted {predicted_us:.2} us",
                self.engine, self.path
            )?,
            None => writeln!(
                f,
                "  does not run on engine {}: all algorithms are refused",
                self.engine
            )?,
        }
        if let Some(PathRefusal { path, reason }) = &self.other_path {
            writeln!(f, "  not by path {path}: {reason}")?;
        }
        if let Some(elements) = self.two_shots_from {
            writeln!(f, "  two shots from {elements} elements on")?;
        }
        if let Some(elements) = self.chunks_from {
            writeln!(f, "  chunks of raw bytes instead of frames from {elements} elements on")?;
        }
        writeln!(f, "  order of combination {}", self.tree)?;
        writeln!(f, "algorithms")?;
        for Candidate {
            algorithm,
            verdict,
            parts,
            ..
        } in self.candidates()
        {
            match verdict {
                Verdict::Chosen => {
                    let parts = parts.map_or_else(String::new, |parts| format!(": {parts}"));
                    writeln!(f, "  {algorithm:<15} chosen, predicted {predicted_us:.2} us{parts}")?;
                }
                Verdict::Refused(refusal) => writeln!(f, "  {algorithm:<15} refused: {refusal}")?,
            }
        }
        for Beyond {
            method, path, refusal, ..
        } in &self.beyond
        {
            writeln!(f, "  {method:<15} on path {path} refused: {refusal}")?;
        }
        writeln!(f, "gates")?;
        for Finding { gate, answer, evidence } in &self.gates {
            writeln!(f, "  {gate:<15} {answer:<8} {evidence}")?;
        }
        Ok(())
    }
}
