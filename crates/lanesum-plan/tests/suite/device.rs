//! Buffers of GPUs: each gate refuses with the ranks to blame.

use lanesum_plan::{
    AlgorithmChoice, AlgorithmName, Answer, Buffers, Bytes, DEVICE_WORLD_MAX, Dtype, Engine, Gate, Gpus, Limits, Path,
    PeerVerdict, Plan, PlanError, PlanInputs, Policy, Rank, RankGpu, ReductionTree, Refusal, Request, Topology,
    Verdict, WORLD_MAX,
};
use proptest::prelude::*;

use crate::{any_request, request, topology, world};

pub fn gpu(uuid: usize, multiprocessors: u32) -> RankGpu {
    RankGpu {
        uuid: format!("GPU-{uuid}"),
        pci_bus_id: format!("0000:{uuid:02x}:00.0"),
        name: "a GPU".to_owned(),
        compute: (9, 0),
        multiprocessors,
        threads_per_block: 1024,
        memory: Bytes::new(80 << 30),
        driver: 12_040,
        watchdog: false,
        stand_in: false,
    }
}

/// Ranks with a GPU each, or all with one; all ways between them proven.
pub fn gpus(ranks: usize, distinct: usize) -> Gpus {
    let verdict = |writer, owner| {
        if writer == owner {
            PeerVerdict::Own
        } else {
            PeerVerdict::Proven
        }
    };
    Gpus {
        ranks: (0..ranks).map(|rank| gpu(rank % distinct, 132)).collect(),
        peers: (0..ranks)
            .map(|writer| (0..ranks).map(|owner| verdict(writer, owner)).collect())
            .collect(),
    }
}

pub fn compiled(
    ranks: usize,
    gpus: Option<Gpus>,
    algorithm: AlgorithmChoice,
    limits: Limits,
) -> Result<Plan, PlanError> {
    Plan::compile(PlanInputs {
        world: world(ranks),
        topology: &Topology {
            gpus,
            ..topology(ranks, None)
        },
        policy: Policy { algorithm },
        limits,
        tree: &ReductionTree::canonical(world(ranks)),
    })
}

pub fn with_gpus(ranks: usize, gpus: Gpus) -> Plan {
    compiled(ranks, Some(gpus), AlgorithmChoice::Auto, Limits::default()).unwrap()
}

pub fn device(elements: u64) -> Request {
    request(Dtype::Bf16, elements, Buffers::Device)
}

pub fn rank(index: usize) -> Rank {
    Rank::new(index).unwrap()
}

#[test]
fn every_standing_has_its_algorithm() {
    for (ranks, elements, name, path) in [
        (1, 0, AlgorithmName::Alone, Path::None),
        (1, 9, AlgorithmName::Alone, Path::None),
        (2, 0, AlgorithmName::HeaderOnly, Path::Peer),
        (8, 9, AlgorithmName::OneShotPush, Path::Peer),
        (8, 9_000, AlgorithmName::TwoShotPush, Path::Peer),
    ] {
        let decided = with_gpus(ranks, gpus(ranks, ranks)).decide(&device(elements)).unwrap();
        assert_eq!(
            (decided.name(), decided.path(), decided.engine()),
            (name, path, Engine::Cuda)
        );
    }
}

#[test]
fn gpus_change_nothing_for_the_host_and_the_barrier_stays_there() {
    for ranks in [1, 2, 5] {
        let (without, with) = (crate::plan(ranks, None), with_gpus(ranks, gpus(ranks, ranks)));
        assert_eq!(with.decide_barrier(), without.decide_barrier());
        for (buffers, elements) in [
            (Buffers::Private, 0),
            (Buffers::Private, 77),
            (Buffers::Shared, 1 << 30),
        ] {
            let request = request(Dtype::F16, elements, buffers);
            assert_eq!(with.decide(&request), without.decide(&request));
            assert_eq!(with.explain(&request), without.explain(&request));
        }
    }
}

