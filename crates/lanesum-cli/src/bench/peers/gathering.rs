//! What is made of the lines of peers' processes: rows once all ranks have said theirs, and an end in any case.
//!
//! No process is touched here: lines, endings and times go in, a [`Verdict`] comes out.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::Listed;
use crate::spawn::Ending;

/// A team of which nobody has said anything for so long hangs: in every step of more than a second there are signs of life.
const SILENCE: Duration = Duration::from_secs(30);
/// When one has died, the others may still say why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A line of the script.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Alive {},
    Listed {
        peer: String,
        missing: Option<String>,
    },
    Built {},
    Begin {
        peer: String,
    },
    Row {
        peer: String,
        bytes: u64,
        graph: bool,
        choice: Option<String>,
        us: Vec<f64>,
        max_error: f64,
    },
    Missing {
        peer: String,
        bytes: Option<u64>,
        reason: String,
    },
    Done {},
}

/// One peer at one size, over all ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerRow {
    /// Whose.
    pub peer: String,
    /// Bytes of a sum.
    pub bytes: u64,
    /// Whether from a graph.
    pub graph: bool,
    /// Which of its own ways was the fastest.
    pub choice: Option<String>,
    /// Microseconds a call of each replay, on its slowest rank.
    pub us: Vec<f64>,
    /// The largest error of any rank.
    pub max_error: f64,
}

/// How a team ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// All have said that they are through.
    Well,
    /// They have not.
    Badly {
        /// Why.
        reason: String,
        /// Whose fault it is, if that is known.
        rank: Option<usize>,
    },
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Look again at this time, or when something happens.
    Wait(Instant),
    /// Nothing more is to come.
    Ended(Ended),
}

/// One process.
#[derive(Debug, Default)]
struct Voice {
    begun: Vec<String>,
    done: bool,
    closed: bool,
    ended: Option<Ending>,
}

/// A row that not all ranks have said yet.
#[derive(Debug)]
struct Part {
    ranks: usize,
    row: PeerRow,
}

/// All that a team has said.
#[derive(Debug)]
pub struct Gathering {
    voices: Vec<Voice>,
    heard: Instant,
    /// Since when one is known to have failed.
    failed: Option<(Instant, usize, String)>,
    parts: HashMap<(String, u64, bool), Part>,
    /// Which peers are there, as the script was asked.
    pub listed: Listed,
    /// What all ranks have timed.
    pub rows: Vec<PeerRow>,
    /// What one has not: the peer, the size if not at all, and why.
    pub missing: Vec<(String, Option<u64>, String)>,
}

impl Gathering {
    /// Of so many processes, before any has said anything.
    pub fn new(ranks: usize, now: Instant) -> Self {
        Self {
            voices: (0..ranks).map(|_| Voice::default()).collect(),
            heard: now,
            failed: None,
            parts: HashMap::new(),
            listed: Listed::new(),
            rows: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// The peer that the hindmost rank was about.
    pub fn begun(&self) -> Option<&str> {
        let hindmost = self.voices.iter().min_by_key(|voice| voice.begun.len())?;
        hindmost.begun.last().map(String::as_str)
    }

    /// A process said something.
    pub fn said(&mut self, rank: usize, line: &[u8], at: Instant) {
        self.heard = self.heard.max(at);
        let Some(voice) = self.voices.get_mut(rank) else { return };
        match serde_json::from_slice(line) {
            Ok(Line::Alive {} | Line::Built {}) => {}
            Ok(Line::Listed { peer, missing }) => {
                self.listed.insert(peer, missing);
            }
            Ok(Line::Begin { peer }) => voice.begun.push(peer),
            Ok(Line::Done {}) => voice.done = true,
            Ok(Line::Missing { peer, bytes, reason }) => {
                // All ranks say the same.
                let told = |(other, size, _): &(String, Option<u64>, String)| *other == peer && *size == bytes;
                if !self.missing.iter().any(told) {
                    self.missing.push((peer, bytes, reason));
                }
            }
            Ok(Line::Row {
                peer,
                bytes,
                graph,
                choice,
                us,
                max_error,
            }) => self.add(PeerRow {
                peer,
                bytes,
                graph,
                choice,
                us,
                max_error,
            }),
            Err(cause) => {
                let text = String::from_utf8_lossy(line).chars().take(80).collect::<String>();
                self.fail(
                    at,
                    rank,
                    format!("its rank {rank} said {text:?}, which means nothing: {cause}"),
                );
            }
        }
    }

    /// A process will say nothing more.
    pub fn closed(&mut self, rank: usize) {
        if let Some(voice) = self.voices.get_mut(rank) {
            voice.closed = true;
        }
    }

    /// A process has ended.
    pub fn exited(&mut self, rank: usize, ending: Ending) {
        if let Some(voice) = self.voices.get_mut(rank) {
            voice.ended = Some(ending);
        }
    }

    /// What follows from all that.
    pub fn verdict(&mut self, now: Instant) -> Verdict {
        if self.voices.iter().all(|voice| voice.done) {
            return Verdict::Ended(Ended::Well);
        }
        let dead = |voice: &Voice| voice.closed && !voice.done;
        let died = self
            .voices
            .iter()
            .enumerate()
            .find_map(|(rank, voice)| Some((rank, voice.ended.filter(|_| dead(voice))?)));
        if let Some((rank, ending)) = died {
            self.fail(now, rank, format!("its rank {rank} ended with {ending}"));
        }
        if let Some((since, rank, reason)) = &self.failed {
            let until = *since + LAST_WORDS;
            return if now < until {
                Verdict::Wait(until)
            } else {
                Verdict::Ended(Ended::Badly {
                    reason: reason.clone(),
                    rank: Some(*rank),
                })
            };
        }
        let until = self.heard + SILENCE;
        if now < until {
            return Verdict::Wait(until);
        }
        Verdict::Ended(Ended::Badly {
            reason: format!("it hangs: no rank said anything for {} s", SILENCE.as_secs()),
            rank: None,
        })
    }

    fn fail(&mut self, at: Instant, rank: usize, reason: String) {
        self.failed.get_or_insert((at, rank, reason));
    }

    /// The slowest rank of each replay counts; the row is there when all ranks have said theirs.
    fn add(&mut self, row: PeerRow) {
        let key = (row.peer.clone(), row.bytes, row.graph);
        let all = match self.parts.remove(&key) {
            None => Part { ranks: 1, row },
            Some(mut part) => {
                let pairs = part.row.us.iter().zip(&row.us);
                part.row.us = pairs.map(|(one, other)| one.max(*other)).collect();
                part.row.max_error = part.row.max_error.max(row.max_error);
                part.ranks += 1;
                part
            }
        };
        if all.ranks == self.voices.len() {
            self.rows.push(all.row);
        } else {
            self.parts.insert(key, all);
        }
    }
}

#[cfg(test)]
mod tests {
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
}
