//! Which engines a communicator has.

use std::fmt;
use std::str::FromStr;

use lanesum_plan::PlanError;

/// Where a communicator's calls may find their memory. Every communicator sums host memory; one with a GPU sums memory of that
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EngineChoice {
    /// Host memory only: no CUDA driver is touched.
    #[default]
    Host,
    /// A GPU on every rank, or an error that says why not.
    Cuda,
    /// A GPU on every rank if all have one that works together with the others', else host memory only.
    Auto,
}

impl EngineChoice {
    /// Every choice, by name.
    pub const ALL: [(&'static str, EngineChoice); 3] = [
        ("auto", EngineChoice::Auto),
        ("host", EngineChoice::Host),
        ("cuda", EngineChoice::Cuda),
    ];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Cuda => "cuda",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EngineChoice {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| choice).ok_or_else(|| PlanError::UnknownWord {
            kind: "engine",
            word: text.to_owned(),
            known: &["auto", "host", "cuda"],
        })
    }
}
