//! Whether files fit together, and in which pieces they are summed: pure functions of their headers.
//!
//! A sum is made window by window, and windows are cut from the output, where the data of neighbours lies side by side: many small
//! tensors of a dtype are one call, and a large one is many. All ranks cut alike, since they have the same tensors; only where a
//! rank reads the pieces of a window differs.

use std::ops::Range;
use std::path::Path;

use lanesum_plan::Dtype;

use super::error::quoted;
use super::header::{Header, Tensor};

/// Ranks write whole pages, so that no two of them touch the same one.
const PAGE: u64 = 4096;

/// The first difference between two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Only the first file has it.
    OnlyInFirst(Tensor),
    /// Only the second file has it.
    OnlyInSecond(Tensor),
    /// They have it with another dtype or shape.
    Kind {
        /// The first file's.
        first: Tensor,
        /// The second file's.
        second: Tensor,
    },
}

impl Difference {
    /// In words.
    pub fn told(&self, first: &Path, second: &Path) -> String {
        let (first, second) = (first.display(), second.display());
        match self {
            Self::OnlyInFirst(tensor) => {
                let (name, kind) = (quoted(&tensor.name), tensor.kind());
                format!("tensor {name} is in {first} ({kind}), and not in {second}")
            }
            Self::OnlyInSecond(tensor) => {
                let (name, kind) = (quoted(&tensor.name), tensor.kind());
                format!("tensor {name} is in {second} ({kind}), and not in {first}")
            }
            Self::Kind { first: a, second: b } => {
                let (name, a, b) = (quoted(&a.name), a.kind(), b.kind());
                format!("tensor {name} is {a} in {first}, and {b} in {second}")
            }
        }
    }
}

/// A tensor's bytes as one rank reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Where they begin in the rank's file.
    pub from: u64,
    /// How long they are.
    pub bytes: u64,
}

/// Where the tensors of `first` lie in a file with the header `own`, in the order of `first`; or the first difference, in that order
/// too.
pub fn spans(first: &Header, own: &Header) -> Result<Vec<Span>, Box<Difference>> {
    let span = |tensor: &Tensor| {
        let Some(same) = own.named(&tensor.name) else {
            return Err(Box::new(Difference::OnlyInFirst(tensor.clone())));
        };
        if (same.dtype, &same.shape) != (tensor.dtype, &tensor.shape) {
            return Err(Box::new(Difference::Kind {
                first: tensor.clone(),
                second: same.clone(),
            }));
        }
        Ok(Span {
            dtype: same.dtype,
            from: own.data + same.begin,
            bytes: same.end - same.begin,
        })
    };
    let spans = first.tensors.iter().map(span).collect::<Result<Vec<_>, _>>()?;
    match own.tensors.iter().find(|tensor| first.named(&tensor.name).is_none()) {
        Some(tensor) => Err(Box::new(Difference::OnlyInSecond(tensor.clone()))),
        None => Ok(spans),
    }
}

/// Bytes that one read brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where they begin in the rank's file.
    pub from: u64,
    /// How many.
    pub bytes: usize,
}

/// What one call sums: bytes of one dtype that lie side by side in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The type of the elements.
    pub dtype: Dtype,
    /// Where it begins in the output.
    pub at: u64,
    /// How long it is.
    pub bytes: usize,
    /// Where this rank reads it, in its order.
    pub pieces: Vec<Piece>,
}

impl Window {
    /// The part that this rank writes, within the window; empty where there are fewer pages than ranks.
    pub fn share(&self, rank: usize, world: usize) -> Range<usize> {
        let end = self.at + self.bytes as u64;
        let (first, pages) = (self.at / PAGE, end.div_ceil(PAGE) - self.at / PAGE);
        let edge = |rank: usize| {
            let page = first + pages * rank as u64 / world.max(1) as u64;
            // Within the window, which is as long as some memory.
            ((page * PAGE).clamp(self.at, end) - self.at) as usize
        };
        edge(rank)..edge(rank + 1)
    }
}

/// Cuts spans into windows of at most `limit` bytes, a multiple of every dtype's size; the first begins at `at` in the output.
pub fn windows(spans: &[Span], at: u64, limit: usize) -> impl Iterator<Item = Window> {
    let mut rest = spans.iter().copied().filter(|span| span.bytes > 0).peekable();
    let mut at = at;
    std::iter::from_fn(move || {
        let dtype = rest.peek()?.dtype;
        let mut window = Window {
            dtype,
            at,
            bytes: 0,
            pieces: Vec::new(),
        };
        while window.bytes < limit {
            let Some(span) = rest.peek_mut().filter(|span| span.dtype == dtype) else {
                break;
            };
            let room = limit - window.bytes;
            let bytes = usize::try_from(span.bytes).map_or(room, |bytes| bytes.min(room));
            window.add(span.from, bytes);
            span.from += bytes as u64;
            span.bytes -= bytes as u64;
            if span.bytes == 0 {
                rest.next();
            }
        }
        at += window.bytes as u64;
        Some(window)
    })
}

impl Window {
    /// Neighbours in the rank's file too are one read.
    fn add(&mut self, from: u64, bytes: usize) {
        self.bytes += bytes;
        match self.pieces.last_mut() {
            Some(last) if last.from + last.bytes as u64 == from => last.bytes += bytes,
            Some(_) | None => self.pieces.push(Piece { from, bytes }),
        }
    }
}

#[cfg(test)]
mod tests;
