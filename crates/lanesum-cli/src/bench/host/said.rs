//! A line that an engine's ranks say.

use serde::{Deserialize, Serialize};

/// What it means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Said {
    /// All ranks wait for their orders.
    Ready {
        /// How many they are.
        ranks: usize,
        /// What the engine calls itself.
        version: String,
    },
    /// A turn is over.
    Point(Timed),
    /// The engine has no such sum.
    Missing {
        /// Why.
        reason: String,
    },
    /// A sum is wrong.
    Wrong {
        /// Whose and how.
        reason: String,
    },
    /// It cannot go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// The calls of one turn, in microseconds: the largest of what each rank has of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Half of them take at most this.
    pub p50: f64,
    /// 99 of 100 take at most this.
    pub p99: f64,
    /// What ran, where the engine tells.
    pub algorithm: Option<String>,
}

/// Launchers write something before a line, and lines of their own.
pub fn heard(line: &[u8]) -> Option<Said> {
    let start = line.iter().position(|&byte| byte == b'{')?;
    serde_json::from_slice(&line[start..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_behind_a_prefix() {
        let line = br#"[0] {"event":"point","p50":4.5,"p99":6,"algorithm":"two_shot_pull"}"#;
        let Some(Said::Point(timed)) = heard(line) else {
            panic!("no answer")
        };
        assert_eq!((timed.p50, timed.p99), (4.5, 6.0));
        assert_eq!(timed.algorithm.as_deref(), Some("two_shot_pull"));
        for nothing in [
            &b"[0] {broken"[..],
            b"a launcher's own words",
            b"{\"event\":\"other\"}",
            b"",
        ] {
            assert_eq!(heard(nothing), None);
        }
    }
}
