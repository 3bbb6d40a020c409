//! What a plan does not take for GPUs: algorithms that are not built, and another library. They are predicted all the same, so that it
//! can be told what they would bring.

use serde::Serialize;

use crate::closed::closed_words;
use crate::cost::HOST_RANK_STORE_US;
use crate::gates;
use crate::{
    AlgorithmChoice, AlgorithmName, Buffers, Elements, Engine, Estimate, Explanation, Fabric, Gpus, Message, Method,
    Path, PathChoice, Plan, Policy, Refusal, Request, Verdict,
};

closed_words! {
    /// Whether a message may be handed to another library.
    #[derive(Default)]
    pub enum Preference ("preference") {
        /// Never: what lanesum promises holds for every call.
        #[default]
        Exact = 0 => "exact",
        /// Where that is predicted to take less time: then neither bits, nor deadlines, nor headers are promised.
        Fastest = 1 => "fastest",
    }
}

/// One way that a plan does not take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beyond {
    /// Which.
    pub method: Method,
    /// How its bytes would travel.
    pub path: Path,
    /// What it would take in microseconds, if these ranks have a use for it.
    pub predicted_us: Option<f64>,
    /// The same by its parts.
    pub parts: Option<Estimate>,
    /// Why it isn't taken.
    pub refusal: Refusal,
}

/// What would run a request, where it may be handed to another library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// An algorithm of lanesum's.
    Own {
        /// Which.
        algorithm: AlgorithmName,
        /// How bytes reach a peer.
        path: Path,
        /// What executes it.
        engine: Engine,
        /// Microseconds of one call.
        predicted_us: f64,
    },
    /// Another library.
    Delegate {
        /// Which of its algorithms.
        method: Method,
        /// How bytes reach a peer.
        path: Path,
        /// Microseconds of one call.
        predicted_us: f64,
    },
    /// Nothing may.
    Refused,
}

impl Explanation {
    /// What would run the request under a preference.
    #[must_use]
    pub fn decision(&self, preference: Preference) -> Decision {
        let own = match (self.chosen, self.predicted_us) {
            (Some(algorithm), Some(predicted_us)) => Decision::Own {
                algorithm,
                path: self.path,
                engine: self.engine,
                predicted_us,
            },
            (Some(_) | None, _) => Decision::Refused,
        };
        let delegate = match preference {
            Preference::Exact => None,
            Preference::Fastest => self
                .beyond
                .iter()
                .find(|beyond| matches!(beyond.refusal, Refusal::NoDelegates { .. })),
        };
        let Some((beyond, delegate_us)) = delegate.and_then(|beyond| Some((beyond, beyond.predicted_us?))) else {
            return own;
        };
        match own {
            Decision::Own { predicted_us, .. } if predicted_us <= delegate_us => own,
            Decision::Own { .. } | Decision::Refused | Decision::Delegate { .. } => Decision::Delegate {
                method: beyond.method,
                path: beyond.path,
                predicted_us: delegate_us,
            },
        }
    }
}

/// What does not run a request, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alternative {
    /// Its name.
    pub name: &'static str,
    /// How its bytes would travel.
    pub path: Path,
    /// What it would take in microseconds, if it could run.
    pub predicted_us: Option<f64>,
    /// The same by its parts.
    pub parts: Option<Estimate>,
    /// Whether lanesum has it.
    pub built: bool,
    /// Why it isn't taken.
    pub refusal: Refusal,
}

impl Explanation {
    /// All that does not run the request under a preference.
    #[must_use]
    pub fn alternatives(&self, preference: Preference) -> Vec<Alternative> {
        let decision = self.decision(preference);
        let own = self.candidates().filter_map(|candidate| {
            let refusal = match (&candidate.verdict, decision) {
                (Verdict::Refused(refusal), _) => refusal.clone(),
                (Verdict::Chosen, Decision::Delegate { predicted_us, .. }) => Refusal::Slower {
                    predicted_us: candidate.predicted_us?,
                    chosen_us: predicted_us,
                },
                (Verdict::Chosen, Decision::Own { .. } | Decision::Refused) => return None,
            };
            Some(Alternative {
                name: candidate.algorithm.name(),
                path: self.path,
                predicted_us: candidate.predicted_us,
                parts: candidate.parts,
                built: true,
                refusal,
            })
        });
        let beyond = self.beyond.iter().filter_map(|beyond| {
            let refusal = match (decision, preference, &beyond.refusal) {
                (Decision::Delegate { method, .. }, _, _) if method == beyond.method => return None,
                (
                    Decision::Own {
                        predicted_us: chosen_us,
                        ..
                    },
                    Preference::Fastest,
                    Refusal::NoDelegates { predicted_us },
                ) => Refusal::Slower {
                    predicted_us: *predicted_us,
                    chosen_us,
                },
                (_, _, refusal) => refusal.clone(),
            };
            Some(Alternative {
                name: beyond.method.name(),
                path: beyond.path,
                predicted_us: beyond.predicted_us,
                parts: beyond.parts,
                built: false,
                refusal,
            })
        });
        own.chain(beyond).collect()
    }
}

