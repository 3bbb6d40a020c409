//! What lies between GPUs follows from how they lie to each other, and decides what a plan takes.

use lanesum_plan::*;
use proptest::prelude::*;

use crate::device::{compiled, device, gpus, staging};
use crate::world;

/// Relations by what two ranks have in common: the first level on which their numbers agree.
pub fn tree(ranks: usize, levels: &[(&dyn Fn(usize) -> usize, Relation)]) -> Links {
    let relation = |one: usize, other: usize| {
        let common = levels.iter().find(|(group, _)| group(one) == group(other));
        (one != other).then(|| common.map_or(Relation::Sys, |(_, relation)| *relation))
    };
    Links {
        relations: (0..ranks)
            .map(|one| (0..ranks).map(|other| relation(one, other)).collect())
            .collect(),
        ..Links::default()
    }
}

fn islands(links: &Links, ranks: usize) -> Vec<Vec<usize>> {
    let fabric = Fabric::of(links, world(ranks)).unwrap();
    let numbers = |island: Vec<Rank>| island.into_iter().map(Rank::index).collect();
    fabric.islands().into_iter().map(numbers).collect()
}

#[test]
fn islands_are_those_of_the_switches() {
    let by = |sizes: &'static [usize]| {
        move |rank: usize| {
            let mut end = 0;
            sizes
                .iter()
                .take_while(|size| {
                    end += **size;
                    end <= rank
                })
                .count()
        }
    };
    let of = |ranks, sizes: &'static [usize]| islands(&tree(ranks, &[(&by(sizes), Relation::Pix)]), ranks);
    assert_eq!(of(8, &[4, 4]), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    assert_eq!(of(8, &[2, 6]), [vec![0, 1], vec![2, 3, 4, 5, 6, 7]]);
    assert_eq!(of(8, &[6, 2]), [vec![0, 1, 2, 3, 4, 5], vec![6, 7]]);
    assert_eq!(of(5, &[1, 4]), [vec![0], vec![1, 2, 3, 4]]);
    assert_eq!(of(8, &[2, 2, 2, 2]), [vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]]);
    // All alike, as in a virtual machine.
    assert_eq!(islands(&tree(4, &[]), 4), [vec![0, 1, 2, 3]]);
}

#[test]
fn three_levels_of_switches_nest() {
    let links = tree(
        8,
        &[
            (&|rank| rank / 2, Relation::Pix),
            (&|rank| rank / 4, Relation::Pxb),
            (&|_| 0, Relation::Node),
        ],
    );
    let fabric = Fabric::of(&links, world(8)).unwrap();
    let sizes: Vec<_> = fabric
        .groups()
        .iter()
        .map(|group| (group.within, group.ranks.len()))
        .collect();
    let two = (Relation::Pix, 2);
    let four = (Relation::Pxb, 4);
    assert_eq!(sizes, [two, two, two, two, four, four, (Relation::Node, 8)]);
    assert_eq!(islands(&links, 8).len(), 4);
    assert_eq!(fabric.crowd(), 4);
    // 4 below one link, 4 beyond it.
    let four = (0..4).map(|rank| Rank::new(rank).unwrap()).collect();
    assert_eq!(fabric.busiest().link, BusiestLink::Uplink(four));
    assert_eq!(fabric.busiest().pairs, 16);
}

#[test]
fn a_shared_uplink_is_what_ends_last() {
    let apart = tree(8, &[(&|_| 0, Relation::Phb)]);
    let switches = tree(8, &[(&|rank| rank / 4, Relation::Pix), (&|_| 0, Relation::Node)]);
    let busiest = |links: &Links| Fabric::of(links, world(8)).unwrap().busiest().clone();
    assert!(matches!(busiest(&apart).link, BusiestLink::Gpu(_)));
    assert_eq!(busiest(&apart).pairs, 7);
    assert!(matches!(busiest(&switches).link, BusiestLink::Uplink(_)));
    assert_eq!(busiest(&switches).pairs, 16);
}

