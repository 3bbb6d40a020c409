//! Closed sets of the library, as numbers of C. They begin with 1, so that what nobody set is none of them.

use crate::refusal::Refusal;

/// The type of an element.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE 754 binary32: `float`.
    F32 = 1,
    /// IEEE 754 binary16: `_Float16`, `__half`.
    F16 = 2,
    /// The upper half of a binary32: `__nv_bfloat16`.
    Bf16 = 3,
}

/// How two values become one.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Addition in f32, in the same order on all ranks and for all lengths, rounded once.
    Sum = 1,
    /// IEEE 754-2019 maximum: NaN wins, +0 is above -0.
    Max = 2,
    /// IEEE 754-2019 minimum: NaN wins, -0 is below +0.
    Min = 3,
}

/// Where the memory of a call is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// On the host: the call is done when it returns.
    Host = 1,
    /// On the communicator's GPU, in the order of a stream.
    Device = 2,
}

impl Dtype {
    const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// The library's word.
    fn word(self) -> lanesum::Dtype {
        match self {
            Self::F32 => lanesum::Dtype::F32,
            Self::F16 => lanesum::Dtype::F16,
            Self::Bf16 => lanesum::Dtype::Bf16,
        }
    }

    /// The type that a number of C stands for.
    pub fn read(found: u32) -> Result<lanesum::Dtype, Refusal> {
        let word = Self::ALL.into_iter().find(|&dtype| dtype as u32 == found);
        word.map(Self::word).ok_or_else(|| Refusal::Dtype {
            found,
            known: known(Self::ALL.map(|dtype| (dtype as u32, dtype.word().name()))),
        })
    }
}

impl Operation {
    const ALL: [Self; 3] = [Self::Sum, Self::Max, Self::Min];

    fn word(self) -> lanesum::Operation {
        match self {
            Self::Sum => lanesum::Operation::Sum,
            Self::Max => lanesum::Operation::Max,
            Self::Min => lanesum::Operation::Min,
        }
    }

    /// The operation that a number of C stands for.
    pub fn read(found: u32) -> Result<lanesum::Operation, Refusal> {
        let word = Self::ALL.into_iter().find(|&operation| operation as u32 == found);
        word.map(Self::word).ok_or_else(|| Refusal::Value {
            what: "operation",
            found,
            known: known(Self::ALL.map(|operation| (operation as u32, operation.word().name()))),
        })
    }
}

impl Memory {
    const ALL: [Self; 2] = [Self::Host, Self::Device];

    fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Device => "device",
        }
    }

    /// The place that a number of C stands for.
    pub fn read(found: u32) -> Result<Self, Refusal> {
        let place = Self::ALL.into_iter().find(|&place| place as u32 == found);
        place.ok_or_else(|| Refusal::Value {
            what: "memory",
            found,
            known: known(Self::ALL.map(|place| (place as u32, place.name()))),
        })
    }
}

/// A list for people: `1 (f32), 2 (f16)`.
fn known<const N: usize>(values: [(u32, &'static str); N]) -> String {
    values.map(|(number, name)| format!("{number} ({name})")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_library_has_a_number() {
        assert_eq!(Dtype::ALL.map(Dtype::word), lanesum::Dtype::ALL);
        assert_eq!(Operation::ALL.map(Operation::word), lanesum::Operation::ALL);
    }

    #[test]
    fn other_numbers_are_told_with_those_there_are() {
        for found in [0, 4, u32::MAX] {
            let dtype = Dtype::read(found).map_err(|refusal| refusal.to_string());
            assert_eq!(
                dtype,
                Err(format!("`dtype` is {found}, and there are 1 (f32), 2 (f16), 3 (bf16)"))
            );
            assert!(Operation::read(found).is_err() && Memory::read(found).is_err());
        }
    }
}
