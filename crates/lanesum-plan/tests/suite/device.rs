//! Buffers of GPUs: each gate refuses with the ranks to blame.

use lanesum_plan::{
    AlgorithmChoice, AlgorithmName, Answer, Buffers, Bytes, DEVICE_WORLD_MAX, Dtype, Engine, Gate, Gpus, Limits,
    Operation, Path, PathChoice, PeerVerdict, Plan, PlanError, PlanInputs, Policy, Rank, RankGpu, ReductionTree,
    Refusal, Request, Topology, Verdict, WORLD_MAX,
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
        numa_node: None,
        slot: None,
        mig: None,
        bar1: None,
        nvlinks: None,
        stand_in: false,
    }
}

/// Ranks with a GPU each, or all with one; peer access between them proven.
pub fn gpus(ranks: usize, distinct: usize) -> Gpus {
    let verdict = |writer, owner| {
        if writer == owner {
            PeerVerdict::Own
        } else {
            PeerVerdict::Proven
        }
    };
    Gpus {
        peers: (0..ranks)
            .map(|writer| (0..ranks).map(|owner| verdict(writer, owner)).collect())
            .collect(),
        ..Gpus::new((0..ranks).map(|rank| gpu(rank % distinct, 132)).collect())
    }
}

/// The same without peer access; the way through host memory proven.
pub fn staging(ranks: usize, distinct: usize) -> Gpus {
    let mut gpus = gpus(ranks, distinct);
    gpus.staged = gpus.peers.clone();
    let refused = PeerVerdict::Refused {
        reason: "peer access is not supported".to_owned(),
    };
    gpus.peers = vec![vec![refused; ranks]; ranks];
    gpus
}

pub fn compiled(
    ranks: usize,
    gpus: Option<Gpus>,
    algorithm: AlgorithmChoice,
    limits: Limits,
) -> Result<Plan, PlanError> {
    let policy = Policy {
        algorithm,
        ..Policy::default()
    };
    with_policy(ranks, gpus, policy, limits)
}

