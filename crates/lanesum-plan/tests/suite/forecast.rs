//! What algorithms that are not built, and another library, would take: transfers played over the links of a fabric.

use lanesum_plan::*;
use proptest::prelude::*;

use crate::device::{device, gpus, with_policy};
use crate::fabric::tree;
use crate::world;

/// Groups of these sizes, near within and far between.
pub fn grouped(sizes: &[usize], within: Relation, between: Relation) -> Links {
    let group: Vec<usize> = sizes
        .iter()
        .enumerate()
        .flat_map(|(at, size)| vec![at; *size])
        .collect();
    let ranks = group.len();
    tree(ranks, &[(&|rank: usize| group[rank], within), (&|_| 0, between)])
}

fn message(bytes: u64) -> Message {
    Message {
        bytes: Bytes::new(bytes),
        framed: 1.0,
        partial: 2.0,
        launch_us: 0.5,
    }
}

fn us(links: &Links, ranks: usize, method: Method, bytes: u64) -> f64 {
    let fabric = Fabric::of(links, world(ranks)).unwrap();
    fabric.estimate(method, &message(bytes)).unwrap().total_us()
}

/// Bytes, hops and rates by hand: two GPUs on root ports, 45 GB/s to one peer, a hop of 1 us, raw payload.
#[test]
fn two_gpus_take_what_their_bytes_and_hops_take() {
    let links = tree(2, &[(&|_| 0, Relation::Phb)]);
    let add = |factor: f64| factor * 90_000.0 / 1e6;
    let close = |method, bytes, expected: f64| {
        let us = us(&links, 2, method, bytes);
        assert!((us - expected).abs() < 1e-6, "{method}: {us}, expected {expected}");
    };
    close(Method::OneShotPush, 90_000, 0.5 + 1.0 + 2.0 + add(2.0));
    close(Method::TwoShotPush, 90_000, 0.5 + 2.0 + 2.0 + add(2.0));
    close(Method::OneShotPull, 90_000, 0.5 + 2.4 + 90.0 / 35.0 + add(2.0));
    close(Method::TwoShotPull, 90_000, 0.5 + 4.8 + 90.0 / 35.0 + add(2.0));
    close(Method::TwoShotStaged, 90_000, 0.5 + 4.0 + 2.0 + add(2.0));
    close(Method::CopyEngine, 90_000, 1.5 + 7.0 + 90.0 / 53.0 + add(2.0));
    // Words twice the payload, or raw with two longer steps.
    close(Method::Nccl, 90_000, 8.5 + 2.0 + 4.0 + add(2.0));
    close(Method::Nccl, 9_000_000, 8.5 + 2.0 + 8.0 + 200.0 + 2.0 * 9.0);
}

/// The bounds that the design writes down for eight GPUs, in microseconds: nothing is foretold below them.
#[test]
fn nothing_is_faster_than_physics() {
    let links = grouped(&[4, 4], Relation::Pix, Relation::Phb);
    for (bytes, bounds) in [
        (8 << 10, [2.2, 2.4, 2.8, 11.4]),
        (42 << 10, [6.9, 3.6, 4.2, 12.6]),
        (256 << 10, [36.0, 11.0, 13.0, 20.3]),
        (1 << 20, [142.0, 37.0, 45.0, 48.0]),
    ] {
        let methods = [
            Method::OneShotPush,
            Method::TwoShotPush,
            Method::IslandTwoShot,
            Method::Nccl,
        ];
        for (method, bound) in methods.into_iter().zip(bounds) {
            let us = us(&links, 8, method, bytes);
            assert!(us >= bound * 0.87, "{method}, {bytes} B: {us} of at least {bound}");
        }
    }
}

/// Eight GPUs share a link upwards: two shots send 64 shards of S/16 over it in each phase, islands 8 of S/8 in f32 once.
#[test]
fn islands_spare_the_link_that_they_share() {
    let links = grouped(&[8, 8], Relation::Pix, Relation::Phb);
    let of = |method| us(&links, 16, method, 1 << 20);
    let (two, islands) = (of(Method::TwoShotPush), of(Method::IslandTwoShot));
    assert!(islands < two, "{islands}, {two}");
    let links = grouped(&[4, 4], Relation::Pix, Relation::Phb);
    let islands = us(&links, 8, Method::IslandTwoShot, 1 << 20);
    // By hand: 3/4 S at 25 GB/s within, twice; 4 x S/4 x 2 at 45 between; three hops of 0.7, 1 and 0.7.
    let size = f64::from(1 << 20);
    let expected = 0.5 + 2.4 + 2.0 * 0.75 * size / 25e3 + 2.0 * size / 45e3 + size * 2.75 / 1e6;
    assert!((islands - expected).abs() < 1e-6, "{islands}, expected {expected}");
}

