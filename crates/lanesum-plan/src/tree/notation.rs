//! The text of a reduction tree: `((0+1)+(2+3))+4`.
//!
//! ```text
//! tree = rank | term "+" term
//! term = rank | "(" term "+" term ")"
//! ```
//!
//! Blanks are allowed between tokens. Text may come from a hostile source, so nesting is bounded by the number of ranks
//! there can be, and parsing stops at the first token that doesn't fit.

use super::{Step, TreeFault};
use crate::{PlanError, Rank, WORLD_MAX};

/// The notation of a program with correct stack discipline.
pub(super) fn write(steps: &[Step]) -> String {
    let mut stack: Vec<(String, bool)> = Vec::new();
    for step in steps {
        let term = match step {
            Step::Leaf(rank) => (rank.to_string(), false),
            Step::Combine => {
                let right = stack.pop().map_or_else(String::new, enclosed);
                let left = stack.pop().map_or_else(String::new, enclosed);
                (format!("{left}+{right}"), true)
            }
        };
        stack.push(term);
    }
    stack.pop().map_or_else(String::new, |(text, _)| text)
}

fn enclosed((text, is_sum): (String, bool)) -> String {
    if is_sum { format!("({text})") } else { text }
}

/// The program that the text describes.
pub(super) fn read(text: &str) -> Result<Vec<Step>, PlanError> {
    let mut reader = Reader {
        rest: text,
        position: 0,
        steps: Vec::new(),
    };
    reader.term(0)?;
    let is_rank = reader.steps.len() == 1;
    if !(is_rank && reader.at_end()) {
        reader.sum_after_first(0)?;
    }
    if reader.at_end() {
        Ok(reader.steps)
    } else {
        Err(reader.fault("the end"))
    }
}

struct Reader<'a> {
    rest: &'a str,
    position: usize,
    steps: Vec<Step>,
}

impl<'a> Reader<'a> {
    fn term(&mut self, depth: usize) -> Result<(), PlanError> {
        if self.take('(') {
            if depth >= WORLD_MAX {
                return Err(self.fault("no deeper nesting: there are at most 16 ranks"));
            }
            self.term(depth + 1)?;
            self.sum_after_first(depth + 1)?;
            return if self.take(')') {
                Ok(())
            } else {
                Err(self.fault("\")\""))
            };
        }
        let rank = self.rank()?;
        // A longer program can't name each rank once.
        if self.steps.len() >= 2 * WORLD_MAX {
            return Err(self.fault("the end: there are at most 16 ranks"));
        }
        self.steps.push(Step::Leaf(rank));
        Ok(())
    }

    /// The plus sign and the second term of a sum.
    fn sum_after_first(&mut self, depth: usize) -> Result<(), PlanError> {
        if !self.take('+') {
            return Err(self.fault("\"+\""));
        }
        self.term(depth)?;
        self.steps.push(Step::Combine);
        Ok(())
    }

    fn rank(&mut self) -> Result<Rank, PlanError> {
        self.skip_blanks();
        let length = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (digits, after) = self.rest.split_at(length);
        if digits.is_empty() || digits.len() > 2 || (digits.len() == 2 && digits.starts_with('0')) {
            return Err(self.fault("a rank from 0 to 15 or \"(\""));
        }
        let rank = digits
            .parse::<usize>()
            .map_err(|_| self.fault("a rank from 0 to 15"))
            .and_then(Rank::new)?;
        self.advance(after);
        Ok(rank)
    }

    fn take(&mut self, token: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(token) {
            Some(after) => {
                self.advance(after);
                true
            }
            None => false,
        }
    }

    fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.rest.is_empty()
    }

    fn skip_blanks(&mut self) {
        // ASCII blanks only, so that positions count bytes and characters alike up to the first fault.
        while let Some(after) = self.rest.strip_prefix([' ', '\t', '\n']) {
            self.advance(after);
        }
    }

    fn advance(&mut self, after: &'a str) {
        self.position += self.rest.len() - after.len();
        self.rest = after;
    }

    fn fault(&self, expected: &'static str) -> PlanError {
        PlanError::Tree(TreeFault::Notation {
            position: self.position,
            expected,
        })
    }
}
