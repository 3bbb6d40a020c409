//! `lanesum reduce`: what the sum of files is. What is refused, and what happens to a run that is disturbed, have files of their own.

mod disturbed;
mod files;
mod refusals;

use std::time::Duration;

use lanesum_plan::{Dtype, Operation, ReductionTree, oracle};
use serde_json::{Value, json};

use super::common::run;
use files::{Folder, Tensor, bits, f32s, floats, halves, headed, read, reduced, tensor};

fn report(files: &[String], output: &str, more: &[&str]) -> Value {
    let more = [more, &["--json"]].concat();
    serde_json::from_str(&reduced(files, output, &more)).unwrap()
}

#[test]
fn integers_are_summed_exactly_whatever_their_length() {
    let folder = Folder::new();
    // One element more and less than pages and windows of 2 MiB, and small ones between them.
    let lengths = [1, 3, 1023, 524_288, 0, 524_289, 7, 1_048_577];
    let value = |file: usize, place: usize| ((place * 31 + file * 7) % 1000) as f32 - 500.0;
    let files: Vec<String> = (0..3)
        .map(|file| {
            let tensors: Vec<Tensor> = lengths
                .iter()
                .enumerate()
                .map(|(number, &length)| {
                    let values: Vec<f32> = (0..length).map(|place| value(file, place + number)).collect();
                    f32s(&format!("t{number}"), &[length], &values)
                })
                .collect();
            folder.tensors(&format!("{file}.safetensors"), &tensors, "", file)
        })
        .collect();
    let output = folder.text("sum.safetensors");
    let report = report(&files, &output, &[]);
    for (number, &length) in lengths.iter().enumerate() {
        let (dtype, shape, bytes) = read(&folder.path("sum.safetensors"), &format!("t{number}"));
        assert_eq!((dtype.as_str(), shape), ("F32", vec![length]));
        let wanted: Vec<f32> = (0..length)
            .map(|place| (0..3).map(|file| value(file, place + number)).sum())
            .collect();
        assert!(floats(&bytes) == wanted, "tensor {number} is wrong");
    }
    let elements: usize = lengths.iter().sum();
    for (key, wanted) in [
        ("tensors", json!(8)),
        ("elements", json!(elements)),
        ("bytes", json!(4 * elements)),
        ("ranks", json!(3)),
        ("engine", json!("host")),
        ("operation", json!("sum")),
        ("dtypes", json!(["f32"])),
        ("output", json!(output)),
        ("tree", json!("(0+1)+2")),
    ] {
        assert_eq!(report[key], wanted, "{key} in {report}");
    }
    assert!(report["seconds"].as_f64().unwrap() > 0.0 && report["gb_per_s"].as_f64().unwrap() > 0.0);
    // Neighbours are summed together: not a call for each tensor.
    assert_eq!(report["calls"], (4 * elements).div_ceil(2 << 20));
    assert!(!report["algorithms"].as_array().unwrap().is_empty());
}

#[test]
fn sixteen_bits_are_summed_in_f32_and_rounded_once() {
    let folder = Folder::new();
    // 256 + 1 + 1: in bfloat16 each addition would be lost. 1 + 2^-8 is a tie, which goes to even; 2^-16 more is none.
    let bf16: [[u16; 3]; 3] = [
        [0x4380, 0x3F80, 0x3F80],
        [0x3F80, 0x3B80, 0x3B80],
        [0x3F80, 0x0000, 0x3780],
    ];
    // 2048 + 1 + 1, and -2048 + 2048 + the smallest subnormal.
    let f16: [[u16; 2]; 3] = [[0x6800, 0xE800], [0x3C00, 0x6800], [0x3C00, 0x0001]];
    let files: Vec<String> = (0..3)
        .map(|file| {
            let tensors = [halves("b", "BF16", &bf16[file]), halves("h", "F16", &f16[file])];
            folder.tensors(&format!("{file}.safetensors"), &tensors, "", 0)
        })
        .collect();
    reduced(&files, &folder.text("sum.safetensors"), &[]);
    let sum = folder.path("sum.safetensors");
    assert_eq!(bits(&read(&sum, "b").2), [0x4381, 0x3F80, 0x3F81]);
    assert_eq!(bits(&read(&sum, "h").2), [0x6801, 0x0001]);
}