#[test]
fn islands_of_any_sizes_exchange_all_parts() {
    for sizes in [&[2, 6][..], &[1, 4], &[6, 2], &[3, 2, 2]] {
        let links = grouped(sizes, Relation::Pix, Relation::Phb);
        let ranks = sizes.iter().sum();
        let fabric = Fabric::of(&links, world(ranks)).unwrap();
        assert_eq!(fabric.islands().len(), sizes.len());
        let long =
            us(&links, ranks, Method::IslandTwoShot, 2 << 20) - us(&links, ranks, Method::IslandTwoShot, 1 << 20);
        let longer =
            us(&links, ranks, Method::IslandTwoShot, 4 << 20) - us(&links, ranks, Method::IslandTwoShot, 2 << 20);
        assert!((longer / long - 2.0).abs() < 1e-6, "{sizes:?}");
    }
    // Where all are alike there are none.
    let alike = Fabric::of(&tree(4, &[(&|_| 0, Relation::Phb)]), world(4)).unwrap();
    assert_eq!(alike.estimate(Method::IslandTwoShot, &message(1 << 20)), None);
}

/// Stores that leave a shared link for several others at once collapse; loads do not, nor stores for one at a time, nor for one other link.
#[test]
fn stores_to_several_root_ports_collapse() {
    let two = grouped(&[4, 4], Relation::Pix, Relation::Phb);
    let four = grouped(&[2, 2, 2, 2], Relation::Pix, Relation::Phb);
    let ratio = |method| us(&four, 8, method, 1 << 20) / us(&two, 8, method, 1 << 20);
    assert!(ratio(Method::TwoShotPush) > 8.0, "{}", ratio(Method::TwoShotPush));
    for method in [Method::TwoShotPull, Method::TwoShotStaged, Method::CopyEngine] {
        assert!(ratio(method) < 1.5, "{method}: {}", ratio(method));
    }
    // The plan does not count with it, and says what it would mean.
    let planned = |links: &Links| {
        let mut gpus = gpus(8, 8);
        gpus.links = links.clone();
        let plan = with_policy(8, Some(gpus), Policy::default(), Limits::default()).unwrap();
        plan.explain(&device(1 << 19))
    };
    let stores = |links: &Links| {
        let gates = planned(links).gates.into_iter();
        let mut gates = gates.filter(|finding| finding.gate == Gate::GatheredStores);
        gates.next().unwrap()
    };
    assert_eq!((stores(&two).answer, stores(&four).answer), (Answer::Yes, Answer::No));
    assert!(
        stores(&four).evidence.contains("ranks 0, 1 share a link"),
        "{}",
        stores(&four).evidence
    );
    assert!(planned(&four).predicted_us.unwrap() < 2.0 * planned(&two).predicted_us.unwrap());
    // Switches of one GPU each are none.
    let alone = grouped(&[1, 1, 1, 1], Relation::Pix, Relation::Phb);
    let apart = tree(4, &[(&|_| 0, Relation::Phb)]);
    let push = |links| us(links, 4, Method::TwoShotPush, 1 << 20);
    assert!(push(&alone) == push(&apart));
}

fn with_copies(ranks: usize, rate: &dyn Fn(usize, usize) -> Option<CopyRates>) -> Vec<Vec<Option<CopyRates>>> {
    (0..ranks)
        .map(|one| (0..ranks).map(|other| rate(one, other)).collect())
        .collect()
}

fn measured(peer: u32) -> Option<CopyRates> {
    Some(CopyRates {
        peer: Some(peer),
        staged: None,
        latency_ns: None,
    })
}

