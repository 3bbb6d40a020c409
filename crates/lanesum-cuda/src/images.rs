//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu11 11.8.89, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `d38abdf9ce90c8c92839700e4ba5b6dee17fcf87be3cf9b9d3d07db69d59aba9`.

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
        bytes: 180206,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.z"),
        bytes: 195104,
    },
    Image {
        world: 1,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w1.sm_86.z"),
        bytes: 195104,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.z"),
        bytes: 195104,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.z"),
        bytes: 206064,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.z"),
        bytes: 325484,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.z"),
        bytes: 326566,
    },
    Image {
        world: 1,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w1.sm_121.z"),
        bytes: 326566,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.z"),
        bytes: 204863,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.z"),
        bytes: 215968,
    },
    Image {
        world: 2,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w2.sm_86.z"),
        bytes: 216096,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.z"),
        bytes: 216096,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.z"),
        bytes: 229360,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.z"),
        bytes: 353092,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.z"),
        bytes: 352568,
    },
    Image {
        world: 2,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w2.sm_121.z"),
        bytes: 352568,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.z"),
        bytes: 254115,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.z"),
        bytes: 247200,
    },
    Image {
        world: 3,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w3.sm_86.z"),
        bytes: 247200,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.z"),
        bytes: 247200,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.z"),
        bytes: 259056,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.z"),
        bytes: 387596,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.z"),
        bytes: 389572,
    },
    Image {
        world: 3,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w3.sm_121.z"),
        bytes: 389572,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.z"),
        bytes: 296568,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.z"),
        bytes: 270624,
    },
    Image {
        world: 4,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w4.sm_86.z"),
        bytes: 270624,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.z"),
        bytes: 270624,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.z"),
        bytes: 283504,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.z"),
        bytes: 415818,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.z"),
        bytes: 419766,
    },
    Image {
        world: 4,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w4.sm_121.z"),
        bytes: 419766,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.z"),
        bytes: 342957,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.z"),
        bytes: 299936,
    },
    Image {
        world: 5,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w5.sm_86.z"),
        bytes: 299424,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.z"),
        bytes: 299296,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.z"),
        bytes: 313456,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.z"),
        bytes: 449144,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.z"),
        bytes: 454640,
    },
    Image {
        world: 5,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w5.sm_121.z"),
        bytes: 454640,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.z"),
        bytes: 350454,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.z"),
        bytes: 312480,
    },
    Image {
        world: 6,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w6.sm_86.z"),
        bytes: 312608,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.z"),
        bytes: 312608,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.z"),
        bytes: 327536,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.z"),
        bytes: 466502,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.z"),
        bytes: 474214,
    },
    Image {
        world: 6,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w6.sm_121.z"),
        bytes: 474214,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.z"),
        bytes: 359885,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.z"),
        bytes: 365856,
    },
    Image {
        world: 7,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w7.sm_86.z"),
        bytes: 367136,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.z"),
        bytes: 367136,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.z"),
        bytes: 383728,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.z"),
        bytes: 527488,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.z"),
        bytes: 536600,
    },
    Image {
        world: 7,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w7.sm_121.z"),
        bytes: 536600,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.z"),
        bytes: 385004,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.z"),
        bytes: 361504,
    },
    Image {
        world: 8,
        target: Target::Cubin(86),
        compressed: include_bytes!("../kernels/w8.sm_86.z"),
        bytes: 361248,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.z"),
        bytes: 361248,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.z"),
        bytes: 377840,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.z"),
        bytes: 523682,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.z"),
        bytes: 534830,
    },
    Image {
        world: 8,
        target: Target::Cubin(121),
        compressed: include_bytes!("../kernels/w8.sm_121.z"),
        bytes: 534830,
    },
];
