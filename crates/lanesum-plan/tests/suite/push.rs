//! Which algorithm of GPUs carries a payload: by the model, or by a pin.

use lanesum_plan::{
    AlgorithmChoice, AlgorithmName, Buffers, DEVICE_WORLD_MAX, Dtype, Elements, Engine, Limits, Operation, PeerVerdict,
    Plan, Refusal, Request, Verdict,
};
use proptest::prelude::*;

use crate::device::{compiled, device, gpus, with_gpus};
use crate::{any_limits, any_request, request};

#[test]
fn two_shots_are_taken_from_where_fewer_bytes_outweigh_a_hop() {
    let threshold = |ranks, distinct, dtype| {
        let plan = with_gpus(ranks, gpus(ranks, distinct));
        let Some(threshold) = plan.threshold(Operation::Max, dtype, Buffers::Device) else {
            assert_eq!(
                plan.decide(&request(dtype, u64::MAX, Buffers::Device)).unwrap().name(),
                AlgorithmName::OneShotPush
            );
            return None;
        };
        let at = |elements| {
            let explanation = plan.explain(&request(dtype, elements, Buffers::Device));
            assert_eq!(explanation.two_shots_from, Some(threshold));
            (explanation.chosen.unwrap(), explanation.predicted_us.unwrap())
        };
        let (below, from) = (at(threshold.get() - 1), at(threshold.get()));
        assert_eq!(
            (below.0, from.0),
            (AlgorithmName::OneShotPush, AlgorithmName::TwoShotPush)
        );
        assert!((from.1 - below.1).abs() < 0.1, "costs meet where the algorithm changes");
        Some(threshold.get() * dtype.size() as u64)
    };
    // Between two ranks both move as many bytes.
    assert_eq!(threshold(2, 2, Dtype::Bf16), None);
    assert_eq!(threshold(2, 1, Dtype::F32), None);
    for (ranks, bytes) in [(3, 24_000..28_000), (4, 12_000..12_600), (8, 3_072..4_096)] {
        for dtype in Dtype::ALL {
            let found = threshold(ranks, ranks, dtype).unwrap();
            assert!(bytes.contains(&found), "{ranks} ranks: {found}");
            // Where all share one GPU, bytes are cheap; where only some do, links decide.
            assert!(threshold(ranks, 1, dtype).unwrap() > 2 * found);
            assert_eq!(threshold(ranks, ranks - 1, dtype), Some(found));
        }
    }
    // Who has no decision has no threshold either.
    let mut unproven = gpus(4, 4);
    unproven.peers[1][0] = PeerVerdict::Unknown;
    let threshold = |plan: Plan| plan.threshold(Operation::Sum, Dtype::F16, Buffers::Device);
    assert_eq!(threshold(with_gpus(4, unproven)), None);
    assert_eq!(threshold(with_gpus(1, gpus(1, 1))), None);
}

#[test]
fn a_pin_binds_the_engine_that_has_it() {
    for (pinned, ranks) in AlgorithmName::pinnable().flat_map(|pinned| [2, 5].map(|ranks| (pinned, ranks))) {
        let only = AlgorithmChoice::Only(pinned);
        let plan = compiled(ranks, Some(gpus(ranks, ranks)), only, Limits::default()).unwrap();
        let auto = with_gpus(ranks, gpus(ranks, ranks));
        let threshold = |plan: &Plan| plan.threshold(Operation::Sum, Dtype::Bf16, Buffers::Device);
        for elements in [1, 5, 21_504, u64::MAX] {
            let (name, chosen) = (
                plan.decide(&device(elements)).unwrap().name(),
                auto.decide(&device(elements)),
            );
            match pinned.engine() {
                Some(Engine::Cuda) => assert_eq!((name, threshold(&plan)), (pinned, None)),
                Some(Engine::Host) | None => {
                    assert_eq!((name, threshold(&plan)), (chosen.unwrap().name(), threshold(&auto)));
                }
            }
        }
        let other = plan
            .explain(&device(5))
            .candidates
            .into_iter()
            .filter(|candidate| candidate.verdict == Verdict::Refused(Refusal::PinnedElsewhere { pinned }));
        assert_eq!(other.count(), usize::from(pinned.engine() == Some(Engine::Cuda)));
        let host = plan.decide(&request(Dtype::F32, 5, Buffers::Private)).unwrap().name();
        let expected = match pinned.engine() {
            Some(Engine::Host) => pinned,
            Some(Engine::Cuda) | None => AlgorithmName::OneShotPull,
        };
        assert_eq!(host, expected);
    }
}

/// A plan for GPUs of which any pair is proven.
fn any_device_plan() -> impl Strategy<Value = Plan> {
    let choices: Vec<AlgorithmChoice> = std::iter::once(AlgorithmChoice::Auto)
        .chain(AlgorithmName::pinnable().map(AlgorithmChoice::Only))
        .collect();
    let distinct = 1..=DEVICE_WORLD_MAX;
    (
        2..=DEVICE_WORLD_MAX,
        distinct,
        proptest::sample::select(choices),
        any_limits(),
    )
        .prop_map(|(ranks, distinct, choice, limits)| {
            compiled(ranks, Some(gpus(ranks, distinct)), choice, limits).unwrap()
        })
}

proptest! {
    #[test]
    fn longer_requests_never_go_back_to_one_shot(plan in any_device_plan(), request in any_request(), more in any::<u64>()) {
        let request = Request { buffers: Buffers::Device, ..request };
        let longer = Request { elements: Elements::new(request.elements.get().saturating_add(more)), ..request };
        let name = |request| plan.decide(request).unwrap().name();
        prop_assert!(name(&longer) >= name(&request));
    }

    #[test]
    fn the_choice_is_the_fastest_or_says_why_not(plan in any_device_plan(), request in any_request()) {
        let explanation = plan.explain(&Request { buffers: Buffers::Device, ..request });
        let chosen = explanation.candidates.iter().find(|candidate| candidate.verdict == Verdict::Chosen);
        prop_assert_eq!(chosen.map(|candidate| candidate.algorithm), explanation.chosen);
        for candidate in &explanation.candidates {
            if let Verdict::Refused(Refusal::Slower { predicted_us, chosen_us }) = candidate.verdict {
                prop_assert!(predicted_us >= chosen_us);
            }
        }
    }

    #[test]
    fn between_two_ranks_no_length_and_no_limits_make_two_shots_pay(limits in any_limits(), distinct in 1..=2_usize, dtype in proptest::sample::select(&Dtype::ALL[..])) {
        let plan = compiled(2, Some(gpus(2, distinct)), AlgorithmChoice::Auto, limits).unwrap();
        prop_assert_eq!(plan.threshold(Operation::Sum, dtype, Buffers::Device), None);
        let longest = plan.decide(&request(dtype, u64::MAX, Buffers::Device)).unwrap().name();
        prop_assert_eq!(longest, AlgorithmName::OneShotPush);
    }
}