/// All labels are alike in a virtual machine; copies tell which GPUs are near.
#[test]
fn measurements_find_islands_that_labels_hide() {
    let mut links = tree(4, &[]);
    let islands = |links: &Links| Fabric::of(links, world(4)).unwrap().islands().len();
    assert_eq!(islands(&links), 1);
    links.copies = with_copies(4, &|one, other| {
        measured(if one / 2 == other / 2 { 26_000 } else { 11_000 })
    });
    assert_eq!(islands(&links), 2);
    // Rates that hardly differ part nothing.
    links.copies = with_copies(4, &|one, other| {
        measured(if one / 2 == other / 2 { 26_000 } else { 24_000 })
    });
    assert_eq!(islands(&links), 1);
    // Labels that say otherwise are hints.
    let mut labelled = grouped(&[1, 3], Relation::Pix, Relation::Sys);
    assert_eq!(Fabric::of(&labelled, world(4)).unwrap().islands()[0].len(), 1);
    labelled.copies = with_copies(4, &|one, other| {
        measured(if one / 2 == other / 2 { 26_000 } else { 11_000 })
    });
    assert_eq!(Fabric::of(&labelled, world(4)).unwrap().islands()[0].len(), 2);
    // Of measurements alone, too; and what they do not part is together.
    let mut alone = Links {
        copies: labelled.copies.clone(),
        ..Links::default()
    };
    assert_eq!(islands(&alone), 2);
    alone.copies = with_copies(4, &|_, _| measured(26_000));
    assert_eq!(islands(&alone), 1);
}

/// A slot of four lanes shows in what copies reach, whatever its label; and the plan follows.
#[test]
fn measurements_override_what_is_assumed() {
    let request = device(1 << 20);
    let planned = |links: Links| {
        let mut gpus = gpus(4, 4);
        gpus.links = links;
        with_policy(4, Some(gpus), Policy::default(), Limits::default())
            .unwrap()
            .explain(&request)
    };
    let labelled = tree(4, &[(&|_| 0, Relation::Phb)]);
    let mut slow = labelled.clone();
    slow.copies = with_copies(4, &|one, other| {
        measured(if one == 3 || other == 3 { 6_000 } else { 53_000 })
    });
    let factor = planned(slow.clone()).predicted_us.unwrap() / planned(labelled.clone()).predicted_us.unwrap();
    assert!(factor > 4.0, "{factor}");
    // Also where there are no labels at all.
    let unlabelled = Links {
        copies: slow.copies.clone(),
        ..Links::default()
    };
    let mut all_fast = unlabelled.clone();
    all_fast.copies = with_copies(4, &|_, _| measured(53_000));
    assert!(planned(unlabelled).predicted_us > planned(all_fast).predicted_us);
}

/// What crosses a link that is assumed to be slower was measured to reach more.
#[test]
fn measurements_raise_what_is_assumed() {
    let mut links = grouped(&[2, 2], Relation::Node, Relation::Sys);
    let long = |links: &Links| us(links, 4, Method::TwoShotPush, 16 << 20);
    let assumed = long(&links);
    links.copies = with_copies(4, &|_, _| measured(200_000));
    assert!(long(&links) < assumed / 3.0, "{assumed}, {}", long(&links));
}

/// The link to the host's memory is what its kind or copies through the host tell, whatever redirects peers' writes.
#[test]
fn redirected_peers_say_nothing_of_the_way_to_the_host() {
    let staged = |peer: u32| {
        let mut gpus = gpus(2, 2);
        gpus.staged = gpus.peers.clone();
        gpus.links = tree(2, &[(&|_| 0, Relation::Phb)]);
        gpus.links.copies = with_copies(2, &|_, _| {
            Some(CopyRates {
                peer: Some(peer),
                staged: Some(40_000),
                latency_ns: None,
            })
        });
        let plan = with_policy(2, Some(gpus), Policy::default(), Limits::default()).unwrap();
        plan.explain(&device(1 << 20))
    };
    let (redirected, straight) = (staged(2_000), staged(50_000));
    assert_eq!((redirected.path, straight.path), (Path::HostStaged, Path::Peer));
    let host_us = redirected.predicted_us.unwrap();
    // 2 MiB at 40/53 of what chunks reach on Gen5 x16.
    assert!((50.0..150.0).contains(&host_us), "{host_us}");
}

/// A word that takes longer than through the host and back is staged or redirected by something.
#[test]
fn words_that_take_long_lead_through_the_host() {
    let mut gpus = gpus(2, 2);
    gpus.staged = gpus.peers.clone();
    gpus.links = tree(2, &[(&|_| 0, Relation::Phb)]);
    let mut planned = |latency_ns: u32| {
        gpus.links.copies = with_copies(2, &|one, other| {
            (one != other).then_some(CopyRates {
                peer: Some(20_000),
                staged: None,
                latency_ns: Some(if one == 1 { latency_ns } else { 300 }),
            })
        });
        let plan = with_policy(2, Some(gpus.clone()), Policy::default(), Limits::default()).unwrap();
        plan.explain(&device(64))
    };
    let (near, far) = (planned(2_000), planned(15_000));
    assert_eq!((near.path, far.path), (Path::Peer, Path::HostStaged));
    assert!(far.other_path.unwrap().reason.contains("takes 15.0 us to rank 0's"));
    // A hop is as long as it was measured to be, if that is longer than what is assumed.
    assert!(near.predicted_us.unwrap() > 3.9, "{near}");
}

