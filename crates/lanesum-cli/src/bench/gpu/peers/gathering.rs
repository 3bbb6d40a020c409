//! What is made of the lines of peers' processes: rows once all ranks have said theirs, and an end in any case.
//!
//! No process is touched here: lines, endings and times go in, a [`Verdict`] comes out.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::Listed;
use crate::spawn::Ending;

/// A team of which nobody has said anything for so long hangs: in every step of more than a second there are signs of life.
const SILENCE: Duration = Duration::from_secs(30);
/// One that has failed says so at once. If the others do not hear of it so soon, they wait for it on their GPUs.
const SILENCE_IN_TROUBLE: Duration = Duration::from_secs(10);
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
    Trouble {
        reason: String,
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
    /// A step that failed and that not all ranks have drawn their conclusion from yet.
    trouble: Option<String>,
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
    /// What all ranks have timed and nobody has taken out yet.
    pub rows: Vec<PeerRow>,
    /// What one has not: the peer, the size if not at all, and why. Nobody has taken it out yet.
    pub missing: Vec<(String, Option<u64>, String)>,
    /// Of which peers, at which sizes if not at all, either has been said.
    said: HashSet<(String, Option<u64>)>,
    /// Everything that was ever missing: all ranks say the same.
    lacks: HashSet<(String, Option<u64>, String)>,
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
            said: HashSet::new(),
            lacks: HashSet::new(),
        }
    }

    /// The sizes of a peer of which nothing has been said.
    pub fn unsaid(&self, peer: &str, sizes: &[u64]) -> Vec<u64> {
        let said = |bytes| self.said.contains(&(peer.to_owned(), bytes));
        if said(None) {
            return vec![];
        }
        sizes.iter().copied().filter(|bytes| !said(Some(*bytes))).collect()
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
            Ok(Line::Begin { peer }) => {
                voice.trouble = None;
                voice.begun.push(peer);
            }
            Ok(Line::Trouble { reason }) => voice.trouble = Some(reason),
            Ok(Line::Done {}) => voice.done = true,
            Ok(Line::Missing { peer, bytes, reason }) => {
                voice.trouble = None;
                self.said.insert((peer.clone(), bytes));
                if self.lacks.insert((peer.clone(), bytes, reason.clone())) {
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
            }) => {
                voice.trouble = None;
                let row = PeerRow {
                    peer,
                    bytes,
                    graph,
                    choice,
                    us,
                    max_error,
                };
                if let Err(what) = self.add(row) {
                    self.fail(at, rank, format!("its rank {rank} {what}"));
                }
            }
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
        let in_trouble = |(rank, voice): (usize, &Voice)| Some((rank, voice.trouble.clone()?));
        let trouble = self.voices.iter().enumerate().find_map(in_trouble);
        let silence = trouble.as_ref().map_or(SILENCE, |_| SILENCE_IN_TROUBLE);
        let until = self.heard + silence;
        if now < until {
            return Verdict::Wait(until);
        }
        Verdict::Ended(Ended::Badly {
            reason: match trouble {
                Some((rank, trouble)) => format!("rank {rank}: {trouble}; and the others hang"),
                None => format!("it hangs: no rank said anything for {} s", silence.as_secs()),
            },
            rank: None,
        })
    }

    fn fail(&mut self, at: Instant, rank: usize, reason: String) {
        self.failed.get_or_insert((at, rank, reason));
    }

    /// The slowest rank of each replay counts; the row is there when all ranks have said theirs.
    fn add(&mut self, row: PeerRow) -> Result<(), &'static str> {
        if row.us.is_empty() {
            return Err("told no times");
        }
        let key = (row.peer.clone(), row.bytes, row.graph);
        let all = match self.parts.remove(&key) {
            None => Part { ranks: 1, row },
            Some(part) if part.row.us.len() != row.us.len() => return Err("timed another number of replays"),
            Some(mut part) => {
                let pairs = part.row.us.iter().zip(&row.us);
                part.row.us = pairs.map(|(one, other)| one.max(*other)).collect();
                part.row.max_error = part.row.max_error.max(row.max_error);
                part.ranks += 1;
                part
            }
        };
        if all.ranks == self.voices.len() {
            self.said.insert((all.row.peer.clone(), Some(all.row.bytes)));
            self.rows.push(all.row);
        } else {
            self.parts.insert(key, all);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
