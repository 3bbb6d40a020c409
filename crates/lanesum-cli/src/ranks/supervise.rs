//! What the parent makes of the ranks' events: when they may meet, when they are through, and, if something goes wrong,
//! whose fault it was and how long the others took to notice.
//!
//! No process is touched here: events and times go in, a [`Verdict`] comes out, so that every ending can be tested
//! without killing anything. The one rule is that there is always a time at which [`Watch::verdict`] gives up.
//!
//! Patience is counted in time in which this process itself ran (see [`Clock`]): a parent that was suspended must not
//! take its own absence for the silence of its ranks. Nothing that follows from the passing of time is remembered; it
//! is worked out anew each time, so that a late word still counts.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::message::{Message, RankFailure};
use crate::spawn::{Change, Ending};
use clock::{Clock, Moment, TICK};

mod clock;

/// Past the deadline, the others get this long to say what they noticed.
pub const GRACE: Duration = Duration::from_secs(1);
/// A rank says something every second; one that is silent for two deadlines and this is lost.
const SILENCE: Duration = Duration::from_secs(15);
/// How long the system may take to tell that a stopped process goes on.
const NEWS: Duration = Duration::from_millis(200);
/// The deadline until a rank has told the real one.
const ASSUMED: Duration = Duration::from_secs(30);

/// While ranks still meet, the others say nothing worth waiting for once one has failed by itself.
const UNMET: Duration = Duration::from_millis(250);

/// One rank as the parent sees it.
#[derive(Debug)]
struct Seat<R> {
    heard: Duration,
    ready: bool,
    joined: bool,
    report: Option<R>,
    failure: Option<(RankFailure, Moment)>,
    stopped: Option<Moment>,
    ended: Option<(Ending, Moment)>,
    closed: bool,
}

/// What of a rank's words is not the watch's own business.
#[derive(Debug)]
pub enum Heard<R> {
    /// None of it.
    Nothing,
    /// How far it is.
    Progress(u64),
    /// A part of what it finds.
    Part(Box<R>),
}

/// What to do now.
#[derive(Debug)]
pub enum Verdict {
    /// Look again at this time, or when something happens.
    Wait(Instant),
    /// All are ready: let them meet.
    Go,
    /// All have reported: let them end.
    Dismiss,
    /// All ended well.
    Succeeded,
    /// Something went wrong, and there is nothing more to learn.
    Failed(Failure),
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What happened.
    pub error: String,
    /// What to do.
    pub hint: Option<String>,
    /// Whose fault it was.
    pub failed_ranks: Vec<usize>,
    /// From the fault to the last notice of another rank.
    pub noticed_ms: Option<f64>,
    /// What each of the others said.
    pub notices: Vec<(usize, String)>,
}

/// All ranks of the run.
#[derive(Debug)]
pub struct Watch<R> {
    seats: Vec<Seat<R>>,
    met: bool,
    dismissed: bool,
    deadline: Duration,
    clock: Clock,
}

impl<R: DeserializeOwned> Watch<R> {
    /// Before anything was heard.
    pub fn new(world: usize, deadline: Option<Duration>, now: Instant) -> Self {
        let seat = |_| Seat {
            heard: Duration::ZERO,
            ready: false,
            joined: false,
            report: None,
            failure: None,
            stopped: None,
            ended: None,
            closed: false,
        };
        Self {
            seats: (0..world).map(seat).collect(),
            met: false,
            dismissed: false,
            deadline: deadline.unwrap_or(ASSUMED),
            clock: Clock::new(now),
        }
    }

