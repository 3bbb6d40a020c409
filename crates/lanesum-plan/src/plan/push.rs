//! Which algorithm of GPUs carries a payload, by its length: found once by the cost model, looked up on every call.

use std::cmp::Ordering;

use super::crossing::Crossing;
use crate::algorithm::{OneShotPush, TwoShotPush};
use crate::cost::CostModel;
use crate::digest::Digest;
use crate::gates::{self, DeviceFit, Payload, Peers, Proven, Single};
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
pub(super) struct Push(Crossing);

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
            Footing::Among(_, _, pushes) => match pushes[dtype as usize].0 {
                Crossing::OneShot | Crossing::TwoShot => None,
                Crossing::From(elements) => Some(elements),
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
            Footing::Among(_, _, pushes) => pushes.iter().fold(digest, |digest, push| match push.0 {
                Crossing::OneShot => digest.word(1),
                Crossing::TwoShot => digest.word(2),
                Crossing::From(elements) => digest.word(3).word(elements.get()),
            }),
        }
    }
}

impl Push {
    fn compile(policy: Policy, fit: DeviceFit, dtype: Dtype, model: CostModel) -> Push {
        let exchanges = [fit.one_shot_exchange(), fit.two_shot_exchange()];
        Push(match policy.algorithm {
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
        })
    }

    #[inline]
    pub(super) fn pick(
        &self,
        (peers, proven): (Peers, Proven),
        (payload, dtype): (Payload, Dtype),
        fit: DeviceFit,
    ) -> Algorithm {
        let one_shot = match self.0 {
            Crossing::OneShot => true,
            Crossing::TwoShot => false,
            Crossing::From(elements) => payload.elements() < elements.get(),
        };
        if one_shot {
            Algorithm::OneShotPush(OneShotPush::new((peers, proven), (payload, dtype), fit))
        } else {
            Algorithm::TwoShotPush(TwoShotPush::new((peers, proven), (payload, dtype), fit))
        }
    }
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
