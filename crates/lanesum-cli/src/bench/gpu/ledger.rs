//! Everything that was found so far: told as soon as it is known, and kept so that what ends the bench early costs only what is not
//! measured yet.

use std::path::Path;

use super::document::document;
use super::job::Job;
use super::row::Found;
use super::{picture, table};
use crate::bench::record;
use crate::errors::{CliError, say};

/// What was found, by number of ranks, and where it is kept.
pub struct Ledger<'a> {
    /// What was asked for.
    pub job: &'a Job,
    file: Option<&'a Path>,
    commit: Option<String>,
    all: Vec<Found>,
    /// Rows and missing things of the last number of ranks that stand on stdout already.
    told: (usize, usize),
}

impl<'a> Ledger<'a> {
    /// An empty one. A file that cannot be written is found out here, before anything is measured; one that is there stays until
    /// something is.
    pub fn open(job: &'a Job, file: Option<&'a Path>) -> Result<Self, CliError> {
        record::try_out(&[file, job.plot.as_deref()])?;
        Ok(Self {
            job,
            file,
            commit: job.commit.clone().or_else(|| file.and_then(|_| record::commit())),
            all: Vec::new(),
            told: (0, 0),
        })
    }

    /// From here on it is about so many ranks.
    pub fn begin(&mut self, ranks: usize) {
        self.all.push(Found::new(ranks));
        self.told = (0, 0);
    }

    /// Lets something be noted, tells it if lines are wanted, and keeps it.
    pub fn note<E: From<CliError>>(&mut self, note: impl FnOnce(&Job, &mut Found) -> Result<(), E>) -> Result<(), E> {
        let Some(found) = self.all.last_mut() else {
            return Ok(());
        };
        note(self.job, found)?;
        if self.job.json {
            for line in found.lines_from(self.told)? {
                say(&format!("{line}\n"))?;
            }
        }
        self.told = (found.rows.len(), found.missing.len());
        Ok(self.keep(&record::State::Open)?)
    }

    /// What was found with the present number of ranks.
    pub fn found(&self) -> Option<&Found> {
        self.all.last()
    }

    /// The tables of what was found with the present number of ranks, if people read them and there is anything in them.
    pub fn table(&self) -> Result<(), CliError> {
        match self.all.last() {
            Some(found) if !self.job.json && found.is_something() => say(&table::of(self.job, found)),
            Some(_) | None => Ok(()),
        }
    }

    /// The first wrong result of ours: with how many ranks, on which one, and what it is.
    pub fn wrong(&self) -> Option<(usize, usize, &str)> {
        let wrong = |found: &'_ Found| found.wrong.is_some();
        let found = self.all.iter().find(|found| wrong(found))?;
        let (rank, what) = found.wrong.as_ref()?;
        Some((found.ranks, *rank, what))
    }

    /// Nothing more is to come.
    pub fn complete(&self) -> Result<(), CliError> {
        self.keep(&record::State::Complete)?;
        self.draw()
    }

    /// Nothing more can come.
    pub fn failed(&self, error: &CliError) -> Result<(), CliError> {
        self.keep(&record::State::Failed(error.to_string()))?;
        self.draw()
    }

    fn draw(&self) -> Result<(), CliError> {
        let anything = self.all.iter().any(|found| !found.rows.is_empty());
        match self.job.plot.as_deref().filter(|_| anything) {
            Some(file) => record::write_whole(file, &picture::of(self.job, &self.all).svg()),
            None => Ok(()),
        }
    }

    fn keep(&self, state: &record::State) -> Result<(), CliError> {
        let anything = self.all.iter().any(Found::is_something);
        match self.file.filter(|_| anything) {
            Some(file) => record::keep(file, &document(&self.all, self.commit.as_deref(), state)),
            None => Ok(()),
        }
    }
}