#[test]
fn without_gpus_or_with_too_many_ranks_the_request_is_refused() {
    for ranks in [1, 2, WORLD_MAX] {
        let plan = crate::plan(ranks, None);
        assert_eq!(plan.decide(&device(5)), Err(Refusal::NoDevice));
        assert_eq!(plan.decide(&device(0)), Err(Refusal::NoDevice));
        assert_eq!(plan.device(), Err(Refusal::NoDevice));
    }
    let ranks = DEVICE_WORLD_MAX + 1;
    let plan = with_gpus(ranks, gpus(ranks, ranks));
    let refusal = plan.decide(&device(5)).unwrap_err();
    assert_eq!(refusal.to_string(), "kernels serve at most 8 ranks, and there are 9");
    assert_eq!(plan.device(), Err(refusal));
}

#[test]
fn the_first_pair_without_a_proof_is_named() {
    let verdicts = [
        (
            PeerVerdict::Refused {
                reason: "peer access is not supported".to_owned(),
            },
            "the GPU of rank 2 has no access to memory of rank 1's: peer access is not supported",
            Answer::No,
        ),
        (
            PeerVerdict::Disproven {
                found: "word 3 is 0".to_owned(),
            },
            "what rank 2 wrote to memory of rank 1's GPU did not arrive: word 3 is 0",
            Answer::No,
        ),
        (
            PeerVerdict::Unknown,
            "it is not proven that what rank 2 writes to memory of rank 1's GPU arrives",
            Answer::Unknown,
        ),
        // A rank's own memory is no proof for that of another.
        (
            PeerVerdict::Own,
            "it is not proven that what rank 2 writes to memory of rank 1's GPU arrives",
            Answer::Unknown,
        ),
    ];
    for (verdict, text, answer) in verdicts {
        let mut gpus = gpus(3, 3);
        gpus.peers[2][1] = verdict;
        let plan = with_gpus(3, gpus);
        for elements in [0, 5] {
            let refusal = plan.decide(&device(elements)).unwrap_err();
            assert_eq!(plan.device().as_ref(), Err(&refusal));
            assert_eq!(refusal.to_string(), text);
            assert!(refusal.hint().is_some());
            let explanation = plan.explain(&device(elements));
            assert_eq!((explanation.chosen, explanation.predicted_us), (None, None));
            let finding = explanation
                .gates
                .iter()
                .find(|finding| finding.gate == Gate::PeerAccess);
            assert_eq!(finding.map(|finding| finding.answer), Some(answer));
        }
    }
}

#[test]
fn a_refusal_survives_its_json_and_has_a_hint_where_something_can_be_done() {
    let (writer, owner) = (rank(1), rank(0));
    let text = || "what was found".to_owned();
    for refusal in [
        Refusal::NoDevice,
        Refusal::DeviceWorld {
            world: world(9),
            most: 8,
        },
        Refusal::PeerAccess {
            writer,
            owner,
            cause: text(),
        },
        Refusal::PeerDisproven {
            writer,
            owner,
            found: text(),
        },
        Refusal::PeerUnproven { writer, owner },
        Refusal::WrongBuffers {
            engine: Engine::Host,
            buffers: Buffers::Device,
        },
    ] {
        let json = serde_json::to_string(&refusal).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
        assert!(refusal.hint().is_some() && !refusal.to_string().is_empty());
    }
    assert_eq!(Refusal::NeedsPeers.hint(), None);
}

#[test]
fn each_engine_refuses_the_buffers_of_the_other() {
    let plan = with_gpus(2, gpus(2, 2));
    let refused = |buffers| {
        let request = request(Dtype::F32, 5, buffers);
        let candidates = plan.explain(&request).candidates.into_iter();
        candidates
            .filter(|candidate| matches!(candidate.verdict, Verdict::Refused(Refusal::WrongBuffers { .. })))
            .map(|candidate| candidate.algorithm)
            .collect::<Vec<_>>()
    };
    let pushes = [AlgorithmName::OneShotPush, AlgorithmName::TwoShotPush];
    assert_eq!(refused(Buffers::Private), pushes);
    assert_eq!(refused(Buffers::Shared), pushes);
    let pulls = [AlgorithmName::OneShotPull, AlgorithmName::TwoShotPull];
    assert_eq!(refused(Buffers::Device), pulls);
}

