//! What both carriers of ranks share: how cases are grouped, what a rank does, and how the ranks' reports become outcomes.
//!
//! A group is a run of cases with equal settings; its ranks make one communicator and go through the cases. A rank reports
//! each case as it ends. When a call fails the communicator is poisoned and every rank stops: the driver takes the case for
//! failed, forgets what ranks may have said of later ones, and runs those again with new ranks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use lanesum::{Communicator, EngineChoice};
use lanesum_plan::Engine;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Origin, Setting};
use crate::run::run_rank;
use crate::verdict::{Carrier, Failure, Outcome, Summary, Verdict};

/// How long a rank may take to exit once its group is over.
const EXIT: Duration = Duration::from_secs(5);

/// How long ranks may take.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The deadline of every communicator, for set-up and for calls.
    pub deadline: Duration,
    /// After how long a silence of all ranks a group counts as hung. Longer than the deadline: the library must be the
    /// first to notice.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deadline: Duration::from_secs(20),
            patience: Duration::from_secs(90),
        }
    }
}

/// What one rank of a group is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) rank: usize,
    pub(crate) name: String,
    pub(crate) deadline: Duration,
    pub(crate) cases: Vec<Case>,
}

/// What a rank reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// A case ended.
    Case {
        place: usize,
        result: Result<Verdict, Failure>,
    },
    /// Nothing more will come; with what went wrong beside the cases.
    Ended { failure: Option<Failure> },
}

/// A report and the rank it is from.
pub(crate) type Message = (usize, Report);

/// Something that carries the ranks of a group.
pub(crate) trait Carry {
    const CARRIER: Carrier;

    /// The ranks of a group under way.
    type Group;

    /// Starts one rank for each job. Each must end its messages with [`Report::Ended`], however it ends.
    fn start(&self, jobs: Vec<Job>, to: &Sender<Message>) -> Result<Self::Group, Failure>;

    /// Ends a group. Ranks that have more to do than to exit have this long for it.
    fn stop(&self, group: Self::Group, grace: Duration);
}

/// Runs all cases, calling `observe` with each outcome in the order of the cases.
pub(crate) fn drive(
    carry: &impl Carry,
    cases: &[Case],
    options: &Options,
    observe: &mut dyn FnMut(&Outcome),
) -> Summary {
    let mut summary = Summary::default();
    let mut at = 0;
    while at < cases.len() {
        let setting = cases[at].setting;
        let group = cases[at..].iter().take_while(|case| case.setting == setting).count();
        let mut sheet = Sheet::new(&cases[at..at + group]);
        run_group(carry, &mut sheet, options, &mut |place, failures| {
            let case = cases[at + place];
            let outcome = Outcome {
                index: at + place,
                case,
                carrier: <_ as CarrierOf>::carrier(carry),
                failures,
            };
            summary.count(&outcome);
            observe(&outcome);
        });
        // A group always settles at least its first case.
        at += sheet.settled.max(1);
    }
    summary
}

/// Spares a turbofish where only a value is at hand.
trait CarrierOf {
    fn carrier(&self) -> Carrier;
}

impl<C: Carry> CarrierOf for C {
    fn carrier(&self) -> Carrier {
        C::CARRIER
    }
}

type Settle<'a> = dyn FnMut(usize, Vec<(usize, Failure)>) + 'a;

fn run_group<C: Carry>(carry: &C, sheet: &mut Sheet<'_>, options: &Options, settle: &mut Settle<'_>) {
    let (to, from) = channel();
    match carry.start(sheet.jobs(options), &to) {
        Ok(group) => {
            drop(to);
            sheet.listen(&from, options, settle);
            carry.stop(group, if sheet.hung { Duration::ZERO } else { EXIT });
        }
        Err(failure) => sheet.give_up(&failure, settle),
    }
}

/// The reports of one group.
struct Sheet<'a> {
    cases: &'a [Case],
    world: usize,
    /// For each case, the ranks that have reported it and the failures among them.
    reported: Vec<usize>,
    failures: Vec<Vec<(usize, Failure)>>,
    /// For each rank, how many cases it has reported, and whether it has ended.
    progress: Vec<usize>,
    ended: Vec<bool>,
    /// Whether some rank was given up.
    hung: bool,
    /// How many cases have an outcome.
    settled: usize,
}

impl<'a> Sheet<'a> {
    fn new(cases: &'a [Case]) -> Sheet<'a> {
        let world = cases.first().map_or(1, |case| case.setting.world.get());
        Sheet {
            cases,
            world,
            reported: vec![0; cases.len()],
            failures: vec![Vec::new(); cases.len()],
            progress: vec![0; world],
            ended: vec![false; world],
            hung: false,
            settled: 0,
        }
    }

    fn jobs(&self, options: &Options) -> Vec<Job> {
        let name = fresh_name();
        let job = |rank| Job {
            rank,
            name: name.clone(),
            deadline: options.deadline,
            cases: self.cases.to_vec(),
        };
        (0..self.world).map(job).collect()
    }

    fn listen(&mut self, from: &Receiver<Message>, options: &Options, settle: &mut Settle<'_>) {
        while !self.ended.iter().all(|ended| *ended) {
            let heard = Instant::now();
            match from.recv_timeout(options.patience) {
                Ok((rank, report)) => self.note(rank, report),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.hang_up(heard.elapsed());
                }
            }
            if !self.settle(settle) {
                // The communicator is poisoned; the other ranks' last words don't matter.
                return;
            }
        }
        self.settle(settle);
    }