#[test]
fn a_slower_slot_holds_all_up() {
    let mut links = tree(4, &[(&|_| 0, Relation::Phb)]);
    let whole = Some(PcieLink {
        generation: 5,
        width: 16,
    });
    links.pcie = vec![
        whole,
        whole,
        Some(PcieLink {
            generation: 4,
            width: 4,
        }),
        whole,
    ];
    let busiest = Fabric::of(&links, world(4)).unwrap().busiest().clone();
    assert_eq!(busiest.link, BusiestLink::Gpu(Rank::new(2).unwrap()));
}

#[test]
fn what_is_unknown_makes_no_fabric() {
    let mut links = tree(4, &[(&|_| 0, Relation::Phb)]);
    links.relations[1][2] = None;
    assert_eq!(Fabric::of(&links, world(4)), None);
    assert_eq!(Fabric::of(&Links::default(), world(4)), None);
    assert_eq!(Fabric::of(&links, world(1)), None);
}

/// What crosses from node to node counts, however GPUs of a node are joined.
#[test]
fn the_way_between_nodes_is_shared() {
    for within in [Relation::Phb, Relation::Node] {
        let links = tree(8, &[(&|rank| rank / 4, within)]);
        let busiest = Fabric::of(&links, world(8)).unwrap().busiest().clone();
        assert!(matches!(busiest.link, BusiestLink::Nodes(_)), "{within}: {busiest}");
        assert_eq!(busiest.pairs, 16);
    }
    let nvlinks = tree(8, &[(&|rank| rank / 4, Relation::Nvlink(6))]);
    assert!(matches!(
        Fabric::of(&nvlinks, world(8)).unwrap().busiest().link,
        BusiestLink::Nodes(_)
    ));
}

#[test]
fn nvlinks_make_islands_and_those_of_a_switch_are_shared() {
    let pairs = tree(4, &[(&|rank| rank / 2, Relation::Nvlink(12))]);
    assert_eq!(islands(&pairs, 4), [vec![0, 1], vec![2, 3]]);
    assert_eq!(islands(&tree(2, &[(&|_| 0, Relation::Nvlink(12))]), 2), [vec![0, 1]]);
    let switch = tree(8, &[(&|_| 0, Relation::Nvlink(18))]);
    assert_eq!(islands(&switch, 8).len(), 1);
    let busiest = Fabric::of(&switch, world(8)).unwrap().busiest().clone();
    assert!(matches!(busiest.link, BusiestLink::NvlinkSwitch(_)), "{busiest}");
    assert_eq!(busiest.pairs, 7);
}

/// Through host memory all below a switch share its link: predictions, the pause before the first poll, and the lanes count that.
#[test]
fn a_switch_is_shared_on_the_way_to_the_host() {
    let staged = |links: Links| {
        let gpus = Gpus { links, ..staging(4, 4) };
        compiled(4, Some(gpus), AlgorithmChoice::Auto, Limits::default()).unwrap()
    };
    let request = |bytes: u64| device(bytes / 2);
    let (apart, switch) = (
        staged(tree(4, &[(&|_| 0, Relation::Phb)])),
        staged(tree(4, &[(&|_| 0, Relation::Pix)])),
    );
    let us = |plan: &Plan, bytes: u64| plan.explain(&request(bytes)).predicted_us.unwrap();
    for bytes in [43_008, 4 << 20] {
        assert!(us(&switch, bytes) > 1.5 * us(&apart, bytes), "{bytes}");
    }
    let grid = |plan: &Plan, bytes: u64| {
        let Ok(Algorithm::TwoShotPush(push)) = plan.decide(&request(bytes)) else {
            panic!("two shots at {bytes} bytes");
        };
        push.grid()
    };
    assert!(grid(&switch, 43_008).pause_ns > grid(&apart, 43_008).pause_ns);
    assert!(grid(&switch, 16 << 20).blocks < grid(&apart, 16 << 20).blocks);
    // The slowest link holds all up, and a half is twice the time.
    let mut slow = tree(4, &[(&|_| 0, Relation::Phb)]);
    let link = |generation, width| Some(PcieLink { generation, width });
    slow.pcie = vec![link(5, 16), link(5, 8), link(4, 16), link(5, 16)];
    let (slow, fast) = (us(&staged(slow), 4 << 20), us(&apart, 4 << 20));
    assert!((1.6..2.01).contains(&(slow / fast)), "{slow} {fast}");
}

