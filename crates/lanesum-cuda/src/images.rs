//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu12 12.1.105, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `6a2320d73315b58efa5eae0cf5766a6ad1a8ad3986a7c4fab13ba2cbaebab768`.

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
        bytes: 286539,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.lzma"),
        bytes: 400008,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.lzma"),
        bytes: 400136,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.lzma"),
        bytes: 419048,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.lzma"),
        bytes: 628230,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.lzma"),
        bytes: 624710,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.lzma"),
        bytes: 718459,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.lzma"),
        bytes: 925128,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.lzma"),
        bytes: 925128,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.lzma"),
        bytes: 1005096,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.lzma"),
        bytes: 1483432,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.lzma"),
        bytes: 1478516,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.lzma"),
        bytes: 928158,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.lzma"),
        bytes: 1072584,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.lzma"),
        bytes: 1072584,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.lzma"),
        bytes: 1156520,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.lzma"),
        bytes: 1693072,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.lzma"),
        bytes: 1645940,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.lzma"),
        bytes: 1083938,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.lzma"),
        bytes: 1165000,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.lzma"),
        bytes: 1165128,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.lzma"),
        bytes: 1274920,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.lzma"),
        bytes: 1844486,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.lzma"),
        bytes: 1799870,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.lzma"),
        bytes: 1236459,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.lzma"),
        bytes: 1217096,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.lzma"),
        bytes: 1215688,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.lzma"),
        bytes: 1305384,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.lzma"),
        bytes: 1841120,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.lzma"),
        bytes: 1872596,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.lzma"),
        bytes: 1431001,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.lzma"),
        bytes: 1351880,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.lzma"),
        bytes: 1354568,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.lzma"),
        bytes: 1461032,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.lzma"),
        bytes: 2047330,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.lzma"),
        bytes: 2006294,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.lzma"),
        bytes: 1569060,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.lzma"),
        bytes: 1454536,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.lzma"),
        bytes: 1456456,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.lzma"),
        bytes: 1570344,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.lzma"),
        bytes: 2182800,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.lzma"),
        bytes: 2185960,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.lzma"),
        bytes: 1777005,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.lzma"),
        bytes: 1507528,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.lzma"),
        bytes: 1507784,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.lzma"),
        bytes: 1628584,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.lzma"),
        bytes: 2263050,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.lzma"),
        bytes: 2223618,
    },
];

/// The images of the bench, in the same order.
pub(crate) static BENCH_IMAGES: &[Image] = &[
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w2.ptx.lzma"),
        bytes: 147266,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w2.sm_80.lzma"),
        bytes: 127048,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w2.sm_89.lzma"),
        bytes: 126920,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w2.sm_90.lzma"),
        bytes: 138168,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w2.sm_100.lzma"),
        bytes: 203578,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w2.sm_120.lzma"),
        bytes: 203190,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w3.ptx.lzma"),
        bytes: 169770,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w3.sm_80.lzma"),
        bytes: 138824,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w3.sm_89.lzma"),
        bytes: 138440,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w3.sm_90.lzma"),
        bytes: 150968,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w3.sm_100.lzma"),
        bytes: 220602,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w3.sm_120.lzma"),
        bytes: 223046,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w4.ptx.lzma"),
        bytes: 184957,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w4.sm_80.lzma"),
        bytes: 147400,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w4.sm_89.lzma"),
        bytes: 147400,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w4.sm_90.lzma"),
        bytes: 163128,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w4.sm_100.lzma"),
        bytes: 236954,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w4.sm_120.lzma"),
        bytes: 232838,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w5.ptx.lzma"),
        bytes: 201591,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w5.sm_80.lzma"),
        bytes: 154952,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w5.sm_89.lzma"),
        bytes: 155592,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w5.sm_90.lzma"),
        bytes: 167608,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w5.sm_100.lzma"),
        bytes: 240026,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w5.sm_120.lzma"),
        bytes: 239814,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w6.ptx.lzma"),
        bytes: 221055,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w6.sm_80.lzma"),
        bytes: 166216,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w6.sm_89.lzma"),
        bytes: 166088,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w6.sm_90.lzma"),
        bytes: 180024,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w6.sm_100.lzma"),
        bytes: 255098,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w6.sm_120.lzma"),
        bytes: 254406,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w7.ptx.lzma"),
        bytes: 233504,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w7.sm_80.lzma"),
        bytes: 176712,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w7.sm_89.lzma"),
        bytes: 178504,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w7.sm_90.lzma"),
        bytes: 191160,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w7.sm_100.lzma"),
        bytes: 268826,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w7.sm_120.lzma"),
        bytes: 266310,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w8.ptx.lzma"),
        bytes: 249706,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w8.sm_80.lzma"),
        bytes: 190408,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w8.sm_89.lzma"),
        bytes: 190152,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w8.sm_90.lzma"),
        bytes: 203448,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w8.sm_100.lzma"),
        bytes: 281226,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w8.sm_120.lzma"),
        bytes: 280406,
    },
];
