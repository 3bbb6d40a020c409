//! The law of the left subtree, the notation, and what is no tree.

use lanesum_plan::{PlanError, Rank, ReductionTree, Step, TreeFault, WORLD_MAX};
use proptest::prelude::*;

use crate::world;

/// A tree as the recursive thing that it is.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Leaf(usize),
    Sum(Box<Shape>, Box<Shape>),
}

impl Shape {
    fn of(tree: &ReductionTree) -> Shape {
        let mut stack = Vec::new();
        let mut deepest = 0;
        for step in tree.steps() {
            match step {
                Step::Leaf(rank) => stack.push(Shape::Leaf(rank.index())),
                Step::Combine => {
                    let right = stack.pop().unwrap();
                    let left = stack.pop().unwrap();
                    stack.push(Shape::Sum(Box::new(left), Box::new(right)));
                }
            }
            deepest = deepest.max(stack.len());
        }
        assert_eq!(deepest, tree.max_depth());
        assert_eq!(stack.len(), 1);
        stack.pop().unwrap()
    }

    fn leaves(&self) -> Vec<usize> {
        match self {
            Shape::Leaf(rank) => vec![*rank],
            Shape::Sum(left, right) => [left.leaves(), right.leaves()].concat(),
        }
    }

    /// The left subtree holds the largest power of two below the number of leaves.
    fn obeys_the_law(&self) -> bool {
        match self {
            Shape::Leaf(_) => true,
            Shape::Sum(left, right) => {
                let (mine, all) = (left.leaves().len(), self.leaves().len());
                mine.is_power_of_two() && mine < all && 2 * mine >= all && left.obeys_the_law() && right.obeys_the_law()
            }
        }
    }
}

fn ranks(indices: &[usize]) -> Vec<Rank> {
    indices.iter().map(|index| Rank::new(*index).unwrap()).collect()
}

fn islands(groups: &[&[usize]]) -> Result<ReductionTree, PlanError> {
    ReductionTree::islands(&groups.iter().map(|group| ranks(group)).collect::<Vec<_>>())
}

fn fault(text: &str) -> TreeFault {
    match text.parse::<ReductionTree>() {
        Err(PlanError::Tree(fault)) => fault,
        other => panic!("{text:?} gave {other:?}"),
    }
}

/// Any tree: ranks in any order, joined at random.
fn any_tree() -> impl Strategy<Value = String> {
    (1..=WORLD_MAX)
        .prop_flat_map(|ranks| {
            let order: Vec<usize> = (0..ranks).collect();
            (
                Just(order).prop_shuffle(),
                proptest::collection::vec(any::<usize>(), ranks),
            )
        })
        .prop_map(|(order, choices)| {
            let mut terms: Vec<String> = order.iter().map(usize::to_string).collect();
            for choice in choices.into_iter().skip(1) {
                let right = terms.remove(choice % (terms.len() - 1) + 1);
                let left = terms.remove((choice / 7) % terms.len());
                let sum = format!("{left}+{right}");
                terms.push(if terms.is_empty() { sum } else { format!("({sum})") });
            }
            terms.concat()
        })
}

#[test]
fn canonical_trees_read_as_expected() {
    for (ranks, text) in [
        (1, "0"),
        (2, "0+1"),
        (3, "(0+1)+2"),
        (4, "(0+1)+(2+3)"),
        (5, "((0+1)+(2+3))+4"),
        (6, "((0+1)+(2+3))+(4+5)"),
        (7, "((0+1)+(2+3))+((4+5)+6)"),
        (8, "((0+1)+(2+3))+((4+5)+(6+7))"),
        (12, "(((0+1)+(2+3))+((4+5)+(6+7)))+((8+9)+(10+11))"),
    ] {
        assert_eq!(ReductionTree::canonical(world(ranks)).to_string(), text);
    }
}

#[test]
fn canonical_trees_obey_the_law() {
    for ranks in 1..=WORLD_MAX {
        let tree = ReductionTree::canonical(world(ranks));
        let shape = Shape::of(&tree);
        assert!(shape.obeys_the_law(), "{tree}");
        assert_eq!(shape.leaves(), (0..ranks).collect::<Vec<_>>());
        assert_eq!((tree.world(), tree.steps().len()), (world(ranks), 2 * ranks - 1));
        assert!(tree.max_depth() <= 5, "{tree}");
        assert_eq!(tree.to_string().parse::<ReductionTree>().unwrap(), tree);
    }
}

#[test]
fn islands_come_first() {
    assert_eq!(
        islands(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]).unwrap(),
        ReductionTree::canonical(world(8))
    );
    assert_eq!(
        islands(&[&[0, 1, 2], &[3, 4, 5]]).unwrap().to_string(),
        "((0+1)+2)+((3+4)+5)"
    );
    assert_eq!(
        islands(&[&[5, 1], &[0], &[4, 2, 3]]).unwrap().to_string(),
        "((5+1)+0)+((4+2)+3)"
    );
    for ranks in 1..=WORLD_MAX {
        let canonical = ReductionTree::canonical(world(ranks));
        let each: Vec<Vec<Rank>> = world(ranks).ranks().map(|rank| vec![rank]).collect();
        assert_eq!(ReductionTree::islands(&each).unwrap(), canonical);
        assert_eq!(
            ReductionTree::islands(&[world(ranks).ranks().collect()]).unwrap(),
            canonical
        );
    }
}