/// Links count also where nobody knows how GPUs lie to each other.
#[test]
fn known_links_count_without_relations() {
    let pcie = |link| Links {
        pcie: vec![link; 4],
        ..Links::default()
    };
    let us = |links| {
        let request = device(1 << 20);
        plan_over(links, 4).explain(&request).predicted_us.unwrap()
    };
    let (unknown, gen3) = (
        us(pcie(None)),
        us(pcie(Some(PcieLink {
            generation: 3,
            width: 16,
        }))),
    );
    assert!((3.0..4.0).contains(&(gen3 / unknown)), "{gen3} {unknown}");
}

/// A switch whose GPUs are all joined by NVLinks, too, is still one.
#[test]
fn nvlinks_hide_no_switch() {
    let mut links = tree(4, &[(&|_| 0, Relation::Pix)]);
    for (one, other) in [(0, 1), (1, 2), (2, 3)] {
        links.relations[one][other] = Some(Relation::Nvlink(4));
        links.relations[other][one] = Some(Relation::Nvlink(4));
    }
    assert_eq!(Fabric::of(&links, world(4)).unwrap().crowd(), 4);
}

#[test]
fn a_link_is_as_wide_as_its_narrower_end_but_no_wider_claim_is_made_up() {
    let link = |generation, width| PcieLink { generation, width };
    let own = link(5, 16);
    assert_eq!(own.narrower(None, None), own);
    assert_eq!(own.narrower(Some(link(4, 8)), None), link(4, 8));
    assert_eq!(own.narrower(Some(link(4, 8)), Some(link(1, 8))), link(4, 8));
    assert_eq!(own.narrower(Some(link(1, 1)), Some(link(1, 16))), own);
    assert_eq!(own.narrower(Some(link(6, 16)), Some(link(5, 16))), own);
}

/// Slots of GPUs become links, but between two ranks on one GPU is none.
#[test]
fn slots_make_links() {
    let slot = |bridges: &[&str], host: &str| Slot {
        bridges: bridges.iter().map(|bridge| (*bridge).to_owned()).collect(),
        host_bridge: host.to_owned(),
        numa_node: Some(0),
        link: Some(PcieLink::ASSUMED),
        redirecting: Some(vec![]),
    };
    let mut ranks = gpus(3, 3).ranks;
    ranks[0].slot = Some(slot(&["a", "switch", "root"], "00"));
    ranks[1].slot = Some(slot(&["b", "switch", "root"], "00"));
    let known = Gpus::new(ranks.clone());
    assert_eq!(known.links.relations[0][1], Some(Relation::Pix));
    assert_eq!(known.links.relations[0][2], None);
    assert_eq!(known.fabric(), None);
    ranks[2].slot = Some(slot(&["c"], "40"));
    let known = Gpus::new(ranks.clone());
    assert_eq!(known.links.relations[2][1], Some(Relation::Node));
    assert_eq!(known.fabric().unwrap().islands().len(), 2);
    ranks[2] = ranks[1].clone();
    let shared = Gpus::new(ranks);
    assert_eq!(shared.links.relations[1][2], None);
    assert_eq!(shared.fabric(), None);
}

fn nvlinks(ends: &[(NvlinkEnd, u8)]) -> Option<Vec<Nvlinks>> {
    let links = |(to, count): &(NvlinkEnd, u8)| Nvlinks {
        to: to.clone(),
        count: *count,
    };
    Some(ends.iter().map(links).collect())
}

/// As the management library writes it, which may be otherwise than the driver.
fn to_gpu(pci_bus_id: &str) -> NvlinkEnd {
    NvlinkEnd::Gpu {
        pci_bus_id: pci_bus_id.to_ascii_uppercase(),
    }
}

