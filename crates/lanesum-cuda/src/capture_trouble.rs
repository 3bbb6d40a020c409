//! What a capture into a graph forbids, in words: the driver's own say what happened, not what to do.

use thiserror::Error;

use crate::driver::types::Code;

/// What was wrong with a call while a stream was being captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CaptureTrouble {
    /// The stream is being captured already.
    #[error("the stream is being captured already")]
    Nested,
    /// The call can't be recorded, or may wait for what is recorded: the capture is invalid by it.
    #[error("a capture does not admit this call, and is invalid now")]
    Unsupported,
    /// The capture was invalid already.
    #[error("the capture is invalid: an earlier call in it was refused")]
    Invalidated,
    /// Work of two captures would become one.
    #[error("it would join two separate captures")]
    Merge,
    /// The capture began on another stream.
    #[error("the capture did not begin on this stream")]
    Unmatched,
    /// A stream that was drawn into the capture does not lead back.
    #[error("a stream that was drawn into the capture was not joined again")]
    Unjoined,
    /// What is recorded would depend on what is not.
    #[error("it would make recorded work wait for work outside of the capture, or the other way round")]
    Isolation,
    /// The default stream would wait for the captured one.
    #[error("the default stream waits for a stream that is being captured")]
    Implicit,
    /// The event was recorded in a capture.
    #[error("the event was recorded in a capture")]
    CapturedEvent,
    /// The capture was begun by another thread.
    #[error("the capture was begun by another thread")]
    WrongThread,
}

impl CaptureTrouble {
    /// The trouble that a code stands for, if it is one of captures.
    pub(crate) const fn of(code: Code) -> Option<Self> {
        match code {
            900 => Some(Self::Unsupported),
            901 => Some(Self::Invalidated),
            902 => Some(Self::Merge),
            903 => Some(Self::Unmatched),
            904 => Some(Self::Unjoined),
            905 => Some(Self::Isolation),
            906 => Some(Self::Implicit),
            907 => Some(Self::CapturedEvent),
            908 => Some(Self::WrongThread),
            _ => None,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Nested => "finish or drop the first capture of the stream",
            Self::Unsupported => {
                "move what allocates, frees, copies to pageable memory or synchronises out of the capture; then begin it anew"
            }
            Self::Invalidated => {
                "look for the first refused call of the capture (an allocation, a synchronisation, a query); then begin it anew"
            }
            Self::Merge => {
                "capture streams that wait for each other in one capture, or order their graphs when they run"
            }
            Self::Unmatched => "end the capture on the stream that it began on",
            Self::Unjoined => {
                "before the end, record an event on each stream that was drawn in, and let the first stream wait for it"
            }
            Self::Isolation => "wait for events of outside before the capture begins, or when the graph runs",
            Self::Implicit => {
                "use streams that do not wait for the default stream, or let the default stream be until the end"
            }
            Self::CapturedEvent => "ask events that were recorded outside of captures",
            Self::WrongThread => "end the capture on the thread that began it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::types::code;

    #[test]
    fn every_code_of_captures_has_words_of_its_own() {
        let mut words: Vec<String> = code::CAPTURE
            .map(|code| CaptureTrouble::of(code).expect("a trouble").to_string())
            .collect();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), code::CAPTURE.count());
        assert_eq!(CaptureTrouble::of(code::NOT_READY), None);
    }
}
