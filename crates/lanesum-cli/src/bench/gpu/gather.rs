//! What the ranks tell of one number of ranks, put together as soon as all have told it.

use super::effort::{self, Decided};
use super::ledger::Ledger;
use super::message::{Effort, Finding, Pilot, Point};
use crate::errors::CliError;

/// What was heard of the sizes that are not through.
pub struct Gather<'a, 'b> {
    ledger: &'a mut Ledger<'b>,
    pilots: Vec<Option<Pilot>>,
    points: Vec<Option<Point>>,
    /// Of each size that was begun, in order.
    efforts: Vec<Effort>,
    /// Sizes that are through.
    done: usize,
    /// Takes what people are to be warned of.
    warn: fn(&str),
}

/// Why no row comes of it.
#[derive(Debug)]
pub enum Unusable {
    /// The ranks told of different things.
    Differs(String),
    /// Something else.
    Other(CliError),
}

impl From<CliError> for Unusable {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

impl<'a, 'b> Gather<'a, 'b> {
    /// Before so many ranks have told anything.
    pub fn new(ledger: &'a mut Ledger<'b>, ranks: usize, warn: fn(&str)) -> Self {
        Self {
            ledger,
            pilots: vec![None; ranks],
            points: vec![None; ranks],
            efforts: Vec::new(),
            done: 0,
            warn,
        }
    }

    /// A rank told something. The line, if there is one, is for all ranks.
    pub fn heard(&mut self, rank: usize, finding: Finding) -> Result<Option<String>, Unusable> {
        match finding {
            Finding::Pilot(pilot) => {
                put(&mut self.pilots, rank, pilot);
                taken(&mut self.pilots).map(|pilots| self.begin(&pilots)).transpose()
            }
            Finding::Point(point) => {
                put(&mut self.points, rank, point);
                match taken(&mut self.points) {
                    Some(points) => self.finish(&points).map(|()| None),
                    None => Ok(None),
                }
            }
            Finding::Through => Ok(None),
        }
    }

    /// All sizes are through.
    pub fn is_complete(&self) -> bool {
        self.done == self.ledger.job.sizes.len()
    }

    fn begin(&mut self, pilots: &[Pilot]) -> Result<String, Unusable> {
        let size = self.ledger.job.sizes.get(self.efforts.len());
        let bytes = *size.ok_or_else(|| Unusable::Differs("a size too many was begun".into()))?;
        let Decided { effort, warning } = effort::decide(self.ledger.job, pilots.len(), bytes, pilots);
        if let Some(warning) = warning {
            (self.warn)(&warning);
        }
        let line = serde_json::to_string(&effort).map_err(CliError::from)?;
        self.ledger.note::<CliError>(|_, found| {
            found.gpus.ranks = pilots.iter().filter_map(|pilot| pilot.gpu.clone()).collect();
            found.efforts.push((bytes, effort.clone()));
            Ok(())
        })?;
        self.efforts.push(effort);
        Ok(line)
    }

    fn finish(&mut self, points: &[Point]) -> Result<(), Unusable> {
        let effort = self.efforts.get(self.done).cloned();
        let effort = effort.ok_or_else(|| Unusable::Differs("a size was done that was not begun".into()))?;
        self.done += 1;
        self.ledger
            .note(|job, found| found.add_size(job, &effort, points).map_err(Unusable::Differs))
    }
}

fn put<T>(all: &mut [Option<T>], rank: usize, one: T) {
    if let Some(seat) = all.get_mut(rank) {
        *seat = Some(one);
    }
}

/// What all ranks have told, once they all have.
fn taken<T>(all: &mut [Option<T>]) -> Option<Vec<T>> {
    all.iter()
        .all(Option::is_some)
        .then(|| all.iter_mut().filter_map(Option::take).collect())
}