pub fn with_policy(ranks: usize, gpus: Option<Gpus>, policy: Policy, limits: Limits) -> Result<Plan, PlanError> {
    Plan::compile(PlanInputs {
        world: world(ranks),
        topology: &Topology {
            gpus,
            ..topology(ranks, None)
        },
        policy,
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

fn along(ranks: usize, gpus: Gpus, path: PathChoice) -> Plan {
    let policy = Policy {
        path,
        ..Policy::default()
    };
    with_policy(ranks, Some(gpus), policy, Limits::default()).unwrap()
}

#[test]
fn the_path_is_one_for_all_pairs_and_the_users_if_pinned() {
    let chosen = |gpus: &Gpus, path| {
        let plan = along(3, gpus.clone(), path);
        let decided = [0, 5, 1 << 20].map(|elements| plan.decide(&device(elements)).map(|found| found.path()));
        assert!(decided.iter().all(|one| *one == decided[0]), "{decided:?}");
        assert_eq!(plan.device().err(), decided[0].clone().err());
        decided[0].clone().map_err(|refusal| refusal.to_string())
    };
    let refused = "the GPU of rank 0 has no access to memory of rank 1's: peer access is not supported".to_owned();
    let untried = "nobody has tried whether what rank 0's GPU writes to rank 1's part of pinned host memory arrives";
    // Peer access alone.
    assert_eq!(chosen(&gpus(3, 3), PathChoice::Auto), Ok(Path::Peer));
    assert_eq!(chosen(&gpus(3, 3), PathChoice::Peer), Ok(Path::Peer));
    assert_eq!(chosen(&gpus(3, 3), PathChoice::HostStaged), Err(untried.to_owned()));
    // The host's memory alone.
    assert_eq!(chosen(&staging(3, 3), PathChoice::Auto), Ok(Path::HostStaged));
    assert_eq!(chosen(&staging(3, 3), PathChoice::Peer), Err(refused.clone()));
    assert_eq!(chosen(&staging(3, 3), PathChoice::HostStaged), Ok(Path::HostStaged));
    // Both: peer access goes first.
    let mut both = staging(3, 3);
    both.peers = both.staged.clone();
    assert_eq!(chosen(&both, PathChoice::Auto), Ok(Path::Peer));
    assert_eq!(chosen(&both, PathChoice::HostStaged), Ok(Path::HostStaged));
    // One pair without peer access is enough for all to stage.
    both.peers[2][1] = PeerVerdict::Disproven {
        found: "zeros".to_owned(),
    };
    assert_eq!(chosen(&both, PathChoice::Auto), Ok(Path::HostStaged));
    // Neither: of the host's memory it is known why, or nobody has tried it.
    let mut neither = staging(3, 3);
    neither.staged[1][0] = PeerVerdict::Refused {
        reason: "no memory may be pinned".to_owned(),
    };
    assert_eq!(
        chosen(&neither, PathChoice::Auto),
        Err(format!(
            "{refused}; and the GPU of rank 1 can't use rank 0's part of pinned host memory: no memory may be pinned"
        ))
    );
    neither.staged[1][0] = PeerVerdict::Unknown;
    assert_eq!(chosen(&neither, PathChoice::Auto), Err(refused));
}

#[test]
fn staging_is_predicted_by_the_bytes_on_each_link_and_explained() {
    let predicted = |ranks, distinct, elements| {
        let explanation = with_gpus(ranks, staging(ranks, distinct)).explain(&device(elements));
        assert_eq!(explanation.path, Path::HostStaged);
        (explanation.chosen.unwrap(), explanation.predicted_us.unwrap())
    };
    // A launch of 2 us, a hop of 2.3, 57,344 bytes of frames at 25 GB/s, and the adding.
    let (name, own_link) = predicted(2, 2, 21_504);
    assert_eq!(name, AlgorithmName::OneShotPush);
    assert!(
        (own_link - (2.0 + 2.3 + 57_344.0 / 25_000.0 + 0.086)).abs() < 0.001,
        "{own_link}"
    );
    // Two ranks on one GPU push twice as much over its link.
    let (_, shared_link) = predicted(2, 1, 21_504);
    assert!(
        (shared_link - own_link - 57_344.0 * (2.0 / 30_000.0 - 1.0 / 25_000.0)).abs() < 0.001,
        "{shared_link}"
    );
    // From three ranks on, two shots move fewer bytes for one hop more: the sooner, the more ranks there are or share a link.
    let from = |ranks, distinct| {
        let plan = with_gpus(ranks, staging(ranks, distinct));
        let elements = plan
            .threshold(Operation::Sum, Dtype::Bf16, Buffers::Device)
            .unwrap()
            .get();
        elements * 2 / 1024
    };
    let own_links = [3, 4, 5, 8].map(|ranks| from(ranks, ranks));
    assert_eq!(
        (own_links, [3, 4, 5, 8].map(|ranks| from(ranks, 1))),
        ([62, 27, 17, 7], [25, 8, 4, 1])
    );
    // MIG instances are GPUs of their own in one slot, with one link.
    let mut sliced = staging(2, 2);
    sliced.ranks[1].pci_bus_id = sliced.ranks[0].pci_bus_id.clone();
    let explanation = with_gpus(2, sliced).explain(&device(21_504));
    assert!((explanation.predicted_us.unwrap() - predicted(2, 1, 21_504).1).abs() < 1e-9);
    assert_eq!(predicted(2, 2, 1 << 24).0, AlgorithmName::OneShotPush);
    let other = along(2, staging(2, 2), PathChoice::HostStaged)
        .explain(&device(0))
        .other_path;
    let other = other.map(|other| (other.path, other.reason));
    assert_eq!(other, Some((Path::Peer, "the policy asks for host_staged".to_owned())));
    assert_eq!(
        crate::plan(2, None)
            .explain(&request(Dtype::F32, 5, Buffers::Private))
            .other_path,
        None
    );
    let text = with_gpus(2, staging(2, 1)).explain(&device(21_504)).to_string();
    for line in [
        "  runs one_shot_push on engine cuda, path host_staged, 1 epoch, predicted 8.21 us",
        "  not by path peer: the GPU of rank 0 has no access to memory of rank 1's: peer access is not supported",
        "  peer_access     no       the GPU of rank 0 has no access to memory of rank 1's: peer access is not supported",
        "  host_staging    yes      proven for 2 ordered pairs of ranks",
        "  own_device      no       2 ranks share 1 GPU, so their bytes share its link, which predictions count; they do \
         not count its time",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
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
        Refusal::HostAccess {
            writer,
            owner,
            cause: text(),
        },
        Refusal::HostDisproven {
            writer,
            owner,
            found: text(),
        },
        Refusal::HostUnproven { writer, owner },
        Refusal::NoWay {
            peer: Box::new(Refusal::PeerUnproven { writer, owner }),
            host: Box::new(Refusal::HostUnproven { writer, owner }),
        },
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
    let mut unstaged = gpus(4, 4);
    unstaged.staged.pop();
    assert!(compile(unstaged).is_err());
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
        text.contains("own_device      no       5 ranks share 2 GPUs, so the predicted times do not hold"),
        "{text}"
    );
    let text = with_gpus(3, self::gpus(3, 1)).explain(&device(21_504)).to_string();
    assert!(text.contains("3 ranks share 1 GPU, so no link is crossed"), "{text}");
    let text = with_gpus(1, self::gpus(1, 1)).explain(&device(21_504)).to_string();
    assert!(text.contains("own_device      yes      1 rank on 1 GPU"), "{text}");
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
    // And the path, where one shot carries everything either way.
    let mut both = staging(2, 2);
    both.peers = both.staged.clone();
    let [peer, host] = [PathChoice::Peer, PathChoice::HostStaged].map(|path| along(2, both.clone(), path).digest());
    assert_ne!(peer, host);
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
    // One of GPUs from before there was another way between them.
    let mut older = serde_json::to_value(&with).unwrap();
    older["gpus"].as_object_mut().unwrap().remove("staged");
    let topology = serde_json::from_value::<Topology>(older).unwrap();
    let refused = compiled(2, topology.gpus, AlgorithmChoice::Auto, Limits::default())
        .unwrap()
        .device();
    assert!(matches!(refused, Err(Refusal::PeerAccess { .. })), "{refused:?}");
}

#[test]
fn people_can_read_why_a_push_runs_or_not() {
    let expected = "\
all_reduce of 21,504 bf16 (42 KiB) by sum over 2 ranks, device buffers
  runs one_shot_push on engine cuda, path peer, 1 epoch, predicted 4.36 us
  not by path host_staged: peer access is proven for all pairs, and goes first
  chunks of raw bytes instead of frames from 270,003 elements on
  order of combination 0+1
algorithms
  alone           refused: it is for one rank, and there are 2
  header_only     refused: it moves no payload, and there is one
  one_shot_push   chosen, predicted 4.36 us: launch 2.00, waits 1.00, bytes 1.27, sums 0.09
  two_shot_push   refused: predicted 5.36 us, the chosen one 4.36 us
  one_shot_pull   on path peer refused: not built yet; predicted 5.71 us
  two_shot_pull   on path peer refused: not built yet; predicted 8.11 us
  two_shot_staged on path peer refused: not built yet; predicted 7.04 us
  island_two_shot on path peer refused: no ranks are nearer to each other than to the rest
  copy_engine     on path peer refused: not built yet; predicted 13.90 us
  nccl            on path peer refused: the policy exact hands nothing to another library; predicted 14.00 us
gates
  peers           yes      2 ranks
  payload         yes      42 KiB a rank
  same_host       yes      2 ranks, which meet on one host or not at all
  device_fit      yes      32 lanes of 2,688 frames each, 768 threads a block
  peer_access     yes      proven for 2 ordered pairs of ranks
  host_staging    unknown  nobody has tried whether what rank 0's GPU writes to rank 1's part of pinned host memory arrives
  own_device      yes      2 ranks on 2 GPUs
  links           unknown  how all of the GPUs lie to each other is not known; predicted as root ports of one socket
  mappings        yes      1 peer each, of at most 8
  nccl_settings   yes      NCCL_P2P_DISABLE and NCCL_P2P_LEVEL are not set
  iommu_off       unknown  not observed
  acs_off         unknown  not observed: root can read it (lspci -vvv)
  bare_metal      unknown  not observed
  not_wsl         unknown  not observed
  mig_off         unknown  not observed
  no_display      yes      no GPU of a rank drives one
  even_slots      unknown  not all links are known
  peer_rate       unknown  not measured
  gathered_stores unknown  how all of the GPUs lie to each other is not known
  policy          yes      auto
";
    assert_eq!(with_gpus(2, gpus(2, 2)).explain(&device(21_504)).to_string(), expected);
    let expected = "\
all_reduce of 0 bf16 (0 B) by sum over 1 rank, device buffers
  does not run on engine cuda: all algorithms are refused
  order of combination 0
algorithms
  alone           refused: not every rank has attached a GPU
  header_only     refused: not every rank has attached a GPU
  one_shot_pull   refused: it runs on engine host, which does not take device buffers
  two_shot_pull   refused: it runs on engine host, which does not take device buffers
  one_shot_push   refused: not every rank has attached a GPU
  two_shot_push   refused: not every rank has attached a GPU
gates
  peers           no       1 rank
  device_fit      no       not every rank has attached a GPU
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
    (sizes, 1..=WORLD_MAX, verdict.clone(), verdict).prop_map(|(sizes, distinct, verdict, staged)| {
        let ranks = sizes.len();
        let mut gpus = gpus(ranks, distinct);
        gpus.staged = gpus.peers.clone();
        for (gpu, (multiprocessors, threads_per_block)) in gpus.ranks.iter_mut().zip(sizes) {
            (gpu.multiprocessors, gpu.threads_per_block) = (multiprocessors, threads_per_block);
        }
        gpus.peers[ranks - 1][0] = verdict;
        gpus.staged[ranks - 1][0] = staged;
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