#[test]
fn nvlinks_of_which_both_ends_tell_come_before_slots() {
    let mut ranks = gpus(3, 3).ranks;
    ranks[2].pci_bus_id = "0000:c1:00.0".to_owned();
    for rank in &mut ranks {
        rank.slot = Some(Slot {
            bridges: vec![format!("port of {}", rank.pci_bus_id), "switch".to_owned()],
            host_bridge: "00".to_owned(),
            numa_node: Some(0),
            redirecting: None,
            link: Some(PcieLink::ASSUMED),
        });
    }
    let ids: Vec<String> = ranks.iter().map(|rank| rank.pci_bus_id.clone()).collect();
    ranks[0].nvlinks = nvlinks(&[(to_gpu(&ids[2]), 4), (to_gpu(&ids[1]), 1), (NvlinkEnd::Unknown, 3)]);
    ranks[1].nvlinks = nvlinks(&[(NvlinkEnd::Unknown, 3)]);
    ranks[2].nvlinks = nvlinks(&[(to_gpu(&ids[0]), 2), (to_gpu(&ids[0]), 1)]);
    let known = Gpus::new(ranks.clone());
    let relations = &known.links.relations;
    // The lesser of 4 and 2 + 1; one end alone, or one that is not told, is no link between two.
    assert_eq!(relations[0][2], Some(Relation::Nvlink(3)));
    assert_eq!(relations[2][0], Some(Relation::Nvlink(3)));
    assert_eq!(relations[0][1], Some(Relation::Pix));
    assert_eq!(relations[1][2], Some(Relation::Pix));
    assert_eq!(relations[0][0], None);
    // What was written before there were NVLinks in it says nothing of them.
    let mut old = serde_json::to_value(&ranks[0]).unwrap();
    old.as_object_mut().unwrap().remove("nvlinks").unwrap();
    assert_eq!(serde_json::from_value::<RankGpu>(old).unwrap().nvlinks, None);
    let text = serde_json::to_string(&ranks).unwrap();
    assert_eq!(serde_json::from_str::<Vec<RankGpu>>(&text).unwrap(), ranks);
}

#[test]
fn nvlinks_to_switches_join_all_that_have_them() {
    let mut ranks = gpus(4, 4).ranks;
    for (rank, count) in ranks.iter_mut().zip([18, 16, 18, 0]) {
        rank.nvlinks = nvlinks(&[(NvlinkEnd::Switch, count)]);
    }
    ranks[3].nvlinks = Some(vec![]);
    let known = Gpus::new(ranks.clone()).links;
    assert_eq!(known.relations[0][2], Some(Relation::Nvlink(18)));
    assert_eq!(known.relations[1][2], Some(Relation::Nvlink(16)));
    // No slot is known here, and so nothing of the one without NVLinks.
    assert_eq!(known.relations[0][3], None);
    ranks.pop();
    let fabric = Gpus::new(ranks.clone()).fabric().unwrap();
    assert!(matches!(fabric.busiest().link, BusiestLink::NvlinkSwitch(_)));
    // Two ranks on one GPU have no link between them.
    ranks[1] = ranks[0].clone();
    assert_eq!(Gpus::new(ranks).links.relations[0][1], None);
    // That no GPU has any tells nothing of what lies between them.
    let mut without = gpus(2, 2).ranks;
    for rank in &mut without {
        rank.nvlinks = Some(vec![]);
    }
    assert_eq!(Gpus::new(without).links, Links::default());
}

fn plan_over(links: Links, ranks: usize) -> Plan {
    let gpus = Gpus {
        links,
        ..gpus(ranks, ranks)
    };
    compiled(ranks, Some(gpus), AlgorithmChoice::Auto, Limits::default()).unwrap()
}

fn two_shots_from(plan: &Plan) -> u64 {
    let request = device(1);
    2 * plan.explain(&request).two_shots_from.unwrap().get()
}

/// Bytes weigh more there, so what moves fewer of them begins sooner; and 42 KiB of eight ranks want it anywhere.
#[test]
fn two_shots_begin_sooner_behind_a_shared_uplink() {
    let one_switch = two_shots_from(&plan_over(tree(8, &[(&|_| 0, Relation::Pix)]), 8));
    let roots = two_shots_from(&plan_over(tree(8, &[(&|_| 0, Relation::Phb)]), 8));
    let switches = two_shots_from(&plan_over(
        tree(8, &[(&|rank| rank / 4, Relation::Pix), (&|_| 0, Relation::Phb)]),
        8,
    ));
    assert!(one_switch < roots, "{one_switch} {roots}");
    assert!(switches < roots, "{switches} {roots}");
    assert!(roots < 43_008);
}

