//! Copies what a rank writes to our own output, whole lines only, each behind `[rank] `.
//!
//! Bytes are copied as they are: nothing is decoded, nothing is lost, and lines of different ranks never mix. Two things
//! are added: a line end after a last line that has none, and one inside a line longer than [`LONGEST`], because the
//! memory for an unfinished line has to be bounded.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A line this long is written out before its end is known.
pub const LONGEST: usize = 8 << 20;

/// How long a pipe must stay silent, once the job is over, before its reader believes that nothing follows.
const SILENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Collects bytes into prefixed lines.
pub struct Prefixer {
    prefix: Vec<u8>,
    unfinished: Vec<u8>,
}

impl Prefixer {
    /// For the lines of one rank.
    pub fn new(rank: usize) -> Self {
        Self {
            prefix: format!("[{rank}] ").into_bytes(),
            unfinished: Vec::new(),
        }
    }

    /// Takes bytes and appends to `out` every line that is whole now.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.unfinished.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                out.extend_from_slice(&self.prefix);
                out.append(&mut self.unfinished);
            } else if self.unfinished.len() >= LONGEST {
                self.finish(out);
            }
        }
    }

    /// Ends the last line if it has no end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.unfinished.is_empty() {
            out.extend_from_slice(&self.prefix);
            out.append(&mut self.unfinished);
            out.push(b'\n');
        }
    }
}

/// Which of our outputs the lines go to.
#[derive(Debug, Clone, Copy)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Sink {
    /// Writes whole lines under the lock of the output, so that those of two ranks never mix.
    fn write(self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Self::Stderr => io::stderr().lock().write_all(lines),
        }
    }
}

/// Copies until the pipe ends, or until `over` has ended and the pipe is silent: a process that left the job and kept
/// the pipe open must not keep us waiting.
pub fn copy(rank: usize, mut source: impl Read + AsFd, sink: Sink, over: impl AsFd) -> io::Result<()> {
    let mut prefixer = Prefixer::new(rank);
    let mut chunk = vec![0; 64 << 10];
    let mut lines = Vec::new();
    while readable(source.as_fd(), over.as_fd())? {
        let count = match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        lines.clear();
        prefixer.push(chunk.get(..count).unwrap_or_default(), &mut lines);
        sink.write(&lines)?;
    }
    lines.clear();
    prefixer.finish(&mut lines);
    sink.write(&lines)
}

/// Waits for bytes or the end of the pipe (yes), or for the end of the job with nothing left to read (no).
fn readable(source: BorrowedFd<'_>, over: BorrowedFd<'_>) -> io::Result<bool> {
    let mut both = [
        PollFd::from_borrowed_fd(source, PollFlags::IN),
        PollFd::from_borrowed_fd(over, PollFlags::IN),
    ];
    wait(&mut both, None)?;
    if !both[0].revents().is_empty() {
        return Ok(true);
    }
    let mut last = [PollFd::from_borrowed_fd(source, PollFlags::IN)];
    wait(&mut last, Some(&SILENCE))?;
    Ok(!last[0].revents().is_empty())
}

fn wait(descriptors: &mut [PollFd<'_>], patience: Option<&Timespec>) -> io::Result<()> {
    loop {
        match poll(descriptors, patience) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixed(pieces: &[&[u8]]) -> Vec<u8> {
        let mut prefixer = Prefixer::new(3);
        let mut out = Vec::new();
        for piece in pieces {
            prefixer.push(piece, &mut out);
        }
        prefixer.finish(&mut out);
        out
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        assert_eq!(prefixed(&[b"a\nb", b"c\n", b"\nd"]), b"[3] a\n[3] bc\n[3] \n[3] d\n");
        assert_eq!(prefixed(&[]), b"");
        assert_eq!(prefixed(&[b"", b"\n"]), b"[3] \n");
    }

    #[test]
    fn an_unfinished_line_is_held_back() {
        let mut prefixer = Prefixer::new(0);
        let mut out = Vec::new();
        prefixer.push(b"half", &mut out);
        assert!(out.is_empty());
        prefixer.push(b" and half\n", &mut out);
        assert_eq!(out, b"[0] half and half\n");
    }

    #[test]
    fn bytes_that_are_no_text_pass_unchanged() {
        assert_eq!(prefixed(&[b"\xff\x00\xfe\n"]), b"[3] \xff\x00\xfe\n");
    }

    #[test]
    fn an_endless_line_does_not_take_endless_memory() {
        let piece = vec![b'x'; LONGEST / 2];
        let out = prefixed(&[&piece, &piece, b"end\n"]);
        assert_eq!(out.len(), LONGEST + "[3] \n[3] end\n".len());
    }
}
