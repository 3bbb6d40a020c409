//! One request, one decision: total, monotone, the same as explained, and the same on every rank.

use lanesum_plan::{
    Algorithm, AlgorithmChoice, AlgorithmName, Answer, Buffers, Bytes, Dtype, Elements, Engine, Gate, LINE, Limits,
    Operation, Plan, PlanError, PlanInputs, Policy, Rank, ReductionTree, Refusal, Request, TwoShotPull, Verdict,
    WORLD_MAX,
};
use proptest::prelude::*;

use crate::{any_host_request, any_limits, compile, decided, plan, request, topology, world};

const PAYLOAD_CHOICES: [AlgorithmChoice; 5] = [
    AlgorithmChoice::Auto,
    AlgorithmChoice::Only(AlgorithmName::OneShotPush),
    AlgorithmChoice::Only(AlgorithmName::TwoShotPush),
    AlgorithmChoice::Only(AlgorithmName::OneShotPull),
    AlgorithmChoice::Only(AlgorithmName::TwoShotPull),
];

fn any_plan() -> impl Strategy<Value = Plan> {
    let cores = proptest::option::of(1..32_usize);
    (
        1..=WORLD_MAX,
        cores,
        proptest::sample::select(&PAYLOAD_CHOICES[..]),
        any_limits(),
    )
        .prop_map(|(ranks, cores, choice, limits)| compile(ranks, cores, choice, limits).unwrap())
}

fn two_shots(ranks: usize, limits: Limits, dtype: Dtype) -> TwoShotPull {
    let plan = compile(ranks, None, AlgorithmChoice::Only(AlgorithmName::TwoShotPull), limits).unwrap();
    let Ok(Algorithm::TwoShotPull(two)) = plan.decide(&request(dtype, 1, Buffers::Private)) else {
        panic!("another algorithm than the pinned one");
    };
    two
}

