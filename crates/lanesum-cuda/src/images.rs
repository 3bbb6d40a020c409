//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu11 11.8.89, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `459aaede735c44fca1cf0991ebfd6046a2b6968ee47685e78107badce9333eb0`.

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
    Image {
        world: 1,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w1.ptx.z"),
        bytes: 182701,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.z"),
        bytes: 205856,
    },
    Image {
        world: 1,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w1.sm_86.z"),
        bytes: 205856,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.z"),
        bytes: 205856,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.z"),
        bytes: 217840,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.z"),
        bytes: 341960,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.z"),
        bytes: 344326,
    },
    Image {
        world: 1,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w1.sm_121.z"),
        bytes: 344326,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.z"),
        bytes: 208241,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.z"),
        bytes: 229536,
    },
    Image {
        world: 2,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w2.sm_86.z"),
        bytes: 229664,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.z"),
        bytes: 229664,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.z"),
        bytes: 243184,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.z"),
        bytes: 371928,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.z"),
        bytes: 372308,
    },
    Image {
        world: 2,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w2.sm_121.z"),
        bytes: 372308,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.z"),
        bytes: 258415,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.z"),
        bytes: 264096,
    },
    Image {
        world: 3,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w3.sm_86.z"),
        bytes: 264096,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.z"),
        bytes: 264096,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.z"),
        bytes: 276720,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.z"),
        bytes: 410836,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.z"),
        bytes: 413472,
    },
    Image {
        world: 3,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w3.sm_121.z"),
        bytes: 413472,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.z"),
        bytes: 301666,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.z"),
        bytes: 290336,
    },
    Image {
        world: 4,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w4.sm_86.z"),
        bytes: 290336,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.z"),
        bytes: 290336,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.z"),
        bytes: 304752,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.z"),
        bytes: 443050,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.z"),
        bytes: 447830,
    },
    Image {
        world: 4,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w4.sm_121.z"),
        bytes: 447830,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.z"),
        bytes: 348915,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.z"),
        bytes: 323232,
    },
    Image {
        world: 5,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w5.sm_86.z"),
        bytes: 322976,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.z"),
        bytes: 322976,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.z"),
        bytes: 338160,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.z"),
        bytes: 480268,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.z"),
        bytes: 486672,
    },
    Image {
        world: 5,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w5.sm_121.z"),
        bytes: 486672,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.z"),
        bytes: 357260,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.z"),
        bytes: 339232,
    },
    Image {
        world: 6,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w6.sm_86.z"),
        bytes: 339360,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.z"),
        bytes: 339360,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.z"),
        bytes: 355952,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.z"),
        bytes: 501302,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.z"),
        bytes: 510270,
    },
    Image {
        world: 6,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w6.sm_121.z"),
        bytes: 510270,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.z"),
        bytes: 367556,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.z"),
        bytes: 396832,
    },
    Image {
        world: 7,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w7.sm_86.z"),
        bytes: 397728,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.z"),
        bytes: 397728,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.z"),
        bytes: 415984,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.z"),
        bytes: 567028,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.z"),
        bytes: 576496,
    },
    Image {
        world: 7,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w7.sm_121.z"),
        bytes: 576496,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.z"),
        bytes: 393528,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.z"),
        bytes: 395296,
    },
    Image {
        world: 8,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w8.sm_86.z"),
        bytes: 395296,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.z"),
        bytes: 395168,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.z"),
        bytes: 414064,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.z"),
        bytes: 566974,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.z"),
        bytes: 578778,
    },
    Image {
        world: 8,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w8.sm_121.z"),
        bytes: 578778,
    },
];
