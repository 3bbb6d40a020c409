//! Text as people paste it: lines and words that know where they stand.
//!
//! Colours of a terminal become blanks, one for each character, so that places stay those of the text as it was given. All
//! lengths are bounded here, once; no reader below needs a bound of its own against long input.

use std::borrow::Cow;

use super::error::{DumpError, Fault, Found, Place};

/// The longest text that is read. All of `nvidia-smi -q` for eight GPUs is 120 KB.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;
/// The most lines that are read.
pub const MOST_LINES: usize = 100_000;
/// The longest line that is read. A row of 64 GPUs and 256 network cards is 3 KB.
pub const MOST_LINE: usize = 8 * 1024;

/// What a file holds, as text: UTF-8, or UTF-16 with a mark at its beginning, as PowerShell writes it. What is neither is
/// replaced by U+FFFD, and then refused where it stands in a place that counts.
#[must_use]
pub fn decode(bytes: &[u8]) -> String {
    let wide = |read: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).skip(1).map(|pair| read([pair[0], pair[1]]));
        char::decode_utf16(units)
            .map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A line with its number, counted from 1.
#[derive(Debug)]
pub(super) struct Line<'t> {
    pub(super) number: usize,
    pub(super) text: Cow<'t, str>,
}

/// A word of a line, and the byte at which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'l> {
    pub(super) text: &'l str,
    pub(super) at: usize,
}

/// The lines of a text that is not too long.
pub(super) fn lines(text: &str) -> Result<Vec<Line<'_>>, DumpError> {
    let start = Place { line: 1, column: 1 };
    if text.len() > MOST_BYTES {
        return Err(DumpError::new(start, Found::Bytes(text.len()), Fault::TooLong));
    }
    let mut lines = Vec::new();
    for (before, text) in text.lines().enumerate() {
        let place = Place {
            line: before + 1,
            column: 1,
        };
        if before >= MOST_LINES {
            return Err(DumpError::new(place, Found::Lines(before + 1), Fault::TooLong));
        }
        if text.len() > MOST_LINE {
            return Err(DumpError::new(place, Found::Bytes(text.len()), Fault::TooLong));
        }
        let text = without_controls(without_colours(text));
        lines.push(Line {
            number: before + 1,
            text,
        });
    }
    Ok(lines)
}

impl Line<'_> {
    /// The words, told apart by blanks of any kind.
    pub(super) fn words(&self) -> impl Iterator<Item = Word<'_>> {
        let base = self.text.as_ptr().addr();
        let words = self.text.split(is_blank).filter(|word| !word.is_empty());
        words.map(move |text| Word {
            text,
            at: text.as_ptr().addr() - base,
        })
    }

    pub(super) fn first(&self) -> Option<Word<'_>> {
        self.words().next()
    }

    pub(super) fn is_blank(&self) -> bool {
        self.first().is_none()
    }

    /// The text without the blanks around it.
    pub(super) fn trimmed(&self) -> &str {
        self.text.trim_matches(is_blank)
    }

    /// The place of a byte.
    pub(super) fn place(&self, at: usize) -> Place {
        Place {
            line: self.number,
            column: self.text.char_indices().take_while(|(begin, _)| *begin < at).count() + 1,
        }
    }

    /// A refusal because of a word of this line.
    pub(super) fn refuse(&self, word: Word<'_>, fault: Fault) -> DumpError {
        DumpError::new(self.place(word.at), Found::text(word.text), fault)
    }

    /// A refusal because this line ends where it does.
    pub(super) fn refuse_end(&self, fault: Fault) -> DumpError {
        let end = self.text.trim_end_matches(is_blank).len();
        DumpError::new(self.place(end), Found::EndOfLine, fault)
    }
}

/// A mark of byte order counts as one, too.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

/// The line with blanks in place of a terminal's codes: `ESC [ ... letter`, and those whose `ESC` was lost on the way (`[4m`).
fn without_colours(line: &str) -> Cow<'_, str> {
    if !line.contains(['\u{1b}', '[']) {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let code = code(rest);
        if code == 0 {
            plain.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            // Codes are ASCII: as many characters as bytes.
            plain.extend(std::iter::repeat_n(' ', code));
            rest = &rest[code..];
        }
    }
    Cow::Owned(plain)
}

