//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu11 11.8.89, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `155475fafb15bc9cc10d810ee73eac2ba28de9a7f37c0523963f553e566343f2`.

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

/// Every image that calls need, by world size: the PTX, then the machine code, ascending.
pub(crate) static IMAGES: &[Image] = &[
    Image {
        world: 1,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w1.ptx.lzma"),
        bytes: 235730,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.lzma"),
        bytes: 288864,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.lzma"),
        bytes: 289504,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.lzma"),
        bytes: 314448,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.lzma"),
        bytes: 468148,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.lzma"),
        bytes: 476416,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.lzma"),
        bytes: 558601,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.lzma"),
        bytes: 672992,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.lzma"),
        bytes: 667616,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.lzma"),
        bytes: 718064,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.lzma"),
        bytes: 1042650,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.lzma"),
        bytes: 1065466,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.lzma"),
        bytes: 673066,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.lzma"),
        bytes: 749792,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.lzma"),
        bytes: 751968,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.lzma"),
        bytes: 808688,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.lzma"),
        bytes: 1171598,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.lzma"),
        bytes: 1164858,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.lzma"),
        bytes: 741013,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.lzma"),
        bytes: 817632,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.lzma"),
        bytes: 820320,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.lzma"),
        bytes: 874096,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.lzma"),
        bytes: 1245724,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.lzma"),
        bytes: 1234624,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.lzma"),
        bytes: 825009,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.lzma"),
        bytes: 880608,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.lzma"),
        bytes: 881632,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.lzma"),
        bytes: 931312,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.lzma"),
        bytes: 1304854,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.lzma"),
        bytes: 1325014,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.lzma"),
        bytes: 910997,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.lzma"),
        bytes: 963424,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.lzma"),
        bytes: 954720,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.lzma"),
        bytes: 1019248,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.lzma"),
        bytes: 1413780,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.lzma"),
        bytes: 1420696,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.lzma"),
        bytes: 934982,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.lzma"),
        bytes: 1021280,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.lzma"),
        bytes: 1023200,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.lzma"),
        bytes: 1084784,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.lzma"),
        bytes: 1486970,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.lzma"),
        bytes: 1525218,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.lzma"),
        bytes: 988861,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.lzma"),
        bytes: 1019104,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.lzma"),
        bytes: 1019104,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.lzma"),
        bytes: 1099632,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.lzma"),
        bytes: 1516704,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.lzma"),
        bytes: 1539468,
    },
];

/// The images of the bench, by world size: PTX alone.
pub(crate) static BENCH_IMAGES: &[Image] = &[
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w2.ptx.lzma"),
        bytes: 96717,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w3.ptx.lzma"),
        bytes: 112593,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w4.ptx.lzma"),
        bytes: 122162,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w5.ptx.lzma"),
        bytes: 133286,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w6.ptx.lzma"),
        bytes: 143687,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w7.ptx.lzma"),
        bytes: 149414,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w8.ptx.lzma"),
        bytes: 156567,
    },
];
