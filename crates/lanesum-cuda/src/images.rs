//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu11 11.8.89, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `a844aff6e14526977aa1c81e9fe76f8ae87a0ffbf35eede13fc662a76a8c3ac0`.

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
        bytes: 179756,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.z"),
        bytes: 192416,
    },
    Image {
        world: 1,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w1.sm_86.z"),
        bytes: 192416,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.z"),
        bytes: 192288,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.z"),
        bytes: 203248,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.z"),
        bytes: 320272,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.z"),
        bytes: 322306,
    },
    Image {
        world: 1,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w1.sm_121.z"),
        bytes: 322306,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.z"),
        bytes: 204370,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.z"),
        bytes: 215840,
    },
    Image {
        world: 2,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w2.sm_86.z"),
        bytes: 215840,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.z"),
        bytes: 215840,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.z"),
        bytes: 226928,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.z"),
        bytes: 347708,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.z"),
        bytes: 348152,
    },
    Image {
        world: 2,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w2.sm_121.z"),
        bytes: 348152,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.z"),
        bytes: 253622,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.z"),
        bytes: 244640,
    },
    Image {
        world: 3,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w3.sm_86.z"),
        bytes: 244640,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.z"),
        bytes: 244640,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.z"),
        bytes: 255984,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.z"),
        bytes: 381664,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.z"),
        bytes: 384112,
    },
    Image {
        world: 3,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w3.sm_121.z"),
        bytes: 384112,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.z"),
        bytes: 296074,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.z"),
        bytes: 267424,
    },
    Image {
        world: 4,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w4.sm_86.z"),
        bytes: 267424,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.z"),
        bytes: 267424,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.z"),
        bytes: 279920,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.z"),
        bytes: 409086,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.z"),
        bytes: 413986,
    },
    Image {
        world: 4,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w4.sm_121.z"),
        bytes: 413986,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.z"),
        bytes: 342463,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.z"),
        bytes: 296224,
    },
    Image {
        world: 5,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w5.sm_86.z"),
        bytes: 296224,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.z"),
        bytes: 296224,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.z"),
        bytes: 310128,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.z"),
        bytes: 442668,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.z"),
        bytes: 448444,
    },
    Image {
        world: 5,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w5.sm_121.z"),
        bytes: 448444,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.z"),
        bytes: 349960,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.z"),
        bytes: 308768,
    },
    Image {
        world: 6,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w6.sm_86.z"),
        bytes: 308256,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.z"),
        bytes: 308256,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.z"),
        bytes: 324592,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.z"),
        bytes: 460206,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.z"),
        bytes: 468406,
    },
    Image {
        world: 6,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w6.sm_121.z"),
        bytes: 468406,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.z"),
        bytes: 359386,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.z"),
        bytes: 363936,
    },
    Image {
        world: 7,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w7.sm_86.z"),
        bytes: 363552,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.z"),
        bytes: 363552,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.z"),
        bytes: 379120,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.z"),
        bytes: 520132,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.z"),
        bytes: 529076,
    },
    Image {
        world: 7,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w7.sm_121.z"),
        bytes: 529076,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.z"),
        bytes: 384489,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.z"),
        bytes: 356896,
    },
    Image {
        world: 8,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w8.sm_86.z"),
        bytes: 355232,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.z"),
        bytes: 355232,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.z"),
        bytes: 372848,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.z"),
        bytes: 515798,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.z"),
        bytes: 526106,
    },
    Image {
        world: 8,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w8.sm_121.z"),
        bytes: 526106,
    },
];
