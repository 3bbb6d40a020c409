//! From a rendezvous name, which may be any string, to file names that fit into a socket address.
use std::path::{Path, PathBuf};

use crate::error::RendezvousError;

/// `sun_path` holds 108 bytes, the last of which is a zero.
const ADDRESS_LIMIT: usize = 107;
const LONGEST_STEM: usize = 64;
/// ".sock" and ".lock" are equally long.
const SUFFIX: usize = 5;

/// The two files of one name.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) socket: PathBuf,
    pub(crate) lock: PathBuf,
}

impl Paths {
    /// `directory` must be spelt the same on all ranks (canonical), since its length decides the form of the name.
    pub(crate) fn new(directory: &Path, name: &str) -> Result<Self, RendezvousError> {
        let room = ADDRESS_LIMIT.saturating_sub(directory.as_os_str().len() + 1 + SUFFIX);
        let stem = stem(name, room.min(LONGEST_STEM));
        let socket = directory.join(format!("{stem}.sock"));
        if socket.as_os_str().len() > ADDRESS_LIMIT {
            return Err(RendezvousError::PathTooLong {
                path: socket,
                limit: ADDRESS_LIMIT,
            });
        }
        let lock = directory.join(format!("{stem}.lock"));
        Ok(Self { socket, lock })
    }
}

/// Plain names stay readable; others keep as much as fits and get a hash, so that different names give different files.
fn stem(name: &str, room: usize) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty() && name.len() <= room && name.chars().all(plain) {
        return name.to_owned();
    }
    let hash = format!("{:016x}", fnv1a(name.as_bytes()));
    let readable: String = name
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .take(room.saturating_sub(hash.len() + 1))
        .collect();
    if readable.is_empty() {
        hash
    } else {
        format!("{readable}-{hash}")
    }
}

/// FNV-1a with 64 bits: the same in every build, which the standard library's hasher does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket_name(directory: &str, name: &str) -> String {
        let paths = Paths::new(Path::new(directory), name).unwrap();
        assert!(paths.socket.as_os_str().len() <= ADDRESS_LIMIT);
        assert_eq!(paths.socket.with_extension("lock"), paths.lock);
        paths.socket.file_name().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn plain_names_are_kept() {
        assert_eq!(socket_name("/tmp/x", "job-7.a_B"), "job-7.a_B.sock");
    }

    #[test]
    fn odd_names_become_one_file_each() {
        let odd = [
            "",
            "a/b",
            "a_b/",
            "../../etc/passwd",
            "a b",
            "a\0b",
            "日本",
            "a\nb",
            &"x".repeat(1000),
            &"x".repeat(1001),
        ];
        let mut seen: Vec<String> = odd.iter().map(|name| socket_name("/tmp/x", name)).collect();
        assert!(seen.iter().all(|file| !file.contains(['/', '\0', ' ', '\n'])));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), odd.len());
    }

    #[test]
    fn a_long_directory_shortens_the_name_until_nothing_fits() {
        let deep = format!("/{}", "d".repeat(70));
        assert!(socket_name(&deep, &"n".repeat(50)).len() <= 36);
        let deeper = format!("/{}", "d".repeat(100));
        let error = Paths::new(Path::new(&deeper), "n").unwrap_err();
        assert!(matches!(error, RendezvousError::PathTooLong { .. }), "{error}");
    }
}
