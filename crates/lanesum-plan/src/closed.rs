//! Closed sets of words, each written down once.
//!
//! An operation, a dtype or an algorithm has a name for people, a name in JSON, a number in the descriptors that ranks
//! exchange, and a place in the list of all its kind. Four tables kept in step by hand would drift apart; the macro
//! makes all four from one list.

macro_rules! closed_words {
    (
        $(#[$outer:meta])*
        pub enum $set:ident ($kind:literal) {
            $( $(#[$inner:meta])* $word:ident = $code:literal => $text:literal, )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $set {
            $( $(#[$inner])* #[serde(rename = $text)] $word = $code, )+
        }

        impl $set {
            /// Every word of the set, in the order of their codes.
            pub const ALL: [$set; [$($text),+].len()] = [$($set::$word),+];

            /// The word as people and JSON write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( $set::$word => $text, )+
                }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $set {
            type Err = crate::PlanError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|word| word.name() == text).ok_or_else(|| crate::PlanError::UnknownWord {
                    kind: $kind,
                    word: text.to_owned(),
                    known: &[$($text),+],
                })
            }
        }
    };
}

/// Numbers for the sets that ranks write into descriptors.
macro_rules! coded {
    ($($set:ident),+) => { $(
        impl $set {
            /// The number that stands for the word where ranks exchange descriptors.
            #[inline]
            pub(crate) const fn code(self) -> u64 {
                self as u64
            }

            /// The word with this code, if there is one.
            pub(crate) fn from_code(code: u64) -> Option<$set> {
                Self::ALL.into_iter().find(|word| word.code() == code)
            }
        }
    )+ };
}

pub(crate) use {closed_words, coded};