/// Bits of all kinds, infinities and NaN among them, the same in every run.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[test]
fn any_bits_give_the_oracles_bits_for_each_dtype_order_and_operation() {
    let folder = Folder::new();
    let kinds = [
        ("one", "F32", Dtype::F32, 3001),
        ("two", "BF16", Dtype::Bf16, 4099),
        ("three", "F16", Dtype::F16, 5),
        ("four", "F32", Dtype::F32, 1),
        ("five", "BF16", Dtype::Bf16, 70_001),
    ];
    let ranks = 5;
    let data = |file: usize, number: usize| {
        let (_, _, dtype, elements) = kinds[number];
        noise((file * 10 + number + 1) as u64, elements * dtype.size())
    };
    let files: Vec<String> = (0..ranks)
        .map(|file| {
            let mut tensors: Vec<Tensor> = kinds
                .iter()
                .enumerate()
                .map(|(number, &(name, word, _, elements))| tensor(name, word, &[elements], data(file, number)))
                .collect();
            // Each file has them in another order, at another alignment.
            tensors.rotate_left(file);
            folder.tensors(&format!("{file}.safetensors"), &tensors, "", file)
        })
        .collect();
    for operation in Operation::ALL {
        let output = format!("{operation}.safetensors");
        let report = report(&files, &folder.text(&output), &["--op", operation.name()]);
        let tree: ReductionTree = report["tree"].as_str().unwrap().parse().unwrap();
        assert_eq!(report["dtypes"], json!(["f32", "f16", "bf16"]));
        for (number, (name, word, dtype, _)) in kinds.into_iter().enumerate() {
            let inputs: Vec<Vec<u8>> = (0..ranks).map(|file| data(file, number)).collect();
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let (dtype_found, _, bytes) = read(&folder.path(&output), name);
            assert_eq!(dtype_found, word);
            assert!(
                bytes == oracle::all_reduce(operation, dtype, &tree, &inputs),
                "{operation} of {name}"
            );
        }
    }
}

