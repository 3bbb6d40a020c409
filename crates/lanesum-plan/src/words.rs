//! The words that every room shares: ranks, sizes, dtypes, operations.
//!
//! Each is a type of its own because a mix-up would hurt: a rank is not a world size, a number of bytes is not a number
//! of elements. Nothing outside its range can be constructed, not even from JSON, so no other room checks again.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::closed::closed_words;
use crate::{Engine, PlanError};

/// The largest number of ranks in one communicator.
pub const WORLD_MAX: usize = 16;

/// The number of one rank of a communicator, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub struct Rank(u8);

impl Rank {
    /// The rank with this number.
    ///
    /// # Errors
    /// [`PlanError::RankOutOfRange`] from [`WORLD_MAX`] on.
    pub const fn new(index: usize) -> Result<Rank, PlanError> {
        if index < WORLD_MAX {
            Ok(Rank(index as u8))
        } else {
            Err(PlanError::RankOutOfRange { index })
        }
    }

    /// The number, ready to index with; always below [`WORLD_MAX`].
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<usize> for Rank {
    type Error = PlanError;

    fn try_from(index: usize) -> Result<Rank, PlanError> {
        Rank::new(index)
    }
}

impl From<Rank> for usize {
    fn from(rank: Rank) -> usize {
        rank.index()
    }
}

/// How many ranks a communicator has: 1 to [`WORLD_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub struct WorldSize(u8);

impl WorldSize {
    /// A world of this many ranks.
    ///
    /// # Errors
    /// [`PlanError::WorldOutOfRange`] for 0 and above [`WORLD_MAX`].
    pub const fn new(ranks: usize) -> Result<WorldSize, PlanError> {
        if ranks >= 1 && ranks <= WORLD_MAX {
            Ok(WorldSize(ranks as u8))
        } else {
            Err(PlanError::WorldOutOfRange { ranks })
        }
    }

    /// The number of ranks.
    #[must_use]
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// All ranks of this world, in order.
    pub fn ranks(self) -> impl DoubleEndedIterator<Item = Rank> + ExactSizeIterator + Clone {
        (0..self.0).map(Rank)
    }

    /// The rank with this number, if it belongs to this world.
    ///
    /// # Errors
    /// [`PlanError::RankOutsideWorld`] where it doesn't.
    pub const fn rank(self, index: usize) -> Result<Rank, PlanError> {
        if index < self.get() {
            Ok(Rank(index as u8))
        } else {
            Err(PlanError::RankOutsideWorld {
                index,
                world: self.get(),
            })
        }
    }
}

impl fmt::Display for WorldSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<usize> for WorldSize {
    type Error = PlanError;

    fn try_from(ranks: usize) -> Result<WorldSize, PlanError> {
        WorldSize::new(ranks)
    }
}

impl From<WorldSize> for usize {
    fn from(world: WorldSize) -> usize {
        world.get()
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// This many bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// The number of bytes.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Whole KiB, MiB and GiB are written as such, anything else as bytes with grouped digits: `42 KiB`, `43,009 B`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = [(30, "GiB"), (20, "MiB"), (10, "KiB")]
            .into_iter()
            .find(|(shift, _)| self.0 != 0 && self.0.trailing_zeros() >= *shift)
            .map_or_else(
                || format!("{} B", grouped(self.0)),
                |(shift, unit)| format!("{} {unit}", grouped(self.0 >> shift)),
            );
        f.pad(&text)
    }
}

/// A number of elements of some dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Elements(u64);

impl Elements {
    /// This many elements.
    #[must_use]
    pub const fn new(elements: u64) -> Elements {
        Elements(elements)
    }

    /// The number of elements.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&grouped(self.0))
    }
}

/// A number with its digits in groups of three: `43,008`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with what it counts: `1 rank`, `2 ranks`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{} {noun}s", grouped(number))
    }
}

/// A mark that a caller may give a call. Peers compare labels, so equal calls in another order are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Label(u64);

impl Label {
    /// The label with this value; any value will do.
    #[must_use]
    pub const fn new(label: u64) -> Label {
        Label(label)
    }

    /// The value.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

closed_words! {
    /// The type of an element.
    pub enum Dtype ("dtype") {
        /// IEEE 754 binary32.
        F32 = 0 => "f32",
        /// IEEE 754 binary16.
        F16 = 1 => "f16",
        /// The upper half of a binary32.
        Bf16 = 2 => "bf16",
    }
}

impl Dtype {
    /// The size of one element in bytes.
    #[must_use]
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }
}

closed_words! {
    /// How two values become one.
    pub enum Operation ("operation") {
        /// Addition in f32, in the order of the communicator's tree.
        Sum = 0 => "sum",
        /// IEEE 754-2019 maximum: NaN wins, +0 is above -0.
        Max = 1 => "max",
        /// IEEE 754-2019 minimum: NaN wins, -0 is below +0.
        Min = 2 => "min",
    }
}

closed_words! {
    /// Where a call's input lies.
    pub enum Buffers ("kind of buffer") {
        /// In the caller's own memory: it is copied to mailboxes for peers to read it.
        Private = 0 => "private",
        /// In memory allocated from the communicator: peers may read it in place.
        Shared = 1 => "shared",
        /// In memory of this rank's GPU.
        Device = 2 => "device",
    }
}

impl Buffers {
    /// Those in the host's memory.
    pub const HOST: [Buffers; 2] = [Buffers::Private, Buffers::Shared];

    /// What executes reductions of such buffers.
    #[must_use]
    #[inline]
    pub const fn engine(self) -> Engine {
        match self {
            Buffers::Private | Buffers::Shared => Engine::Host,
            Buffers::Device => Engine::Cuda,
        }
    }
}
