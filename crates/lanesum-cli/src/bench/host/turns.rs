//! Whose turn it is, and for how many calls.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lanesum_plan::{Buffers, Dtype};

use super::conversation::{Answer, Conversation, How, Order, Trouble};
use super::folder::Folder;
use super::job::Job;
use super::ledger::Ledger;
use super::peers::Peers;
use super::program::Program;
use super::rank::Assignment;
use super::round_trip::{self, Regime, RoundTrip};
use super::row::{OURS, Point, What};
use super::said::Timed;
use super::tool::{launcher, words};
use crate::errors::CliError;
use crate::progress::Progress;

/// A turn's timed calls take about so many microseconds, unless they are very fast or very slow.
const TURN_US: f64 = 100_000.0;
const MOST_CALLS: u32 = 20_000;
const FEWEST_CALLS: u32 = 3;
/// Before it is known how fast an engine is, a turn moves about so many bytes, in few calls: spinning ranks that share a CPU may need
/// a second for one.
const PILOT_BYTES: u64 = 16 << 20;
const PILOT_CALLS: (u64, u64) = (2, 20);
/// An engine that is gone is started again, and not asked for the size at which it went. It is not worth more than this.
const STARTS: u32 = 3;

/// A turn is not given up before its calls have taken so many times what the slowest ones took so far.
const MARGIN: f64 = 4.0;

/// How fast an engine was so far at one size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    /// The median of the last turn, in microseconds.
    last_us: f64,
    /// The largest 99th percentile of a turn; of the few calls of the first one that is the slowest of them.
    slowest_us: f64,
}

impl Pace {
    fn after(before: Option<Self>, timed: &Timed) -> Self {
        let slowest = before.map_or(0.0, |pace| pace.slowest_us);
        Self {
            last_us: timed.p50,
            slowest_us: slowest.max(timed.p50).max(timed.p99),
        }
    }

    /// How long so many calls may take.
    fn takes(self, calls: u32) -> Duration {
        let seconds = f64::from(calls) * self.slowest_us * MARGIN / 1e6;
        // What an engine says of itself may be no time at all.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
    }
}

/// One engine with its processes.
struct Engine {
    program: Program,
    talk: Option<Conversation>,
    starts: u32,
}

/// All engines with so many ranks.
pub struct Turns<'a> {
    job: &'a Job,
    ranks: usize,
    folder: &'a Folder,
    engines: Vec<Engine>,
    /// What has turns: of which engine, with which buffers.
    seats: Vec<(usize, Buffers)>,
    /// Of what is not to be tried again: of which engine, which type and which size.
    given_up: HashSet<(usize, Dtype, u64)>,
    paces: HashMap<(usize, Dtype, u64), Pace>,
    /// The round trip after the last turn.
    flag: Option<RoundTrip>,
    salt: u32,
}

impl<'a> Turns<'a> {
    /// Starts everybody. Without our own ranks there is no bench.
    pub fn start(
        job: &'a Job,
        ranks: usize,
        folder: &'a Folder,
        peers: &Peers,
        ledger: &mut Ledger<'_>,
    ) -> Result<Self, CliError> {
        let mut programs = vec![ours(job)?];
        programs.extend(peers.programs.iter().cloned());
        let mut turns = Self {
            job,
            ranks,
            folder,
            engines: vec![],
            seats: vec![(0, Buffers::Private), (0, Buffers::Shared)],
            given_up: HashSet::new(),
            paces: HashMap::new(),
            flag: None,
            salt: 0,
        };
        for (index, program) in programs.into_iter().enumerate() {
            turns.engines.push(Engine {
                program,
                talk: None,
                starts: 0,
            });
            if index > 0 {
                turns.seats.push((index, Buffers::Private));
            }
            turns.restart(index, ledger)?;
        }
        Ok(turns)
    }

    /// All rounds. The first is off the record: it shows how fast everybody is.
    pub fn all(&mut self, ledger: &mut Ledger<'_>) -> Result<(), CliError> {
        let of_a_round = self.job.dtypes.len() * self.job.sizes.len() * self.seats.len();
        let mut progress = Progress::new("turns", (of_a_round as u64) * u64::from(self.job.rounds + 1));
        let mut done = 0;
        self.flag = round_trip::measure(&self.job.cpus)?;
        for round in 0..=self.job.rounds {
            for &dtype in &self.job.dtypes {
                for &bytes in &self.job.sizes {
                    for place in 0..self.seats.len() {
                        // Nobody always follows the same one.
                        let seat = (place + round as usize) % self.seats.len();
                        self.turn(round, seat, (dtype, bytes), ledger)?;
                        done += 1;
                        progress.at(done);
                    }
                }
            }
            ledger.keep_open()?;
        }
        progress.clear();
        for engine in &mut self.engines {
            if let Some(talk) = engine.talk.take() {
                talk.finish();
            }
        }
        Ok(())
    }