#[test]
fn the_sum_has_the_header_of_the_first_file_byte_for_byte() {
    let folder = Folder::new();
    let (w, v) = (f32s("w", &[2, 1], &[1.0, 2.0]), halves("v", "F16", &[0x3C00]));
    let scalar = f32s("scalar", &[], &[5.0]);
    let none = tensor("none", "BF16", &[3, 0, 2], vec![]);
    let first = [v.clone(), none.clone(), w.clone(), scalar.clone()];
    let second = [scalar, w, none, v];
    let files = [
        folder.tensors("a.safetensors", &first, r#"{"format":"pt","of":"a"}"#, 3),
        folder.tensors("b.safetensors", &second, r#"{"of":"b"}"#, 0),
    ];
    let said = reduced(&files, &folder.text("sum.safetensors"), &[]);
    let (sum, a) = (
        std::fs::read(folder.path("sum.safetensors")).unwrap(),
        std::fs::read(&files[0]).unwrap(),
    );
    let data = a.len() - 14;
    assert_eq!(sum[..data], a[..data]);
    let wanted = [
        &0x4000_u16.to_le_bytes()[..],
        &[2.0_f32, 4.0, 10.0].map(f32::to_le_bytes).concat(),
    ]
    .concat();
    assert_eq!(sum[data..], wanted);
    for words in [
        "the sum of 2 files",
        "4, 4 elements of f32, f16, bf16, 14 B",
        "order       0+1",
    ] {
        assert!(said.contains(words), "{words:?} is missing in {said}");
    }
    assert_eq!(folder.left(&["a.safetensors", "b.safetensors"]), ["sum.safetensors"]);
}

#[test]
fn nothing_to_sum_is_no_error() {
    let folder = Folder::new();
    let bare = folder.bytes("bare.safetensors", &headed("{}", &[]));
    let said = report(&[bare.clone(), bare.clone()], &folder.text("sum.safetensors"), &[]);
    assert_eq!((&said["tensors"], &said["algorithms"]), (&json!(0), &json!([])));
    assert_eq!(
        std::fs::read(folder.path("sum.safetensors")).unwrap(),
        headed("{}", &[])
    );
    let none = tensor("none", "F32", &[0], vec![]);
    let none = folder.tensors("none.safetensors", &[none], "", 0);
    let said = reduced(&[none.clone(), none], &folder.text("none-sum.safetensors"), &[]);
    assert!(said.contains("none: there was nothing to sum"), "{said}");
}

#[test]
fn sixteen_files_work_and_one_may_be_there_twice() {
    let folder = Folder::new();
    let file = folder.tensors("a.safetensors", &[f32s("w", &[1], &[3.0])], "", 0);
    reduced(&vec![file; 16], &folder.text("sum.safetensors"), &[]);
    assert_eq!(floats(&read(&folder.path("sum.safetensors"), "w").2), [48.0]);
}

#[test]
fn many_small_tensors_are_not_many_calls() {
    let folder = Folder::new();
    let tensors: Vec<Tensor> = (0..20_000)
        .map(|number| f32s(&format!("layer.{number}"), &[1], &[number as f32]))
        .collect();
    let mut backwards = tensors.clone();
    backwards.reverse();
    let files = [
        folder.tensors("a.safetensors", &tensors, "", 0),
        folder.tensors("b.safetensors", &backwards, "", 0),
    ];
    let said = report(&files, &folder.text("sum.safetensors"), &[]);
    assert_eq!((&said["calls"], &said["tensors"]), (&json!(1), &json!(20_000)));
    assert_eq!(
        floats(&read(&folder.path("sum.safetensors"), "layer.7777").2),
        [15_554.0]
    );
}

#[test]
fn names_of_files_need_not_be_text() {
    use std::os::unix::ffi::OsStringExt;
    let folder = Folder::new();
    let file = folder.tensors("a.safetensors", &[f32s("w", &[1], &[3.0])], "", 0);
    let strange = |name: &[u8]| {
        folder
            .path("x")
            .with_file_name(std::ffi::OsString::from_vec(name.to_vec()))
    };
    let (input, output) = (strange(b"\xff '\n"), strange(b"sum \xfe"));
    std::fs::copy(&file, &input).unwrap();
    let mut command = super::common::lanesum(&["reduce", &file]);
    command.arg(&input).arg("--output").arg(&output);
    let done = super::common::finish(command.spawn().unwrap());
    assert!(done.status.success(), "{}", super::common::stderr(&done));
    assert_eq!(floats(&read(&output, "w").2), [6.0]);
}

#[test]
fn files_longer_than_memory_are_summed() {
    let folder = Folder::new();
    let mib = 256;
    let json = format!(
        r#"{{"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}}}"#,
        mib << 18,
        mib << 20
    );
    let files = ["a.safetensors", "b.safetensors"].map(|name| folder.sparse(name, &json, mib << 20));
    // One value at the end, so that the last window counts.
    let end = 8 + json.len() as u64 + (mib << 20);
    for file in &files {
        let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &1.5_f32.to_le_bytes(), end - 4).unwrap();
    }
    // No process of the run gets address space for one of the files: program, threads and windows have to do with less.
    let script = r#"ulimit -v 131072 && exec "$0" reduce "$1" "$2" -o "$3" --json"#;
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_lanesum")])
        .args(&files)
        .arg(folder.text("sum.safetensors"))
        // Each thread of the C library's would otherwise reserve 64 MiB that it never uses.
        .env("MALLOC_ARENA_MAX", "1")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let start = std::time::Instant::now();
    let done = super::common::finish(command.spawn().unwrap());
    assert!(done.status.success(), "{}", super::common::stderr(&done));
    assert!(start.elapsed() < Duration::from_secs(60));
    let said = super::common::json(&done);
    assert_eq!(said["bytes"], mib << 20);
    let sum = std::fs::File::open(folder.path("sum.safetensors")).unwrap();
    let mut last = [1; 8];
    std::os::unix::fs::FileExt::read_exact_at(&sum, &mut last, end - 8).unwrap();
    assert_eq!(floats(&last), [0.0, 3.0]);
    assert_eq!(sum.metadata().unwrap().len(), end);
}

#[test]
fn the_documented_flags_are_there() {
    let help = run(&["reduce", "--help"]);
    let text = super::common::stdout(&help);
    for word in [
        "--output",
        "--force",
        "--op <OP>",
        "--deadline-ms",
        "--json",
        "__metadata__",
    ] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
}
