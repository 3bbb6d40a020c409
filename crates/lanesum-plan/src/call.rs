//! What a rank called, in the three forms in which others meet it: 32 bits that ride in every header, four words that
//! are read when those bits differ, and a line for people.
//!
//! The digest is computed on every call, so it costs a handful of multiplications and nothing else. It is
//! `mix(elements + code * golden) + label * golden + identity` in 32 bits, where `golden` is 2^32 divided by the golden
//! ratio, whose small multiples keep far from one another. That gives four guarantees beyond chance:
//!
//! 1. Calls that differ in one of element count, label, identity or code alone (below 2^32, or with equal upper halves)
//!    always differ: each step is a bijection in each of its terms.
//! 2. Calls at the same ordinal and label that differ in code *and* count differ as long as the counts are less than
//!    a million apart.
//! 3. Calls that differ in label *and* ordinal differ as long as the labels are less than a thousand and the ordinals
//!    less than a million apart.
//! 4. Calls that differ in identity alone differ as long as there are less than a thousand captures, and positions and
//!    ordinals stay below a million: captures are told apart in the upper half of the word, which `fold` scatters.
//!
//! Anything else collides with a chance of 2^-32.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::closed::coded;
use crate::digest::{fold, mix32};
use crate::{AlgorithmName, Buffers, Dtype, Elements, Label, Operation, Request};

/// The number of words that describe a call to peers.
pub const CALL_WORDS: usize = 4;

/// Which call of its communicator a call is. A captured one runs anew on each replay of its graph, so it has no number
/// among the eager ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIdentity {
    /// A call that was made once.
    Eager {
        /// Its number on the communicator, below 2^63.
        ordinal: u64,
    },
    /// A call that was captured into a graph.
    Captured {
        /// The number of the capture among those that the communicator has met, below 2^31.
        capture: u32,
        /// The number of the call within the capture.
        position: u32,
    },
}

/// Set in the word of a captured call.
const CAPTURED: u64 = 1 << 63;
const CAPTURE: u32 = 32;

impl CallIdentity {
    /// The identity as a descriptor word: bit 63 says captured, 32 to 62 are the capture and 0 to 31 the position; without
    /// it, the word is the ordinal. Numbers too large for their bits wrap.
    #[must_use]
    #[inline]
    pub const fn to_word(self) -> u64 {
        match self {
            CallIdentity::Eager { ordinal } => ordinal & !CAPTURED,
            CallIdentity::Captured { capture, position } => CAPTURED | (capture as u64) << CAPTURE | position as u64,
        }
    }

    /// The identity that a word stands for; every word stands for one.
    #[must_use]
    pub const fn from_word(word: u64) -> CallIdentity {
        if word & CAPTURED == 0 {
            return CallIdentity::Eager { ordinal: word };
        }
        CallIdentity::Captured {
            capture: ((word & !CAPTURED) >> CAPTURE) as u32,
            position: word as u32,
        }
    }
}

impl fmt::Display for CallIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallIdentity::Eager { ordinal } => write!(f, "call {ordinal}"),
            CallIdentity::Captured { capture, position } => write!(f, "capture {capture}, position {position}"),
        }
    }
}

/// One collective call of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// A reduction of which every rank gets the result.
    AllReduce {
        /// What was asked for.
        request: Request,
        /// What the plan decided.
        algorithm: AlgorithmName,
        /// Which call of its communicator it is.
        identity: CallIdentity,
    },
    /// A meeting of all ranks.
    Barrier {
        /// The caller's mark.
        label: Option<Label>,
        /// The number of this call on its communicator.
        ordinal: u64,
    },
    /// A division of the ranks into new communicators.
    Split {
        /// Which group this rank goes to; differs from rank to rank.
        color: u64,
        /// The order within the group; differs from rank to rank.
        key: u64,
        /// The number of this call on its communicator.
        ordinal: u64,
    },
    /// A second communicator of the same ranks.
    Channel {
        /// The number of this call on its communicator.
        ordinal: u64,
    },
}

// The first descriptor word: bits 0-3 the algorithm, 4-5 the operation, 6-7 the dtype, 8-9 the kind of buffer, 10 whether
// there is a label, 11-13 the kind of call; all others are zero.
const OPERATION: u32 = 4;
const DTYPE: u32 = 6;
const BUFFERS: u32 = 8;
const LABELLED: u32 = 10;
const KIND: u32 = 11;
const KIND_ALL_REDUCE: u64 = 1;
const KIND_BARRIER: u64 = 2;
const KIND_SPLIT: u64 = 3;
const KIND_CHANNEL: u64 = 4;

/// 2^32 divided by the golden ratio, odd.
const GOLDEN: u32 = 0x9E37_79B1;

coded!(Operation, Dtype, Buffers, AlgorithmName);

impl Call {
    /// Which call of its communicator it is.
    #[must_use]
    pub const fn identity(&self) -> CallIdentity {
        match self {
            Call::AllReduce { identity, .. } => *identity,
            Call::Barrier { ordinal, .. } | Call::Split { ordinal, .. } | Call::Channel { ordinal } => {
                CallIdentity::Eager { ordinal: *ordinal }
            }
        }
    }

    /// 32 bits that are equal on all ranks exactly if all made the same call, up to a chance of 2^-32. The colour and
    /// key of a split are left out: there ranks are meant to differ.
    #[must_use]
    #[inline]
    pub const fn digest(&self) -> u32 {
        self.announced().digest
    }