#[test]
fn gpus_of_another_number_of_ranks_are_refused() {
    let error = PlanError::TopologyWorld { topology: 3, world: 4 };
    let compile = |gpus| compiled(4, Some(gpus), AlgorithmChoice::Auto, Limits::default());
    assert_eq!(compile(gpus(3, 3)), Err(error.clone()));
    let mut short = gpus(4, 4);
    short.peers.pop();
    assert_eq!(compile(short), Err(error));
    let mut narrow = gpus(4, 4);
    narrow.peers[2].pop();
    assert!(compile(narrow).is_err());
    assert!(compile(gpus(4, 4)).is_ok());
}

#[test]
fn ranks_that_share_a_gpu_are_counted() {
    let gpus = gpus(5, 2);
    assert_eq!(
        (gpus.sharing(rank(0)), gpus.sharing(rank(1)), gpus.sharing(rank(5))),
        (3, 2, 0)
    );
    assert_eq!((gpus.distinct(), gpus.shared()), (2, true));
    let text = with_gpus(5, gpus).explain(&device(21_504)).to_string();
    assert!(
        text.contains("own_device     no       5 ranks share 2 GPUs, so the predicted times do not hold"),
        "{text}"
    );
    let text = with_gpus(3, self::gpus(3, 1)).explain(&device(21_504)).to_string();
    assert!(text.contains("3 ranks share 1 GPU, so no link is crossed"), "{text}");
    let text = with_gpus(1, self::gpus(1, 1)).explain(&device(21_504)).to_string();
    assert!(text.contains("own_device     yes      1 rank on 1 GPU"), "{text}");
}

#[test]
fn digests_tell_device_plans_apart() {
    let digest = |gpus| {
        compiled(2, gpus, AlgorithmChoice::Auto, Limits::default())
            .unwrap()
            .digest()
    };
    let mut unproven = gpus(2, 2);
    unproven.peers[1][0] = PeerVerdict::Unknown;
    let mut small = gpus(2, 2);
    small.ranks[1].multiprocessors = 3;
    let digests = [None, Some(gpus(2, 2)), Some(unproven), Some(small)].map(digest);
    for (place, one) in digests.iter().enumerate() {
        assert!(!digests[..place].contains(one));
    }
    // So do the thresholds alone: lanes, capacities and proofs of these are the same.
    let pinned = |algorithm| {
        compiled(4, Some(gpus(4, 4)), algorithm, Limits::default())
            .unwrap()
            .digest()
    };
    let (one, two) = (AlgorithmName::OneShotPush, AlgorithmName::TwoShotPush);
    assert_ne!(pinned(AlgorithmChoice::Only(one)), pinned(AlgorithmChoice::Only(two)));
    assert_ne!(pinned(AlgorithmChoice::Auto), pinned(AlgorithmChoice::Only(two)));
    assert_ne!(with_gpus(4, gpus(4, 4)).digest(), with_gpus(4, gpus(4, 1)).digest());
    // What decides nothing is not compared.
    let mut renamed = gpus(2, 2);
    renamed.ranks[0].name = "another name".to_owned();
    assert_eq!(digest(Some(renamed)), digests[1]);
}

#[test]
fn a_topology_with_gpus_survives_its_json_and_one_without_may_leave_them_out() {
    let mut gpus = gpus(2, 2);
    gpus.peers[0][1] = PeerVerdict::Refused {
        reason: "no".to_owned(),
    };
    let with = Topology {
        gpus: Some(gpus),
        ..topology(2, Some(2))
    };
    let json = serde_json::to_string(&with).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), with);
    let old = r#"{"ranks":[{"cpus":"0"}],"host":{}}"#;
    assert_eq!(serde_json::from_str::<Topology>(old).unwrap().gpus, None);
}