proptest! {
    #[test]
    fn every_request_gets_the_explained_decision(plan in any_plan(), request in any_host_request()) {
        let algorithm = plan.decide(&request).unwrap();
        let explanation = plan.explain(&request);
        prop_assert_eq!(Some(algorithm.name()), explanation.chosen);
        prop_assert_eq!((algorithm.path(), algorithm.engine()), (explanation.path, explanation.engine));
        prop_assert!(explanation.predicted_us.unwrap().is_finite());
        prop_assert_eq!(explanation.candidates.len(), AlgorithmName::ALL.len());
        for candidate in &explanation.candidates {
            prop_assert_eq!(candidate.verdict == Verdict::Chosen, candidate.algorithm == algorithm.name());
        }
        let expected = match (plan.world().get(), request.elements.get()) {
            (1, _) => AlgorithmName::Alone,
            (_, 0) => AlgorithmName::HeaderOnly,
            (_, _) => match plan.policy().algorithm {
                AlgorithmChoice::Only(name) if name.engine() == Some(Engine::Host) => name,
                AlgorithmChoice::Auto | AlgorithmChoice::Only(_) => match plan.threshold(request.operation, request.dtype, request.buffers) {
                    Some(threshold) if request.elements >= threshold => AlgorithmName::TwoShotPull,
                    Some(_) => AlgorithmName::OneShotPull,
                    None => algorithm.name(),
                },
            },
        };
        prop_assert_eq!(algorithm.name(), expected);
        prop_assert!(!explanation.to_string().is_empty());
        prop_assert!(serde_json::to_value(&explanation).unwrap()["candidates"].is_array());
    }

    #[test]
    fn longer_requests_never_go_back_to_one_shot(plan in any_plan(), request in any_host_request(), more in any::<u64>()) {
        let longer = Request { elements: Elements::new(request.elements.get().saturating_add(more)), ..request };
        prop_assert!(decided(&plan, &longer) >= decided(&plan, &request));
    }

    #[test]
    fn a_label_decides_nothing(plan in any_plan(), request in any_host_request()) {
        prop_assert_eq!(plan.decide(&request), plan.decide(&Request { label: None, ..request }));
    }

    #[test]
    fn the_choice_is_the_fastest_or_says_why_not(plan in any_plan(), request in any_host_request()) {
        let explanation = plan.explain(&request);
        for candidate in explanation.candidates {
            if let Verdict::Refused(Refusal::Slower { predicted_us, chosen_us }) = candidate.verdict {
                prop_assert!(predicted_us >= chosen_us);
            }
        }
    }

    #[test]
    fn shards_cover_a_chunk_once(ranks in 2..=WORLD_MAX, limits in any_limits(), part in 0.0..=1.0_f64) {
        for dtype in Dtype::ALL {
            let two = two_shots(ranks, limits, dtype);
            let chunk = (two.chunk().get() as f64 * part) as u64;
            let line = LINE / dtype.size() as u64;
            let room = limits.mailbox(world(ranks)).get();
            let mut next = 0;
            for rank in world(ranks).ranks() {
                let shard = two.shard(chunk, rank);
                prop_assert_eq!(shard.start, next);
                prop_assert!(shard.start <= shard.end && (shard.start.is_multiple_of(line) || shard.start == chunk));
                prop_assert!((shard.end - shard.start) * dtype.size() as u64 <= room);
                next = shard.end;
            }
            prop_assert_eq!(next, chunk);
            prop_assert_eq!(two.chunk().get() % line, 0);
            prop_assert!(room > 0 && room * (ranks as u64 - 1) <= limits.staging.get());
        }
    }

    #[test]
    fn hostile_shards_never_panic(ranks in 2..=WORLD_MAX, chunk in any::<u64>(), rank in 0..WORLD_MAX) {
        let shard = two_shots(ranks, Limits::default(), Dtype::F16).shard(chunk, Rank::new(rank).unwrap());
        prop_assert!(shard.start <= shard.end && shard.end <= chunk);
    }

    #[test]
    fn chunks_add_up(plan in any_plan(), request in any_host_request()) {
        let elements = request.elements.get();
        let (chunk, chunks) = match plan.decide(&request).unwrap() {
            Algorithm::Alone(_) | Algorithm::HeaderOnly(_) => return Ok(()),
            Algorithm::DeviceAlone(_) | Algorithm::DeviceHeaderOnly(_) | Algorithm::OneShotPush(_) | Algorithm::TwoShotPush(_) => {
                panic!("the host runs no algorithm of GPUs")
            }
            Algorithm::OneShotPull(one) => (one.chunk().get(), one.chunks()),
            Algorithm::TwoShotPull(two) => (two.chunk().get(), two.chunks()),
        };
        let mailboxes = plan.limits().mailbox(plan.world()).get() * plan.world().get() as u64;
        prop_assert!(chunk > 0 && chunk * request.dtype.size() as u64 <= mailboxes);
        prop_assert!(u128::from(chunks) * u128::from(chunk) >= u128::from(elements));
        prop_assert!(u128::from(chunks - 1) * u128::from(chunk) < u128::from(elements));
    }
}

#[test]
fn the_threshold_is_where_the_algorithm_changes() {
    for ranks in 2..=WORLD_MAX {
        for cores in [None, Some(2), Some(16)] {
            let plan = plan(ranks, cores);
            for (operation, dtype, buffers) in Operation::ALL
                .into_iter()
                .flat_map(|operation| Dtype::ALL.map(|dtype| (operation, dtype)))
                .flat_map(|(operation, dtype)| Buffers::HOST.map(|buffers| (operation, dtype, buffers)))
            {
                let Some(threshold) = plan.threshold(operation, dtype, buffers) else {
                    continue;
                };
                let at = |elements| {
                    let request = Request {
                        operation,
                        ..request(dtype, elements, buffers)
                    };
                    (decided(&plan, &request), plan.explain(&request).predicted_us.unwrap())
                };
                let (below, from) = (at(threshold.get() - 1), at(threshold.get()));
                assert_eq!(
                    (below.0, from.0),
                    (AlgorithmName::OneShotPull, AlgorithmName::TwoShotPull)
                );
                assert!((from.1 - below.1).abs() < 0.1, "costs meet where the algorithm changes");
            }
        }
    }
}

