//! What GPUs are plugged into, from the host down to them: by their slots where these are known, else by how they lie to each other.

use lanesum_plan::{Group, PcieLink, Rank, Relation, Slot};

/// What a box stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All of it.
    Host,
    /// A NUMA node.
    Node,
    /// A host bridge, or a root port below one.
    Bridge,
    /// A switch: what is below it shares its link upwards.
    Switch,
    /// Something that nothing tells.
    Untold,
    /// What a rank has.
    Rank,
}

/// A box and what is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub kind: Kind,
    pub name: String,
    pub note: String,
    /// The link by which it reaches what is above it, where that is known.
    pub link: Option<PcieLink>,
    pub below: Vec<Branch>,
}

impl Branch {
    fn new(kind: Kind, name: impl Into<String>, note: impl Into<String>) -> Branch {
        Branch {
            kind,
            name: name.into(),
            note: note.into(),
            link: None,
            below: vec![],
        }
    }

    /// A host bridge that has one root port of interest is one box with it.
    fn shorten(&mut self) {
        let only_port = match (self.kind, self.below.as_slice()) {
            (Kind::Bridge, [port]) => port.kind == Kind::Bridge,
            (Kind::Host | Kind::Node | Kind::Bridge | Kind::Switch | Kind::Untold | Kind::Rank, _) => false,
        };
        if only_port && let Some(port) = self.below.pop() {
            self.note = port.name;
            self.below = port.below;
        }
        self.below.iter_mut().for_each(Branch::shorten);
    }

    /// How many ranks are below it, or 1 for that of one.
    pub fn ranks(&self) -> usize {
        match self.kind {
            Kind::Rank => 1,
            Kind::Host | Kind::Node | Kind::Bridge | Kind::Switch | Kind::Untold => {
                self.below.iter().map(Branch::ranks).sum()
            }
        }
    }
}

/// What one rank has, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub name: String,
    pub note: String,
    pub link: Option<PcieLink>,
    pub slot: Option<Slot>,
}

impl Leaf {
    fn branch(&self) -> Branch {
        let link = self.link.or_else(|| self.slot.as_ref()?.link);
        Branch {
            link,
            ..Branch::new(Kind::Rank, &self.name, &self.note)
        }
    }
}

/// The link above a bridge, by its name, where it is known.
pub type Uplink<'a> = &'a dyn Fn(&str) -> Option<PcieLink>;

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pub root: Branch,
    /// The rank of each leaf, from top to bottom.
    pub order: Vec<usize>,
}

impl Tree {
    /// Of these ranks, by rank. Groups are those of a fabric.
    pub fn of(leaves: &[Leaf], groups: Option<&[Group]>, host: &str, uplink: Uplink) -> Tree {
        let root = Branch::new(Kind::Host, "host", host);
        if leaves.iter().any(|leaf| leaf.slot.is_some()) {
            return of_slots(root, leaves, uplink);
        }
        let all: Vec<usize> = (0..leaves.len()).collect();
        let groups: Vec<(Relation, Vec<usize>)> = groups
            .unwrap_or_default()
            .iter()
            // What holds several nodes is the host.
            .filter(|group| group.within != Relation::Sys)
            .map(|group| (group.within, group.ranks.iter().copied().map(Rank::index).collect()))
            .collect();
        let mut tree = Tree { root, order: vec![] };
        // One that holds all of them is worth a box, too.
        let most = all.len() + 1;
        tree.root.below = of_groups(leaves, &groups, (&all, most), &mut tree.order);
        tree
    }
}

fn of_slots(mut root: Branch, leaves: &[Leaf], uplink: Uplink) -> Tree {
    let mut ranks: Vec<(Vec<usize>, usize)> = Vec::new();
    for (rank, leaf) in leaves.iter().enumerate() {
        let mut at = &mut root;
        let mut places = Vec::new();
        for step in leaf.slot.as_ref().map_or_else(untold, |slot| above(slot, uplink)) {
            let known = at.below.iter().position(|branch| branch.name == step.name);
            let place = known.unwrap_or_else(|| {
                at.below.push(step);
                at.below.len() - 1
            });
            places.push(place);
            at = &mut at.below[place];
        }
        places.push(at.below.len());
        at.below.push(leaf.branch());
        ranks.push((places, rank));
    }
    ranks.sort();
    root.below.iter_mut().for_each(Branch::shorten);
    Tree {
        root,
        order: ranks.into_iter().map(|(_, rank)| rank).collect(),
    }
}

fn untold() -> Vec<Branch> {
    vec![Branch::new(
        Kind::Untold,
        "not known",
        "the system does not show the slot",
    )]
}

/// The boxes from the host down to a slot. Ports and switches take turns below a root port: first the switch's own port upwards, then
/// the one that the next device is plugged into, which is worth no box.
fn above(slot: &Slot, uplink: Uplink) -> Vec<Branch> {
    let node = slot
        .numa_node
        .map(|node| Branch::new(Kind::Node, format!("NUMA node {node}"), ""));
    let mut boxes: Vec<Branch> = node.into_iter().collect();
    boxes.push(Branch::new(
        Kind::Bridge,
        format!("host bridge {}", slot.host_bridge),
        "",
    ));
    for (depth, bridge) in slot.bridges.iter().rev().enumerate() {
        match depth {
            0 => boxes.push(Branch::new(Kind::Bridge, format!("root port {bridge}"), "")),
            _ if depth % 2 == 1 => boxes.push(Branch {
                link: uplink(bridge),
                ..Branch::new(Kind::Switch, format!("switch {bridge}"), "")
            }),
            _ => {}
        }
    }
    boxes
}

