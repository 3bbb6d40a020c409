//! What the user has told NCCL of peer access, which holds for lanesum, too: who turned it off had a reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::closed::closed_words;
use crate::{PathChoice, Rank, Refusal, Relation, Topology, WorldSize};

closed_words! {
    /// How far apart GPUs may lie that use peer access, in the words of `NCCL_P2P_LEVEL`.
    pub enum P2pLevel ("level") {
        /// Never.
        Loc = 0 => "LOC",
        /// With NVLinks between them.
        Nvl = 1 => "NVL",
        /// Below one switch.
        Pix = 2 => "PIX",
        /// Below several.
        Pxb = 3 => "PXB",
        /// On one NUMA node.
        Phb = 4 => "PHB",
        /// Anywhere.
        Sys = 5 => "SYS",
    }
}

impl P2pLevel {
    /// What a value of `NCCL_P2P_LEVEL` means; numbers are what older versions took. `None` for anything else.
    #[must_use]
    pub fn of_value(value: &str) -> Option<P2pLevel> {
        match value.trim() {
            "0" => Some(P2pLevel::Loc),
            "1" => Some(P2pLevel::Pix),
            "2" => Some(P2pLevel::Pxb),
            "3" | "4" => Some(P2pLevel::Phb),
            "5" => Some(P2pLevel::Sys),
            word => word.to_ascii_uppercase().parse().ok(),
        }
    }

    /// Whether the answer depends on how GPUs lie to each other.
    #[must_use]
    pub const fn asks_how_far(self) -> bool {
        match self {
            P2pLevel::Loc | P2pLevel::Sys => false,
            P2pLevel::Nvl | P2pLevel::Pix | P2pLevel::Pxb | P2pLevel::Phb => true,
        }
    }

    /// Whether two that lie so may use peer access; of those of which nothing is known only `LOC` says no.
    fn admits(self, relation: Option<Relation>) -> bool {
        match (self, relation) {
            (P2pLevel::Loc, _) => false,
            (P2pLevel::Sys, _) | (_, None | Some(Relation::Nvlink(_))) => true,
            (P2pLevel::Nvl, Some(_)) => false,
            (P2pLevel::Pix, Some(relation)) => relation <= Relation::Pix,
            (P2pLevel::Pxb, Some(relation)) => relation <= Relation::Pxb,
            (P2pLevel::Phb, Some(relation)) => relation <= Relation::Node,
        }
    }
}

/// What one rank's environment tells NCCL of peer access.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NcclWishes {
    /// `NCCL_P2P_DISABLE`, if it is a number.
    #[serde(default)]
    pub disable: Option<bool>,
    /// `NCCL_P2P_LEVEL`, if it is a level.
    #[serde(default)]
    pub level: Option<P2pLevel>,
    /// What is set to something else, and so means nothing.
    #[serde(default)]
    pub strange: Option<String>,
}

impl NcclWishes {
    /// From the two variables' values.
    #[must_use]
    pub fn of_values(disable: Option<&str>, level: Option<&str>) -> NcclWishes {
        let disabled = disable.and_then(|value| leading_number(value.trim()).map(|number| number != 0));
        let known = level.and_then(P2pLevel::of_value);
        let strange = |name: &str, value: Option<&str>, understood: bool| {
            let value = value.filter(|value| !understood && !value.trim().is_empty())?;
            let printable: String = value.chars().filter(|letter| !letter.is_control()).take(40).collect();
            Some(format!("{name}={printable}"))
        };
        NcclWishes {
            strange: strange("NCCL_P2P_DISABLE", disable, disabled.is_some())
                .or_else(|| strange("NCCL_P2P_LEVEL", level, known.is_some())),
            disable: disabled,
            level: known,
        }
    }

    /// The setting that keeps GPUs that lie so from each other's memory, if one does.
    fn against(&self, relation: Option<Relation>) -> Option<String> {
        match (self.disable, self.level) {
            (Some(true), _) => Some("NCCL_P2P_DISABLE=1".to_owned()),
            (_, Some(level)) if !level.admits(relation) => Some(format!("NCCL_P2P_LEVEL={level}")),
            (Some(false) | None, _) => None,
        }
    }
}

/// The number that a text begins with, as NCCL reads it: decimal, or with 0x or 0 before it in another base; what follows does not count.
fn leading_number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(rest) if rest.starts_with(|letter: char| letter.is_ascii_hexdigit()) => (16, rest),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, digits),
        _ => (10, digits),
    };
    let end = digits
        .find(|letter: char| !letter.is_digit(radix))
        .unwrap_or(digits.len());
    // One that is too long for 64 bits is not 0, which is all that is asked.
    (end > 0).then(|| i64::from_str_radix(&digits[..end], radix).map_or(1, |number| sign * number))
}

/// What is set, or that nothing is.
impl fmt::Display for NcclWishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disable = self
            .disable
            .map(|disable| format!("NCCL_P2P_DISABLE={}", u8::from(disable)));
        let level = self.level.map(|level| format!("NCCL_P2P_LEVEL={level}"));
        let set: Vec<String> = disable.into_iter().chain(level).collect();
        if set.is_empty() {
            write!(f, "NCCL_P2P_DISABLE and NCCL_P2P_LEVEL are not set")
        } else {
            write!(f, "{}", set.join(", "))
        }
    }
}

/// Which two ranks the user wants no peer access between, if there are such and the path is left to the plan; the first pair, by owner
/// within writer. Who names a path means it.
#[must_use]
pub fn unwished(topology: &Topology, world: WorldSize, choice: PathChoice) -> Option<Refusal> {
    match choice {
        PathChoice::Peer | PathChoice::HostStaged => return None,
        PathChoice::Auto => {}
    }
    let pairs = world
        .ranks()
        .flat_map(|writer| world.ranks().map(move |owner| (writer, owner)))
        .filter(|(writer, owner)| writer != owner);
    let relation = |writer: Rank, owner: Rank| topology.gpus.as_ref()?.links.relation(writer, owner);
    pairs.into_iter().find_map(|(writer, owner)| {
        let wishes = [writer, owner].map(|rank| topology.ranks.get(rank.index()).map(|host| &host.nccl));
        let setting = wishes
            .into_iter()
            .flatten()
            .find_map(|wishes| wishes.against(relation(writer, owner)))?;
        Some(Refusal::PeerUnwished { writer, owner, setting })
    })
}