/// Peer access that is slower than the host's memory is not taken, unless it is asked for.
#[test]
fn peer_access_that_is_redirected_is_not_taken() {
    let mut gpus = gpus(2, 2);
    gpus.staged = gpus.peers.clone();
    gpus.links = tree(2, &[(&|_| 0, Relation::Phb)]);
    gpus.links.copies = with_copies(2, &|one, _| {
        Some(CopyRates {
            peer: Some(if one == 0 { 40_000 } else { 3_000 }),
            staged: Some(18_000),
            latency_ns: None,
        })
    });
    let policy = |path| Policy {
        path,
        ..Policy::default()
    };
    let plan = |path| with_policy(2, Some(gpus.clone()), policy(path), Limits::default()).unwrap();
    let request = device(4096);
    let explanation = plan(PathChoice::Auto).explain(&request);
    assert_eq!(explanation.path, Path::HostStaged);
    let other = explanation.other_path.unwrap().reason;
    assert!(other.contains("rank 1's GPU to rank 0's run at 3.0 GB/s"), "{other}");
    let gate = explanation
        .gates
        .iter()
        .find(|finding| finding.gate == Gate::PeerRate)
        .unwrap();
    assert_eq!(gate.answer, Answer::No);
    assert!(gate.remedy().is_some());
    assert_eq!(plan(PathChoice::Peer).explain(&request).path, Path::Peer);
}

#[test]
fn the_delegate_runs_only_where_the_policy_admits_it() {
    let mut gpus = gpus(8, 8);
    gpus.links = grouped(&[4, 4], Relation::Node, Relation::Sys);
    let plan = with_policy(8, Some(gpus), Policy::default(), Limits::default()).unwrap();
    let request = device(3 * 7168);
    let from = plan.delegate_from(&request, Preference::Fastest).unwrap();
    assert_eq!(plan.delegate_from(&request, Preference::Exact), None);
    for elements in [1, from.get() - 1, from.get(), from.get() * 2, 1 << 26] {
        let explanation = plan.explain(&device(elements));
        assert!(matches!(explanation.decision(Preference::Exact), Decision::Own { .. }));
        let delegated = matches!(explanation.decision(Preference::Fastest), Decision::Delegate { .. });
        assert_eq!(delegated, elements >= from.get(), "{elements}");
        // What is not taken says so, each once.
        for preference in Preference::ALL {
            let others = explanation.alternatives(preference);
            let chosen = match explanation.decision(preference) {
                Decision::Own { algorithm, .. } => algorithm.name(),
                Decision::Delegate { method, .. } => method.name(),
                Decision::Refused => unreachable!(),
            };
            assert!(others.iter().all(|other| other.name != chosen));
            let mut names: Vec<&str> = others.iter().map(|other| other.name).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
            assert_eq!(all, 9);
        }
    }
    // Who names an algorithm, or a path, means it.
    let pinned = |policy| {
        let mut gpus = crate::device::gpus(8, 8);
        gpus.staged = gpus.peers.clone();
        gpus.links = grouped(&[4, 4], Relation::Node, Relation::Sys);
        let plan = with_policy(8, Some(gpus), policy, Limits::default()).unwrap();
        plan.explain(&device(1 << 26)).decision(Preference::Fastest)
    };
    let two_shots = Policy {
        algorithm: AlgorithmChoice::Only(AlgorithmName::TwoShotPush),
        ..Policy::default()
    };
    assert!(matches!(pinned(two_shots), Decision::Own { .. }));
    let staged = Policy {
        path: PathChoice::HostStaged,
        ..Policy::default()
    };
    assert!(matches!(
        pinned(staged),
        Decision::Own {
            path: Path::HostStaged,
            ..
        } | Decision::Delegate {
            path: Path::HostStaged,
            ..
        }
    ));
    // More ranks than the kernels serve: nothing of ours, and another library may.
    let mut many = crate::device::gpus(12, 12);
    many.links = grouped(&[6, 6], Relation::Pix, Relation::Sys);
    let plan = with_policy(12, Some(many), Policy::default(), Limits::default()).unwrap();
    let explanation = plan.explain(&request);
    assert_eq!(explanation.decision(Preference::Exact), Decision::Refused);
    assert!(matches!(
        explanation.decision(Preference::Fastest),
        Decision::Delegate { .. }
    ));
    // The ranks sum in the host's memory instead, which is explained as what it is; a long message is another library's.
    let (host, decision) = plan.decision(&request, Preference::Exact);
    assert_eq!(host.request.buffers, Buffers::Private);
    assert!(matches!(
        decision,
        Decision::Own {
            engine: Engine::Host,
            path: Path::SharedMemory,
            ..
        }
    ));
    let long = device(1 << 24);
    assert!(matches!(
        plan.decision(&long, Preference::Fastest).1,
        Decision::Delegate { .. }
    ));
    assert!(matches!(
        plan.decision(&long, Preference::Exact).1,
        Decision::Own {
            engine: Engine::Host,
            ..
        }
    ));
}

