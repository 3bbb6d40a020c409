//! One value for each ordered pair: what the first is to the second need not be what the second is to the first.

/// Values by two different places, counted from 0: first *from*, then *to*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs<T> {
    side: usize,
    /// Row by row, without the diagonal, so `side - 1` a row.
    cells: Vec<T>,
}

impl<T> Pairs<T> {
    /// The pairs of so many places with the values that a function gives, row by row; it ends with the first error.
    ///
    /// # Errors
    /// The function's.
    pub fn build<E>(side: usize, mut value: impl FnMut(usize, usize) -> Result<T, E>) -> Result<Pairs<T>, E> {
        let cells: Result<Vec<T>, E> = places(side).map(|(from, to)| value(from, to)).collect();
        Ok(Pairs { side, cells: cells? })
    }

    /// How many places are paired.
    #[must_use]
    pub fn side(&self) -> usize {
        self.side
    }

    /// The value of a pair; `None` for a place with itself and for one that is not below [`Pairs::side`].
    #[must_use]
    pub fn get(&self, from: usize, to: usize) -> Option<&T> {
        if from == to || from >= self.side || to >= self.side {
            return None;
        }
        self.cells.get(from * (self.side - 1) + to - usize::from(to > from))
    }

    /// All pairs with their values, row by row.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, &T)> {
        places(self.side)
            .zip(&self.cells)
            .map(|((from, to), value)| (from, to, value))
    }
}

/// Row by row, all pairs of different places.
fn places(side: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = (0..side).flat_map(move |from| (0..side).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_ordered_and_of_two() {
        for side in 0..5 {
            let pairs = Pairs::build(side, |from, to| Ok::<_, ()>((from, to))).unwrap();
            assert_eq!(pairs.iter().count(), side * side.saturating_sub(1));
            for (from, to, value) in pairs.iter() {
                assert_eq!((Some(value), value), (pairs.get(from, to), &(from, to)));
            }
            assert_eq!(
                (pairs.get(0, 0), pairs.get(0, side), pairs.get(side, 0)),
                (None, None, None)
            );
        }
        assert_eq!(
            Pairs::<u8>::build(3, |_, to| if to == 2 { Err(to) } else { Ok(1) }),
            Err(2)
        );
    }
}
