//! The shipped images against the lists that they must be complete for. Needs neither a compiler nor a GPU; that the images
//! are those of the sources is `cargo xtask kernels --check`.

use std::collections::BTreeSet;

use crate::bench::BenchKernel;
use crate::images::{BENCH_IMAGES, IMAGES, Image, Target};
use crate::module;
use lanesum_plan::{AlgorithmName, Dtype, Engine, Operation};

const WORLDS: std::ops::RangeInclusive<u8> = 1..=8;
const CUBINS: [u32; 5] = [80, 89, 90, 100, 120];

/// What a module of this world is asked for.
fn expected(world: u8) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["lanesum_farewell".to_owned(), "lanesum_prove".to_owned()]);
    // Two shots need somebody else.
    let of_cuda = |name: &AlgorithmName| {
        name.engine() == Some(Engine::Cuda) && (world > 1 || *name != AlgorithmName::TwoShotPush)
    };
    for algorithm in AlgorithmName::ALL.into_iter().filter(of_cuda) {
        for dtype in Dtype::ALL {
            for operation in Operation::ALL {
                names.insert(format!("{algorithm}_w{world}_{dtype}_{operation}"));
            }
        }
    }
    if world > 1 {
        names.insert(format!("chunks_w{world}"));
    }
    names
}

fn unpacked(image: &Image) -> Vec<u8> {
    module::unpacked(image).unwrap_or_else(|| panic!("world {}, {:?}: no such image", image.world, image.target))
}

/// The names of the entries of PTX, sorted.
fn entries(image: &Image) -> Vec<String> {
    let content = unpacked(image);
    let text = std::ffi::CStr::from_bytes_with_nul(&content).expect("one zero, at the end");
    let name = |line: &str| {
        let (_, rest) = line.split_once(".entry ")?;
        Some(rest.split('(').next()?.trim().to_owned())
    };
    let mut names: Vec<String> = text.to_str().expect("text").lines().filter_map(name).collect();
    names.sort();
    names
}

/// The number at this place of machine code's file header, which is little-endian ELF.
fn number(code: &[u8], at: usize, bytes: usize) -> u32 {
    code[at..at + bytes]
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

fn listed(images: &[Image]) -> Vec<(u8, Target)> {
    images.iter().map(|image| (image.world, image.target)).collect()
}

#[test]
fn each_world_has_its_ptx_then_its_machine_code() {
    let targets = || std::iter::once(Target::Ptx).chain(CUBINS.map(Target::Cubin));
    let wanted: Vec<(u8, Target)> = WORLDS
        .flat_map(|world| targets().map(move |target| (world, target)))
        .collect();
    assert_eq!(listed(IMAGES), wanted);
}

/// Else a bench compares compilers.
#[test]
fn the_bench_has_every_image_that_calls_of_several_ranks_may_run_from() {
    let calls: Vec<(u8, Target)> = listed(IMAGES).into_iter().filter(|(world, _)| *world > 1).collect();
    assert_eq!(listed(BENCH_IMAGES), calls);
}

#[test]
fn each_ptx_has_an_entry_for_every_request_and_no_other() {
    for image in IMAGES.iter().filter(|image| image.target == Target::Ptx) {
        let wanted: Vec<String> = expected(image.world).into_iter().collect();
        assert_eq!(entries(image), wanted, "world {}", image.world);
    }
}

/// What the bench measures in a world.
fn expected_of_the_bench(world: u8) -> BTreeSet<String> {
    let names = BenchKernel::ALL.map(|kernel| kernel.entry(usize::from(world)));
    names.into_iter().collect()
}

#[test]
fn each_ptx_of_the_bench_has_its_kernels_and_no_other() {
    for image in BENCH_IMAGES.iter().filter(|image| image.target == Target::Ptx) {
        let wanted: Vec<String> = expected_of_the_bench(image.world).into_iter().collect();
        assert_eq!(entries(image), wanted, "world {}", image.world);
    }
}

#[test]
fn each_machine_code_is_for_its_target_and_has_every_kernel() {
    for image in IMAGES {
        is_machine_code_of(image, &expected(image.world));
    }
    for image in BENCH_IMAGES {
        is_machine_code_of(image, &expected_of_the_bench(image.world));
    }
}

fn is_machine_code_of(image: &Image, names: &BTreeSet<String>) {
    const MACHINE_CUDA: u32 = 190;
    let Target::Cubin(sm) = image.target else { return };
    let code = unpacked(image);
    let place = format!("world {}, sm_{sm}", image.world);
    assert_eq!(&code[..4], b"\x7fELF", "{place}");
    assert_eq!(number(&code, 18, 2), MACHINE_CUDA, "{place}");
    // Bits 8 to 15 of the flags.
    assert_eq!(number(&code, 48, 4) >> 8 & 0xFF, sm, "{place}");
    let text = String::from_utf8_lossy(&code);
    // The name of each kernel's section, in a table of strings that each end with a zero.
    for name in names {
        assert!(text.contains(&format!(".text.{name}\0")), "{place}: {name}");
    }
}

#[test]
fn what_is_no_image_is_noticed() {
    let image = &IMAGES[0];
    let content = unpacked(image);
    let of = |compressed: Vec<u8>, bytes: usize| {
        let compressed = compressed.leak();
        module::unpacked(&Image {
            compressed,
            bytes,
            ..*image
        })
    };
    let whole = image.compressed.to_vec();
    for bytes in [0, 1, image.bytes - 1, image.bytes + 1] {
        assert_eq!(of(whole.clone(), bytes), None, "{bytes} bytes");
    }
    for cut in (0..20).chain([whole.len() / 2, whole.len() - 1]) {
        assert_eq!(of(whole[..cut].to_vec(), image.bytes), None, "cut at {cut}");
    }
    // The window's size, bytes 1 to 4, may be another one that suffices.
    for at in (0..32).chain((32..whole.len()).step_by(501)) {
        for bit in [0x01, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= bit;
            let found = of(damaged, image.bytes);
            let harmless = (1..5).contains(&at) && found.as_ref() == Some(&content);
            assert!(found.is_none() || harmless, "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn the_images_stay_small() {
    let bytes: usize = IMAGES
        .iter()
        .chain(BENCH_IMAGES)
        .map(|image| image.compressed.len())
        .sum();
    assert!(bytes < 6 << 20, "{bytes} bytes");
}
