//! Which of several GPUs ranks are best put on.

use crate::PlanError;

/// The most choices that are weighed: so many plans take less than a second.
const CHOICES_MAX: u64 = 20_000;

/// The places, of so many, that are predicted to take the least time together, in ascending order; of equals those with the lowest
/// numbers, and the first ones where nothing is predicted. `predict_us` gives the microseconds for a choice, if it can be planned for.
///
/// # Errors
/// [`PlanError::Choices`] if more are to be taken than there are, or if too many choices would have to be weighed.
pub fn best_places(
    places: usize,
    taken: usize,
    mut predict_us: impl FnMut(&[usize]) -> Option<f64>,
) -> Result<Vec<usize>, PlanError> {
    if taken > places || ways(places as u64, taken as u64) > CHOICES_MAX {
        return Err(PlanError::Choices {
            places,
            taken,
            most: CHOICES_MAX,
        });
    }
    let mut choice: Vec<usize> = (0..taken).collect();
    let mut best = (f64::INFINITY, choice.clone());
    loop {
        if let Some(us) = predict_us(&choice).filter(|us| *us < best.0) {
            best = (us, choice.clone());
        }
        // The next in order of numbers: the last that can be raised is.
        let Some(at) = (0..taken).rev().find(|at| choice[*at] < places - taken + at) else {
            return Ok(best.1);
        };
        choice[at] += 1;
        for next in at + 1..taken {
            choice[next] = choice[next - 1] + 1;
        }
    }
}

/// In how many ways so many of so many can be taken.
fn ways(places: u64, taken: u64) -> u64 {
    (0..taken.min(places - taken)).fold(1, |ways: u64, next| ways.saturating_mul(places - next) / (next + 1))
}
