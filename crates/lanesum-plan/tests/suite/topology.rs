//! Sets of processors, and what is known of them.

use lanesum_plan::{CpuSet, HostFacts, PlanError, RankHost, Topology};
use proptest::prelude::*;

use crate::topology;

#[test]
fn cores_are_the_union_and_unknown_stays_unknown() {
    assert_eq!(topology(4, Some(2)).cores(), Some(2));
    assert_eq!(topology(4, None).cores(), None);
    assert_eq!(Topology::default().cores(), None);
    let cpus = |list: &str| RankHost {
        cpus: list.parse().unwrap(),
        ..RankHost::default()
    };
    let ranks = vec![cpus("0-1"), cpus(""), cpus("1-2")];
    assert_eq!(
        Topology {
            ranks,
            host: HostFacts::default(),
            gpus: None
        }
        .cores(),
        Some(3)
    );
}

#[test]
fn json_keeps_unknown_apart_from_known() {
    let known = Topology {
        ranks: vec![RankHost {
            cpus: [0, 1, 2, 3, 8].into_iter().collect(),
            ..RankHost::default()
        }],
        host: HostFacts {
            numa_nodes: Some(1),
            container: Some(false),
            ..HostFacts::default()
        },
        gpus: None,
    };
    let text = serde_json::to_string(&known).unwrap();
    assert!(text.contains("\"cpus\":\"0-3,8\""), "{text}");
    assert!(text.contains("\"memory_limit\":null"), "{text}");
    assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), known);
}

#[test]
fn processors_that_cannot_be_held_are_left_out() {
    let set: CpuSet = [1023, 1024, usize::MAX].into_iter().collect();
    assert_eq!((set.len(), set.contains(1023), set.contains(1024)), (1, true, false));
}

#[test]
fn what_is_no_list_is_refused() {
    for list in [
        ",",
        "0,",
        "3-1",
        "1024",
        "0-1024",
        "-1",
        "1-",
        "0 ,1",
        "+1",
        "0x1",
        "99999999999999999999",
        "1-2-3",
    ] {
        assert_eq!(
            list.parse::<CpuSet>(),
            Err(PlanError::CpuList { list: list.to_owned() })
        );
    }
    assert!("0-".repeat(1 << 20).parse::<CpuSet>().unwrap_err().to_string().len() < 200);
}

proptest! {
    #[test]
    fn lists_round_trip(cpus in proptest::collection::btree_set(0..CpuSet::CAPACITY, 0..40)) {
        let set: CpuSet = cpus.iter().copied().collect();
        prop_assert_eq!(set.len(), cpus.len());
        prop_assert_eq!(set.is_empty(), cpus.is_empty());
        prop_assert!(set.iter().eq(cpus.iter().copied()));
        prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
    }

    #[test]
    fn a_union_has_what_either_has(left in any::<[u16; 8]>(), right in any::<[u16; 8]>()) {
        let set = |cpus: [u16; 8]| cpus.into_iter().map(usize::from).collect::<CpuSet>();
        let (left, right) = (set(left), set(right));
        let both = left.union(&right);
        prop_assert!((0..2048).all(|cpu| both.contains(cpu) == (left.contains(cpu) || right.contains(cpu))));
    }

    #[test]
    fn hostile_lists_never_panic(text in "\\PC*", almost in "[0-9,\\-]{0,40}") {
        for text in [text, almost] {
            if let Ok(set) = text.parse::<CpuSet>() {
                prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
            }
        }
    }
}