    /// A rank said something. Returns what is for others to hear.
    pub fn said(&mut self, rank: usize, line: &[u8], at: Instant) -> Heard<R> {
        let moment = self.clock.at(at);
        let Some(seat) = self.seats.get_mut(rank) else {
            return Heard::Nothing;
        };
        seat.heard = moment.ran;
        match serde_json::from_slice(line) {
            Ok(Message::Preparing) => {}
            Ok(Message::Ready) => seat.ready = true,
            Ok(Message::Joined { deadline_ms }) => {
                seat.joined = true;
                self.deadline = Duration::from_millis(deadline_ms);
            }
            Ok(Message::Progress { done }) => return Heard::Progress(done),
            Ok(Message::Part(part)) => return Heard::Part(part),
            Ok(Message::Report(report)) => seat.report = Some(*report),
            Ok(Message::Failed(failure)) => seat.failure = Some((failure, moment)),
            Err(cause) => {
                let text = String::from_utf8_lossy(line);
                let failure = RankFailure {
                    error: format!("rank {rank} said {text:?}, which means nothing: {cause}"),
                    hint: Some("something else writes to the standard output of the ranks".into()),
                    failed_ranks: vec![rank],
                    waited_ms: None,
                };
                seat.failure = Some((failure, moment));
            }
        }
        Heard::Nothing
    }

    /// A rank will say nothing more.
    pub fn closed(&mut self, rank: usize) {
        if let Some(seat) = self.seats.get_mut(rank) {
            seat.closed = true;
        }
    }

    /// A rank ended, was stopped, or went on.
    pub fn changed(&mut self, rank: usize, change: Change, at: Instant) {
        let moment = self.clock.at(at);
        let Some(seat) = self.seats.get_mut(rank) else { return };
        match change {
            Change::Stopped => seat.stopped = Some(moment),
            Change::Continued => {
                seat.stopped = None;
                // It could say nothing meanwhile.
                seat.heard = moment.ran;
            }
            Change::Exited(ending) => seat.ended = Some((ending, moment)),
        }
    }

    /// What follows from all that. Whatever was heard before has to be told first.
    pub fn verdict(&mut self, now: Instant) -> Verdict {
        let ran = self.clock.at(now).ran;
        if let Some(alarm) = self.alarm() {
            let patience = self.last_words(alarm);
            // Word that a stopped rank goes on may still be on its way, behind what its peers say of what it did then.
            let pauses = self.seats.iter().any(Seat::pauses) && ran < alarm + NEWS;
            let settled = self.seats.iter().all(Seat::settled) && !pauses;
            return if ran >= patience || !self.met || settled {
                Verdict::Failed(self.failure(now))
            } else {
                Verdict::Wait(now + TICK.min(patience.saturating_sub(ran)))
            };
        }
        if !self.met && self.seats.iter().all(|seat| seat.ready) {
            self.met = true;
            self.listen_from(ran);
            return Verdict::Go;
        }
        if !self.dismissed && self.seats.iter().all(|seat| seat.report.is_some()) {
            self.dismissed = true;
            self.listen_from(ran);
            return Verdict::Dismiss;
        }
        let done = |seat: &Seat<R>| seat.report.is_some() && seat.ended.is_some_and(|(ending, _)| ending.succeeded());
        if self.seats.iter().all(done) {
            return Verdict::Succeeded;
        }
        Verdict::Wait(now + TICK)
    }

    /// The ranks were just told to go on: their silence begins here.
    fn listen_from(&mut self, ran: Duration) {
        self.seats.iter_mut().for_each(|seat| seat.heard = ran);
    }

    /// The reports of all ranks, in their order.
    pub fn into_reports(self) -> Vec<R> {
        self.seats.into_iter().filter_map(|seat| seat.report).collect()
    }

    /// When the first of the failures that are known now began. Some are announced; others are not: a rank that ended
    /// without a word, a stopped one that nobody notices (perhaps they have not met yet), a silent one.
    fn alarm(&self) -> Option<Duration> {
        let stopped = |seat: &Seat<R>| {
            let since = seat.stopped?.ran;
            (self.clock.ran() >= since + self.patience()).then_some(since)
        };
        let ended = |seat: &Seat<R>| {
            let (ending, moment) = seat.ended?;
            let killed = matches!(ending, Ending::Signal(_));
            (killed || seat.left_without_a_word()).then_some(moment.ran)
        };
        let silent = |seat: &Seat<R>| self.hangs(seat).then(|| seat.heard + self.silence());
        let said = |seat: &Seat<R>| seat.failure.as_ref().map(|(_, moment)| moment.ran);
        let begin = |seat: &Seat<R>| {
            [stopped(seat), ended(seat), silent(seat), said(seat)]
                .into_iter()
                .flatten()
                .min()
        };
        self.seats.iter().filter_map(begin).min()
    }

