//! The shipped files: their names, their packing, and the Rust source that lists them.

use miniz_oxide::deflate::compress_to_vec_zlib;
use sha2::{Digest, Sha256};

use super::wheels;

/// The slowest and smallest; images are packed once and shipped often.
const LEVEL: u8 = 10;

/// What is in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Ptx,
    /// Machine code for this compute capability: 90 is sm_90.
    Cubin(u32),
}

/// One shipped file.
pub struct Image {
    pub world: u8,
    pub target: Target,
    pub compressed: Vec<u8>,
    /// Its size when unpacked.
    pub bytes: usize,
}

impl Image {
    /// PTX is text for the driver, which wants a zero at its end: it is part of the image.
    pub fn ptx(world: u8, mut text: Vec<u8>) -> Image {
        text.push(0);
        Image::pack(world, Target::Ptx, &text)
    }

    pub fn cubin(world: u8, sm: u32, code: &[u8]) -> Image {
        Image::pack(world, Target::Cubin(sm), code)
    }

    fn pack(world: u8, target: Target, content: &[u8]) -> Image {
        Image {
            world,
            target,
            compressed: compress_to_vec_zlib(content, LEVEL),
            bytes: content.len(),
        }
    }

    pub fn file_name(&self) -> String {
        match self.target {
            Target::Ptx => format!("w{}.ptx.z", self.world),
            Target::Cubin(sm) => format!("w{}.sm_{sm}.z", self.world),
        }
    }
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
    for image in images {
        let target = match image.target {
            Target::Ptx => "Target::Ptx".to_owned(),
            Target::Cubin(sm) => format!("Target::Cubin({sm})"),
        };
        text += &format!(
            "    Image {{\n        world: {},\n        target: {target},\n        \
             compressed: include_bytes!(\"../kernels/{}\"),\n        bytes: {},\n    }},\n",
            image.world,
            image.file_name(),
            image.bytes,
        );
    }
    text.push_str("];\n");
    text
}

const HEAD: &str = "\
//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by COMPILERS, with options and from sources (`kernels/`) of sha256
//! `DIGEST`.

/// One image, packed as a zlib stream.
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

/// Every image, by world size: the PTX, then the machine code, ascending.
pub(crate) static IMAGES: &[Image] = &[
";
