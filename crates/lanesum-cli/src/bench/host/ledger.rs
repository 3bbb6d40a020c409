//! Everything that was found so far: told, and kept so that what ends the bench early costs only what is not measured yet.

use lanesum_plan::Dtype;
use serde_json::{Value, json};

use super::job::Job;
use super::program::Program;
use super::row::{Missing, Point, Row, What, summarised};
use super::{picture, table};
use crate::bench::record::{self, State, without_folders};
use crate::errors::{CliError, say};

/// Everything about one number of ranks.
#[derive(Debug, Default)]
pub struct Found {
    /// How many ranks.
    pub ranks: usize,
    /// One a turn.
    pub points: Vec<Point>,
    /// What was not timed.
    pub missing: Vec<Missing>,
}

impl Found {
    /// The points of each regime put together.
    pub fn rows(&self) -> Vec<Row> {
        summarised(self.ranks, &self.points)
    }
}

/// An engine that was there.
#[derive(Debug)]
pub struct Met {
    /// Its name in rows.
    pub name: &'static str,
    /// What it calls itself.
    pub version: String,
    /// How it was started.
    pub started: String,
}

/// What was found, by number of ranks, and where it is kept.
pub struct Ledger<'a> {
    job: &'a Job,
    commit: Option<String>,
    all: Vec<Found>,
    /// The engines that were there.
    engines: Vec<Met>,
}

impl<'a> Ledger<'a> {
    /// An empty one. A file that cannot be written is found out here, before anything is measured; one that is there stays until
    /// something is.
    pub fn open(job: &'a Job) -> Result<Self, CliError> {
        record::try_out(&[job.record.as_deref(), job.plot.as_deref()])?;
        let of_git = || job.record.as_ref().and_then(|_| record::commit());
        Ok(Self {
            job,
            commit: job.commit.clone().or_else(of_git),
            all: Vec::new(),
            engines: Vec::new(),
        })
    }

    /// From here on it is about so many ranks.
    pub fn begin(&mut self, ranks: usize) {
        self.all.push(Found {
            ranks,
            ..Found::default()
        });
    }

    /// An engine is there.
    pub fn met(&mut self, program: &Program, version: &str) {
        if !self.engines.iter().any(|met| met.name == program.name) {
            self.engines.push(Met {
                name: program.name,
                version: version.to_owned(),
                started: program.told(),
            });
        }
    }

    /// A turn is over.
    pub fn note(&mut self, point: Point) {
        if let Some(found) = self.all.last_mut() {
            found.points.push(point);
        }
    }

    /// What was timed of this is worth nothing.
    pub fn forget(&mut self, what: What) {
        if let Some(found) = self.all.last_mut() {
            found.points.retain(|point| point.what != what);
        }
    }

    /// Something is not timed. The reason may name files of this machine, which nobody else has.
    pub fn lacks(
        &mut self,
        name: &'static str,
        of: Option<(Dtype, Option<u64>)>,
        reason: &str,
    ) -> Result<(), CliError> {
        let Some(found) = self.all.last_mut() else {
            return Ok(());
        };
        let missing = Missing::new(name, found.ranks, of, without_folders(reason));
        if self.job.json {
            say(&format!("{}\n", serde_json::to_string(&missing)?))?;
        }
        found.missing.push(missing);
        Ok(())
    }

    /// Tells what was found with the present number of ranks.
    pub fn tell(&self) -> Result<(), CliError> {
        let Some(found) = self.all.last() else {
            return Ok(());
        };
        let rows = found.rows();
        if !self.job.json {
            return say(&table::of(self.job, found, &rows, &self.engines));
        }
        rows.iter()
            .try_for_each(|row| say(&format!("{}\n", serde_json::to_string(row)?)))
    }

    /// There may be more.
    pub fn keep_open(&self) -> Result<(), CliError> {
        self.keep(&State::Open)
    }

    /// Nothing more is to come.
    pub fn complete(&self) -> Result<(), CliError> {
        self.keep(&State::Complete)?;
        self.draw()
    }

    /// Nothing more can come.
    pub fn failed(&self, error: &CliError) -> Result<(), CliError> {
        self.keep(&State::Failed(error.to_string()))?;
        self.draw()
    }

    fn draw(&self) -> Result<(), CliError> {
        let rows: Vec<Row> = self.all.iter().flat_map(Found::rows).collect();
        match self.job.plot.as_deref().filter(|_| !rows.is_empty()) {
            Some(file) => record::write_whole(file, &picture::of(&rows).svg()),
            None => Ok(()),
        }
    }

    fn keep(&self, state: &State) -> Result<(), CliError> {
        let anything = self.all.iter().any(|found| !found.points.is_empty());
        match self.job.record.as_deref().filter(|_| anything) {
            Some(file) => record::keep(file, &self.document(state)),
            None => Ok(()),
        }
    }

    fn document(&self, state: &State) -> Value {
        let told = |met: &Met| json!({"version": met.version, "started": met.started});
        let engines = self.engines.iter().map(|met| (met.name.to_owned(), told(met)));
        let engines: serde_json::Map<String, Value> = engines.collect();
        let rows: Vec<Row> = self.all.iter().flat_map(Found::rows).collect();
        let missing: Vec<_> = self.all.iter().flat_map(|found| &found.missing).collect();
        let points = self
            .all
            .iter()
            .flat_map(|found| found.points.iter().map(|point| in_short(found.ranks, point)));
        let findings = json!({
            "settings": settings(self.job),
            "engines": engines,
            "rows": rows,
            "points": points.collect::<Vec<_>>(),
            "missing": missing,
        });
        record::document(self.commit.as_deref(), state, json!({}), findings)
    }
}

/// A turn, on one line: there are hundreds.
fn in_short(ranks: usize, point: &Point) -> Value {
    let what = &point.what;
    let [before, after] = point
        .round_trip_ns
        .map(|flag| flag.map_or_else(|| "-".to_owned(), |flag| format!("{flag:.0}")));
    json!(format!(
        "{},{},{},{ranks},{},{},{},{before},{after},{},{},{}",
        point.round,
        what.peer,
        what.buffers,
        what.bytes,
        what.dtype,
        point.regime.name(),
        point.calls,
        point.timed.p50,
        point.timed.p99,
    ))
}

fn settings(job: &Job) -> Vec<String> {
    let pinned = job.ranks.iter().all(|&ranks| job.pins(ranks));
    vec![
        "in place, back to back; each call is timed on each rank, and a time is the largest of the ranks' own medians".to_owned(),
        "every element of a sum compared before and after each turn, on every rank; timed calls sum zeros".to_owned(),
        if pinned {
            "each rank on a CPU of its own".to_owned()
        } else {
            "more ranks than CPUs run on whatever CPU the system likes, others each on its own".to_owned()
        },
        "a point: round, peer, buffers, ranks, bytes, dtype, regime, flag round trips before and after (ns), calls, p50 and p99 (us)"
            .to_owned(),
    ]
}