    /// How long the others may say what they noticed.
    fn last_words(&self, alarm: Duration) -> Duration {
        match self.own_failure() {
            Some((_, (_, moment))) if !self.joined() => (alarm + self.deadline + GRACE).min(moment.ran + UNMET),
            Some(_) | None => alarm + self.deadline + GRACE,
        }
    }

    /// How long a rank may stay stopped. Until the ranks have met, no other can notice: no grace for last words then.
    fn patience(&self) -> Duration {
        if self.met { self.deadline + GRACE } else { self.deadline }
    }

    fn joined(&self) -> bool {
        self.seats.iter().all(|seat| seat.joined)
    }

    /// The first failure that a rank reported and blamed on nobody: it is a cause, and what others say of it is not.
    fn own_failure(&self) -> Option<(usize, &(RankFailure, Moment))> {
        let failed = self.seats.iter().enumerate();
        failed
            .filter_map(|(rank, seat)| Some((rank, seat.failure.as_ref()?)))
            .filter(|(_, (failure, _))| failure.failed_ranks.is_empty())
            .min_by_key(|(_, (_, moment))| moment.at)
    }

    /// Whether its next word, or its end, is this rank's to give: not while it waits for others to prepare or report.
    fn due(&self, seat: &Seat<R>) -> bool {
        let waits_to_meet = seat.ready && !self.met;
        let waits_to_leave = seat.report.is_some() && !self.dismissed;
        seat.ended.is_none() && seat.stopped.is_none() && !waits_to_meet && !waits_to_leave
    }

    fn hangs(&self, seat: &Seat<R>) -> bool {
        seat.failure.is_none() && self.due(seat) && self.clock.ran() >= seat.heard + self.silence()
    }

    fn silence(&self) -> Duration {
        2 * self.deadline + SILENCE
    }

    /// Whose fault it was: what the parent saw itself; else what the ranks say; else those that failed.
    fn failure(&self, now: Instant) -> Failure {
        let lost: Vec<usize> = self.which(|seat| seat.lost() || self.hangs(seat));
        let said = || self.seats.iter().filter_map(|seat| seat.failure.as_ref());
        let mut accused: Vec<usize> = said().flat_map(|(failure, _)| failure.failed_ranks.clone()).collect();
        accused.sort_unstable();
        accused.dedup();
        let failed_ranks = match (lost.is_empty(), accused.is_empty()) {
            (false, _) => lost,
            (true, false) => accused,
            (true, true) => self.which(|seat| seat.failure.is_some()),
        };
        let own = self.own_failure().filter(|(rank, _)| failed_ranks.contains(rank));
        // An accused rank that accuses others has its own view of things; the first of the others is the better witness.
        let witness = match own {
            Some((_, (failure, _))) => Some(failure),
            None => self.first_witness(&failed_ranks),
        };
        let mut what = self.what_happened(&failed_ranks);
        let unaware = self.which(|seat| self.met && (own.is_none() || self.joined()) && !seat.settled());
        if !unaware.is_empty() {
            let told = what.get_or_insert_with(|| match own {
                Some((rank, (failure, _))) => format!("rank {rank} failed: {}", failure.error),
                None => "the run failed".into(),
            });
            told.push_str(&format!(", which ranks {unaware:?} did not notice in time"));
        }
        Failure {
            error: match (what, own, witness) {
                (Some(what), None, Some(witness)) => format!("{what}; another rank noticed: {}", witness.error),
                (Some(what), Some(_), _) | (Some(what), None, None) => what,
                (None, Some((rank, (failure, _))), _) => format!("rank {rank} failed: {}", failure.error),
                (None, None, Some(witness)) => witness.error.clone(),
                (None, None, None) => "the run failed".into(),
            },
            hint: witness.and_then(|witness| witness.hint.clone()),
            noticed_ms: self.noticed(&failed_ranks, now).map(|time| time.as_secs_f64() * 1000.0),
            notices: self
                .seats
                .iter()
                .enumerate()
                .filter_map(|(rank, seat)| Some((rank, seat.failure.as_ref()?.0.error.clone())))
                .collect(),
            failed_ranks,
        }
    }

