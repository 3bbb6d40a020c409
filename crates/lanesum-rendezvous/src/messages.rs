//! The packets of a meeting, as JSON.
//!
//! The first packet in each direction opens with magic, protocol and crate version: these fields, and `rank` where it is
//! known, keep their names in every future protocol, so that any two versions can tell each other that they differ.
use serde::{Deserialize, Serialize};

use crate::error::Refusal;
use crate::process::ProcessId;

const MAGIC: &str = "lanesum-rendezvous";
const PROTOCOL: u32 = 2;

/// What every version can read of a first packet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Opening {
    magic: String,
    protocol: u32,
    version: String,
    #[serde(default)]
    pub(crate) rank: Option<usize>,
}

/// What a first packet turned out to be.
#[derive(Debug)]
pub(crate) enum Opened {
    Same,
    OtherVersion { rank: Option<usize>, version: String },
    Stranger,
}

impl Opening {
    pub(crate) fn of(rank: usize) -> Self {
        Self {
            magic: MAGIC.to_owned(),
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rank: Some(rank),
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Opened {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(found) if found.magic != MAGIC => Opened::Stranger,
            Ok(found) if found.version() == Self::of(0).version() => Opened::Same,
            Ok(found) => Opened::OtherVersion {
                rank: found.rank,
                version: found.version(),
            },
            Err(_) => Opened::Stranger,
        }
    }

    fn version(&self) -> String {
        let version: String = self.version.chars().take(40).collect();
        format!("{version} (protocol {})", self.protocol)
    }

    /// This library's version as it stands in errors.
    pub(crate) fn own_version() -> String {
        Self::of(0).version()
    }
}

/// First packet of rank 0; a pidfd of its process goes with it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    #[serde(flatten)]
    pub(crate) opening: Opening,
    pub(crate) process: ProcessId,
}

/// First packet of another rank; a pidfd of its process goes with it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    #[serde(flatten)]
    pub(crate) opening: Opening,
    pub(crate) name: String,
    pub(crate) world: usize,
    pub(crate) process: ProcessId,
    pub(crate) terms: Vec<(String, String)>,
    pub(crate) facts: Hex,
}

/// All later packets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// From rank 0: who has not arrived yet, so that a rank whose deadline passes first can name them.
    Absent { ranks: Vec<usize> },
    /// From rank 0: everybody is here; one `Member` for each rank follows.
    Welcome { token: u64 },
    /// From rank 0, with the pidfd of that rank unless it shares the receiver's process.
    Member {
        rank: usize,
        process: ProcessId,
        facts: Hex,
    },
    /// From rank 0, with the descriptor.
    Share,
    /// To rank 0: a value to compare.
    Bring { what: String, digest: u64 },
    /// From rank 0: all brought the same.
    Agreed,
    /// To rank 0: bytes for all ranks, with a descriptor if `described`.
    Give { bytes: Hex, described: bool },
    /// From rank 0: what that rank gave, with its descriptor if `described`.
    Given { rank: usize, bytes: Hex, described: bool },
    /// To rank 0: nothing more to come.
    Finish,
    /// From rank 0: all have finished, the name is free.
    Done,
    /// To rank 0: the sender gives up.
    Leave { refusal: Refusal },
    /// From rank 0: the meeting has failed.
    Refused { refusal: Refusal },
}

impl Message {
    /// For errors.
    pub(crate) fn describe(&self) -> String {
        let name = match self {
            Self::Absent { .. } => "a list of absent ranks",
            Self::Welcome { .. } => "the welcome",
            Self::Member { .. } => "a member",
            Self::Share => "a shared descriptor",
            Self::Bring { what, .. } => return format!("its value of {what}"),
            Self::Agreed => "an agreement",
            Self::Give { .. } => "bytes for all ranks",
            Self::Given { rank, .. } => return format!("the bytes of rank {rank}"),
            Self::Finish => "the end of its set-up",
            Self::Done => "the end of the meeting",
            Self::Leave { .. } => "that it leaves",
            Self::Refused { .. } => "a refusal",
        };
        name.to_owned()
    }
}

/// Bytes as a hexadecimal string: half the length of JSON's list of numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl From<Hex> for String {
    fn from(hex: Hex) -> Self {
        const DIGITS: [char; 16] = [
            '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        ];
        let digit = |value: u8| DIGITS[usize::from(value & 15)];
        hex.0.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
    }
}

impl TryFrom<String> for Hex {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WRONG: &str = "not a hexadecimal string";
        let value = |digit: u8| {
            char::from(digit)
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
        };
        let pairs = text.as_bytes().chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return Err(WRONG);
        }
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        };
        pairs.map(byte).collect::<Option<Vec<u8>>>().map(Self).ok_or(WRONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_as_hex_and_wrong_hex_is_an_error() {
        let all = Hex((0..=255).collect());
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Hex>(&text).unwrap(), all);
        for wrong in ["\"abc\"", "\"zz\"", "\"é\"", "7", "[]"] {
            assert!(serde_json::from_str::<Hex>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn openings_tell_versions_and_strangers_apart() {
        let own = serde_json::to_vec(&Opening::of(3)).unwrap();
        assert!(matches!(Opening::read(&own), Opened::Same));
        let future = br#"{"magic":"lanesum-rendezvous","protocol":9,"version":"4.0.0","rank":2,"news":[1]}"#;
        match Opening::read(future) {
            Opened::OtherVersion { rank, version } => {
                assert_eq!((rank, version.as_str()), (Some(2), "4.0.0 (protocol 9)"));
            }
            Opened::Same | Opened::Stranger => panic!("not seen as another version"),
        }
        for garbage in [
            &b""[..],
            b"GET / HTTP/1.1",
            b"{}",
            b"\xff\xfe",
            br#"{"magic":"x","protocol":1,"version":""}"#,
        ] {
            assert!(matches!(Opening::read(garbage), Opened::Stranger));
        }
    }
}
