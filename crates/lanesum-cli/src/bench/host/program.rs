//! How an engine is started, and what of that is told.

use std::ffi::OsString;
use std::path::Path;

/// How an engine is started: `before -n RANKS after FOLDER CPUS SECONDS`.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in rows.
    pub name: &'static str,
    /// The launcher and its flags.
    pub before: Vec<OsString>,
    /// The program of each rank and its own arguments.
    pub after: Vec<OsString>,
    /// What is set for it.
    pub variables: Vec<(&'static str, OsString)>,
    /// A word without which a version is not its own.
    pub brand: &'static str,
}

impl Program {
    /// How it is started, for people: variables, launcher and flags, without the folders of this machine.
    pub fn told(&self) -> String {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_string_lossy()));
        let words = self.before.iter().map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = variables.chain(words).map(|word| without_place(&word)).collect();
        words.join(" ")
    }
}

/// A word with the last part alone of the path in it. It is known where a word ends, so that a path may hold spaces.
fn without_place(word: &str) -> String {
    let begins = |before: &str| {
        let flag = before.strip_prefix('-');
        before.is_empty() || before.ends_with(['=', ',', ':']) || flag.is_some_and(|flag| flag.len() == 1)
    };
    let mut slashes = word.match_indices('/').map(|(at, _)| at);
    match slashes.find(|&at| begins(&word[..at])) {
        Some(at) => {
            let name = Path::new(&word[at..]).file_name().unwrap_or_default();
            format!("{}{}", &word[..at], name.to_string_lossy())
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_without_folders() {
        let program = Program {
            name: "impi",
            before: [
                "/a b/c/mpiexec",
                "-I/a/my files/include",
                "--tmp=/d e/f",
                "vader,self",
                "a/b",
            ]
            .map(Into::into)
            .into(),
            after: vec!["/tmp/c".into()],
            variables: vec![("I_MPI_FABRICS", "shm".into()), ("SOME_ROOT", "/opt/x y/z/".into())],
            brand: "Intel",
        };
        assert_eq!(
            program.told(),
            "I_MPI_FABRICS=shm SOME_ROOT=z mpiexec -Iinclude --tmp=f vader,self a/b"
        );
    }
}
