//! How errors say numbers of ranks, spans and connections.
use std::fmt;

/// "rank 3 has" or "ranks 2, 5 have".
pub(crate) struct Ranks<'a>(pub(crate) &'a [usize], pub(crate) &'static str, pub(crate) &'static str);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = self.0.len() != 1;
        f.write_str(if many { "ranks " } else { "rank " })?;
        for (index, rank) in self.0.iter().enumerate() {
            write!(f, "{}{rank}", if index > 0 { ", " } else { "" })?;
        }
        write!(f, " {}", if many { self.2 } else { self.1 })
    }
}

/// Milliseconds as people say them.
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1000 && self.0.is_multiple_of(1000) {
            write!(f, "{} s", self.0 / 1000)
        } else if self.0 >= 1000 {
            write!(f, "{}.{} s", self.0 / 1000, self.0 % 1000 / 100)
        } else {
            write!(f, "{} ms", self.0)
        }
    }
}

/// How many connections were no ranks.
pub(crate) struct Strangers(pub(crate) usize);

impl fmt::Display for Strangers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => f.write_str("; 1 connection did not speak this protocol and was dropped"),
            many => write!(f, "; {many} connections did not speak this protocol and were dropped"),
        }
    }
}
