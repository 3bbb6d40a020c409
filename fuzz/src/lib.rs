//! What holds of every input, asked by the targets.
//!
//! A target gets bytes that libFuzzer makes up. Whatever they are, a text is read, and then it is sound, or it is refused at a place of
//! it, in words that can be printed.
#![forbid(unsafe_code)]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use lanesum_probe::dump::{decode, read, read_all};

#[path = "../../crates/lanesum-probe/tests/dump/sound.rs"]
mod sound;

/// More than an error or a remark of one line needs.
const MOST_WORDS: usize = 4000;

/// Reads it in both ways.
pub fn judge(bytes: &[u8]) {
    judge_text(&decode(bytes));
}

/// Reads it behind a line that tells which tool printed it.
pub fn judge_behind(head: &str, bytes: &[u8]) {
    judge_text(&(head.to_owned() + &decode(bytes)));
}

fn judge_text(text: &str) {
    let all = read_all(text);
    match &all {
        Ok(dumps) => {
            assert!(!dumps.is_empty(), "nothing is a refusal");
            for dump in dumps {
                assert!(sound::sound(dump), "{dump:?}");
                for remark in dump.remarks() {
                    printable(&remark.to_string());
                    assert!(remark.place.line <= text.lines().count() + 1, "{remark}");
                }
            }
        }
        Err(error) => {
            assert!(sound::placed(error, text), "{error}");
            printable(&error.to_string());
            printable(&error.hint());
        }
    }
    match (read(text), all) {
        (Ok(one), Ok(all)) => assert!(all == [one]),
        (Err(error), _) => assert!(sound::placed(&error, text), "{error}"),
        (Ok(_), Err(error)) => panic!("read alone, and refused among all: {error}"),
    }
}

/// One line, not empty, that no terminal takes for orders.
fn printable(words: &str) {
    assert!(!words.is_empty());
    assert!(words.len() < MOST_WORDS, "{} bytes", words.len());
    assert!(!words.chars().any(char::is_control), "{words:?}");
}

/// A word that is read is written and read again as the same; a refusal can be printed.
pub fn judge_word<W>(text: &str)
where
    W: FromStr + Display + PartialEq + Debug,
    W::Err: Display + Debug,
{
    match text.parse::<W>() {
        Ok(word) => {
            let written = word.to_string();
            let again: W = written.parse().expect("what was written can be read");
            assert_eq!(again, word, "{written}");
        }
        Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error}"),
    }
}
