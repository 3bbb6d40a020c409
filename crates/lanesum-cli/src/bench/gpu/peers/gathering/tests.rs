//! What is made of what processes say, without any process.

use super::*;

fn say(gathering: &mut Gathering, rank: usize, line: &str) {
    let at = gathering.heard;
    gathering.said(rank, line.as_bytes(), at);
}

fn row(us: &str) -> String {
    format!(
        r#"{{"event": "row", "peer": "nccl", "bytes": 64, "graph": true, "choice": "default", "us": {us}, "max_error": 0.001, "bound": 0.01}}"#
    )
}

#[test]
fn of_each_replay_the_slowest_rank_counts() {
    let mut gathering = Gathering::new(2, Instant::now());
    say(&mut gathering, 0, &row("[1.0, 4.0]"));
    assert!(gathering.rows.is_empty());
    say(&mut gathering, 1, &row("[2.0, 3.0]"));
    assert_eq!(gathering.rows.len(), 1);
    assert_eq!(gathering.rows[0].us, [2.0, 4.0]);
}

#[test]
fn it_ends_well_when_all_are_through() {
    let start = Instant::now();
    let mut gathering = Gathering::new(2, start);
    say(&mut gathering, 0, r#"{"event": "done"}"#);
    assert!(matches!(gathering.verdict(start), Verdict::Wait(_)));
    say(&mut gathering, 1, r#"{"event": "done"}"#);
    assert_eq!(gathering.verdict(start), Verdict::Ended(Ended::Well));
}

#[test]
fn silence_is_a_hang_and_any_sign_of_life_is_none() {
    let start = Instant::now();
    let mut gathering = Gathering::new(2, start);
    let later = start + Duration::from_secs(20);
    gathering.said(1, br#"{"event": "alive", "doing": "building"}"#, later);
    assert_eq!(
        gathering.verdict(start + Duration::from_secs(40)),
        Verdict::Wait(later + SILENCE)
    );
    let Verdict::Ended(Ended::Badly { reason, rank: None }) = gathering.verdict(later + SILENCE) else {
        panic!("waits on")
    };
    assert!(reason.contains("hangs"), "{reason}");
}

/// The others wait on their GPUs for work that this rank never gave its own.
#[test]
fn of_a_rank_in_trouble_the_reason_is_kept_when_the_others_hang() {
    let start = Instant::now();
    let mut gathering = Gathering::new(2, start);
    say(&mut gathering, 1, r#"{"event": "trouble", "reason": "wrong sums"}"#);
    let end = start + SILENCE_IN_TROUBLE;
    assert_eq!(gathering.verdict(start), Verdict::Wait(end));
    let ended = Ended::Badly {
        reason: "rank 1: wrong sums; and the others hang".into(),
        rank: None,
    };
    assert_eq!(gathering.verdict(end), Verdict::Ended(ended));
    // All have drawn their conclusion.
    let lacks = r#"{"event": "missing", "peer": "nccl", "bytes": 64, "graph": null, "reason": "rank 1: wrong sums"}"#;
    say(&mut gathering, 1, lacks);
    assert_eq!(gathering.verdict(end), Verdict::Wait(start + SILENCE));
}

#[test]
fn a_dead_process_ends_the_team_after_the_last_words_of_the_others() {
    let start = Instant::now();
    let mut gathering = Gathering::new(2, start);
    for rank in 0..2 {
        say(&mut gathering, rank, r#"{"event": "begin", "peer": "nccl"}"#);
    }
    say(&mut gathering, 0, r#"{"event": "begin", "peer": "torch_symm_mem"}"#);
    gathering.exited(1, Ending::Signal(9));
    gathering.closed(1);
    assert_eq!(gathering.verdict(start), Verdict::Wait(start + LAST_WORDS));
    let ended = Ended::Badly {
        reason: "its rank 1 ended with signal SIGKILL".into(),
        rank: Some(1),
    };
    assert_eq!(gathering.verdict(start + LAST_WORDS), Verdict::Ended(ended));
    assert_eq!(gathering.begun(), Some("nccl"));
}

#[test]
fn what_all_ranks_lack_is_told_once() {
    let mut gathering = Gathering::new(2, Instant::now());
    for rank in 0..2 {
        say(
            &mut gathering,
            rank,
            r#"{"event": "missing", "peer": "nccl", "bytes": null, "graph": null, "reason": "two ranks on one GPU"}"#,
        );
    }
    assert_eq!(
        gathering.missing,
        [("nccl".into(), None, "two ranks on one GPU".into())]
    );
}

/// What was passed on is not said again of a team that dies behind it.
#[test]
fn only_what_nothing_was_said_of_is_unsaid() {
    let mut gathering = Gathering::new(1, Instant::now());
    say(&mut gathering, 0, &row("[1.0]"));
    let lacks = |bytes| {
        format!(r#"{{"event": "missing", "peer": "nccl", "bytes": {bytes}, "graph": null, "reason": "wrong"}}"#)
    };
    say(&mut gathering, 0, &lacks("128"));
    gathering.rows.clear();
    gathering.missing.clear();
    assert_eq!(gathering.unsaid("nccl", &[64, 128, 256]), [256]);
    say(&mut gathering, 0, &lacks("null"));
    assert!(gathering.unsaid("nccl", &[64, 128, 256]).is_empty());
    assert_eq!(gathering.unsaid("other", &[64]), [64]);
}

#[test]
fn ranks_that_timed_differently_have_no_row() {
    let start = Instant::now();
    let mut gathering = Gathering::new(2, start);
    say(&mut gathering, 0, &row("[1.0, 4.0]"));
    say(&mut gathering, 1, &row("[1.0]"));
    assert!(gathering.rows.is_empty());
    let Verdict::Ended(Ended::Badly { reason, .. }) = gathering.verdict(start + LAST_WORDS) else {
        panic!("goes on")
    };
    assert_eq!(reason, "its rank 1 timed another number of replays");
}

#[test]
fn nonsense_is_a_failure() {
    let start = Instant::now();
    let mut gathering = Gathering::new(1, start);
    say(&mut gathering, 0, "Traceback (most recent call last):");
    assert!(matches!(
        gathering.verdict(start + LAST_WORDS),
        Verdict::Ended(Ended::Badly { rank: Some(0), .. })
    ));
}