    fn turn(
        &mut self,
        round: u32,
        seat: usize,
        (dtype, bytes): (Dtype, u64),
        ledger: &mut Ledger<'_>,
    ) -> Result<(), CliError> {
        let (index, buffers) = self.seats[seat];
        let pace = self.paces.get(&(seat, dtype, bytes)).copied();
        let calls = self.calls(pace, bytes);
        let warm_ups = calls / 10 + 1;
        self.salt += 1;
        let order = Order {
            dtype,
            buffers,
            elements: bytes / dtype.size() as u64,
            warm_ups,
            calls,
            salt: self.salt,
            takes: pace.map_or(Duration::ZERO, |pace| pace.takes(calls + warm_ups)),
        };
        let engine = &mut self.engines[index];
        let name = engine.program.name;
        let (Some(talk), false) = (&mut engine.talk, self.given_up.contains(&(index, dtype, bytes))) else {
            return Ok(());
        };
        let what = What {
            peer: name,
            buffers,
            dtype,
            bytes,
        };
        match talk.ask(&order)? {
            Answer::Timed(timed) => {
                let before = self.flag;
                self.flag = round_trip::measure(&self.job.cpus)?;
                self.paces.insert((seat, dtype, bytes), Pace::after(pace, &timed));
                if round > 0 {
                    ledger.note(Point {
                        what,
                        round,
                        regime: Regime::around(before, self.flag),
                        round_trip_ns: [before, self.flag].map(|flag| flag.map(|flag| flag.ns)),
                        calls,
                        timed,
                    });
                }
                Ok(())
            }
            Answer::Missing(reason) => {
                let sizes = self.job.sizes.iter().map(|&size| (index, dtype, size));
                self.given_up.extend(sizes);
                ledger.lacks(name, Some((dtype, None)), &reason)
            }
            Answer::Over(trouble) => {
                if name == OURS {
                    return Err(ours_failed(trouble));
                }
                self.gave_up(index, what, trouble, ledger)?;
                self.restart(index, ledger)?;
                self.flag = round_trip::measure(&self.job.cpus)?;
                Ok(())
            }
        }
    }

    /// A peer is gone. What took for ever at one size will at larger ones; what is wrong at one may be right at others.
    fn gave_up(&mut self, index: usize, what: What, trouble: Trouble, ledger: &mut Ledger<'_>) -> Result<(), CliError> {
        let at = |bytes| Some((what.dtype, Some(bytes)));
        self.given_up.insert((index, what.dtype, what.bytes));
        ledger.lacks(what.peer, at(what.bytes), &trouble.reason)?;
        match trouble.how {
            // What it timed there before was of the same code.
            How::Wrong => ledger.forget(what),
            How::Failed => {}
            How::Hung => {
                for &bytes in self.job.sizes.iter().filter(|&&bytes| bytes > what.bytes) {
                    self.given_up.insert((index, what.dtype, bytes));
                    let reason = format!("it is not tried, since it hung at {} bytes", what.bytes);
                    ledger.lacks(what.peer, at(bytes), &reason)?;
                }
            }
        }
        Ok(())
    }

    /// Starts an engine, also one that is gone, unless that happened before.
    fn restart(&mut self, index: usize, ledger: &mut Ledger<'_>) -> Result<(), CliError> {
        let engine = &mut self.engines[index];
        let name = engine.program.name;
        engine.talk = None;
        if engine.starts >= STARTS {
            return ledger.lacks(
                name,
                None,
                &format!("it failed {STARTS} times, and is not asked any more"),
            );
        }
        engine.starts += 1;
        match Conversation::start(self.job, self.ranks, self.folder, &engine.program)? {
            Ok(talk) => {
                ledger.met(&engine.program, &talk.version);
                engine.talk = Some(talk);
                Ok(())
            }
            Err(trouble) if name == OURS => Err(ours_failed(trouble)),
            Err(trouble) => ledger.lacks(name, None, &trouble.reason),
        }
    }

    /// As many as take about [`TURN_US`].
    fn calls(&self, pace: Option<Pace>, bytes: u64) -> u32 {
        let pilot = (PILOT_BYTES / bytes.max(1)).clamp(PILOT_CALLS.0, PILOT_CALLS.1) as u32;
        match (pace, self.job.calls) {
            (None, asked) => pilot.min(asked.unwrap_or(pilot)),
            (Some(_), Some(asked)) => asked,
            (Some(pace), None) => {
                ((TURN_US / pace.last_us.max(f64::MIN_POSITIVE)) as u32).clamp(FEWEST_CALLS, MOST_CALLS)
            }
        }
    }
}

impl Drop for Turns<'_> {
    /// All may leave at once, before one after another is waited for.
    fn drop(&mut self) {
        let talks = self.engines.iter_mut().filter_map(|engine| engine.talk.as_mut());
        talks.for_each(Conversation::dismiss);
    }
}

/// Our own ranks: this program, started by its own launcher.
fn ours(job: &Job) -> Result<Program, CliError> {
    let assignment = Assignment {
        algorithm: job.algorithm,
        bytes: job.sizes.last().copied().unwrap_or_default(),
    };
    let before = launcher(&["--deadline-ms", &job.deadline.as_millis().to_string()])?;
    let this = before.first().cloned().unwrap_or_default();
    Ok(Program {
        name: OURS,
        after: words([&"--", &this, &"bench-host-rank", &serde_json::to_string(&assignment)?]),
        before,
        variables: vec![],
        brand: OURS,
    })
}

fn ours_failed(trouble: Trouble) -> CliError {
    let bug = trouble.how == How::Wrong;
    CliError::Run {
        cause: format!("the ranks of lanesum: {}", trouble.reason),
        hint: bug.then(|| "this is a bug: please report it with this output and the model of the CPU".into()),
        reported: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_may_take_what_its_slowest_calls_took() {
        let timed = |p50, p99| Timed {
            p50,
            p99,
            algorithm: None,
        };
        let pilot = Pace::after(None, &timed(8_000.0, 10_000.0));
        // 5,000 calls of 16 MiB take longer than any deadline of a single one.
        assert_eq!(pilot.takes(5_501), Duration::from_millis(220_040));
        let later = Pace::after(Some(pilot), &timed(7_000.0, 9_000.0));
        assert_eq!((later.last_us, later.slowest_us), (7_000.0, 10_000.0));
        for nothing in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(Pace::after(None, &timed(nothing, nothing)).takes(0), Duration::ZERO);
        }
        assert_eq!(Pace::after(None, &timed(1e300, 1e300)).takes(3), Duration::ZERO);
    }
}
