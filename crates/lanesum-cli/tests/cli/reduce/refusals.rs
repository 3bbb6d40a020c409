//! What is refused, with what words, and that nothing is left of it.

use std::os::unix::fs::symlink;

use super::files::{Folder, f32s, halves, headed, read, reduced, refused, tensor};
use crate::common::{json, run};

fn pair() -> (Folder, String, String) {
    let folder = Folder::new();
    let a = folder.tensors("a.safetensors", &[f32s("w", &[2], &[1.0, 2.0])], "", 0);
    let output = folder.text("sum.safetensors");
    (folder, a, output)
}

/// Is refused when it is the second file, and nothing is written.
fn broken(bytes: &[u8], wanted: &str) {
    let (folder, a, output) = pair();
    let b = folder.bytes("b.safetensors", bytes);
    for files in [[&a, &b], [&b, &a]] {
        let said = refused(&files.map(String::as_str), &output, &[], 1);
        assert!(said.contains(wanted), "{said:?} lacks {wanted:?}");
        assert!(
            said.contains(&format!("error: {b}: ")) && said.contains("\nhint: "),
            "{said}"
        );
    }
    assert_eq!(folder.left(&["a.safetensors", "b.safetensors"]), [""; 0]);
}

#[test]
fn broken_files_are_named_with_what_is_wrong() {
    let entry = |begin: u64, end: u64| format!(r#"{{"dtype":"F32","shape":[2],"data_offsets":[{begin},{end}]}}"#);
    let whole = format!(r#"{{"w":{}}}"#, entry(0, 8));
    broken(b"", "the file is empty");
    broken(b"1234567", "the file has 7 bytes, and a safetensors file at least 8");
    broken(
        &u64::MAX.to_le_bytes(),
        "the header would have 18,446,744,073,709,551,615 bytes",
    );
    broken(
        &[&5_000_u64.to_le_bytes()[..], whole.as_bytes()].concat(),
        "the header would have 5,000 bytes, and the file ends after 54 of them",
    );
    broken(
        b"PK\x03\x04 no safetensors file at all",
        "and the format allows 100,000,000",
    );
    broken(
        &headed("this is no JSON.", &[]),
        "the header is not what the format wants: expected",
    );
    broken(&headed("\u{0}\u{0}", &[]), "the header is not what the format wants");
    broken(
        &headed(&whole, &[0; 7]),
        "tensor \"w\" ends at byte 8 of the data, and the file has 7",
    );
    broken(&headed(&whole, &[0; 9]), "bytes 8 to 9 of the data belong to no tensor");
    let twice = format!(r#"{{"w":{0},"w":{0}}}"#, entry(0, 8));
    broken(&headed(&twice, &[0; 8]), "the header has tensor \"w\" twice");
    let overlap = format!(r#"{{"w":{},"v":{}}}"#, entry(0, 8), entry(4, 12));
    broken(&headed(&overlap, &[0; 12]), "tensors \"w\" and \"v\" overlap");
    let far = format!(r#"{{"w":{}}}"#, entry(u64::MAX - 8, u64::MAX));
    broken(
        &headed(&far, &[0; 8]),
        "tensor \"w\" ends at byte 18,446,744,073,709,551,615",
    );
    let backwards = format!(r#"{{"w":{}}}"#, entry(8, 0));
    broken(&headed(&backwards, &[0; 8]), "its offsets are 8 to 0");
}

#[test]
fn dtypes_that_are_not_summed_are_named() {
    for (dtype, size) in [("I64", 8), ("BOOL", 1), ("F64", 8), ("F8_E4M3", 1), ("F128", 16)] {
        let (folder, a, output) = pair();
        let file = tensor("model.ids", dtype, &[3], vec![0; 3 * size]);
        let b = folder.tensors("b.safetensors", &[file], "", 0);
        let said = refused(&[&a, &b], &output, &[], 1);
        let wanted = format!("{b}: tensor \"model.ids\" has dtype {dtype}, and lanesum sums F32, F16 and BF16\n");
        assert!(said.contains(&wanted), "{said:?} lacks {wanted:?}");
        assert!(said.contains("hint: convert the tensor"), "{said}");
    }
}

#[test]
fn the_first_difference_is_told_with_both_files_and_what_each_has() {
    for (tensors, wanted) in [
        (
            vec![f32s("w", &[1, 2], &[1.0, 2.0])],
            "tensor \"w\" is F32 [2] in A, and F32 [1, 2] in B",
        ),
        (
            vec![halves("w", "BF16", &[0, 0])],
            "tensor \"w\" is F32 [2] in A, and BF16 [2] in B",
        ),
        (
            vec![f32s("x", &[2], &[1.0, 2.0])],
            "tensor \"w\" is in A (F32 [2]), and not in B",
        ),
        (
            vec![f32s("w", &[2], &[1.0, 2.0]), f32s("x", &[], &[1.0])],
            "tensor \"x\" is in B (F32 []), and not in A",
        ),
        (vec![], "tensor \"w\" is in A (F32 [2]), and not in B"),
    ] {
        let (folder, a, output) = pair();
        let b = folder.tensors("b.safetensors", &tensors, "", 0);
        let said = refused(&[&a, &a, &b], &output, &[], 1);
        let wanted = wanted.replace(" in A", &format!(" in {a}"));
        let wanted = wanted.replace(" in B", &format!(" in {b}"));
        assert!(said.contains(&wanted), "{said:?} lacks {wanted:?}");
        assert_eq!(folder.left(&["a.safetensors", "b.safetensors"]), [""; 0]);
    }
}

#[test]
fn what_is_no_readable_file_is_named() {
    let (folder, a, output) = pair();
    std::fs::create_dir(folder.path("folder")).unwrap();
    symlink("loop", folder.path("loop")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path("pipe"), rustix::fs::Mode::RUSR).unwrap();
    for (name, wanted) in [
        ("folder", "is a folder, and no regular file"),
        ("pipe", "is a pipe, and no regular file"),
        ("loop", "Too many levels of symbolic links"),
        ("absent", "No such file or directory"),
        ("a.safetensors/x", "Not a directory"),
    ] {
        let path = folder.text(name);
        let said = refused(&[&a, &path], &output, &[], 1);
        assert!(said.contains(&path) && said.contains(wanted), "{said}");
    }
    let said = refused(&[&a, "/dev/zero"], &output, &[], 1);
    assert!(said.contains("/dev/zero is a device, and no regular file"), "{said}");
}

#[test]
fn one_file_or_seventeen_are_no_sum() {
    let (_folder, a, output) = pair();
    let said = refused(&[&a], &output, &[], 2);
    assert!(said.contains("1 file is given, and 2 to 16 can be summed"), "{said}");
    let said = refused(&[a.as_str(); 17], &output, &[], 2);
    assert!(said.contains("17 files are given, and 2 to 16 can be summed"), "{said}");
    let said = refused(&[&a, &a], &output, &["--op", "mean"], 2);
    assert!(said.contains("[possible values: sum, max, min]"), "{said}");
}

#[test]
fn an_output_that_exists_is_replaced_only_by_force() {
    let (folder, a, output) = pair();
    folder.bytes("sum.safetensors", b"precious");
    let said = refused(&[&a, &a], &output, &[], 2);
    assert!(
        said.contains(&format!("the output {output} exists\nhint: --force replaces it")),
        "{said}"
    );
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    // A run that fails has replaced nothing.
    let b = folder.bytes("b.safetensors", b"");
    refused(&[&a, &b], &output, &["--force"], 1);
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    reduced(&[a.clone(), a], &output, &["--force"]);
    assert_eq!(read(&folder.path("sum.safetensors"), "w").1, [2]);
    assert_eq!(folder.left(&["a.safetensors", "b.safetensors"]), ["sum.safetensors"]);
}

#[test]
fn an_output_that_is_an_input_is_refused_by_whatever_name() {
    let (folder, a, _) = pair();
    let before = std::fs::read(&a).unwrap();
    symlink(&a, folder.path("link")).unwrap();
    std::fs::hard_link(&a, folder.path("hard")).unwrap();
    for name in ["a.safetensors", "./a.safetensors", "link", "hard"] {
        let said = refused(&[&a, &a], &folder.text(name), &["--force"], 2);
        assert!(said.contains(&format!("is the input {a}")), "{said}");
    }
    assert_eq!(std::fs::read(&a).unwrap(), before);
}

#[test]
fn an_output_that_can_be_no_file_is_refused() {
    let (folder, a, _) = pair();
    for (output, code, wanted) in [
        (folder.text("."), 2, "is a folder"),
        ("/".to_owned(), 2, "is no name of a file"),
        (folder.text("sum/"), 2, "is no name of a file"),
        (folder.text(&"s".repeat(256)), 2, "has 256 bytes, and 255 are possible"),
        ("/dev/null".to_owned(), 2, "the output /dev/null is a device"),
        (folder.text("absent/sum"), 1, "cannot write"),
        (folder.text("a.safetensors/sum"), 1, "Not a directory"),
    ] {
        let said = refused(&[&a, &a], &output, &["--force"], code);
        assert!(said.contains(wanted), "{output}: {said}");
    }
}

#[test]
fn a_disk_without_room_is_named_before_any_work() {
    let (folder, ..) = pair();
    let disk = rustix::fs::statvfs(folder.path(".")).unwrap();
    // More than is free, whatever others remove meanwhile.
    let bytes = (disk.f_bfree * disk.f_frsize + (64 << 30)).next_multiple_of(4);
    let json = format!(
        r#"{{"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{bytes}]}}}}"#,
        bytes / 4
    );
    let big = folder.sparse("big.safetensors", &json, bytes);
    let output = folder.text("sum.safetensors");
    let said = refused(&[&big, &big], &output, &[], 1);
    assert!(said.contains(&format!("no space for {output}: it takes ")), "{said}");
    assert!(said.contains("of room there, or write elsewhere"), "{said}");
    assert_eq!(folder.left(&["a.safetensors", "big.safetensors"]), [""; 0]);
}

#[test]
fn a_limit_on_the_length_of_files_is_an_error_that_names_the_output() {
    let (folder, ..) = pair();
    let json = r#"{"w":{"dtype":"F32","shape":[262144],"data_offsets":[0,1048576]}}"#;
    let a = folder.sparse("a.safetensors", json, 1 << 20);
    let output = folder.text("sum.safetensors");
    let script = r#"trap '' XFSZ; ulimit -f 100 && exec "$0" reduce "$1" "$1" -o "$2""#;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_lanesum"), &a, &output]);
    let done = command.output().unwrap();
    let said = crate::common::stderr(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("cannot write {output}: File too large")),
        "{said}"
    );
    assert!(said.contains("ulimit -f"), "{said}");
    assert_eq!(folder.left(&["a.safetensors"]), [""; 0]);
}

#[test]
fn json_has_the_refusal_too() {
    let (folder, a, output) = pair();
    let b = folder.bytes("b.safetensors", b"");
    let done = run(&["reduce", &a, &b, "-o", &output, "--json"]);
    assert_eq!(done.status.code(), Some(1));
    let said = json(&done);
    assert_eq!(said["error"], format!("{b}: the file is empty"));
    assert!(said["hint"].is_string(), "{said}");
}