    fn which(&self, test: impl Fn(&Seat<R>) -> bool) -> Vec<usize> {
        let chosen = self.seats.iter().enumerate().filter(|(_, seat)| test(seat));
        chosen.map(|(rank, _)| rank).collect()
    }

    fn first_witness(&self, failed: &[usize]) -> Option<&RankFailure> {
        let said = |others: bool| {
            let seats = self
                .seats
                .iter()
                .enumerate()
                .filter(move |(rank, _)| failed.contains(rank) != others);
            seats
                .filter_map(|(_, seat)| seat.failure.as_ref())
                .min_by_key(|(_, moment)| moment.at)
        };
        said(true).or_else(|| said(false)).map(|(failure, _)| failure)
    }

    /// What the parent saw of the first failed rank.
    fn what_happened(&self, failed: &[usize]) -> Option<String> {
        let describe = |&rank: &usize| {
            let seat = self.seats.get(rank)?;
            if let (Some((ending, _)), true) = (seat.ended, seat.lost()) {
                return Some(format!("rank {rank} died ({ending})"));
            }
            if seat.pauses() {
                return Some(format!("rank {rank} was stopped and did not go on"));
            }
            self.hangs(seat).then(|| format!("rank {rank} fell silent"))
        };
        let seen: Vec<String> = failed.iter().filter_map(describe).collect();
        (!seen.is_empty()).then(|| seen.join(", "))
    }

    /// From the first fault that the parent saw to the last word of the others. Where it saw none, how long the ranks
    /// say they waited; where they could not say anything, how long it took the parent itself.
    fn noticed(&self, failed: &[usize], now: Instant) -> Option<Duration> {
        let onset = failed.iter().filter_map(|&rank| self.seats.get(rank)?.onset()).min();
        let others = || {
            self.seats
                .iter()
                .enumerate()
                .filter(|(rank, _)| !failed.contains(rank))
                .map(|(_, seat)| seat)
        };
        let words: Vec<&(RankFailure, Moment)> = others().filter_map(|seat| seat.failure.as_ref()).collect();
        match onset {
            Some(onset) => {
                let all_spoke = others().all(Seat::settled);
                let last = words
                    .iter()
                    .map(|(_, moment)| moment.at)
                    .max()
                    .filter(|_| all_spoke)
                    .unwrap_or(now);
                Some(last.saturating_duration_since(onset))
            }
            None => {
                let waited = words.iter().filter_map(|(failure, _)| failure.waited_ms);
                waited
                    .reduce(f64::max)
                    .map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1000.0))
            }
        }
    }
}

impl<R> Seat<R> {
    /// Died by a signal, or ended without a report or a reason.
    fn lost(&self) -> bool {
        let killed = matches!(self.ended, Some((Ending::Signal(_), _))) && self.failure.is_none();
        killed || self.left_without_a_word() || self.pauses()
    }

    /// Is stopped, and has not said how it failed.
    fn pauses(&self) -> bool {
        self.stopped.is_some() && self.ended.is_none() && self.failure.is_none()
    }

    fn left_without_a_word(&self) -> bool {
        let unexplained = self.report.is_none() || self.ended.is_some_and(|(ending, _)| !ending.succeeded());
        self.ended.is_some() && self.closed && self.failure.is_none() && unexplained
    }

    /// Nobody has to wait for more from this rank.
    fn settled(&self) -> bool {
        self.failure.is_some() || self.report.is_some() || self.lost()
    }

    /// When its fault began, as far as the parent could see.
    fn onset(&self) -> Option<Instant> {
        match (self.lost(), self.stopped, self.ended) {
            (true, Some(since), _) => Some(since.at),
            (true, None, Some((_, ended))) => Some(ended.at),
            (true, None, None) | (false, _, _) => None,
        }
    }
}

#[cfg(test)]
mod tests;
