//! The shipped files: their names, their packing, and the Rust source that lists them.

use std::io::{self, Write};

use lzma_rust2::{DICT_SIZE_MIN, LzmaOptions, LzmaWriter};
use sha2::{Digest, Sha256};

use super::units::{Module, Unit};
use super::wheels;
use crate::error::XtaskError;

/// The slowest and smallest; images are packed once and shipped often. Higher ones differ by their window alone.
const LEVEL: u32 = 6;

/// What is in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Ptx,
    /// Machine code for this compute capability: 90 is sm_90.
    Cubin(u32),
}

/// One shipped file.
pub struct Image {
    pub unit: Unit,
    pub target: Target,
    pub compressed: Vec<u8>,
    /// Its size when unpacked.
    pub bytes: usize,
}

impl Image {
    /// PTX is text for the driver, which wants a zero at its end: it is part of the image.
    pub fn ptx(unit: Unit, mut text: Vec<u8>) -> Result<Image, XtaskError> {
        text.push(0);
        Image::pack(unit, Target::Ptx, &text)
    }

    pub fn cubin(unit: Unit, sm: u32, code: &[u8]) -> Result<Image, XtaskError> {
        Image::pack(unit, Target::Cubin(sm), code)
    }

    fn pack(unit: Unit, target: Target, content: &[u8]) -> Result<Image, XtaskError> {
        let compressed = packed(content).map_err(|error| XtaskError::Kernels {
            problems: vec![format!("{unit}, {target:?}, does not pack: {error}")],
        })?;
        Ok(Image {
            unit,
            target,
            compressed,
            bytes: content.len(),
        })
    }

    pub fn file_name(&self) -> String {
        match self.target {
            Target::Ptx => format!("{}.ptx.lzma", self.unit.stem()),
            Target::Cubin(sm) => format!("{}.sm_{sm}.lzma", self.unit.stem()),
        }
    }
}

/// The content as a `.lzma` file. Its window spans the whole image, whose kernels are near-copies of each other; it is a power
/// of two, as other readers of such files want it.
fn packed(content: &[u8]) -> io::Result<Vec<u8>> {
    let bytes = u32::try_from(content.len()).map_err(io::Error::other)?;
    let window = bytes
        .checked_next_power_of_two()
        .map(|window| window.max(DICT_SIZE_MIN));
    let options = LzmaOptions {
        dict_size: window.ok_or(io::ErrorKind::FileTooLarge)?,
        ..LzmaOptions::with_preset(LEVEL)
    };
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.into()))?;
    writer.write_all(content)?;
    writer.finish()
}

/// A digest of all that an image is made from: sources, options, compilers.
pub fn digest_of(sources: &[(String, Vec<u8>)], options: &[&str]) -> String {
    let mut digest = Sha256::new();
    let mut part = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    for (name, content) in sources {
        part(name.as_bytes());
        part(content);
    }
    for option in options {
        part(option.as_bytes());
    }
    part(wheels::described().as_bytes());
    wheels::hex(&digest.finalize())
}

/// The source that lists the images, as rustfmt writes it.
pub fn render(images: &[Image], digest: &str) -> String {
    let mut text = HEAD
        .replace("COMPILERS", &wheels::described())
        .replace("DIGEST", digest);
    for module in Module::ALL {
        text += list_head(module);
        text.extend(images.iter().filter(|image| image.unit.module == module).map(entry));
        text += "];\n";
    }
    text
}

/// How the list of a module's images starts.
const fn list_head(module: Module) -> &'static str {
    match module {
        Module::Calls => {
            "
/// Every image that calls need, by world size: the PTX, then the machine code, ascending.
pub(crate) static IMAGES: &[Image] = &[
"
        }
        Module::Bench => {
            "
/// The images of the bench, in the same order.
pub(crate) static BENCH_IMAGES: &[Image] = &[
"
        }
    }
}

/// An image's place in its list.
fn entry(image: &Image) -> String {
    let target = match image.target {
        Target::Ptx => "Target::Ptx".to_owned(),
        Target::Cubin(sm) => format!("Target::Cubin({sm})"),
    };
    format!(
        "    Image {{\n        world: {},\n        target: {target},\n        \
         compressed: include_bytes!(\"../kernels/{}\"),\n        bytes: {},\n    }},\n",
        image.unit.world,
        image.file_name(),
        image.bytes,
    )
}

const HEAD: &str = "\
//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by COMPILERS, with options and from sources (`kernels/`) of sha256
//! `DIGEST`.

/// One image, packed as an LZMA stream.
pub(crate) struct Image {
    /// The world size whose kernels it has.
    pub world: u8,
    /// What it is.
    pub target: Target,
    /// The stream.
    pub compressed: &'static [u8],
    /// Its size when unpacked.
    pub bytes: usize,
}

/// What an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Text that the driver compiles, with a zero byte at its end.
    Ptx,
    /// Machine code for this compute capability: 90 is sm_90.
    Cubin(u32),
}
";

#[cfg(test)]
mod tests {
    use std::io::Read;

    use lzma_rust2::LzmaReader;

    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_is_the_same_each_time() {
        let mut kernel = vec![0; 60_000];
        for (at, byte) in kernel.iter_mut().enumerate() {
            *byte = ((at * at) >> 7) as u8;
        }
        for content in [vec![], vec![1], kernel.repeat(3)] {
            let file = packed(&content).expect("memory");
            assert_eq!(packed(&content).expect("memory"), file);
            let mut found = Vec::new();
            let mut reader = LzmaReader::new_mem_limit(&file[..], u32::MAX, None).expect("a header");
            reader.read_to_end(&mut found).expect("a stream");
            assert_eq!(found, content);
        }
    }

    /// Copies stand further apart than most packers look back.
    #[test]
    fn what_stands_twice_is_kept_once() {
        let next = |word: &mut u32| {
            *word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*word >> 24) as u8)
        };
        let noise: Vec<u8> = std::iter::repeat_n((), 100_000)
            .scan(1, |word, ()| next(word))
            .collect();
        assert!(packed(&noise.repeat(2)).expect("memory").len() < 105_000);
    }
}