    fn note(&mut self, rank: usize, report: Report) {
        match report {
            Report::Case { place, result } => {
                self.progress[rank] = place + 1;
                self.reported[place] += 1;
                if let Err(failure) = result {
                    self.failures[place].push((rank, failure));
                }
            }
            Report::Ended { failure } => {
                self.ended[rank] = true;
                if let Some(failure) = failure {
                    let place = self.progress[rank].min(self.cases.len() - 1);
                    self.failures[place].push((rank, failure));
                }
            }
        }
    }

    fn hang_up(&mut self, after: Duration) {
        self.hung = true;
        let place = self.settled.min(self.cases.len() - 1);
        for rank in 0..self.world {
            if !self.ended[rank] {
                self.ended[rank] = true;
                self.failures[place].push((rank, Failure::Hung { after }));
            }
        }
    }

    /// Hands out the outcomes that are known by now; false once no more can follow from this group.
    fn settle(&mut self, settle: &mut Settle<'_>) -> bool {
        let all_ended = self.ended.iter().all(|ended| *ended);
        while self.settled < self.cases.len() {
            let place = self.settled;
            let last = place + 1 == self.cases.len();
            let complete = self.reported[place] == self.world && (!last || all_ended);
            if !complete && !all_ended {
                return true;
            }
            let mut failures = std::mem::take(&mut self.failures[place]);
            if !complete && failures.is_empty() {
                failures.push((
                    0,
                    Failure::Crashed {
                        status: "not all ranks ran the case".to_owned(),
                    },
                ));
            }
            self.settled += 1;
            let hopeless = failures
                .iter()
                .find(|(_, failure)| matches!(failure, Failure::Join { .. }))
                .cloned();
            let over = failures.iter().any(|(_, failure)| ends_communicator(failure));
            settle(place, failures);
            if let Some((_, failure)) = hopeless {
                self.give_up(&failure, settle);
            }
            if over || !complete {
                return false;
            }
        }
        true
    }

    /// All further cases of the group fail for one reason, such as that its ranks can't even join.
    fn give_up(&mut self, failure: &Failure, settle: &mut Settle<'_>) {
        while self.settled < self.cases.len() {
            settle(self.settled, vec![(0, failure.clone())]);
            self.settled += 1;
        }
    }
}

/// Whether other ranks' reports of later cases say nothing any more.
fn ends_communicator(failure: &Failure) -> bool {
    match failure {
        Failure::Join { .. } | Failure::Call { .. } | Failure::Crashed { .. } | Failure::Hung { .. } => true,
        Failure::Unsuitable { .. }
        | Failure::Value { .. }
        | Failure::Guard { .. }
        | Failure::Input { .. }
        | Failure::Receipt { .. }
        | Failure::Close { .. } => false,
    }
}

/// A rendezvous name that no other group has.
fn fresh_name() -> String {
    static GROUPS: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number need only differ each time; nothing else is published with it.
    format!(
        "conformance-{}-{}",
        std::process::id(),
        GROUPS.fetch_add(1, Ordering::Relaxed)
    )
}

/// What one rank does: joins, runs the cases, closes.
pub(crate) fn serve(job: &Job, report: &mut dyn FnMut(Report)) {
    let Some(setting) = job.cases.first().map(|case| case.setting) else {
        report(Report::Ended { failure: None });
        return;
    };
    let failure = match Joined::new(job, &setting) {
        Err(error) => Some(Failure::Join {
            error: error.to_string(),
        }),
        Ok(joined) => {
            if run_cases(&joined, &job.cases, report) {
                joined.close().err().map(|error| Failure::Close {
                    error: error.to_string(),
                })
            } else {
                None
            }
        }
    };
    report(Report::Ended { failure });
}

/// Runs the cases up to the first whose call fails; true if there is none.
fn run_cases(joined: &Joined, cases: &[Case], report: &mut dyn FnMut(Report)) -> bool {
    for (place, case) in cases.iter().enumerate() {
        let result = run_rank(case, joined.communicator());
        let over = result.as_ref().is_err_and(ends_communicator);
        report(Report::Case { place, result });
        if over {
            return false;
        }
    }
    true
}

/// Room for a shared buffer of more than two chunks: a chunk of two shots between two ranks is twice the staging.
const SHARED: lanesum_plan::Bytes = lanesum_plan::Bytes::new(8 << 20);

/// A communicator and the one it comes from, if it comes from one.
struct Joined {
    parent: Communicator,
    derived: Option<Communicator>,
}

impl Joined {
    fn new(job: &Job, setting: &Setting) -> Result<Joined, lanesum::Error> {
        let world = setting.world.get();
        let mut builder = Communicator::builder(job.rank, world, job.name.as_str())
            .deadline(job.deadline)
            .setup_deadline(job.deadline)
            .engine(match setting.engine {
                Engine::Host => EngineChoice::Host,
                Engine::Cuda => EngineChoice::Cuda,
            })
            .algorithm(setting.choice.policy())
            .path(setting.path)
            .staging(setting.staging)
            .shared_capacity(SHARED);
        if let Some(isa) = setting.simd.name() {
            builder = builder.isa(isa);
        }
        if let Some(epoch) = setting.first_epoch {
            builder = builder.first_epoch(epoch);
        }
        let parent = builder.join()?;
        let derived = match setting.origin {
            Origin::Joined => None,
            Origin::Channel => Some(parent.channel()?),
            Origin::Split => parent.split(Some(0), (world - job.rank) as u32)?,
        };
        Ok(Joined { parent, derived })
    }

    fn communicator(&self) -> &Communicator {
        self.derived.as_ref().unwrap_or(&self.parent)
    }

    fn close(self) -> Result<(), lanesum::Error> {
        self.derived.map_or(Ok(()), Communicator::close)?;
        self.parent.close()
    }
}

#[cfg(test)]
mod tests;
