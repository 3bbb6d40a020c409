//! Communicators made from communicators.

use lanesum_plan::Call;
use lanesum_rendezvous::Refusal;

use crate::communicator::Communicator;
use crate::error::Error;
use crate::setup;

/// The colour of ranks that take no part.
const NO_COLOR: u64 = u64::MAX;

impl Communicator {
    /// Makes a communicator of each group of ranks that give the same colour, ordered by key, then rank.
    /// All ranks call it; those that give no colour get none. Limits, policy and deadlines are this
    /// communicator's; a pinned tree is kept where the group has as many ranks as this communicator.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`] and [`Builder::join`](crate::Builder::join). Where making the group
    /// fails, this communicator remains usable.
    pub fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Communicator>, Error> {
        self.usable()?;
        let ordinal = self.next_ordinal();
        let own = color.map_or(NO_COLOR, u64::from);
        let calls = self.engine.gather_calls(&Call::Split {
            color: own,
            key: key.into(),
            ordinal,
        })?;
        if own == NO_COLOR {
            return Ok(None);
        }
        let group = group(&calls, own);
        let Some(rank) = group.iter().position(|&member| member == self.identity.rank.index()) else {
            return Ok(None);
        };
        let lost = || {
            let lost = self.engine.lost();
            let rank = group.iter().position(|&member| lost.contains(member))?;
            Some(Refusal::ParentDied { rank })
        };
        let mut recipe = self.identity.recipe.clone();
        if recipe
            .tree
            .as_ref()
            .is_some_and(|tree| tree.world().get() != group.len())
        {
            recipe.tree = None;
        }
        recipe.rendezvous = format!("{:016x}-{ordinal}-{own}", self.identity.token);
        recipe.rank = rank;
        recipe.world = group.len();
        recipe.deadline = Some(self.deadline());
        setup::join(recipe, &lost).map(Some)
    }

    #[doc(alias = "dup")]
    /// A second communicator of the same ranks, with calls, epochs and memory of its own, to overlap with this one: on host threads,
    /// on other streams, or in graphs that run beside this one's. Tree, policy, deadline and GPU are this one's. All ranks call it.
    ///
    /// # Errors
    /// As [`Communicator::split`].
    pub fn channel(&self) -> Result<Communicator, Error> {
        let key = u32::try_from(self.identity.rank.index()).unwrap_or(0);
        let channel = self.split(Some(0), key)?;
        // A rank that gives a colour is in its group.
        channel.ok_or_else(|| {
            lanesum_plan::PlanError::RankOutOfRange {
                index: self.identity.rank.index(),
            }
            .into()
        })
    }
}

/// The ranks that gave this colour, by key, then rank.
fn group(calls: &[Call], own: u64) -> Vec<usize> {
    let mut group: Vec<(u64, usize)> = calls
        .iter()
        .enumerate()
        .filter_map(|(rank, call)| match call {
            Call::Split { color, key, .. } if *color == own => Some((*key, rank)),
            Call::Split { .. } | Call::AllReduce { .. } | Call::Barrier { .. } => None,
        })
        .collect();
    group.sort_unstable();
    group.into_iter().map(|(_, rank)| rank).collect()
}
