//! Every ending of a run, with made-up ranks and made-up times.

use super::*;

/// What a rank finds is none of the parent's business here.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Found {}

const DEADLINE: Duration = Duration::from_secs(2);

struct Play {
    watch: Watch<Found>,
    start: Instant,
    looked_ms: u64,
}

impl Play {
    fn new(world: usize) -> Self {
        let start = Instant::now();
        Self {
            watch: Watch::new(world, Some(DEADLINE), start),
            start,
            looked_ms: 0,
        }
    }

    /// All ranks have met.
    fn met(world: usize) -> Self {
        let mut play = Self::new(world);
        (0..world).for_each(|rank| play.say(rank, &Message::Ready, 0));
        assert!(matches!(play.verdict(0), Verdict::Go));
        play
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// The parent runs until then, and looks as often as it does.
    fn run_until(&mut self, ms: u64) {
        for looked in (self.looked_ms..ms).step_by(500) {
            let at = self.at(looked);
            self.watch.clock.at(at);
        }
        self.looked_ms = ms;
    }

    fn say(&mut self, rank: usize, message: &Message<Found>, ms: u64) {
        self.run_until(ms);
        let line = serde_json::to_vec(message).expect("is written");
        let at = self.at(ms);
        let _heard = self.watch.said(rank, &line, at);
    }

    fn change(&mut self, rank: usize, change: Change, ms: u64) {
        self.run_until(ms);
        let at = self.at(ms);
        self.watch.changed(rank, change, at);
    }

    fn exit(&mut self, rank: usize, code: i32, ms: u64) {
        self.change(rank, Change::Exited(Ending::Code(code)), ms);
        self.watch.closed(rank);
    }

    fn verdict(&mut self, ms: u64) -> Verdict {
        self.run_until(ms);
        let now = self.at(ms);
        self.watch.verdict(now)
    }

    fn waits_at(&mut self, ms: u64) {
        let verdict = self.verdict(ms);
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    }

    fn failure(&mut self, ms: u64) -> Failure {
        match self.verdict(ms) {
            Verdict::Failed(failure) => failure,
            verdict @ (Verdict::Wait(_) | Verdict::Go | Verdict::Dismiss | Verdict::Succeeded) => panic!("{verdict:?}"),
        }
    }
}

fn blames(rank: usize, waited_ms: Option<f64>) -> Message<Found> {
    Message::Failed(RankFailure {
        error: format!("rank {rank} is to blame"),
        hint: Some("look at it".into()),
        failed_ranks: vec![rank],
        waited_ms,
    })
}

fn fails_by_itself() -> Message<Found> {
    Message::Failed(RankFailure {
        error: "no memory".into(),
        hint: Some("buy some".into()),
        failed_ranks: vec![],
        waited_ms: None,
    })
}

fn report() -> Message<Found> {
    Message::Report(Box::new(Found {}))
}

#[test]
fn a_good_run_goes_through_all_stages() {
    let mut play = Play::met(2);
    play.say(0, &report(), 10);
    play.waits_at(11);
    play.say(1, &report(), 20);
    assert!(matches!(play.verdict(20), Verdict::Dismiss));
    play.exit(0, 0, 30);
    play.waits_at(31);
    play.exit(1, 0, 40);
    assert!(matches!(play.verdict(40), Verdict::Succeeded));
    assert_eq!(play.watch.into_reports().len(), 2);
}

#[test]
fn a_killed_rank_is_timed_from_its_death_to_the_last_notice() {
    let mut play = Play::met(3);
    play.change(1, Change::Exited(Ending::Signal(9)), 100);
    play.waits_at(100);
    play.say(0, &blames(1, None), 130);
    play.waits_at(130);
    play.say(2, &blames(1, None), 150);
    let failure = play.failure(151);
    assert_eq!(failure.failed_ranks, [1]);
    assert_eq!(failure.noticed_ms, Some(50.0));
    assert!(
        failure.error.contains("rank 1 died (signal SIGKILL)"),
        "{}",
        failure.error
    );
    assert_eq!(failure.hint.as_deref(), Some("look at it"));
    assert_eq!(failure.notices.len(), 2);
}

#[test]
fn a_stopped_rank_is_timed_from_its_stop() {
    let mut play = Play::met(2);
    play.change(1, Change::Stopped, 100);
    play.waits_at(200);
    play.say(0, &blames(1, Some(2000.0)), 2100);
    // It may have gone on, which is known a moment later.
    play.waits_at(2299);
    let failure = play.failure(2300);
    assert_eq!((failure.failed_ranks, failure.noticed_ms), (vec![1], Some(2000.0)));
    assert!(failure.error.contains("stopped"), "{}", failure.error);
}

#[test]
fn a_stopped_rank_that_goes_on_and_fails_tells_why_whatever_is_heard_first() {
    for heard in [None, Some(320), Some(340)] {
        let mut play = Play::met(2);
        play.change(1, Change::Stopped, 100);
        play.say(0, &blames(1, None), 300);
        play.waits_at(310);
        let mut goes_on = |at| match heard {
            Some(ms) if ms == at => play.change(1, Change::Continued, ms),
            Some(_) | None => {}
        };
        goes_on(320);
        goes_on(340);
        play.say(1, &fails_by_itself(), 350);
        let failure = play.failure(351);
        assert_eq!(
            (failure.failed_ranks, &*failure.error),
            (vec![1], "rank 1 failed: no memory")
        );
    }
}

#[test]
fn a_rank_that_goes_on_in_time_is_forgiven() {
    let mut play = Play::met(2);
    play.change(1, Change::Stopped, 100);
    play.change(1, Change::Continued, 200);
    play.waits_at(5000);
}

#[test]
fn a_rank_stopped_before_the_meeting_is_noticed_by_the_parent_at_the_deadline() {
    let mut play = Play::new(2);
    play.say(0, &Message::Ready, 0);
    play.change(1, Change::Stopped, 100);
    play.waits_at(2099);
    let failure = play.failure(2100);
    assert_eq!((failure.failed_ranks, failure.noticed_ms), (vec![1], Some(2000.0)));
}

#[test]
fn a_stopped_rank_ends_the_run_even_if_nobody_notices() {
    let mut play = Play::met(2);
    play.change(1, Change::Stopped, 100);
    play.waits_at(3099);
    let failure = play.failure(3100);
    assert_eq!((failure.failed_ranks, failure.noticed_ms), (vec![1], Some(3000.0)));
}

#[test]
fn a_late_rank_that_the_parent_cannot_see_is_timed_by_the_others() {
    let mut play = Play::met(3);
    play.say(0, &blames(2, Some(1999.0)), 2000);
    play.say(1, &blames(2, Some(2001.0)), 2001);
    play.say(2, &blames(2, None), 2100);
    let failure = play.failure(2101);
    assert_eq!((failure.failed_ranks, failure.noticed_ms), (vec![2], Some(2001.0)));
}

#[test]
fn others_that_never_notice_are_waited_for_a_second_past_the_deadline() {
    let mut play = Play::met(3);
    play.change(1, Change::Exited(Ending::Signal(9)), 100);
    play.say(0, &blames(1, None), 110);
    play.waits_at(3099);
    let failure = play.failure(3100);
    assert_eq!((failure.failed_ranks, failure.noticed_ms), (vec![1], Some(3000.0)));
    assert!(failure.error.contains("ranks [2] did not notice"), "{}", failure.error);
}

#[test]
fn before_the_meeting_nobody_else_can_notice() {
    let mut play = Play::new(2);
    play.change(0, Change::Exited(Ending::Signal(11)), 100);
    let failure = play.failure(105);
    assert_eq!((failure.failed_ranks, failure.noticed_ms), (vec![0], Some(5.0)));
}

#[test]
fn leaving_without_a_word_is_a_failure_once_nothing_can_follow() {
    let mut play = Play::met(1);
    play.change(0, Change::Exited(Ending::Code(0)), 100);
    play.waits_at(100);
    play.watch.closed(0);
    let failure = play.failure(101);
    assert_eq!(failure.failed_ranks, [0]);
    assert!(failure.error.contains("exit code 0"), "{}", failure.error);
}

#[test]
fn a_rank_that_reports_and_then_fails_to_end_well_has_failed() {
    let mut play = Play::met(1);
    play.say(0, &report(), 1);
    assert!(matches!(play.verdict(1), Verdict::Dismiss));
    play.exit(0, 1, 2);
    assert_eq!(play.failure(3).failed_ranks, [0]);
}

#[test]
fn a_rank_that_blames_nobody_is_named_itself() {
    let mut play = Play::met(2);
    play.say(0, &fails_by_itself(), 1);
    play.say(1, &blames(0, None), 2);
    let failure = play.failure(3);
    assert_eq!(failure.failed_ranks, [0]);
    assert_eq!(failure.error, "rank 0 failed: no memory");
    assert_eq!(failure.hint.as_deref(), Some("buy some"));
}

#[test]
fn while_they_meet_a_rank_that_fails_by_itself_ends_the_run_soon() {
    let mut play = Play::met(3);
    play.say(1, &Message::Joined { deadline_ms: 2000 }, 50);
    play.say(0, &fails_by_itself(), 100);
    play.waits_at(349);
    let failure = play.failure(350);
    assert_eq!(failure.failed_ranks, [0]);
    assert_eq!(failure.error, "rank 0 failed: no memory");
    // Once they have met, each of the others has to notice.
    let mut play = Play::met(2);
    (0..2).for_each(|rank| play.say(rank, &Message::Joined { deadline_ms: 2000 }, 50));
    play.say(0, &fails_by_itself(), 100);
    play.waits_at(3099);
    let failure = play.failure(3100);
    assert_eq!(
        failure.error,
        "rank 0 failed: no memory, which ranks [1] did not notice in time"
    );
}

#[test]
fn time_in_which_the_parent_was_suspended_is_no_silence() {
    let mut play = Play::met(2);
    for suspended in 1..6 {
        play.looked_ms = suspended * 60_000;
        play.waits_at(suspended * 60_000);
    }
    play.say(0, &report(), 300_001);
    play.say(1, &report(), 300_002);
    assert!(matches!(play.verdict(300_003), Verdict::Dismiss));
}

#[test]
fn a_late_word_ends_the_alarm_of_silence() {
    let mut play = Play::met(2);
    play.say(0, &Message::Progress { done: 1 }, 15_000);
    play.waits_at(20_000);
    assert!(play.watch.alarm().is_some());
    play.say(1, &Message::Progress { done: 1 }, 20_001);
    play.waits_at(30_000);
    assert!(play.watch.alarm().is_none());
}

#[test]
fn silence_is_a_failure_but_waiting_for_others_is_not() {
    let mut play = Play::new(2);
    play.say(0, &Message::Ready, 0);
    for second in 1..60 {
        play.say(1, &Message::Preparing, second * 1000);
        play.waits_at(second * 1000);
    }
    play.say(1, &Message::Ready, 60_000);
    assert!(matches!(play.verdict(60_000), Verdict::Go));
    play.say(0, &Message::Progress { done: 1 }, 70_000);
    play.waits_at(78_999);
    play.waits_at(79_000);
    let failure = play.failure(82_000);
    assert_eq!(failure.failed_ranks, [1]);
    assert!(failure.error.contains("fell silent"), "{}", failure.error);
}

#[test]
fn nonsense_is_a_failure() {
    let mut play = Play::met(1);
    let at = play.at(1);
    let _heard = play.watch.said(0, b"\xff hello", at);
    let failure = play.failure(2);
    assert_eq!(failure.failed_ranks, [0]);
    assert!(failure.error.contains("means nothing"), "{}", failure.error);
}