/// The largest groups of less than `most` among these ranks, each with what is in it, and the ranks that are in none.
fn of_groups(
    leaves: &[Leaf],
    groups: &[(Relation, Vec<usize>)],
    (ranks, most): (&[usize], usize),
    order: &mut Vec<usize>,
) -> Vec<Branch> {
    let holds = |one: &[usize], other: &[usize]| other.iter().all(|rank| one.contains(rank));
    let inner: Vec<&(Relation, Vec<usize>)> = groups
        .iter()
        .filter(|(_, group)| group.len() < most && holds(ranks, group))
        .collect();
    let outermost = |(_, group): &&&(Relation, Vec<usize>)| {
        let larger = |(_, other): &&(Relation, Vec<usize>)| other.len() > group.len() && holds(other, group);
        !inner.iter().any(larger)
    };
    let outermost: Vec<_> = inner.iter().filter(outermost).collect();
    let mut found = Vec::new();
    for rank in ranks {
        let Some((within, group)) = outermost.iter().find(|(_, group)| group.contains(rank)) else {
            order.push(*rank);
            found.push(leaves[*rank].branch());
            continue;
        };
        if group.first() == Some(rank) {
            let mut branch = of_group(*within);
            branch.below = of_groups(leaves, groups, (group, group.len()), order);
            found.push(branch);
        }
    }
    found
}

fn of_group(within: Relation) -> Branch {
    match within {
        Relation::Nvlink(_) => Branch::new(Kind::Untold, "joined by NVLinks", "their slots are not told"),
        Relation::Pix => Branch::new(Kind::Switch, "switch", "PIX"),
        Relation::Pxb => Branch::new(Kind::Switch, "switches", "PXB: one below another"),
        Relation::Phb => Branch::new(Kind::Bridge, "host bridge", "PHB"),
        Relation::Node => Branch::new(Kind::Node, "NUMA node", "NODE"),
        Relation::Sys => Branch::new(Kind::Host, "NUMA nodes", "SYS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEN5: PcieLink = PcieLink {
        generation: 5,
        width: 16,
    };

    fn leaf(slot: Option<Slot>) -> Leaf {
        Leaf {
            name: "a GPU".to_owned(),
            note: String::new(),
            link: None,
            slot,
        }
    }

    fn slot(bridges: &[&str], host_bridge: &str, node: u32) -> Slot {
        Slot {
            bridges: bridges.iter().map(|bridge| (*bridge).to_owned()).collect(),
            host_bridge: host_bridge.to_owned(),
            numa_node: Some(node),
            redirecting: None,
            link: Some(GEN5),
        }
    }

    fn names(branch: &Branch) -> Vec<&str> {
        branch.below.iter().map(|below| below.name.as_str()).collect()
    }

    #[test]
    fn slots_that_share_a_switch_hang_below_one() {
        let one = slot(&["04:00.0", "03:00.0", "00:01.1"], "pci0000:00", 0);
        let other = slot(&["04:01.0", "03:00.0", "00:01.1"], "pci0000:00", 0);
        let alone = slot(&["80:01.1"], "pci0000:80", 1);
        let tree = Tree::of(
            &[leaf(Some(one)), leaf(Some(alone)), leaf(Some(other)), leaf(None)],
            None,
            "",
            &|bridge| (bridge == "03:00.0").then_some(GEN5),
        );
        assert_eq!(names(&tree.root), ["NUMA node 0", "NUMA node 1", "not known"]);
        let bridge = &tree.root.below[0].below[0];
        assert_eq!(
            (bridge.name.as_str(), bridge.note.as_str()),
            ("host bridge pci0000:00", "root port 00:01.1")
        );
        assert_eq!((names(bridge), bridge.ranks()), (vec!["switch 03:00.0"], 2));
        assert_eq!((bridge.below[0].link, bridge.link), (Some(GEN5), None));
        assert_eq!(bridge.below[0].below[1].link, Some(GEN5));
        assert_eq!(tree.order, [0, 2, 1, 3]);
    }

    #[test]
    fn groups_lie_in_groups_and_one_may_hold_all() {
        let ranks = |range: std::ops::Range<usize>| range.filter_map(|rank| Rank::new(rank).ok()).collect();
        let groups = [
            Group {
                within: Relation::Pix,
                measured: false,
                ranks: ranks(1..3),
            },
            Group {
                within: Relation::Phb,
                measured: false,
                ranks: ranks(0..4),
            },
        ];
        let tree = Tree::of(
            &[leaf(None), leaf(None), leaf(None), leaf(None)],
            Some(&groups),
            "",
            &|_| None,
        );
        assert_eq!(names(&tree.root), ["host bridge"]);
        assert_eq!(names(&tree.root.below[0]), ["a GPU", "switch", "a GPU"]);
        assert_eq!((tree.root.ranks(), tree.order), (4, vec![0, 1, 2, 3]));
        let flat = Tree::of(&[leaf(None)], None, "", &|_| None);
        assert_eq!(names(&flat.root), ["a GPU"]);
    }
}
