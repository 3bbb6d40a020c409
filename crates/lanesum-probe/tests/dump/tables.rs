//! Every dump in `tests/data` against the table beside it.
use std::fs;
use std::path::{Path, PathBuf};

use lanesum_probe::dump::{About, Dump, decode, read, read_all};

use crate::render::render;

pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// All dumps with their names, in order.
pub(crate) fn dumps() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(data())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let dumps = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    dumps
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, decode(&fs::read(path).unwrap()))
        })
        .collect()
}

#[test]
fn every_dump_is_read_as_its_table_says() {
    let dumps = dumps();
    assert_eq!(dumps.len(), DUMPS);
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let wrong: Vec<String> = dumps
        .iter()
        .filter_map(|(name, text)| {
            let actual = render(&read_all(text));
            let table = data().join(format!("{name}.expected"));
            let expected = fs::read_to_string(&table).unwrap_or_default();
            let shown = scratch.join(format!("{name}.expected"));
            fs::write(&shown, &actual).unwrap();
            let differs = actual != expected;
            differs.then(|| format!("{} differs from {}:\n{actual}", table.display(), shown.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How many dumps there are.
const DUMPS: usize = 65;

/// Dumps whose rows of GPUs are cut or run together, or that are nothing to read.
const REFUSED: [&str; 9] = [
    "16-windows-591-topo-m-unsupported",
    "43-8gpu-dgx-terminal-wrap-lost-tab-TRUNCATED",
    "48-4xMI250-rocm-smi-showtopo-xgmi",
    "49-2xMI100-rocm-smi-pcie",
    "56-10x2080Ti-nvlink-pix-node-TRUNCATED",
    "57-16xV100-nvswitch-10nic-TRUNCATED",
    "58-8xQuadroRTX6000-pix-pxb-TRUNCATED",
    "59-8gpu-nic-wrapped-columns-terminal-TRUNCATED",
    "67-8gpu-collect-env-header-unindented-TRUNCATED",
];

#[test]
fn only_what_is_cut_or_foreign_is_refused() {
    let dumps = dumps();
    let refused: Vec<&str> = dumps
        .iter()
        .filter(|(_, text)| read_all(text).is_err())
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(refused, REFUSED);
}

/// The tables are checked against the names of the files: how many GPUs there are is told twice.
#[test]
fn as_many_gpus_are_read_as_the_names_say() {
    for (name, text) in dumps() {
        let said = name.split('-').find_map(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            let counted = part[digits.len()..].starts_with('x') || part[digits.len()..].starts_with("gpu");
            digits.parse::<usize>().ok().filter(|_| counted)
        });
        let (Some(said), Ok(dumps)) = (said, read_all(&text)) else {
            continue;
        };
        for dump in dumps {
            match dump {
                Dump::Matrix(matrix) => assert_eq!(matrix.gpus.len(), said, "{name}"),
                Dump::Peers(peers) => assert_eq!(peers.gpus.len(), said, "{name}"),
                Dump::Bandwidth(bandwidth) if !name.contains('+') && !name.contains("PRO6000-2x") => {
                    assert_eq!(bandwidth.gpus.len(), said, "{name}");
                }
                Dump::Bandwidth(_) | Dump::List(_) | Dump::Query(_) | Dump::Pci(_) => {}
            }
        }
    }
}

#[test]
fn line_ends_and_colours_change_nothing() {
    let tables: Vec<(String, String)> = dumps()
        .into_iter()
        .filter(|(name, _)| !REFUSED.contains(&name.as_str()))
        .map(|(name, text)| (name, text.replace("\r\n", "\n")))
        .collect();
    for (name, text) in tables {
        let plain = read_all(&text);
        assert_eq!(read_all(&text.replace('\n', "\r\n")), plain, "{name}");
        let blank_lines = read_all(&text.replace("\nGPU", "\n\n\nGPU")).unwrap();
        assert_eq!(blank_lines.len(), plain.as_ref().unwrap().len(), "{name}");
        let bold = read_all(&text.replace("GPU0\t", "\u{1b}[1mGPU0\u{1b}[0m\t")).unwrap();
        assert_eq!(bold.len(), plain.unwrap().len(), "{name}");
    }
}

/// What is kept of a text is printed one day, and a terminal would take these letters for orders. Fuzzing found the tool's words with them.
#[test]
fn what_is_kept_can_be_printed() {
    let text = format!(
        "GPU 0: NVIDIA\u{7} L4\u{b}x (UUID: GPU-0)\nUnable to determine the device handle\tfor\u{0}GPU1: \u{9b}31m{}\n",
        "e".repeat(300)
    );
    let Dump::List(list) = read(&text).unwrap() else {
        panic!("it is a list");
    };
    assert_eq!(list.gpus[0].model, "NVIDIA\u{fffd} L4 x");
    let Some(About::Tool { words }) = list.remarks.last().map(|remark| &remark.about) else {
        panic!("the tool's words are told: {:?}", list.remarks);
    };
    assert!(
        words.starts_with("Unable to determine the device handle for\u{fffd}GPU1: \u{fffd}31mee"),
        "{words:?}"
    );
    assert_eq!(words.chars().count(), 200);
}
