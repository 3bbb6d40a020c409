//! From which length two shots are taken instead of one: found once, for the host and for GPUs alike.

use crate::Elements;

/// Which of the two runs, by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crossing {
    /// One shot is ahead at great lengths: it runs all.
    OneShot,
    /// Two shots are ahead at every length.
    TwoShot,
    /// Two shots are ahead for good from this length on.
    From(Elements),
}

/// A length at which the asymptotically faster algorithm is ahead, whatever the constants: 256 TiB of f32.
const FAR: u64 = 1 << 46;

impl Crossing {
    /// Where two shots overtake one shot for good. `chunks` are the lengths from which either exchanges more than once.
    pub(super) fn find(chunks: [u64; 2], one_is_ahead: impl Fn(u64) -> bool) -> Crossing {
        // Both costs are straight lines between these lengths, so their difference changes sign at most once between
        // two of them, and only the last change counts.
        let [first, second] = chunks;
        let mut lengths = [1, first, second, FAR];
        lengths.sort_unstable();
        if one_is_ahead(FAR) {
            return Crossing::OneShot;
        }
        let Some(last) = lengths.iter().rposition(|length| one_is_ahead(*length)) else {
            return Crossing::TwoShot;
        };
        let (mut ahead, mut behind) = (lengths[last], lengths[last + 1]);
        while behind - ahead > 1 {
            let middle = ahead + (behind - ahead) / 2;
            if one_is_ahead(middle) {
                ahead = middle
            } else {
                behind = middle
            }
        }
        Crossing::From(Elements::new(behind))
    }
}
