//! Headers as they should be, as they should not, and as nobody would write them; the `safetensors` crate is the judge.

use proptest::prelude::*;
use safetensors::SafeTensors;

use super::*;

/// A file of this JSON and so much data.
fn file(json: &str, data: usize) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn parsed(file: &[u8]) -> Result<Header, HeaderFault> {
    Header::parse(file, file.len() as u64)
}

fn entry(dtype: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

/// A header of such entries, and what is said of it.
fn fault(entries: &[(&str, String)], data: usize) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(name, entry)| format!(r#""{name}":{entry}"#))
        .collect();
    let file = file(&format!("{{{}}}", entries.join(",")), data);
    parsed(&file).expect_err("is broken").to_string()
}

#[test]
fn tensors_come_in_the_order_of_their_data_and_by_name() {
    let json = format!(
        r#"{{"b":{},"__metadata__":{{"format":"pt"}},"a":{},"s":{},"e":{}}}  "#,
        entry("F32", "[1,2]", 4, 12),
        entry("BF16", "[2]", 0, 4),
        entry("F16", "[]", 12, 14),
        entry("F32", "[0,7]", 4, 4),
    );
    let header = parsed(&file(&json, 14)).expect("is whole");
    let names: Vec<&str> = header.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a", "e", "b", "s"]);
    assert_eq!(header.data, 8 + json.len() as u64);
    let b = header.named("b").expect("is there");
    assert_eq!((b.kind().as_str(), b.begin, b.end), ("F32 [1, 2]", 4, 12));
    assert_eq!(header.named("s").map(Tensor::kind).as_deref(), Some("F16 []"));
    assert!(header.named("c").is_none() && header.named("__metadata__").is_none());
}

#[test]
fn a_file_may_have_no_tensors() {
    for json in ["{}", r#"{"__metadata__":{}}"#, r#"{"__metadata__":null}"#] {
        assert_eq!(parsed(&file(json, 0)).expect("is whole").tensors, []);
    }
    let fault = parsed(&file("{}", 3)).expect_err("has bytes of nobody");
    assert_eq!(fault, HeaderFault::Hole { from: 0, to: 3 });
}

#[test]
fn lengths_are_not_believed() {
    assert_eq!(data_begin(&[], 0), Err(HeaderFault::Empty));
    assert_eq!(data_begin(&[1, 0, 0], 3), Err(HeaderFault::NoLength { bytes: 3 }));
    let says = u64::MAX;
    assert_eq!(
        data_begin(&says.to_le_bytes(), 1 << 40),
        Err(HeaderFault::Absurd { says })
    );
    let says = 100_000_001_u64;
    assert_eq!(
        data_begin(&says.to_le_bytes(), 1 << 40),
        Err(HeaderFault::Absurd { says })
    );
    let says = 100_000_000_u64;
    assert_eq!(data_begin(&says.to_le_bytes(), 1 << 40), Ok(says + 8));
    let there = 92;
    assert_eq!(
        data_begin(&says.to_le_bytes(), 100),
        Err(HeaderFault::CutHeader { says, there })
    );
}

#[test]
fn each_fault_names_the_tensor_and_what_is_wrong() {
    let whole = || entry("F32", "[2]", 0, 8);
    for (entries, data, wanted) in [
        (vec![("w", whole()), ("w", whole())], 8, "has tensor \"w\" twice"),
        (
            vec![("w", entry("I64", "[1]", 0, 8))],
            8,
            "tensor \"w\" has dtype I64, and lanesum sums F32, F16 and BF16",
        ),
        (
            vec![("w", entry("F32", "[3]", 0, 8))],
            8,
            "tensor \"w\" is F32 [3], which takes 12 bytes, and its offsets are 0 to 8",
        ),
        (
            vec![("w", entry("F32", "[0]", 8, 0))],
            8,
            "tensor \"w\" is F32 [0], which takes 0 bytes, and its offsets are 8 to 0",
        ),
        (
            vec![("w", entry("F32", "[4294967296,4294967296,0]", 0, 8))],
            8,
            "tensor \"w\" has a shape without end",
        ),
        (
            vec![("w", whole())],
            7,
            "tensor \"w\" ends at byte 8 of the data, and the file has 7 bytes of data",
        ),
        (
            vec![("w", whole()), ("v", entry("F32", "[2]", 4, 12))],
            12,
            "tensors \"w\" and \"v\" overlap: one ends at byte 8 of the data, the other begins at 4",
        ),
        (
            vec![("w", whole()), ("v", entry("F32", "[1]", 12, 16))],
            16,
            "bytes 8 to 12 of the data belong to no tensor",
        ),
        (vec![("w", whole())], 9, "bytes 8 to 9 of the data belong to no tensor"),
        (
            vec![("w", r#"{"dtype":"F32","shape":[2]}"#.into())],
            8,
            "missing field `data_offsets`",
        ),
        (vec![("w", entry("F32", "[-2]", 0, 8))], 8, "expected u64"),
        (
            vec![("__metadata__", "{}".into()), ("__metadata__", "{}".into())],
            0,
            "it has __metadata__ twice",
        ),
        (vec![("__metadata__", r#"{"a":1}"#.into())], 0, "expected a string"),
    ] {
        let said = fault(&entries, data);
        assert!(said.contains(wanted), "{said:?} lacks {wanted:?}");
    }
    for json in ["", "[]", "{", "{\"w\"", "nonsense", "{}{}", "\u{0}"] {
        let fault = parsed(&file(json, 0)).expect_err("is no JSON");
        assert!(matches!(fault, HeaderFault::Json { .. }), "{json:?}: {fault}");
    }
    let deep = format!("{{\"w\":{}", "[".repeat(1_000_000));
    assert!(matches!(parsed(&file(&deep, 0)), Err(HeaderFault::Json { .. })));
}

#[test]
fn a_name_without_end_or_with_line_breaks_stays_on_a_line() {
    let name = format!(r"a\n\u001b[31m{}", "x".repeat(100_000));
    let said = fault(&[(&name, entry("I8", "[1]", 0, 1))], 1);
    assert!(said.len() < 400 && !said.contains(['\n', '\u{1b}']), "{said}");
    let said = fault(&[("w", entry(&"X".repeat(100_000), "[1]", 0, 1))], 1);
    assert!(said.len() < 400, "{said}");
}

/// What the crate finds of our dtypes, or nothing.
fn judged(file: &[u8]) -> Option<Vec<(String, Vec<u64>, u64)>> {
    let (_, metadata) = SafeTensors::read_metadata(file).ok()?;
    let mut tensors = Vec::new();
    for name in metadata.offset_keys() {
        let info = metadata.info(&name)?;
        use safetensors::Dtype::{BF16, F16, F32};
        if ![F32, F16, BF16].contains(&info.dtype) {
            return None;
        }
        let shape = info.shape.iter().map(|&one| one as u64).collect();
        tensors.push((name, shape, info.data_offsets.0 as u64));
    }
    tensors.sort();
    Some(tensors)
}

fn found(file: &[u8]) -> Result<Vec<(String, Vec<u64>, u64)>, HeaderFault> {
    let header = parsed(file)?;
    let mut tensors: Vec<_> = header
        .tensors
        .iter()
        .map(|tensor| (tensor.name.clone(), tensor.shape.clone(), tensor.begin))
        .collect();
    for (name, ..) in &tensors {
        assert_eq!(header.named(name).map(|tensor| &tensor.name), Some(name));
    }
    tensors.sort();
    Ok(tensors)
}

/// The same as the crate says, but for names that are there twice: it keeps one of them and says nothing.
fn agreed(file: &[u8]) -> Result<(), TestCaseError> {
    match found(file) {
        Ok(tensors) => prop_assert_eq!(Some(tensors), judged(file)),
        Err(HeaderFault::Twice { .. }) => {}
        Err(fault) => prop_assert!(judged(file).is_none(), "{} is refused, and the crate takes it", fault),
    }
    Ok(())
}

/// Entries that fit together, mostly, in any order.
fn entries() -> impl Strategy<Value = (Vec<(String, String)>, usize)> {
    let dtype = prop::sample::select(vec![("F32", 4), ("F16", 2), ("BF16", 2), ("F32", 4), ("I64", 8)]);
    let dimensions = prop::collection::vec(0..4_u64, 0..3);
    let slip = prop_oneof![40 => Just(0), 1 => -1..=1_i64];
    let tensor = ("[a-c]{1,3}", dtype, dimensions, slip);
    prop::collection::vec(tensor, 0..6).prop_flat_map(|tensors| {
        let mut end = 0;
        let mut entries = Vec::new();
        for (name, (dtype, size), shape, slip) in tensors {
            let begin = end;
            end += shape.iter().product::<u64>() * size;
            let told = begin.saturating_add_signed(slip);
            entries.push((name, entry(dtype, &format!("{shape:?}"), told, end)));
        }
        (Just(entries).prop_shuffle(), Just(end as usize))
    })
}

proptest! {
    #[test]
    fn well_made_headers_are_read_as_the_crate_reads_them((entries, data) in entries(), more in prop_oneof![9 => Just(0), 1 => 0..3_usize]) {
        let entries: Vec<String> = entries.iter().map(|(name, entry)| format!(r#""{name}":{entry}"#)).collect();
        agreed(&file(&format!("{{{}}}", entries.join(",")), data + more))?;
    }

    #[test]
    fn damaged_headers_are_refused_as_the_crate_refuses_them(
        (entries, data) in entries(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let entries: Vec<String> = entries.iter().map(|(name, entry)| format!(r#""{name}":{entry}"#)).collect();
        let mut file = file(&format!("{{{}}}", entries.join(",")), data);
        for (place, byte) in hits {
            let place = place.index(file.len());
            file[place] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        agreed(&file)?;
    }

    #[test]
    fn bytes_of_any_kind_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), says in 0..200_u64) {
        agreed(&bytes)?;
        let mut file = says.to_le_bytes().to_vec();
        file.extend(bytes);
        agreed(&file)?;
    }
}