/// The line without characters that a terminal takes for orders: what is kept of a text is printed one day. Those that are blanks become
/// plain ones, but for tabs, which tell cells apart; any other becomes U+FFFD, as what is no text does.
fn without_controls(line: Cow<'_, str>) -> Cow<'_, str> {
    let orders = |letter: char| letter.is_control() && letter != '\t';
    if !line.contains(orders) {
        return line;
    }
    let plain = |letter: char| match orders(letter) {
        true if letter.is_whitespace() => ' ',
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    };
    Cow::Owned(line.chars().map(plain).collect())
}

/// The longest code of a terminal that is looked for.
const MOST_CODE: usize = 32;

/// The length of the code that a text begins with; 0 if it begins with none.
fn code(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (led, body) = match bytes {
        [0x1b, b'[', body @ ..] => (2, body),
        [0x1b, ..] => return 1,
        [b'[', digit, ..] if digit.is_ascii_digit() => (1, &bytes[1..]),
        _ => return 0,
    };
    let parameters = body
        .iter()
        .take(MOST_CODE)
        .take_while(|byte| (0x30..0x40).contains(*byte))
        .count();
    match body.get(parameters) {
        Some(last) if led == 1 && *last != b'm' => 0,
        Some(0x40..=0x7e) => led + parameters + 1,
        // Cut in the middle: the ESC alone is nothing to see.
        Some(_) | None => led - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_blanks_and_places_stay() {
        let text = "\t\u{1b}[4mGPU0\tü GPU1\u{1b}[0m";
        let lines = lines(text).unwrap();
        let words: Vec<Word<'_>> = lines[0].words().collect();
        assert_eq!(
            words.iter().map(|word| word.text).collect::<Vec<_>>(),
            ["GPU0", "ü", "GPU1"]
        );
        assert_eq!(lines[0].place(words[0].at), Place { line: 1, column: 6 });
        assert_eq!(lines[0].place(words[2].at), Place { line: 1, column: 13 });
    }

    #[test]
    fn codes_may_be_cut_or_have_lost_their_escape() {
        for (text, plain) in [
            ("[4mGPU0[0m", "   GPU0   "),
            ("[1;31mX", "      X"),
            ("[GPU0]", "[GPU0]"),
            ("[4 GPUs]", "[4 GPUs]"),
            ("X\u{1b}[", "X ["),
            ("X\u{1b}", "X "),
            ("[", "["),
            ("[4", "[4"),
            ("\u{1b}[üX", " [üX"),
        ] {
            assert_eq!(without_colours(text), plain, "{text:?}");
        }
    }

    #[test]
    fn files_are_utf_8_or_marked() {
        assert_eq!(decode("GPU0\tü".as_bytes()), "GPU0\tü");
        assert_eq!(decode(&[0xff, 0xfe, b'G', 0, b'P', 0]), "GP");
        assert_eq!(decode(&[0xfe, 0xff, 0, b'G', 0, b'P', 7]), "GP");
        assert_eq!(decode(&[b'G', 0xff]), "G\u{fffd}");
        assert_eq!(decode(&[]), "");
    }

    #[test]
    fn long_texts_are_refused_where_they_become_too_long() {
        let long = "x".repeat(MOST_LINE + 1);
        let error = lines(&format!("a\n{long}\n")).unwrap_err();
        assert_eq!(
            (error.place, error.fault),
            (Place { line: 2, column: 1 }, Fault::TooLong)
        );
        let error = lines(&"\n".repeat(MOST_LINES + 1)).unwrap_err();
        assert_eq!(error.place.line, MOST_LINES + 1);
        let error = lines(&"x".repeat(MOST_BYTES + 1)).unwrap_err();
        assert_eq!(error.found, Found::Bytes(MOST_BYTES + 1));
    }
}
