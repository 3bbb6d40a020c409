//! What is asked of a plan: words that name what is not to be left to it.

use std::fmt;

use lanesum_plan::{AlgorithmChoice, AlgorithmName, Engine, Limits, PathChoice, Policy, Preference};

use crate::errors::CliError;

/// One word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Preference(Preference),
    LeastMemory,
    AvoidPeer,
    Path(PathChoice),
    Algorithm(AlgorithmName),
}

impl Word {
    /// Every word that there is.
    pub fn all() -> Vec<Word> {
        let ours = AlgorithmName::pinnable().filter(|name| name.engine() == Some(Engine::Cuda));
        let preferences = Preference::ALL.map(Word::Preference);
        let paths = [PathChoice::Peer, PathChoice::HostStaged].map(Word::Path);
        preferences
            .into_iter()
            .chain([Word::LeastMemory, Word::AvoidPeer])
            .chain(paths)
            .chain(ours.map(Word::Algorithm))
            .collect()
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Preference(preference) => preference.name(),
            Self::LeastMemory => "least_memory",
            Self::AvoidPeer => "avoid_peer",
            Self::Path(path) => path.name(),
            Self::Algorithm(name) => name.name(),
        }
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    words: Vec<Word>,
    pub preference: Preference,
    pub policy: Policy,
    pub limits: Limits,
}

impl Asked {
    /// From words; none may gainsay another.
    pub fn of(words: &[Word]) -> Result<Asked, CliError> {
        let mut asked = Asked { ..Asked::default() };
        let mut paths: Vec<Word> = Vec::new();
        let mut algorithms: Vec<Word> = Vec::new();
        let mut preferences: Vec<Word> = Vec::new();
        for word in words {
            // Said twice is said once.
            if asked.words.contains(word) {
                continue;
            }
            asked.words.push(*word);
            match word {
                Word::Preference(preference) => {
                    asked.preference = *preference;
                    preferences.push(*word);
                }
                Word::LeastMemory => asked.limits = Limits::LEAST,
                Word::AvoidPeer => {
                    asked.policy.path = PathChoice::HostStaged;
                    paths.push(*word);
                }
                Word::Path(path) => {
                    asked.policy.path = *path;
                    paths.push(*word);
                }
                Word::Algorithm(name) => {
                    asked.policy.algorithm = AlgorithmChoice::Only(*name);
                    algorithms.push(*word);
                }
            }
        }
        for named in [preferences, paths, algorithms] {
            if let [first, .., last] = named.as_slice() {
                return Err(CliError::Usage {
                    cause: format!("--policy: {} and {} gainsay each other", first.name(), last.name()),
                    hint: "name one of them".into(),
                });
            }
        }
        Ok(asked)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.words.iter().map(|word| word.name()).collect();
        f.pad(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_add_up_or_gainsay_each_other() {
        let asked = Asked::of(&[
            Word::Preference(Preference::Fastest),
            Word::AvoidPeer,
            Word::Algorithm(AlgorithmName::TwoShotPush),
            Word::LeastMemory,
        ])
        .expect("they add up");
        assert_eq!(asked.preference, Preference::Fastest);
        assert_eq!(asked.policy.path, PathChoice::HostStaged);
        assert_eq!(
            asked.policy.algorithm,
            AlgorithmChoice::Only(AlgorithmName::TwoShotPush)
        );
        assert_eq!(asked.limits, Limits::LEAST);
        assert_eq!(asked.to_string(), "fastest, avoid_peer, two_shot_push, least_memory");
        for two in [
            [Word::AvoidPeer, Word::Path(PathChoice::Peer)],
            [
                Word::Preference(Preference::Exact),
                Word::Preference(Preference::Fastest),
            ],
            [
                Word::Algorithm(AlgorithmName::OneShotPush),
                Word::Algorithm(AlgorithmName::TwoShotPush),
            ],
        ] {
            assert!(matches!(Asked::of(&two), Err(CliError::Usage { .. })), "{two:?}");
        }
    }

    #[test]
    fn every_word_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Word::all().into_iter().map(Word::name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