impl Plan {
    /// What would run a request under a preference, and its explanation. More ranks than kernels serve sum in the host's memory, to which and
    /// from which the caller copies: that is another request, and is explained as such. Who names a path or an algorithm of GPUs gets that
    /// or nothing.
    #[must_use]
    pub fn decision(&self, request: &Request, preference: Preference) -> (Explanation, Decision) {
        let explanation = self.explain(request);
        let decision = explanation.decision(preference);
        let free = self.policy() == Policy::default();
        let too_many = free && matches!(self.fit(), Err(Refusal::DeviceWorld { .. }));
        if request.buffers.engine() == Engine::Host || !too_many {
            return (explanation, decision);
        }
        let host = self.explain(&Request {
            buffers: Buffers::Private,
            ..*request
        });
        match (decision, host.predicted_us) {
            // The delegate takes the memory where it is.
            (Decision::Delegate { predicted_us, .. }, Some(host_us))
                if predicted_us < host_us + self.copies_us(request) =>
            {
                (explanation, decision)
            }
            (Decision::Own { .. } | Decision::Delegate { .. } | Decision::Refused, _) => {
                let decision = host.decision(Preference::Exact);
                (host, decision)
            }
        }
    }

    /// What copies of a message to the host's memory and back take, while all ranks make them.
    fn copies_us(&self, request: &Request) -> f64 {
        let Some(gpus) = &self.topology().gpus else { return 0.0 };
        let slower = 1000.0 / f64::from(gpus.links.slowest_to_host(self.world())) * gpus.host_crowd().max(1) as f64;
        2.0 * request.bytes().get() as f64 * HOST_RANK_STORE_US * slower
    }

    /// The number of elements from which such requests, whatever their own length, are handed to another library under a preference; `None`
    /// where none are, or short ones are, too.
    #[must_use]
    pub fn delegate_from(&self, request: &Request, preference: Preference) -> Option<Elements> {
        let delegates = |elements: u64| {
            let longer = Request {
                elements: Elements::new(elements),
                ..*request
            };
            matches!(self.decision(&longer, preference).1, Decision::Delegate { .. })
        };
        // Messages of more bytes than GPUs have need no threshold.
        let mut above = 1_u64 << 34;
        if !delegates(above) {
            return None;
        }
        let mut below = above;
        while delegates(below) {
            above = below;
            below /= 2;
            if below == 0 {
                return None;
            }
        }
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if delegates(middle) {
                above = middle;
            } else {
                below = middle;
            }
        }
        Some(Elements::new(above))
    }

    /// What else could carry a payload between GPUs that ranks have to themselves.
    pub(super) fn beyond(&self, request: &Request) -> Vec<Beyond> {
        let has_payload = gates::payload(request.elements).is_some();
        let gpus = self.topology().gpus.as_ref().filter(|gpus| !gpus.shared());
        let (Engine::Cuda, true, Some(gpus)) = (request.buffers.engine(), has_payload, gpus) else {
            return vec![];
        };
        let Some(fabric) = Fabric::assumed(&gpus.links, self.world()) else {
            return vec![];
        };
        let message = Message::of(request);
        let peer = gates::peer_by_choice(self.topology(), self.world());
        Method::BEYOND
            .into_iter()
            .map(|method| match method {
                Method::Nccl => self.delegate(&fabric, gpus, &message, peer.is_ok()),
                Method::OneShotPush
                | Method::TwoShotPush
                | Method::OneShotPull
                | Method::TwoShotPull
                | Method::TwoShotStaged
                | Method::IslandTwoShot
                | Method::CopyEngine => {
                    let parts = match peer {
                        Ok(_) => fabric.estimate(method, &message),
                        Err(_) => None,
                    };
                    let predicted_us = parts.map(|parts| parts.total_us());
                    Beyond {
                        method,
                        path: Path::Peer,
                        predicted_us,
                        parts,
                        refusal: match (&peer, predicted_us) {
                            (Err(refusal), _) => refusal.clone(),
                            (Ok(_), Some(predicted_us)) => Refusal::NotBuilt { predicted_us },
                            (Ok(_), None) => Refusal::NoIslands,
                        },
                    }
                }
            })
            .collect()
    }

    /// NCCL, by peer access where there is some.
    fn delegate(&self, fabric: &Fabric, gpus: &Gpus, message: &Message, peer: bool) -> Beyond {
        let (path, estimate) = match fabric.estimate(Method::Nccl, message) {
            Some(estimate) if peer && self.policy().path != PathChoice::HostStaged => (Path::Peer, estimate),
            Some(_) | None => {
                let slowest = gpus.links.slowest_to_host(self.world());
                (Path::HostStaged, fabric.estimate_staged_nccl(message, slowest))
            }
        };
        let predicted_us = estimate.total_us();
        Beyond {
            method: Method::Nccl,
            path,
            predicted_us: Some(predicted_us),
            parts: Some(estimate),
            refusal: match self.policy().algorithm {
                AlgorithmChoice::Only(pinned) if pinned.engine() == Some(Engine::Cuda) => {
                    Refusal::PinnedElsewhere { pinned }
                }
                AlgorithmChoice::Auto | AlgorithmChoice::Only(_) => Refusal::NoDelegates { predicted_us },
            },
        }
    }
}
