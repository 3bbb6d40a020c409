//! Communicators made from communicators.

use lanesum_plan::{Call, Rank};
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
        self.divided(&group(&calls, own), ordinal, own).map(Some)
    }

    /// The communicator of these ranks, this one among them. `group` tells it from others that come of the same call.
    fn divided(&self, members: &[usize], ordinal: u64, group: u64) -> Result<Communicator, Error> {
        let index = self.identity.rank.index();
        let rank = members.iter().position(|&member| member == index);
        let rank = rank.ok_or(lanesum_plan::PlanError::RankOutOfRange { index })?;
        let lost = || {
            let lost = self.engine.lost();
            let rank = members.iter().position(|&member| lost.contains(member))?;
            Some(Refusal::ParentDied { rank })
        };
        let mut recipe = self.identity.recipe.clone();
        if recipe
            .tree
            .as_ref()
            .is_some_and(|tree| tree.world().get() != members.len())
        {
            recipe.tree = None;
        }
        recipe.rendezvous = format!("{:016x}-{ordinal}-{group}", self.identity.token);
        recipe.rank = rank;
        recipe.world = members.len();
        recipe.deadline = Some(self.deadline());
        setup::join(recipe, &lost)
    }

    #[doc(alias = "dup")]
    /// A second communicator of the same ranks, with calls, epochs and memory of its own, to overlap with this one: on host threads,
    /// on other streams, or in graphs that run beside this one's. Tree, policy, deadline and GPU are this one's. All ranks call it.
    ///
    /// # Errors
    /// As [`Communicator::split`].
    pub fn channel(&self) -> Result<Communicator, Error> {
        self.usable()?;
        let ordinal = self.next_ordinal();
        // A call of its own: a rank that splits meanwhile is found out.
        self.engine.gather_calls(&Call::Channel { ordinal })?;
        let members: Vec<usize> = self.identity.world.ranks().map(Rank::index).collect();
        self.divided(&members, ordinal, 0)
    }
}

/// The ranks that gave this colour, by key, then rank.
fn group(calls: &[Call], own: u64) -> Vec<usize> {
    let mut group: Vec<(u64, usize)> = calls
        .iter()
        .enumerate()
        .filter_map(|(rank, call)| match call {
            Call::Split { color, key, .. } if *color == own => Some((*key, rank)),
            Call::Split { .. } | Call::AllReduce { .. } | Call::Barrier { .. } | Call::Channel { .. } => None,
        })
        .collect();
    group.sort_unstable();
    group.into_iter().map(|(_, rank)| rank).collect()
}
