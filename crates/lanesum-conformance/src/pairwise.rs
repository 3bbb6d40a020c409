//! A covering array: rows over several factors such that any two values of two factors meet in some row.
//!
//! Most faults need two circumstances at once, few need three, and the full product of a dozen factors is out of reach.
//! The array is built greedily, as AETG does (Cohen, Dalal, Fredman, Patton 1997): take a pair that has not met yet, draw
//! a few rows around it, completing each factor by factor with the value that brings most new pairs, and keep the best.
//! The draw has a fixed seed, so the list is the same everywhere.
//!
//! The first columns can be held to a given list of *prefixes*. That keeps the number of different communicators small:
//! the prefixes are themselves a covering array of what belongs to a communicator.

use std::collections::HashSet;

/// How many rows are drawn for each one kept.
const DRAWS: usize = 24;

/// A value of a factor, both by number.
type Value = (usize, usize);

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, and good enough to draw test data from.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `bound`; 0 where the bound is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// The pairs that have not met yet.
struct Open(HashSet<(Value, Value)>);

impl Open {
    fn new(sizes: &[usize], prefixes: &[Vec<usize>]) -> Open {
        let values = |factor: usize| (0..sizes[factor]).map(move |value| (factor, value));
        let mut open = HashSet::new();
        for second in 0..sizes.len() {
            for first in 0..second {
                open.extend(values(first).flat_map(|a| values(second).map(move |b| (a, b))));
            }
        }
        open.retain(|(a, b)| prefixes.iter().any(|prefix| agrees(prefix, &[*a, *b])));
        Open(open)
    }

    /// How many open pairs the value would close beside those already in the row.
    fn gain(&self, row: &[Option<usize>], (factor, value): Value) -> usize {
        let met = row
            .iter()
            .enumerate()
            .filter_map(|(other, set)| set.map(|set| (other, set)));
        met.filter(|other| self.0.contains(&ordered(*other, (factor, value))))
            .count()
    }

    fn close(&mut self, row: &[usize]) -> usize {
        let before = self.0.len();
        self.0.retain(|(a, b)| row[a.0] != a.1 || row[b.0] != b.1);
        before - self.0.len()
    }
}

fn ordered(a: Value, b: Value) -> (Value, Value) {
    if a.0 < b.0 { (a, b) } else { (b, a) }
}

/// Whether a prefix has these values where it has a say.
fn agrees(prefix: &[usize], values: &[Value]) -> bool {
    values
        .iter()
        .all(|(factor, value)| prefix.get(*factor).is_none_or(|set| set == value))
}

/// The rows. `sizes` holds the number of values of each factor; a row holds one value of each. The first columns of
/// each row are one of `prefixes`; a list of one empty prefix leaves all free. Pairs that no prefix admits are left out.
pub(crate) fn cover(sizes: &[usize], prefixes: &[Vec<usize>], seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut open = Open::new(sizes, prefixes);
    let mut rows = Vec::new();
    loop {
        // The smallest open pair, so that the order of a hash set has no say.
        let Some((a, b)) = open.0.iter().min().copied() else {
            return rows;
        };
        let fitting: Vec<&Vec<usize>> = prefixes.iter().filter(|prefix| agrees(prefix, &[a, b])).collect();
        let mut best: Option<(usize, Vec<usize>)> = None;
        for _ in 0..DRAWS {
            let mut row = vec![None; sizes.len()];
            (row[a.0], row[b.0]) = (Some(a.1), Some(b.1));
            let prefix = fitting
                .get(random.below(fitting.len()))
                .map_or(&[][..], |prefix| prefix.as_slice());
            for (slot, value) in row.iter_mut().zip(prefix) {
                *slot = Some(*value);
            }
            let row = complete(row, sizes, &open, &mut random);
            let gain = open
                .0
                .iter()
                .filter(|(a, b)| row[a.0] == a.1 && row[b.0] == b.1)
                .count();
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, row));
            }
        }
        let Some((_, row)) = best else { return rows };
        if open.close(&row) == 0 {
            return rows;
        }
        rows.push(row);
    }
}

/// Fills the free columns in a drawn order, each with a value that closes most pairs.
fn complete(mut row: Vec<Option<usize>>, sizes: &[usize], open: &Open, random: &mut Random) -> Vec<usize> {
    let mut free: Vec<usize> = (0..sizes.len()).filter(|factor| row[*factor].is_none()).collect();
    while !free.is_empty() {
        let factor = free.swap_remove(random.below(free.len()));
        let turn = random.below(sizes[factor]);
        let values = (0..sizes[factor]).map(|step| (step + turn) % sizes[factor]);
        row[factor] = values.max_by_key(|value| open.gain(&row, (factor, *value)));
    }
    row.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(rows: &[Vec<usize>], a: Value, b: Value) -> bool {
        rows.iter().any(|row| row[a.0] == a.1 && row[b.0] == b.1)
    }

    #[test]
    fn any_two_values_of_two_factors_meet() {
        let sizes = [16, 3, 3, 5, 2, 11, 1, 9];
        let rows = cover(&sizes, &[vec![]], 1);
        for second in 0..sizes.len() {
            for first in 0..second {
                for a in 0..sizes[first] {
                    for b in 0..sizes[second] {
                        assert!(
                            met(&rows, (first, a), (second, b)),
                            "{first}={a} never meets {second}={b}"
                        );
                    }
                }
            }
        }
        // The largest two factors alone need 16 x 11 rows; a good array needs few more.
        assert!(rows.len() < 16 * 11 * 13 / 10, "{} rows", rows.len());
    }

    #[test]
    fn rows_keep_to_the_prefixes_and_use_each_value() {
        let prefixes = cover(&[5, 3, 2], &[vec![]], 2);
        let sizes = [5, 3, 2, 7, 4];
        let rows = cover(&sizes, &prefixes, 3);
        assert!(
            rows.iter()
                .all(|row| prefixes.iter().any(|prefix| row.starts_with(prefix)))
        );
        for a in 0..5 {
            for b in 0..7 {
                assert!(met(&rows, (0, a), (3, b)));
            }
        }
    }

    #[test]
    fn the_list_is_the_same_each_time() {
        assert_eq!(cover(&[4, 4, 3], &[vec![]], 9), cover(&[4, 4, 3], &[vec![]], 9));
    }

    #[test]
    fn few_factors_are_no_trouble() {
        assert_eq!(cover(&[], &[vec![]], 1), Vec::<Vec<usize>>::new());
        assert_eq!(cover(&[2, 2], &[vec![]], 1).len(), 4);
    }
}
