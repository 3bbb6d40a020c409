//! Which algorithm of GPUs carries a payload, by its length, and from where on in chunks: found once by the cost model, looked up on
//! every call.

use std::cmp::Ordering;

use super::crossing::Crossing;
use crate::algorithm::{OneShotPush, TwoShotPush};
use crate::cost::CostModel;
use crate::digest::Digest;
use crate::gates::{self, Bulk, DeviceFit, Payload, Peers, Proven, Shots, Single};
use crate::{
    Algorithm, AlgorithmChoice, AlgorithmName, Buffers, Bytes, Dtype, Elements, Gpus, Limits, Policy, Refusal,
    WorldSize,
};

/// What the ranks' GPUs admit: one fit for all calls, and with peers a choice for each dtype, indexed by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Footing {
    Alone(Single, DeviceFit),
    Among(Peers, DeviceFit, [Push; Dtype::ALL.len()]),
}

/// The algorithms that carry a payload, by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Push {
    crossing: Crossing,
    /// From this length on, chunks move.
    chunks: Option<(Elements, Bulk)>,
}

impl Footing {
    pub(super) fn compile(
        (limits, policy): (Limits, Policy),
        gpus: Option<&Gpus>,
        world: WorldSize,
        model: CostModel,
    ) -> Result<Footing, Refusal> {
        let fit = gates::device_fit(limits, gpus, world)?;
        Ok(match gates::company(world) {
            Err(single) => Footing::Alone(single, fit),
            Ok(peers) => {
                let push = |dtype| Push::compile(policy, fit, dtype, model);
                Footing::Among(peers, fit, Dtype::ALL.map(push))
            }
        })
    }

    pub(super) const fn fit(&self) -> DeviceFit {
        match self {
            Footing::Alone(_, fit) | Footing::Among(_, fit, _) => *fit,
        }
    }

    /// The length from which two shots are taken, if there is one.
    pub(super) const fn threshold(&self, dtype: Dtype) -> Option<Elements> {
        match self {
            Footing::Alone(..) => None,
            Footing::Among(_, _, pushes) => match pushes[dtype as usize].crossing {
                Crossing::OneShot | Crossing::TwoShot => None,
                Crossing::From(elements) => Some(elements),
            },
        }
    }

    /// The length from which chunks move instead of frames, if there is one.
    pub(super) const fn chunks(&self, dtype: Dtype) -> Option<Elements> {
        match self {
            Footing::Alone(..) => None,
            Footing::Among(_, _, pushes) => match pushes[dtype as usize].chunks {
                Some((elements, _)) => Some(elements),
                None => None,
            },
        }
    }

    /// Everything that decides, and how messages are cut.
    pub(super) fn digest(&self, digest: Digest) -> Digest {
        let fit = self.fit();
        let digest = digest
            .word(u64::from(fit.lanes()))
            .word(u64::from(fit.capacity()))
            .word(u64::from(fit.threads()));
        match self {
            Footing::Alone(..) => digest,
            Footing::Among(_, _, pushes) => pushes.iter().fold(digest, |digest, push| {
                let digest = match push.crossing {
                    Crossing::OneShot => digest.word(1),
                    Crossing::TwoShot => digest.word(2),
                    Crossing::From(elements) => digest.word(3).word(elements.get()),
                };
                match push.chunks {
                    None => digest.word(0),
                    Some((elements, bulk)) => [bulk.lanes, bulk.quads, bulk.chunk, bulk.window]
                        .into_iter()
                        .fold(digest.word(1).word(elements.get()), |digest, word| {
                            digest.word(u64::from(word))
                        }),
                }
            }),
        }
    }
}

