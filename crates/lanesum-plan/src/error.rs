//! What can be wrong with what a caller brings to the planner. Every variant carries the facts; [`PlanError::hint`]
//! says what to do about them.

use crate::tree::TreeFault;
use crate::{AlgorithmName, Bytes, Refusal, SHARED_MAX, STAGING_MAX, STAGING_UNIT, WORLD_MAX};

/// Why there is no such word, tree or plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A rank number that no communicator can have.
    #[error("rank {index} is out of range: ranks go from 0 to {}", WORLD_MAX - 1)]
    RankOutOfRange {
        /// The number given.
        index: usize,
    },
    /// GPUs can't be chosen so: there are too few, or too many ways to choose.
    #[error("{taken} of {places} GPUs can't be chosen: at most {most} choices are weighed")]
    Choices {
        /// The GPUs there are.
        places: usize,
        /// Those that are wanted.
        taken: usize,
        /// The most choices that are weighed.
        most: u64,
    },
    /// A number of ranks that no communicator can have.
    #[error("a world of {ranks} ranks is out of range: 1 to {WORLD_MAX} are possible")]
    WorldOutOfRange {
        /// The number given.
        ranks: usize,
    },
    /// A rank number beyond this communicator's world.
    #[error("rank {index} is not one of the {world} ranks of this world")]
    RankOutsideWorld {
        /// The number given.
        index: usize,
        /// The number of ranks.
        world: usize,
    },
    /// A word that is not in a closed set.
    #[error("there is no {kind} named \"{}\"", word.escape_debug())]
    UnknownWord {
        /// What was being named.
        kind: &'static str,
        /// The word given.
        word: String,
        /// The words that exist.
        known: &'static [&'static str],
    },
    /// Something that is no reduction tree.
    #[error("this is no reduction tree: {0}")]
    Tree(TreeFault),
    /// Something that is no list of processors.
    #[error("this is no list of processors: \"{}\"", list.escape_debug())]
    CpuList {
        /// The list given.
        list: String,
    },
    /// Something that is no link.
    #[error("this is no PCIe link: \"{}\"", text.escape_debug())]
    PcieLink {
        /// The text given.
        text: String,
    },
    /// A tree for another number of ranks.
    #[error("the reduction tree is for {tree} ranks, the world has {world}")]
    TreeWorld {
        /// The ranks of the tree.
        tree: usize,
        /// The ranks of the world.
        world: usize,
    },
    /// A topology for another number of ranks.
    #[error("the topology describes {topology} ranks, the world has {world}")]
    TopologyWorld {
        /// The ranks described.
        topology: usize,
        /// The ranks of the world.
        world: usize,
    },
    /// A staging size that can't be laid out.
    #[error("staging of {staging} is not possible")]
    Staging {
        /// The size given.
        staging: Bytes,
    },
    /// A size of the shared arena that can't be laid out.
    #[error("shared memory of {shared} a rank is not possible")]
    Shared {
        /// The size given.
        shared: Bytes,
    },
    /// A pinned algorithm that cannot run here.
    #[error("the policy pins {algorithm}, which cannot run here: {refusal}")]
    Inadmissible {
        /// The pinned algorithm.
        algorithm: AlgorithmName,
        /// Why it cannot run.
        refusal: Refusal,
    },
}

impl PlanError {
    /// What to do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            PlanError::RankOutOfRange { .. } | PlanError::RankOutsideWorld { .. } => {
                Some("ranks are counted from 0; check the rank and the world size that the launcher set".to_owned())
            }
            PlanError::Choices { .. } => Some("name the GPUs, or take fewer or more of them".to_owned()),
            PlanError::WorldOutOfRange { .. } => Some(format!("start between 1 and {WORLD_MAX} ranks")),
            PlanError::UnknownWord { known, .. } => Some(format!("one of: {}", known.join(", "))),
            PlanError::Tree(fault) => Some(fault.hint().to_owned()),
            PlanError::CpuList { .. } => Some("write it like 0-3,8 with numbers below 1024".to_owned()),
            PlanError::PcieLink { .. } => {
                Some("write it as gen5x16: generation 1 to 7; 1, 2, 4, 8 or 16 lanes".to_owned())
            }
            PlanError::TreeWorld { world, .. } => Some(format!(
                "name each rank from 0 to {} once in the tree",
                world.saturating_sub(1)
            )),
            PlanError::TopologyWorld { .. } => {
                Some("gather one description from every rank before planning".to_owned())
            }
            PlanError::Staging { .. } => Some(format!(
                "choose a multiple of {STAGING_UNIT} from {STAGING_UNIT} to {STAGING_MAX}"
            )),
            PlanError::Shared { .. } => Some(format!("choose a multiple of {STAGING_UNIT} up to {SHARED_MAX}")),
            PlanError::Inadmissible { .. } => {
                let names: Vec<&str> = AlgorithmName::pinnable().map(AlgorithmName::name).collect();
                Some(format!(
                    "pin one of {}, or leave the choice to the plan (auto)",
                    names.join(", ")
                ))
            }
        }
    }
}
