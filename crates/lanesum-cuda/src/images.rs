//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu12 12.1.105, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `ce3fa895179c8105ad7e88df0fe869456d5f3f7fe6f6ed5cdc9b877e6dd9ee5d`.

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
        bytes: 294500,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.lzma"),
        bytes: 407688,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.lzma"),
        bytes: 407816,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.lzma"),
        bytes: 442248,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.lzma"),
        bytes: 660750,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.lzma"),
        bytes: 660030,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.lzma"),
        bytes: 993108,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.lzma"),
        bytes: 1082768,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.lzma"),
        bytes: 1082896,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.lzma"),
        bytes: 1172944,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.lzma"),
        bytes: 1709760,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.lzma"),
        bytes: 1699444,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.lzma"),
        bytes: 1220994,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.lzma"),
        bytes: 1262864,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.lzma"),
        bytes: 1262992,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.lzma"),
        bytes: 1353040,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.lzma"),
        bytes: 1955808,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.lzma"),
        bytes: 1971592,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.lzma"),
        bytes: 1474298,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.lzma"),
        bytes: 1393936,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.lzma"),
        bytes: 1393936,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.lzma"),
        bytes: 1503952,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.lzma"),
        bytes: 2138434,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.lzma"),
        bytes: 2139450,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.lzma"),
        bytes: 1537202,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.lzma"),
        bytes: 1445520,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.lzma"),
        bytes: 1442448,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.lzma"),
        bytes: 1556944,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.lzma"),
        bytes: 2195216,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.lzma"),
        bytes: 2168780,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.lzma"),
        bytes: 1777643,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.lzma"),
        bytes: 1602704,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.lzma"),
        bytes: 1602320,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.lzma"),
        bytes: 1716176,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.lzma"),
        bytes: 2387998,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.lzma"),
        bytes: 2339902,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.lzma"),
        bytes: 1957780,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.lzma"),
        bytes: 1740944,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.lzma"),
        bytes: 1742992,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.lzma"),
        bytes: 1873232,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.lzma"),
        bytes: 2590888,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.lzma"),
        bytes: 2526080,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.lzma"),
        bytes: 2125947,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.lzma"),
        bytes: 1754256,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.lzma"),
        bytes: 1754640,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.lzma"),
        bytes: 1886672,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.lzma"),
        bytes: 2596102,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.lzma"),
        bytes: 2573866,
    },
];

/// The images of the bench, in the same order.
pub(crate) static BENCH_IMAGES: &[Image] = &[
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w2.ptx.lzma"),
        bytes: 150978,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w2.sm_80.lzma"),
        bytes: 131912,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w2.sm_89.lzma"),
        bytes: 131016,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w2.sm_90.lzma"),
        bytes: 143576,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w2.sm_100.lzma"),
        bytes: 209802,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w2.sm_120.lzma"),
        bytes: 210294,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w3.ptx.lzma"),
        bytes: 173444,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w3.sm_80.lzma"),
        bytes: 145096,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w3.sm_89.lzma"),
        bytes: 144840,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w3.sm_90.lzma"),
        bytes: 159192,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w3.sm_100.lzma"),
        bytes: 232618,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w3.sm_120.lzma"),
        bytes: 230582,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w4.ptx.lzma"),
        bytes: 188694,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w4.sm_80.lzma"),
        bytes: 152264,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w4.sm_89.lzma"),
        bytes: 152264,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w4.sm_90.lzma"),
        bytes: 167256,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w4.sm_100.lzma"),
        bytes: 241146,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w4.sm_120.lzma"),
        bytes: 237638,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w5.ptx.lzma"),
        bytes: 205433,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w5.sm_80.lzma"),
        bytes: 160456,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w5.sm_89.lzma"),
        bytes: 160712,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w5.sm_90.lzma"),
        bytes: 173784,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w5.sm_100.lzma"),
        bytes: 247946,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w5.sm_120.lzma"),
        bytes: 249046,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w6.ptx.lzma"),
        bytes: 224855,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w6.sm_80.lzma"),
        bytes: 170696,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w6.sm_89.lzma"),
        bytes: 171720,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w6.sm_90.lzma"),
        bytes: 186584,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w6.sm_100.lzma"),
        bytes: 264074,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w6.sm_120.lzma"),
        bytes: 258566,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w7.ptx.lzma"),
        bytes: 237252,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w7.sm_80.lzma"),
        bytes: 182472,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w7.sm_89.lzma"),
        bytes: 183880,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w7.sm_90.lzma"),
        bytes: 199384,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w7.sm_100.lzma"),
        bytes: 280506,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w7.sm_120.lzma"),
        bytes: 271046,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w8.ptx.lzma"),
        bytes: 253503,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w8.sm_80.lzma"),
        bytes: 193352,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w8.sm_89.lzma"),
        bytes: 193480,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w8.sm_90.lzma"),
        bytes: 209112,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w8.sm_100.lzma"),
        bytes: 287898,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w8.sm_120.lzma"),
        bytes: 284822,
    },
];