#[test]
fn people_can_read_why_a_push_runs_or_not() {
    let expected = "\
all_reduce of 21,504 bf16 (42 KiB) by sum over 2 ranks, device buffers
  runs one_shot_push on engine cuda, path peer, 1 epoch, predicted 5.38 us
  order of combination 0+1
algorithms
  alone          refused: it is for one rank, and there are 2
  header_only    refused: it moves no payload, and there is one
  one_shot_pull  refused: it runs on engine host, which does not take device buffers
  two_shot_pull  refused: it runs on engine host, which does not take device buffers
  one_shot_push  chosen, predicted 5.38 us
  two_shot_push  refused: predicted 6.38 us, the chosen one 5.38 us
gates
  peers          yes      2 ranks
  payload        yes      42 KiB a rank
  device_fit     yes      32 lanes of 2,688 frames each, 768 threads a block
  peer_access    yes      proven for 2 ordered pairs of ranks
  own_device     yes      2 ranks on 2 GPUs
";
    assert_eq!(with_gpus(2, gpus(2, 2)).explain(&device(21_504)).to_string(), expected);
    let expected = "\
all_reduce of 0 bf16 (0 B) by sum over 1 rank, device buffers
  does not run on engine cuda: all algorithms are refused
  order of combination 0
algorithms
  alone          refused: not every rank has attached a GPU
  header_only    refused: not every rank has attached a GPU
  one_shot_pull  refused: it runs on engine host, which does not take device buffers
  two_shot_pull  refused: it runs on engine host, which does not take device buffers
  one_shot_push  refused: not every rank has attached a GPU
  two_shot_push  refused: not every rank has attached a GPU
gates
  peers          no       1 rank
  device_fit     no       not every rank has attached a GPU
";
    assert_eq!(crate::plan(1, None).explain(&device(0)).to_string(), expected);
}

pub fn any_gpus() -> impl Strategy<Value = Gpus> {
    let sizes = proptest::collection::vec((0_u32..200, 0_u32..2048), 1..=WORLD_MAX);
    let verdict = prop_oneof![
        9 => Just(PeerVerdict::Proven),
        1 => Just(PeerVerdict::Unknown),
        1 => Just(PeerVerdict::Refused { reason: String::new() }),
    ];
    (sizes, 1..=WORLD_MAX, verdict).prop_map(|(sizes, distinct, verdict)| {
        let ranks = sizes.len();
        let mut gpus = gpus(ranks, distinct);
        for (gpu, (multiprocessors, threads_per_block)) in gpus.ranks.iter_mut().zip(sizes) {
            (gpu.multiprocessors, gpu.threads_per_block) = (multiprocessors, threads_per_block);
        }
        gpus.peers[ranks - 1][0] = verdict;
        gpus
    })
}

proptest! {
    #[test]
    fn what_is_decided_is_explained_and_what_is_refused_too(gpus in any_gpus(), request in any_request()) {
        let plan = with_gpus(gpus.ranks.len(), gpus);
        let explanation = plan.explain(&request);
        let refusals = explanation.candidates.iter().filter_map(|candidate| match &candidate.verdict {
            Verdict::Refused(refusal) => Some(refusal),
            Verdict::Chosen => None,
        });
        match plan.decide(&request) {
            Ok(algorithm) => {
                prop_assert_eq!(explanation.chosen, Some(algorithm.name()));
                prop_assert_eq!((explanation.path, explanation.engine), (algorithm.path(), algorithm.engine()));
                prop_assert!(explanation.predicted_us.unwrap().is_finite());
                prop_assert_eq!(refusals.count() + 1, AlgorithmName::ALL.len());
            }
            Err(refusal) => {
                prop_assert_eq!(request.buffers, Buffers::Device);
                prop_assert_eq!(explanation.chosen, None);
                prop_assert_eq!(refusals.clone().count(), AlgorithmName::ALL.len());
                prop_assert!(refusals.into_iter().any(|told| *told == refusal));
            }
        }
        prop_assert!(!explanation.to_string().is_empty());
        prop_assert!(serde_json::to_value(&explanation).is_ok());
    }
}