    /// What a rank posts of this call.
    #[must_use]
    #[inline]
    pub const fn announced(&self) -> Announced {
        match self {
            Call::AllReduce {
                request,
                algorithm,
                identity,
            } => Announced::all_reduce(request, *algorithm, *identity),
            Call::Barrier { .. } | Call::Channel { .. } => Announced::of(self.to_words(), self.to_words()),
            Call::Split { ordinal, .. } => Announced::of(self.to_words(), [KIND_SPLIT << KIND, 0, 0, *ordinal]),
        }
    }

    /// The call as descriptor words: packed codes, elements (or colour), label (or key), identity.
    #[must_use]
    #[inline]
    pub const fn to_words(&self) -> [u64; CALL_WORDS] {
        match self {
            Call::AllReduce {
                request,
                algorithm,
                identity,
            } => all_reduce_words(request, *algorithm, *identity),
            Call::Barrier { label, ordinal } => {
                let (labelled, label) = pack(*label);
                [KIND_BARRIER << KIND | labelled, 0, label, *ordinal]
            }
            Call::Split { color, key, ordinal } => [KIND_SPLIT << KIND, *color, *key, *ordinal],
            Call::Channel { ordinal } => [KIND_CHANNEL << KIND, 0, 0, *ordinal],
        }
    }

    /// The call that these words describe; `None` if [`Call::to_words`] can't have written them. The words may come
    /// from a hostile peer.
    #[must_use]
    pub fn from_words(words: [u64; CALL_WORDS]) -> Option<Call> {
        let [code, second, third, ordinal] = words;
        let label = if code >> LABELLED & 1 == 1 {
            Some(Label::new(third))
        } else {
            None
        };
        let call = match code >> KIND {
            KIND_ALL_REDUCE => Call::AllReduce {
                request: Request {
                    operation: Operation::from_code(code >> OPERATION & 3)?,
                    dtype: Dtype::from_code(code >> DTYPE & 3)?,
                    elements: Elements::new(second),
                    buffers: Buffers::from_code(code >> BUFFERS & 3)?,
                    label,
                },
                algorithm: AlgorithmName::from_code(code & 15)?,
                identity: CallIdentity::from_word(ordinal),
            },
            KIND_BARRIER => Call::Barrier { label, ordinal },
            KIND_SPLIT => Call::Split {
                color: second,
                key: third,
                ordinal,
            },
            KIND_CHANNEL => Call::Channel { ordinal },
            _ => return None,
        };
        (call.to_words() == words).then_some(call)
    }
}

/// What a rank posts of a call: its digest, and the words from which peers can tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    digest: u32,
    words: [u64; CALL_WORDS],
}

impl Announced {
    /// Of an all-reduce, without making a [`Call`] of it first: copying a request right after its fields were stored
    /// one by one stalls the processor for longer than the digest takes.
    #[must_use]
    #[inline]
    pub const fn all_reduce(request: &Request, algorithm: AlgorithmName, identity: CallIdentity) -> Announced {
        let words = all_reduce_words(request, algorithm, identity);
        Announced::of(words, words)
    }

    #[inline]
    const fn of(words: [u64; CALL_WORDS], compared: [u64; CALL_WORDS]) -> Announced {
        let [code, elements, label, ordinal] = compared;
        let what = mix32(fold(elements).wrapping_add((code as u32).wrapping_mul(GOLDEN)));
        let digest = what
            .wrapping_add(fold(label).wrapping_mul(GOLDEN))
            .wrapping_add(fold(ordinal));
        Announced { digest, words }
    }

    /// The digest: [`Call::digest`].
    #[must_use]
    #[inline]
    pub const fn digest(&self) -> u32 {
        self.digest
    }

    /// The words: [`Call::to_words`].
    #[must_use]
    #[inline]
    pub const fn words(&self) -> [u64; CALL_WORDS] {
        self.words
    }
}

#[inline]
const fn all_reduce_words(request: &Request, algorithm: AlgorithmName, identity: CallIdentity) -> [u64; CALL_WORDS] {
    let (labelled, label) = pack(request.label);
    let code = KIND_ALL_REDUCE << KIND
        | labelled
        | request.buffers.code() << BUFFERS
        | request.dtype.code() << DTYPE
        | request.operation.code() << OPERATION
        | algorithm.code();
    [code, request.elements.get(), label, identity.to_word()]
}

/// A label as the bit that says it is there and the word that holds it.
const fn pack(label: Option<Label>) -> (u64, u64) {
    match label {
        Some(label) => (1 << LABELLED, label.get()),
        None => (0, 0),
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::AllReduce {
                request,
                algorithm,
                identity,
            } => {
                let Request {
                    operation,
                    dtype,
                    elements,
                    buffers,
                    label,
                } = request;
                write!(f, "all_reduce of {elements} {dtype} by {operation}")?;
                write_label(f, *label)?;
                write!(f, ", {identity}, {algorithm}, {buffers} buffers")
            }
            Call::Barrier { label, ordinal } => {
                write!(f, "barrier")?;
                write_label(f, *label)?;
                write!(f, ", call {ordinal}")
            }
            Call::Channel { ordinal } => write!(f, "channel, call {ordinal}"),
            Call::Split { color, key, ordinal } => write!(f, "split (color {color}, key {key}), call {ordinal}"),
        }
    }
}

fn write_label(f: &mut fmt::Formatter<'_>, label: Option<Label>) -> fmt::Result {
    match label {
        Some(label) => write!(f, " (label {label})"),
        None => Ok(()),
    }
}
