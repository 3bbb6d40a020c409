//! The header of a safetensors file: 8 bytes of length, then JSON that says where each tensor lies in the data behind it.
//!
//! Read here and not by the `safetensors` crate, which tests compare with: it keeps the last of two tensors of a name, and its
//! errors name neither the tensor nor what is wrong with it. What the crate refuses is refused here too. Nothing is allocated
//! by what a file claims of itself: the header is as long as the file has bytes, and 100 MB at most.

use std::collections::HashMap;
use std::fmt;

use lanesum_plan::Dtype;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::{clipped, quoted};
use crate::progress::grouped;

/// The bytes that hold the header's length.
pub const PREFIX: usize = 8;
/// The format's own limit of a header.
const HEADER_MAX: u64 = 100_000_000;
/// The entry that is no tensor.
const METADATA: &str = "__metadata__";

/// One tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its dimensions; none for a scalar.
    pub shape: Vec<u64>,
    /// Where it begins in the data.
    pub begin: u64,
    /// Where it ends.
    pub end: u64,
}

impl Tensor {
    /// `F32 [2, 3]`
    pub fn kind(&self) -> String {
        clipped(&format!("{} {:?}", word(self.dtype), self.shape))
    }
}

/// What a file has.
#[derive(Debug)]
pub struct Header {
    /// Its tensors in the order of their data, which has no hole.
    pub tensors: Vec<Tensor>,
    /// Their places by name.
    by_name: Vec<usize>,
    /// Where the data begins in the file.
    pub data: u64,
}

/// Why there is no header to be had of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// Nothing is in it.
    #[error("the file is empty")]
    Empty,
    /// Not even the length of the header.
    #[error("the file has {bytes} bytes, and a safetensors file at least {PREFIX} for the length of its header")]
    NoLength {
        /// Of the file.
        bytes: u64,
    },
    /// More than the format allows.
    #[error(
        "the header would have {} bytes, and the format allows {}: this is no safetensors file",
        grouped(*.says), grouped(HEADER_MAX)
    )]
    Absurd {
        /// Of the header.
        says: u64,
    },
    /// The file ends in it.
    #[error(
        "the header would have {} bytes, and the file ends after {} of them: it is cut off, or no safetensors file",
        grouped(*.says), grouped(*.there)
    )]
    CutHeader {
        /// Of the header.
        says: u64,
        /// How much of it is there.
        there: u64,
    },
    /// It cannot be read.
    #[error("the header is not what the format wants: {cause}")]
    Json {
        /// What the parser says.
        cause: String,
    },
    /// Two of a name.
    #[error("the header has tensor {} twice", quoted(.tensor))]
    Twice {
        /// The name.
        tensor: String,
    },
    /// A type that is not summed.
    #[error("tensor {} has dtype {}, and lanesum sums F32, F16 and BF16", quoted(.tensor), clipped(.dtype))]
    Dtype {
        /// Which tensor.
        tensor: String,
        /// Its type, as the file says.
        dtype: String,
    },
    /// Too many elements for any memory.
    #[error("tensor {} has a shape without end: {}", quoted(.tensor), clipped(&format!("{:?}", .shape)))]
    Overflow {
        /// Which tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// Its place has another size than its shape.
    #[error(
        "tensor {} is {kind}, which takes {} bytes, and its offsets are {begin} to {end}",
        quoted(.tensor), grouped(*.wanted)
    )]
    Size {
        /// Which tensor.
        tensor: String,
        /// Its type and shape.
        kind: String,
        /// The bytes that these take.
        wanted: u64,
        /// Where it begins.
        begin: u64,
        /// Where it ends.
        end: u64,
    },
    /// It ends behind the end of the file.
    #[error(
        "tensor {} ends at byte {} of the data, and the file has {} bytes of data: it is cut off, or its offsets are wrong",
        quoted(.tensor), grouped(*.end), grouped(*.data)
    )]
    OutOfRange {
        /// Which tensor.
        tensor: String,
        /// Where it ends.
        end: u64,
        /// The data that is there.
        data: u64,
    },
    /// Two in one place.
    #[error("tensors {} and {} overlap: one ends at byte {end} of the data, the other begins at {begin}", quoted(.first), quoted(.second))]
    Overlap {
        /// The one that begins first.
        first: String,
        /// Where it ends.
        end: u64,
        /// The other.
        second: String,
        /// Where that begins.
        begin: u64,
    },
    /// Bytes of no tensor, which the format forbids.
    #[error("bytes {from} to {to} of the data belong to no tensor")]
    Hole {
        /// The first of them.
        from: u64,
        /// The first behind them.
        to: u64,
    },
}

impl HeaderFault {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Dtype { .. } => "convert the tensor to one of these, or leave it out of all files",
            Self::Empty
            | Self::NoLength { .. }
            | Self::Absurd { .. }
            | Self::CutHeader { .. }
            | Self::Json { .. }
            | Self::Twice { .. }
            | Self::Overflow { .. }
            | Self::Size { .. }
            | Self::OutOfRange { .. }
            | Self::Overlap { .. }
            | Self::Hole { .. } => "give whole safetensors files; fetch or write this one again",
        }
    }
}

