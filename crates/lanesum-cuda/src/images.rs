//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu12 12.1.105, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `9cc4b55c2a84163b3685a377d01cf89e44ea4972504c8359f7112cb4841575b7`.

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
        bytes: 286069,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.lzma"),
        bytes: 384264,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.lzma"),
        bytes: 384392,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.lzma"),
        bytes: 429672,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.lzma"),
        bytes: 652114,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.lzma"),
        bytes: 616778,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.lzma"),
        bytes: 714504,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.lzma"),
        bytes: 923208,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.lzma"),
        bytes: 923336,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.lzma"),
        bytes: 983208,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.lzma"),
        bytes: 1439760,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.lzma"),
        bytes: 1479836,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.lzma"),
        bytes: 919120,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.lzma"),
        bytes: 1071048,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.lzma"),
        bytes: 1071176,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.lzma"),
        bytes: 1136680,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.lzma"),
        bytes: 1646780,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.lzma"),
        bytes: 1660016,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.lzma"),
        bytes: 1071723,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.lzma"),
        bytes: 1156808,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.lzma"),
        bytes: 1156936,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.lzma"),
        bytes: 1264680,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.lzma"),
        bytes: 1822434,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.lzma"),
        bytes: 1835494,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.lzma"),
        bytes: 1224649,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.lzma"),
        bytes: 1241928,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.lzma"),
        bytes: 1242440,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.lzma"),
        bytes: 1321128,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.lzma"),
        bytes: 1871180,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.lzma"),
        bytes: 1870060,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.lzma"),
        bytes: 1416823,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.lzma"),
        bytes: 1341768,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.lzma"),
        bytes: 1342152,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.lzma"),
        bytes: 1455912,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.lzma"),
        bytes: 2039270,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.lzma"),
        bytes: 2003890,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.lzma"),
        bytes: 1555613,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.lzma"),
        bytes: 1485256,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.lzma"),
        bytes: 1480648,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.lzma"),
        bytes: 1594280,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.lzma"),
        bytes: 2224828,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.lzma"),
        bytes: 2170444,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.lzma"),
        bytes: 1742844,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.lzma"),
        bytes: 1510856,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.lzma"),
        bytes: 1510728,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.lzma"),
        bytes: 1625384,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.lzma"),
        bytes: 2252138,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.lzma"),
        bytes: 2243458,
    },
];

/// The images of the bench, in the same order.
pub(crate) static BENCH_IMAGES: &[Image] = &[
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w2.ptx.lzma"),
        bytes: 147074,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w2.sm_80.lzma"),
        bytes: 127816,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w2.sm_89.lzma"),
        bytes: 127432,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w2.sm_90.lzma"),
        bytes: 137656,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w2.sm_100.lzma"),
        bytes: 202694,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w2.sm_120.lzma"),
        bytes: 199490,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w3.ptx.lzma"),
        bytes: 169454,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w3.sm_80.lzma"),
        bytes: 140232,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w3.sm_89.lzma"),
        bytes: 139848,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w3.sm_90.lzma"),
        bytes: 149432,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w3.sm_100.lzma"),
        bytes: 217270,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w3.sm_120.lzma"),
        bytes: 221106,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w4.ptx.lzma"),
        bytes: 184508,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w4.sm_80.lzma"),
        bytes: 146632,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w4.sm_89.lzma"),
        bytes: 146632,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w4.sm_90.lzma"),
        bytes: 159160,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w4.sm_100.lzma"),
        bytes: 229190,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w4.sm_120.lzma"),
        bytes: 230834,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w5.ptx.lzma"),
        bytes: 200677,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w5.sm_80.lzma"),
        bytes: 157384,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w5.sm_89.lzma"),
        bytes: 157384,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w5.sm_90.lzma"),
        bytes: 168120,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w5.sm_100.lzma"),
        bytes: 240534,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w5.sm_120.lzma"),
        bytes: 238530,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w6.ptx.lzma"),
        bytes: 219470,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w6.sm_80.lzma"),
        bytes: 165960,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w6.sm_89.lzma"),
        bytes: 165960,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w6.sm_90.lzma"),
        bytes: 178104,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w6.sm_100.lzma"),
        bytes: 251478,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w6.sm_120.lzma"),
        bytes: 248226,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w7.ptx.lzma"),
        bytes: 232051,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w7.sm_80.lzma"),
        bytes: 177736,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w7.sm_89.lzma"),
        bytes: 178760,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w7.sm_90.lzma"),
        bytes: 190008,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w7.sm_100.lzma"),
        bytes: 265190,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w7.sm_120.lzma"),
        bytes: 266946,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w8.ptx.lzma"),
        bytes: 249384,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w8.sm_80.lzma"),
        bytes: 190920,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w8.sm_89.lzma"),
        bytes: 190024,
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
        bytes: 280534,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w8.sm_120.lzma"),
        bytes: 279474,
    },
];
