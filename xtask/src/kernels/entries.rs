//! Which kernels an image must have. For calls: every algorithm of the CUDA engine that brings kernels, for every dtype and
//! every operation of the plan, and the two notices. The sources make theirs from macros; this list comes from the types
//! that a request is made of, so a dtype that is added to the plan alone is noticed here.

use std::collections::BTreeMap;

use lanesum_plan::{AlgorithmName, Dtype, Engine, Operation};

use super::units::{Module, Unit};

/// Kernels that are no collective.
const NOTICES: [&str; 2] = ["lanesum_farewell", "lanesum_prove"];

/// What the bench measures: floors, and calls that go without some guard.
const BENCH: [&str; 5] = ["empty", "flag_round", "no_header", "no_deadline", "bare"];

/// The names that the image of a unit has, sorted.
pub fn expected(unit: Unit) -> Vec<String> {
    let mut names = match unit.module {
        Module::Calls => of_calls(unit.world),
        Module::Bench => BENCH.map(|what| format!("bench_{what}_w{}", unit.world)).into(),
    };
    names.sort();
    names
}

fn of_calls(world: u8) -> Vec<String> {
    let mut names: Vec<String> = NOTICES.map(str::to_owned).into();
    // Two shots need somebody else.
    let is_there = |name: &AlgorithmName| {
        name.engine() == Some(Engine::Cuda) && (world > 1 || *name != AlgorithmName::TwoShotPush)
    };
    for algorithm in AlgorithmName::ALL.into_iter().filter(is_there) {
        for dtype in Dtype::ALL {
            for operation in Operation::ALL {
                names.push(format!("{algorithm}_w{world}_{dtype}_{operation}"));
            }
        }
    }
    if world > 1 {
        names.push(format!("chunks_w{world}"));
    }
    names
}

/// The names of the entries in a PTX text, sorted.
pub fn in_ptx(ptx: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, rest) = line.split_once(".entry ")?;
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    };
    let mut names: Vec<String> = ptx.lines().filter_map(name).collect();
    names.sort();
    names
}

/// The threads of the largest block of each entry of a PTX text, which it says in `.maxntid`.
///
/// # Errors
/// What is wrong, in words: some entry says none.
pub fn threads_in_ptx(ptx: &str) -> Result<BTreeMap<String, u32>, String> {
    let mut threads = BTreeMap::new();
    let mut entry = None;
    for line in ptx.lines() {
        entry = in_ptx(line).pop().or(entry);
        let said = line
            .trim()
            .strip_prefix(".maxntid ")
            .and_then(|said| said.split(',').next()?.trim().parse().ok());
        if let (Some(said), Some(entry)) = (said, entry.take_if(|_| said.is_some())) {
            threads.insert(entry, said);
        }
    }
    let silent: Vec<String> = in_ptx(ptx)
        .into_iter()
        .filter(|entry| !threads.contains_key(entry))
        .collect();
    match silent.is_empty() {
        true => Ok(threads),
        false => Err(format!("no largest block is said by {}", silent.join(", "))),
    }
}

/// How the lists differ, in words; `None` where they do not.
pub fn difference(found: &[String], expected: &[String]) -> Option<String> {
    let without = |from: &[String], other: &[String]| -> Vec<String> {
        from.iter().filter(|name| !other.contains(name)).cloned().collect()
    };
    let missing = without(expected, found);
    let unknown = without(found, expected);
    match (missing.is_empty(), unknown.is_empty()) {
        (true, true) if found.len() == expected.len() => None,
        (true, true) => Some("some entry stands there twice".to_owned()),
        (false, true) => Some(format!("no entry {}", missing.join(", "))),
        (true, false) => Some(format!("an entry too many: {}", unknown.join(", "))),
        (false, false) => Some(format!(
            "no entry {}; too many: {}",
            missing.join(", "),
            unknown.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_and_functions_are_not() {
        let ptx = ".func _Z5sweep(\n.visible .entry b_w2(\n\t.param .u64 x\n)\n.weak .entry a(";
        assert_eq!(in_ptx(ptx), ["a", "b_w2"]);
    }

    #[test]
    fn each_difference_is_named() {
        let list = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        assert_eq!(difference(&list("a b"), &list("a b")), None);
        assert_eq!(difference(&list("a"), &list("a b")).as_deref(), Some("no entry b"));
        assert_eq!(
            difference(&list("a b c"), &list("a b")).as_deref(),
            Some("an entry too many: c")
        );
        assert_eq!(
            difference(&list("a c"), &list("a b")).as_deref(),
            Some("no entry b; too many: c")
        );
        assert!(difference(&list("a a"), &list("a")).is_some());
    }

    #[test]
    fn a_world_has_every_dtype_with_every_operation() {
        let names = |world| {
            expected(Unit {
                module: Module::Calls,
                world,
            })
        };
        let requests = Dtype::ALL.len() * Operation::ALL.len();
        // The notices, and one kernel of chunks.
        assert_eq!(names(3).len(), 2 * requests + 3);
        assert!(names(3).contains(&"chunks_w3".to_owned()));
        assert!(
            names(3).contains(&"two_shot_push_w3_bf16_max".to_owned()),
            "{:?}",
            names(3)
        );
        assert_eq!(names(1).len(), requests + 2);
    }

    #[test]
    fn each_entry_says_its_largest_block() {
        let entry = |name: &str, threads: u32| {
            format!(".visible .entry {name}(\n)\n.maxntid {threads}, 1, 1\n.minnctapersm 1\n{{\n}}\n")
        };
        let both = entry("a", 768) + &entry("b", 512);
        assert_eq!(
            threads_in_ptx(&both),
            Ok(BTreeMap::from([("a".to_owned(), 768), ("b".to_owned(), 512)]))
        );
        let silent = ".visible .entry c(\n{\n}\n".to_owned();
        assert_eq!(
            threads_in_ptx(&(silent + &both)),
            Err("no largest block is said by c".to_owned())
        );
        assert_eq!(threads_in_ptx(""), Ok(BTreeMap::new()));
    }
}