impl Push {
    fn compile(policy: Policy, fit: DeviceFit, dtype: Dtype, model: CostModel) -> Push {
        let exchanges = [fit.one_shot_exchange(), fit.two_shot_exchange()];
        let crossing = match policy.algorithm {
            // A pin of an algorithm of the host leaves GPUs their choice.
            AlgorithmChoice::Auto
            | AlgorithmChoice::Only(
                AlgorithmName::Alone
                | AlgorithmName::HeaderOnly
                | AlgorithmName::OneShotPull
                | AlgorithmName::TwoShotPull,
            ) => find(exchanges, dtype, model),
            AlgorithmChoice::Only(AlgorithmName::OneShotPush) => Crossing::OneShot,
            AlgorithmChoice::Only(AlgorithmName::TwoShotPush) => Crossing::TwoShot,
        };
        Push {
            crossing,
            chunks: chunks((crossing, fit), dtype, model),
        }
    }

    #[inline]
    pub(super) fn pick(
        &self,
        (peers, proven): (Peers, Proven),
        (payload, dtype): (Payload, Dtype),
        fit: DeviceFit,
    ) -> Algorithm {
        let one_shot = || OneShotPush::new((peers, proven), (payload, dtype), fit);
        let two_shot = || TwoShotPush::new((peers, proven), (payload, dtype), fit);
        match self.chunks {
            Some((elements, bulk)) if payload.elements() >= elements.get() => match fit.chunk_shots() {
                Shots::One => Algorithm::OneShotPush(one_shot().in_chunks((payload, dtype), bulk)),
                Shots::Two => Algorithm::TwoShotPush(two_shot().in_chunks((payload, dtype), bulk)),
            },
            Some(_) | None => match self.crossing {
                Crossing::OneShot => Algorithm::OneShotPush(one_shot()),
                Crossing::From(elements) if payload.elements() < elements.get() => Algorithm::OneShotPush(one_shot()),
                Crossing::TwoShot | Crossing::From(_) => Algorithm::TwoShotPush(two_shot()),
            },
        }
    }
}

/// Where chunks overtake the frames of the algorithm that runs there, if they move by the same.
fn chunks((crossing, fit): (Crossing, DeviceFit), dtype: Dtype, model: CostModel) -> Option<(Elements, Bulk)> {
    let path = model.link().path();
    let bulk = fit.bulk(path)?;
    let (shots, framed) = match crossing {
        Crossing::OneShot => (Shots::One, fit.one_shot_exchange()),
        Crossing::TwoShot | Crossing::From(_) => (Shots::Two, fit.two_shot_exchange()),
    };
    if shots != fit.chunk_shots() {
        return None;
    }
    let size = dtype.size() as u64;
    let moved = fit.bulk_exchange(path)?;
    let found = Crossing::find([framed.get() / size, moved.get() / size], |elements| {
        let bytes = Bytes::new(elements.saturating_mul(size));
        let frames = model
            .predict_us(shots.push(), Buffers::Device, bytes, framed)
            .unwrap_or(f64::INFINITY);
        let chunks = model.predict_chunks_us(bytes, moved).unwrap_or(f64::INFINITY);
        frames.total_cmp(&chunks) == Ordering::Less
    });
    let from = match (found, crossing) {
        (Crossing::OneShot, _) => return None,
        (Crossing::TwoShot, Crossing::From(least)) => least,
        (Crossing::TwoShot, Crossing::OneShot | Crossing::TwoShot) => Elements::new(1),
        // Before two shots pay, chunks do not.
        (Crossing::From(from), Crossing::From(least)) => from.max(least),
        (Crossing::From(from), Crossing::OneShot | Crossing::TwoShot) => from,
    };
    Some((from, bulk))
}

/// Where two shots overtake one shot, of which one exchange moves so many bytes.
fn find([one, two]: [Bytes; 2], dtype: Dtype, model: CostModel) -> Crossing {
    let size = dtype.size() as u64;
    Crossing::find([one.get() / size, two.get() / size], |elements| {
        let bytes = Bytes::new(elements.saturating_mul(size));
        let predict = |name, exchange| {
            let predicted = model.predict_us(name, Buffers::Device, bytes, exchange);
            predicted.unwrap_or(f64::INFINITY)
        };
        let one_us = predict(AlgorithmName::OneShotPush, one);
        one_us.total_cmp(&predict(AlgorithmName::TwoShotPush, two)) == Ordering::Less
    })
}
