//! What others write, within bounds: a program that is not ours may write for ever, with or without ends of lines.

use std::io::{self, Read};

/// Between two answers, or in all, nobody has more to say than so many bytes.
pub const CHATTER: usize = 1 << 20;
/// Answers are short.
const LINE: usize = 64 << 10;
/// What is read in place of a longer line, and the last that is read. It ends what was read of that line.
const TOO_LONG: &[u8] = b"\n{\"event\":\"failed\",\"reason\":\"it wrote a line of more than 64 KiB\"}\n";

/// An output whose lines are read as long as they are short.
pub struct Bounded<R> {
    source: R,
    /// Of the line that is being read.
    length: usize,
    /// What is left to be read since a line was too long.
    rest: Option<&'static [u8]>,
}

impl<R> Bounded<R> {
    /// From its beginning.
    pub fn new(source: R) -> Self {
        Self {
            source,
            length: 0,
            rest: None,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(rest) = &mut self.rest {
            return rest.read(buffer);
        }
        let count = self.source.read(buffer)?;
        for &byte in &buffer[..count] {
            self.length = if byte == b'\n' { 0 } else { self.length + 1 };
            if self.length > LINE {
                return self.rest.insert(TOO_LONG).read(buffer);
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::bench::host::said::{Said, heard};

    fn lines(text: &[u8]) -> Vec<Vec<u8>> {
        let lines = BufReader::new(Bounded::new(text)).split(b'\n');
        lines.map(|line| line.expect("no error")).collect()
    }

    #[test]
    fn a_line_that_is_too_long_is_a_failure_and_the_end() {
        let longest = [&b"one\n"[..], &vec![b'y'; LINE], b"\nthree\n"].concat();
        let read = lines(&longest);
        assert_eq!((read.len(), read[1].len(), &read[2][..]), (3, LINE, &b"three"[..]));
        let longer = [&b"one\n"[..], &vec![b'y'; LINE + 1], b"\nthree\n"].concat();
        let read = lines(&longer);
        assert!(read.iter().all(|line| line.len() <= LINE && line != b"three"));
        let last = read.last().and_then(|line| heard(line));
        let reason = "it wrote a line of more than 64 KiB".into();
        assert_eq!(last, Some(Said::Failed { reason }));
    }
}
