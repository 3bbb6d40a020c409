//! Which kernels a world's image must have: every algorithm of the CUDA engine that brings kernels, for every dtype and
//! every operation of the plan, and the two notices. The sources make theirs from macros; this list comes from the types
//! that a request is made of, so a dtype that is added to the plan alone is noticed here.

use lanesum_plan::{AlgorithmName, Dtype, Engine, Operation};

/// Kernels that are no collective.
const NOTICES: [&str; 2] = ["lanesum_farewell", "lanesum_prove"];

/// The names that the image of a world has, sorted.
pub fn expected(world: u8) -> Vec<String> {
    let mut names: Vec<String> = NOTICES.map(str::to_owned).into();
    let of_cuda = |name: &AlgorithmName| name.engine() == Some(Engine::Cuda);
    for algorithm in AlgorithmName::ALL.into_iter().filter(of_cuda) {
        for dtype in Dtype::ALL {
            for operation in Operation::ALL {
                names.push(format!("{algorithm}_w{world}_{dtype}_{operation}"));
            }
        }
    }
    names.sort();
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
        let names = expected(3);
        assert_eq!(names.len(), Dtype::ALL.len() * Operation::ALL.len() + 2);
        assert!(names.contains(&"one_shot_push_w3_bf16_max".to_owned()), "{names:?}");
    }
}