#[test]
fn what_is_assumed_is_planned_and_said() {
    for (claim, words) in [
        (PeerVerdict::Assumed, "supposed for 12 ordered pairs of ranks: nobody"),
        (PeerVerdict::Granted, "the driver grants access for 12"),
    ] {
        let mut gpus = gpus(4, 4);
        for verdict in gpus
            .peers
            .iter_mut()
            .flatten()
            .filter(|verdict| **verdict == PeerVerdict::Proven)
        {
            *verdict = claim.clone();
        }
        let text = serde_json::to_string(&gpus).unwrap();
        let plan = compiled(4, Some(gpus), AlgorithmChoice::Auto, Limits::default()).unwrap();
        let explanation = plan.explain(&device(21_504));
        assert_eq!(explanation.path, Path::Peer);
        let access = explanation
            .gates
            .iter()
            .find(|finding| finding.gate == Gate::PeerAccess)
            .unwrap();
        assert_eq!(access.answer, Answer::Unknown);
        assert!(access.evidence.contains(words), "{}", access.evidence);
        // No rank can tell another so.
        assert!(serde_json::from_str::<Gpus>(&text).is_err());
    }
}

fn relation() -> impl Strategy<Value = Option<Relation>> {
    prop_oneof![
        (1..=18_u8).prop_map(|bonds| Some(Relation::Nvlink(bonds))),
        proptest::sample::select(&Relation::PCIE[..]).prop_map(Some),
        proptest::sample::select(&Relation::PCIE[..]).prop_map(Some),
        proptest::sample::select(&Relation::PCIE[..]).prop_map(Some),
        Just(None),
    ]
}

proptest! {
    /// Also of labels that contradict one another, or of which some are missing: exactly one algorithm runs a request.
    #[test]
    fn any_labels_make_a_plan(
        ranks in 2..=8_usize,
        relations in proptest::collection::vec(relation(), 64),
        bytes in 1..(64_u64 << 20),
    ) {
        let links = Links {
            relations: (0..ranks).map(|one| (0..ranks).map(|other| relations[one * 8 + other]).collect()).collect(),
            ..Links::default()
        };
        let plan = plan_over(links, ranks);
        let request = Request { operation: Operation::Sum, dtype: Dtype::Bf16, elements: Elements::new(bytes / 2), buffers: Buffers::Device, label: None };
        let explanation = plan.explain(&request);
        let chosen = explanation.candidates.iter().filter(|candidate| candidate.verdict == Verdict::Chosen).count();
        prop_assert_eq!(chosen, 1);
        prop_assert!(bytes < 2 || explanation.predicted_us.unwrap() > 0.0);
    }

    #[test]
    fn relations_are_read_as_they_are_written(bonds in 1..=255_u8) {
        for relation in Relation::PCIE.into_iter().chain([Relation::Nvlink(bonds)]) {
            prop_assert_eq!(relation.to_string().parse::<Relation>().unwrap(), relation);
        }
        for wrong in ["NV0", "NV", "NV+1", "NV01", "NV256", "X", "pix"] {
            prop_assert!(wrong.parse::<Relation>().is_err(), "{}", wrong);
        }
    }
}

#[test]
fn the_best_of_all_choices_is_taken() {
    let sum = |choice: &[usize]| Some(choice.iter().map(|place| (*place as f64 - 2.2).abs()).sum());
    assert_eq!(best_places(5, 2, sum), Ok(vec![2, 3]));
    assert_eq!(best_places(5, 5, sum), Ok(vec![0, 1, 2, 3, 4]));
    assert_eq!(best_places(5, 2, |_| None), Ok(vec![0, 1]));
    assert_eq!(best_places(5, 3, |_| Some(1.0)), Ok(vec![0, 1, 2]));
    let mut weighed = 0;
    let mut count = |_: &[usize]| {
        weighed += 1;
        None
    };
    assert_eq!(best_places(16, 8, &mut count), Ok((0..8).collect()));
    assert_eq!(weighed, 12_870);
    for (places, taken) in [(4, 5), (24, 8), (64, 32)] {
        assert!(matches!(
            best_places(places, taken, |_| None),
            Err(PlanError::Choices { .. })
        ));
    }
}