/// What the user told NCCL of peer access holds here, too, and a path that is named counts more.
#[test]
fn what_the_user_told_nccl_is_heeded() {
    let planned = |wishes: NcclWishes, path| {
        let mut gpus = gpus(2, 2);
        gpus.staged = gpus.peers.clone();
        gpus.links = tree(2, &[(&|_| 0, Relation::Node)]);
        let mut topology = crate::topology(2, None);
        topology.ranks[1].nccl = wishes;
        topology.gpus = Some(gpus);
        let plan = Plan::compile(PlanInputs {
            world: world(2),
            topology: &topology,
            policy: Policy {
                path,
                ..Policy::default()
            },
            limits: Limits::default(),
            tree: &ReductionTree::canonical(world(2)),
        });
        plan.unwrap().explain(&device(64))
    };
    for (disable, level, path) in [
        (None, None, Path::Peer),
        (Some("0"), None, Path::Peer),
        (Some("1"), None, Path::HostStaged),
        (Some("yes"), None, Path::Peer),
        (Some("1x"), None, Path::HostStaged),
        (Some("0x1"), None, Path::HostStaged),
        (Some("-1"), None, Path::HostStaged),
        (Some("00"), None, Path::Peer),
        (Some("99999999999999999999"), None, Path::HostStaged),
        (Some(""), None, Path::Peer),
        (None, Some("LOC"), Path::HostStaged),
        (None, Some("nvl"), Path::HostStaged),
        (None, Some("PXB"), Path::HostStaged),
        (None, Some("PHB"), Path::Peer),
        (None, Some("2"), Path::HostStaged),
        (None, Some("3"), Path::Peer),
        (None, Some("5"), Path::Peer),
        (None, Some("far"), Path::Peer),
    ] {
        let wishes = NcclWishes::of_values(disable, level);
        let explanation = planned(wishes.clone(), PathChoice::Auto);
        assert_eq!(explanation.path, path, "{wishes}");
        let gate = explanation
            .gates
            .iter()
            .find(|finding| finding.gate == Gate::NcclWishes)
            .unwrap();
        assert_eq!(gate.answer == Answer::No, path == Path::HostStaged, "{wishes}");
        let strange = [disable, level].contains(&Some("yes")) || [disable, level].contains(&Some("far"));
        assert_eq!(gate.answer == Answer::Unknown, strange, "{wishes}");
        assert_eq!(planned(wishes.clone(), PathChoice::Peer).path, Path::Peer);
    }
}

proptest! {
    /// More bytes never take less time, whatever the labels.
    #[test]
    fn more_bytes_never_take_less(
        (ranks, cells) in (2..=WORLD_MAX).prop_flat_map(|ranks| {
            (Just(ranks), proptest::collection::vec(0_usize..6, ranks * ranks))
        }),
    ) {
        let words = [Relation::Pix, Relation::Pxb, Relation::Phb, Relation::Node, Relation::Sys, Relation::Nvlink(4)];
        let relation = |one: usize, other: usize| (one != other).then(|| words[cells[one * ranks + other]]);
        let links = Links {
            relations: (0..ranks).map(|one| (0..ranks).map(|other| relation(one, other)).collect()).collect(),
            ..Links::default()
        };
        let fabric = Fabric::of(&links, world(ranks)).unwrap();
        for method in Method::ALL {
            let at = |bytes| fabric.estimate(method, &message(bytes)).map(|estimate| estimate.total_us());
            let mut last = 0.0;
            for power in [0, 10, 16, 20, 26, 34] {
                let Some(us) = at(1 << power) else { continue };
                prop_assert!(us.is_finite() && us >= last, "{method}, 2^{power}: {us} after {last}");
                last = us;
            }
        }
    }
}