#[test]
fn at_the_defaults_no_refusal_needs_an_excuse() {
    for ranks in 2..=WORLD_MAX {
        for shift in 0..30 {
            let explanation = plan(ranks, Some(2)).explain(&request(Dtype::Bf16, 1 << shift, Buffers::Private));
            for candidate in explanation.candidates {
                assert!(!matches!(
                    candidate.verdict,
                    Verdict::Refused(Refusal::NotLasting { .. })
                ));
            }
        }
    }
}

#[test]
fn a_verify_step_takes_two_shots_and_a_word_takes_one() {
    for ranks in 2..=8 {
        let name = |elements| {
            let plan = plan(ranks, Some(ranks));
            decided(&plan, &request(Dtype::Bf16, elements, Buffers::Private))
        };
        assert_eq!(name(1), AlgorithmName::OneShotPull);
        assert_eq!(name(21_504), AlgorithmName::TwoShotPull);
    }
}

#[test]
fn only_pins_but_one_rank_and_no_elements_stay_what_they_are() {
    for name in AlgorithmName::ALL {
        let only = AlgorithmChoice::Only(name);
        let alone = compile(1, None, only, Limits::default()).unwrap();
        assert_eq!(
            decided(&alone, &request(Dtype::F32, 7, Buffers::Private)),
            AlgorithmName::Alone
        );
        assert_eq!(alone.decide_barrier().name(), AlgorithmName::Alone);
        let pinned = compile(3, None, only, Limits::default());
        match name {
            AlgorithmName::Alone | AlgorithmName::HeaderOnly => {
                let error = pinned.unwrap_err();
                assert!(matches!(&error, PlanError::Inadmissible { algorithm, .. } if *algorithm == name));
                let hint = error.hint().unwrap();
                assert!(
                    AlgorithmName::pinnable().all(|name| hint.contains(name.name())),
                    "{hint}"
                );
            }
            AlgorithmName::OneShotPush | AlgorithmName::TwoShotPush => {
                let (pinned, auto) = (pinned.unwrap(), plan(3, None));
                for buffers in Buffers::HOST {
                    let request = request(Dtype::F32, 5, buffers);
                    assert_eq!(pinned.decide(&request), auto.decide(&request));
                    assert_eq!(pinned.explain(&request), auto.explain(&request));
                }
            }
            AlgorithmName::OneShotPull | AlgorithmName::TwoShotPull => {
                let pinned = pinned.unwrap();
                for elements in [1, 1 << 10, 1 << 30, u64::MAX] {
                    assert_eq!(decided(&pinned, &request(Dtype::F32, elements, Buffers::Shared)), name);
                }
                assert_eq!(pinned.decide_barrier().name(), AlgorithmName::HeaderOnly);
                let refused = pinned.explain(&request(Dtype::F32, 5, Buffers::Shared)).candidates;
                let pins = refused.iter().filter(|candidate| {
                    candidate.verdict == Verdict::Refused(Refusal::PinnedElsewhere { pinned: name })
                });
                assert_eq!(pins.count(), 1);
            }
        }
    }
}

#[test]
fn inputs_that_do_not_belong_together_are_refused() {
    let limits = Limits::default();
    let compile = |topology_ranks, tree_ranks, limits| {
        Plan::compile(PlanInputs {
            world: world(4),
            topology: &topology(topology_ranks, None),
            policy: Policy::default(),
            limits,
            tree: &ReductionTree::canonical(world(tree_ranks)),
        })
    };
    assert!(compile(4, 4, limits).is_ok());
    assert_eq!(compile(4, 5, limits), Err(PlanError::TreeWorld { tree: 5, world: 4 }));
    assert_eq!(
        compile(3, 4, limits),
        Err(PlanError::TopologyWorld { topology: 3, world: 4 })
    );
    let staging = Bytes::new(4097);
    assert_eq!(
        compile(4, 4, Limits { staging, ..limits }),
        Err(PlanError::Staging { staging })
    );
}

