//! The shipped images against the lists that they must be complete for. Needs neither a compiler nor a GPU; that the images
//! are those of the sources is `cargo xtask kernels --check`.

use std::collections::BTreeSet;

use lanesum_plan::{AlgorithmName, Dtype, Engine, Operation};
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use crate::images::{IMAGES, Image, Target};

const WORLDS: std::ops::RangeInclusive<u8> = 1..=8;
const CUBINS: [u32; 7] = [80, 86, 89, 90, 100, 120, 121];

/// What a module of this world is asked for.
fn expected(world: u8) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["lanesum_farewell".to_owned(), "lanesum_prove".to_owned()]);
    let of_cuda = |name: &AlgorithmName| name.engine() == Some(Engine::Cuda);
    for algorithm in AlgorithmName::ALL.into_iter().filter(of_cuda) {
        for dtype in Dtype::ALL {
            for operation in Operation::ALL {
                names.insert(format!("{algorithm}_w{world}_{dtype}_{operation}"));
            }
        }
    }
    names
}

fn unpacked(image: &Image) -> Vec<u8> {
    let content = decompress_to_vec_zlib_with_limit(image.compressed, image.bytes).expect("a zlib stream");
    assert_eq!(content.len(), image.bytes, "world {}, {:?}", image.world, image.target);
    content
}

/// The names that follow `.entry` in a PTX text.
fn entries(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, rest) = line.split_once(".entry ")?;
        Some(rest.split('(').next()?.trim().to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// The number at this place of machine code's file header, which is little-endian ELF.
fn number(code: &[u8], at: usize, bytes: usize) -> u32 {
    code[at..at + bytes]
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

#[test]
fn each_world_has_its_ptx_then_its_machine_code() {
    let listed: Vec<(u8, Target)> = IMAGES.iter().map(|image| (image.world, image.target)).collect();
    let targets = || std::iter::once(Target::Ptx).chain(CUBINS.map(Target::Cubin));
    let wanted: Vec<(u8, Target)> = WORLDS
        .flat_map(|world| targets().map(move |target| (world, target)))
        .collect();
    assert_eq!(listed, wanted);
}

#[test]
fn each_ptx_has_an_entry_for_every_request_and_no_other() {
    for image in IMAGES.iter().filter(|image| image.target == Target::Ptx) {
        let content = unpacked(image);
        let text = std::ffi::CStr::from_bytes_with_nul(&content).expect("one zero, at the end");
        let found = entries(text.to_str().expect("text"));
        assert_eq!(
            found.iter().cloned().collect::<BTreeSet<_>>(),
            expected(image.world),
            "world {}",
            image.world
        );
        assert_eq!(
            found.len(),
            expected(image.world).len(),
            "an entry of world {} stands there twice",
            image.world
        );
    }
}

#[test]
fn each_machine_code_is_for_its_target_and_has_every_kernel() {
    const MACHINE_CUDA: u32 = 190;
    for image in IMAGES {
        let Target::Cubin(sm) = image.target else { continue };
        let code = unpacked(image);
        let place = format!("world {}, sm_{sm}", image.world);
        assert_eq!(&code[..4], b"\x7fELF", "{place}");
        assert_eq!(number(&code, 18, 2), MACHINE_CUDA, "{place}");
        // Bits 8 to 15 of the flags.
        assert_eq!(number(&code, 48, 4) >> 8 & 0xFF, sm, "{place}");
        let text = String::from_utf8_lossy(&code);
        // The name of each kernel's section, in a table of strings that each end with a zero.
        for name in expected(image.world) {
            assert!(text.contains(&format!(".text.{name}\0")), "{place}: {name}");
        }
    }
}

#[test]
fn the_images_stay_small() {
    let bytes: usize = IMAGES.iter().map(|image| image.compressed.len()).sum();
    assert!(bytes < 5 << 20, "{bytes} bytes");
}