/// Where the data begins, by the first bytes of a file and its length.
pub fn data_begin(prefix: &[u8], file: u64) -> Result<u64, HeaderFault> {
    let says = match prefix.first_chunk::<PREFIX>() {
        Some(prefix) => u64::from_le_bytes(*prefix),
        None if file == 0 => return Err(HeaderFault::Empty),
        None => return Err(HeaderFault::NoLength { bytes: file }),
    };
    let there = file.saturating_sub(PREFIX as u64);
    if says > HEADER_MAX {
        return Err(HeaderFault::Absurd { says });
    }
    if says > there {
        return Err(HeaderFault::CutHeader { says, there });
    }
    Ok(PREFIX as u64 + says)
}

impl Header {
    /// Reads and checks a header, given with its length before it, of a file of so many bytes.
    pub fn parse(bytes: &[u8], file: u64) -> Result<Self, HeaderFault> {
        let data = data_begin(bytes, file)?;
        let json = usize::try_from(data).ok().and_then(|end| bytes.get(PREFIX..end));
        let json = json.ok_or(HeaderFault::CutHeader {
            says: data - PREFIX as u64,
            there: (bytes.len() - PREFIX) as u64,
        })?;
        let entries: Entries = serde_json::from_slice(json).map_err(|cause| HeaderFault::Json {
            cause: clipped(&cause.to_string()),
        })?;
        check_names(&entries)?;
        let tensors = entries
            .0
            .into_iter()
            .map(|(name, entry)| entry.checked(name, file - data));
        let mut tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        tensors.sort_by_key(|tensor| (tensor.begin, tensor.end));
        let mut by_name: Vec<usize> = (0..tensors.len()).collect();
        by_name.sort_by_key(|&place| tensors.get(place).map(|tensor| &tensor.name));
        let header = Self { tensors, by_name, data };
        header.check_cover(file - data)?;
        Ok(header)
    }

    /// The tensor of this name.
    pub fn named(&self, name: &str) -> Option<&Tensor> {
        let at = |&place: &usize| self.tensors.get(place).map(|tensor| tensor.name.as_str());
        let found = self.by_name.binary_search_by(|place| at(place).cmp(&Some(name))).ok()?;
        self.tensors.get(*self.by_name.get(found)?)
    }

    /// Each byte of the data is one tensor's.
    fn check_cover(&self, data: u64) -> Result<(), HeaderFault> {
        let mut former: Option<&Tensor> = None;
        for tensor in &self.tensors {
            let end = former.map_or(0, |former| former.end);
            if let (true, Some(former)) = (tensor.begin < end, former) {
                return Err(HeaderFault::Overlap {
                    first: former.name.clone(),
                    end,
                    second: tensor.name.clone(),
                    begin: tensor.begin,
                });
            }
            if tensor.begin > end {
                return Err(HeaderFault::Hole {
                    from: end,
                    to: tensor.begin,
                });
            }
            former = Some(tensor);
        }
        match former.map_or(0, |former| former.end) {
            end if end < data => Err(HeaderFault::Hole { from: end, to: data }),
            _ => Ok(()),
        }
    }
}

fn check_names(entries: &Entries) -> Result<(), HeaderFault> {
    let mut names: Vec<&str> = entries.0.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next) {
        Some((tensor, _)) => Err(HeaderFault::Twice {
            tensor: (*tensor).to_owned(),
        }),
        None => Ok(()),
    }
}

/// The word of the format.
fn word(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "F32",
        Dtype::F16 => "F16",
        Dtype::Bf16 => "BF16",
    }
}

/// One tensor as the JSON has it.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Entry {
    fn checked(self, name: String, data: u64) -> Result<Tensor, HeaderFault> {
        let Some(dtype) = Dtype::ALL.into_iter().find(|&dtype| word(dtype) == self.dtype) else {
            let (tensor, dtype) = (name, self.dtype);
            return Err(HeaderFault::Dtype { tensor, dtype });
        };
        let (begin, end) = self.data_offsets;
        let tensor = Tensor {
            name,
            dtype,
            shape: self.shape,
            begin,
            end,
        };
        let elements = tensor.shape.iter().try_fold(1_u64, |all, &one| all.checked_mul(one));
        let Some(wanted) = elements.and_then(|elements| elements.checked_mul(dtype.size() as u64)) else {
            let Tensor {
                name: tensor, shape, ..
            } = tensor;
            return Err(HeaderFault::Overflow { tensor, shape });
        };
        if end.checked_sub(begin) != Some(wanted) {
            let kind = tensor.kind();
            return Err(HeaderFault::Size {
                tensor: tensor.name,
                kind,
                wanted,
                begin,
                end,
            });
        }
        if end > data {
            let tensor = tensor.name;
            return Err(HeaderFault::OutOfRange { tensor, end, data });
        }
        Ok(tensor)
    }
}

/// The entries in the order of the header, those of one name too.
struct Entries(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EachEntry)
    }
}

struct EachEntry;

impl<'de> Visitor<'de> for EachEntry {
    type Value = Entries;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with an entry for each tensor")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
        let mut entries = Vec::new();
        let mut metadata = false;
        while let Some(name) = map.next_key::<String>()? {
            if name != METADATA {
                entries.push((name, map.next_value()?));
            } else if std::mem::replace(&mut metadata, true) {
                return Err(M::Error::custom("it has __metadata__ twice"));
            } else {
                // Only looked at: the output gets the bytes as they are.
                let _words: Option<HashMap<String, String>> = map.next_value()?;
            }
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
mod tests;