#[test]
fn digests_agree_exactly_when_plans_do() {
    let mut seen = Vec::new();
    for (ranks, cores, choice, limits) in [
        (1, None, AlgorithmChoice::Auto, Limits::default()),
        (2, None, AlgorithmChoice::Auto, Limits::default()),
        (2, Some(1), AlgorithmChoice::Auto, Limits::default()),
        (3, None, AlgorithmChoice::Auto, Limits::default()),
        (
            3,
            None,
            AlgorithmChoice::Only(AlgorithmName::OneShotPull),
            Limits::default(),
        ),
        (
            3,
            None,
            AlgorithmChoice::Only(AlgorithmName::TwoShotPull),
            Limits::default(),
        ),
        (
            3,
            None,
            AlgorithmChoice::Auto,
            Limits {
                shared: Bytes::new(0),
                ..Limits::default()
            },
        ),
        (
            3,
            None,
            AlgorithmChoice::Auto,
            Limits {
                staging: Bytes::new(4096),
                ..Limits::default()
            },
        ),
    ] {
        let digest = compile(ranks, cores, choice, limits).unwrap().digest();
        assert_eq!(compile(ranks, cores, choice, limits).unwrap().digest(), digest);
        assert!(!seen.contains(&digest));
        seen.push(digest);
    }
    let pinned = |tree: &str| {
        let (topology, tree) = (topology(3, None), tree.parse().unwrap());
        let policy = Policy::default();
        let inputs = PlanInputs {
            world: world(3),
            topology: &topology,
            policy,
            limits: Limits::default(),
            tree: &tree,
        };
        Plan::compile(inputs).unwrap().digest()
    };
    assert_eq!(pinned("(0+1)+2"), plan(3, None).digest());
    assert_ne!(pinned("0+(1+2)"), plan(3, None).digest());
}

#[test]
fn gates_tell_their_evidence() {
    let finding = |plan: &Plan, gate| {
        let findings = plan.explain(&request(Dtype::F32, 8, Buffers::Private)).gates;
        findings.into_iter().find(|finding| finding.gate == gate)
    };
    let cores = |cores| finding(&plan(4, cores), Gate::Cores).unwrap().answer;
    assert_eq!(
        (cores(None), cores(Some(3)), cores(Some(4))),
        (Answer::Unknown, Answer::No, Answer::Yes)
    );
    assert_eq!(finding(&plan(1, None), Gate::Peers).unwrap().answer, Answer::No);
    assert_eq!(finding(&plan(1, None), Gate::OneShotFit), None);
    let fit = finding(&plan(4, None), Gate::OneShotFit).unwrap();
    assert_eq!(
        (fit.answer, fit.evidence.as_str()),
        (Answer::Yes, "87,376 elements fit mailboxes of 349,504 B")
    );
}

#[test]
fn people_can_read_an_explanation() {
    let text = plan(2, Some(1))
        .explain(&request(Dtype::Bf16, 0, Buffers::Private))
        .to_string();
    let expected = "\
all_reduce of 0 bf16 (0 B) by sum over 2 ranks, private buffers
  runs header_only on engine host, path shared_memory, 1 epoch, predicted 3.06 us
  order of combination 0+1
algorithms
  alone           refused: it is for one rank, and there are 2
  header_only     chosen, predicted 3.06 us: waits 3.06
  one_shot_pull   refused: there is nothing to exchange
  two_shot_pull   refused: there is nothing to exchange
  one_shot_push   refused: it runs on engine cuda, which does not take private buffers
  two_shot_push   refused: it runs on engine cuda, which does not take private buffers
gates
  peers           yes      2 ranks
  payload         no       zero elements
  one_shot_fit    yes      524,288 elements fit mailboxes of 1 MiB
  two_shot_fit    yes      shards of 1,048,576 elements fit mailboxes of 1 MiB
  in_place        no       private buffers are copied to mailboxes
  cores           no       2 ranks share 1 processor; work is divided and waits hand cores over
";
    assert!(text.contains("two shots from"), "{text}");
    let text: String = text
        .lines()
        .filter(|line| !line.contains("two shots from"))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(text, expected);
}

#[test]
fn few_bytes_are_never_worth_a_second_shot() {
    for (ranks, cores) in (2..=WORLD_MAX).flat_map(|ranks| [(ranks, None), (ranks, Some(2))]) {
        for buffers in Buffers::HOST {
            let name = decided(&plan(ranks, cores), &request(Dtype::F32, 1, buffers));
            assert_eq!(name, AlgorithmName::OneShotPull);
        }
    }
}