#[test]
fn islands_must_name_each_rank_once() {
    let rank = |index| Rank::new(index).unwrap();
    assert_eq!(islands(&[]), Err(PlanError::WorldOutOfRange { ranks: 0 }));
    assert_eq!(
        islands(&[&[0], &[]]),
        Err(PlanError::Tree(TreeFault::EmptyGroup { group: 1 }))
    );
    assert_eq!(
        islands(&[&[0, 1], &[1]]),
        Err(PlanError::Tree(TreeFault::Twice { rank: rank(1) }))
    );
    assert_eq!(
        islands(&[&[0, 1], &[3]]),
        Err(PlanError::Tree(TreeFault::Missing { rank: rank(2) }))
    );
    let many = vec![ranks(&[0]); 100_000];
    assert_eq!(
        ReductionTree::islands(&many),
        Err(PlanError::Tree(TreeFault::Twice { rank: rank(0) }))
    );
}

#[test]
fn what_is_no_tree_is_refused_where_it_stops_being_one() {
    for (text, position) in [
        ("", 0),
        ("+", 0),
        ("0+", 2),
        ("0+1+2", 3),
        ("(0+1)", 5),
        ("(0)+1", 2),
        ("((0+1))+2", 6),
        ("0+1)", 3),
        ("(0+1", 4),
        ("0 1", 2),
        ("00+1", 0),
        ("-1+0", 0),
        ("0+\u{0661}", 2),
        ("0+1\0", 3),
        ("0+100", 2),
        ("0\u{a0}+1", 1),
    ] {
        let TreeFault::Notation { position: found, .. } = fault(text) else {
            panic!("{text:?}")
        };
        assert_eq!(found, position, "{text:?}");
    }
    assert_eq!(
        fault("0+0"),
        TreeFault::Twice {
            rank: Rank::new(0).unwrap()
        }
    );
    assert_eq!(
        fault("1"),
        TreeFault::Missing {
            rank: Rank::new(0).unwrap()
        }
    );
    assert_eq!(
        "0+16".parse::<ReductionTree>(),
        Err(PlanError::RankOutOfRange { index: 16 })
    );
    assert_eq!(
        " ( 0+1 )\t+ 2\n".parse::<ReductionTree>().unwrap(),
        ReductionTree::canonical(world(3))
    );
}

#[test]
fn hostile_nesting_is_bounded() {
    for text in [
        "(".repeat(1 << 20),
        "(0+".repeat(1 << 20),
        format!("{}0", "0+(".repeat(1 << 20)),
    ] {
        assert!(text.parse::<ReductionTree>().is_err());
    }
    let long = format!("{}0{}", "(0+".repeat(15), ")".repeat(15));
    assert!(long.parse::<ReductionTree>().is_err());
}

#[test]
fn json_is_the_notation() {
    let tree = ReductionTree::canonical(world(3));
    assert_eq!(serde_json::to_string(&tree).unwrap(), "\"(0+1)+2\"");
    assert_eq!(serde_json::from_str::<ReductionTree>("\"(0+1)+2\"").unwrap(), tree);
    let error = serde_json::from_str::<ReductionTree>("\"(0+1)+1\"").unwrap_err();
    assert!(error.to_string().contains("rank 1 occurs twice"), "{error}");
    let hint = "(0+1)+1".parse::<ReductionTree>().unwrap_err().hint().unwrap();
    assert_eq!(hint, "name each rank of the world exactly once");
}

proptest! {
    #[test]
    fn notation_round_trips(text in any_tree()) {
        let tree: ReductionTree = text.parse().unwrap();
        prop_assert_eq!(tree.to_string(), text);
        let mut leaves = Shape::of(&tree).leaves();
        leaves.sort_unstable();
        prop_assert_eq!(leaves, (0..tree.world().get()).collect::<Vec<_>>());
        prop_assert!(tree.max_depth() <= WORLD_MAX);
    }

    #[test]
    fn digests_tell_trees_apart(first in any_tree(), second in any_tree()) {
        let digest = |text: &str| text.parse::<ReductionTree>().unwrap().digest();
        prop_assert_eq!(digest(&first) == digest(&second), first == second);
    }

    #[test]
    fn hostile_text_never_panics(text in "\\PC*", almost in "[()+0-9 ]{0,60}") {
        for text in [text, almost] {
            if let Ok(tree) = text.parse::<ReductionTree>() {
                prop_assert_eq!(tree.to_string(), text.replace(' ', ""));
            }
        }
    }

    #[test]
    fn damaged_notation_never_panics(text in any_tree(), at in any::<prop::sample::Index>(), byte in 0_u8..128) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let text = String::from_utf8(bytes).unwrap();
        if let Ok(tree) = text.parse::<ReductionTree>() {
            Shape::of(&tree);
        }
    }
}
