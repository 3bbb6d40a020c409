//! Safetensors files as the tests need them, with whatever is wrong with them, and a reader that is not ours: the `safetensors` crate.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use tempfile::TempDir;

use super::super::common::{run, stderr, stdout};

/// One tensor: name, dtype, shape, bytes.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

pub fn f32s(name: &str, shape: &[usize], values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, "F32", shape, bytes)
}

/// 16-bit elements by their bits.
pub fn halves(name: &str, dtype: &'static str, values: &[u16]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, dtype, &[values.len()], bytes)
}

pub fn tensor(name: &str, dtype: &'static str, shape: &[usize], bytes: Vec<u8>) -> Tensor {
    Tensor {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        bytes,
    }
}

/// A folder of the test's own.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes these bytes.
    pub fn bytes(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.text(name)
    }

    /// Writes a header and so many bytes of zeros behind it, which take no room.
    pub fn sparse(&self, name: &str, json: &str, data: u64) -> String {
        let file = File::create(self.path(name)).unwrap();
        file.write_all_at(&headed(json, &[]), 0).unwrap();
        file.set_len(8 + json.len() as u64 + data).unwrap();
        self.text(name)
    }

    /// Writes tensors in this order, with so many spaces behind the header.
    pub fn tensors(&self, name: &str, tensors: &[Tensor], metadata: &str, spaces: usize) -> String {
        let mut entries = Vec::new();
        if !metadata.is_empty() {
            entries.push(format!(r#""__metadata__":{metadata}"#));
        }
        let mut data = Vec::new();
        for tensor in tensors {
            let begin = data.len();
            data.extend_from_slice(&tensor.bytes);
            let (name, dtype, shape, end) = (&tensor.name, tensor.dtype, &tensor.shape, data.len());
            entries.push(format!(
                r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
            ));
        }
        let json = format!("{{{}}}{}", entries.join(","), " ".repeat(spaces));
        self.bytes(name, &headed(&json, &data))
    }

    /// What is in the folder, but for the inputs.
    pub fn left(&self, inputs: &[&str]) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !inputs.contains(&name.as_str())).collect();
        names.sort();
        names
    }
}

/// A file of this header and these data.
pub fn headed(json: &str, data: &[u8]) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), data].concat()
}

/// The bytes of a tensor in a file, its dtype and its shape, as the crate finds them.
pub fn read(path: &Path, name: &str) -> (String, Vec<usize>, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(name).unwrap();
    (view.dtype().to_string(), view.shape().to_vec(), view.data().to_vec())
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    let chunks = bytes.chunks_exact(4);
    chunks
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect()
}

pub fn bits(bytes: &[u8]) -> Vec<u16> {
    let chunks = bytes.chunks_exact(2);
    chunks.map(|two| u16::from_le_bytes(two.try_into().unwrap())).collect()
}

/// Sums, and says what was said to people.
pub fn reduced(files: &[String], output: &str, more: &[&str]) -> String {
    let mut arguments = vec!["reduce"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(["-o", output]);
    arguments.extend(more);
    let done = run(&arguments);
    assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
    assert_eq!(stderr(&done), "");
    stdout(&done)
}

/// Is refused with this exit code; returns what was said.
pub fn refused(files: &[&str], output: &str, more: &[&str], code: i32) -> String {
    let mut arguments = vec!["reduce"];
    arguments.extend(files);
    arguments.extend(["-o", output]);
    arguments.extend(more);
    let done = run(&arguments);
    assert_eq!(done.status.code(), Some(code), "{}{}", stdout(&done), stderr(&done));
    assert_eq!(stdout(&done), "");
    stderr(&done)
}
