//! The kernels' images, one for each world size and target. Written by `cargo xtask kernels`; do not edit.
//!
//! Made by nvidia-cuda-nvrtc-cu12 12.1.105, nvidia-cuda-nvcc 13.5.37, with options and from sources (`kernels/`) of sha256
//! `985d6841f5a6f908d1db57c97a382afac0baf5cdc524f3c7e0b4becff10bf56f`.

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
        bytes: 293480,
    },
    Image {
        world: 1,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w1.sm_80.lzma"),
        bytes: 402440,
    },
    Image {
        world: 1,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w1.sm_89.lzma"),
        bytes: 402568,
    },
    Image {
        world: 1,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w1.sm_90.lzma"),
        bytes: 447368,
    },
    Image {
        world: 1,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w1.sm_100.lzma"),
        bytes: 675730,
    },
    Image {
        world: 1,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w1.sm_120.lzma"),
        bytes: 642410,
    },
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w2.ptx.lzma"),
        bytes: 983479,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w2.sm_80.lzma"),
        bytes: 1069840,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w2.sm_89.lzma"),
        bytes: 1069712,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w2.sm_90.lzma"),
        bytes: 1160528,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w2.sm_100.lzma"),
        bytes: 1692912,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w2.sm_120.lzma"),
        bytes: 1666696,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w3.ptx.lzma"),
        bytes: 1205084,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w3.sm_80.lzma"),
        bytes: 1240592,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w3.sm_89.lzma"),
        bytes: 1241232,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w3.sm_90.lzma"),
        bytes: 1333200,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w3.sm_100.lzma"),
        bytes: 1934980,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w3.sm_120.lzma"),
        bytes: 1930152,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w4.ptx.lzma"),
        bytes: 1458299,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w4.sm_80.lzma"),
        bytes: 1363216,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w4.sm_89.lzma"),
        bytes: 1363216,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w4.sm_90.lzma"),
        bytes: 1487952,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w4.sm_100.lzma"),
        bytes: 2129906,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w4.sm_120.lzma"),
        bytes: 2118970,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w5.ptx.lzma"),
        bytes: 1521205,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w5.sm_80.lzma"),
        bytes: 1398032,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w5.sm_89.lzma"),
        bytes: 1397136,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w5.sm_90.lzma"),
        bytes: 1501904,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w5.sm_100.lzma"),
        bytes: 2105344,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w5.sm_120.lzma"),
        bytes: 2157480,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w6.ptx.lzma"),
        bytes: 1761649,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w6.sm_80.lzma"),
        bytes: 1584400,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w6.sm_89.lzma"),
        bytes: 1584528,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w6.sm_90.lzma"),
        bytes: 1699536,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w6.sm_100.lzma"),
        bytes: 2373934,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w6.sm_120.lzma"),
        bytes: 2337826,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w7.ptx.lzma"),
        bytes: 1941766,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w7.sm_80.lzma"),
        bytes: 1721616,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w7.sm_89.lzma"),
        bytes: 1723664,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w7.sm_90.lzma"),
        bytes: 1847760,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w7.sm_100.lzma"),
        bytes: 2558204,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w7.sm_120.lzma"),
        bytes: 2521700,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/w8.ptx.lzma"),
        bytes: 2109930,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/w8.sm_80.lzma"),
        bytes: 1746576,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/w8.sm_89.lzma"),
        bytes: 1745808,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/w8.sm_90.lzma"),
        bytes: 1866192,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/w8.sm_100.lzma"),
        bytes: 2574810,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/w8.sm_120.lzma"),
        bytes: 2529246,
    },
];

/// The images of the bench, in the same order.
pub(crate) static BENCH_IMAGES: &[Image] = &[
    Image {
        world: 2,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w2.ptx.lzma"),
        bytes: 149529,
    },
    Image {
        world: 2,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w2.sm_80.lzma"),
        bytes: 132040,
    },
    Image {
        world: 2,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w2.sm_89.lzma"),
        bytes: 131272,
    },
    Image {
        world: 2,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w2.sm_90.lzma"),
        bytes: 142296,
    },
    Image {
        world: 2,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w2.sm_100.lzma"),
        bytes: 208218,
    },
    Image {
        world: 2,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w2.sm_120.lzma"),
        bytes: 209382,
    },
    Image {
        world: 3,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w3.ptx.lzma"),
        bytes: 171987,
    },
    Image {
        world: 3,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w3.sm_80.lzma"),
        bytes: 143816,
    },
    Image {
        world: 3,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w3.sm_89.lzma"),
        bytes: 143560,
    },
    Image {
        world: 3,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w3.sm_90.lzma"),
        bytes: 156760,
    },
    Image {
        world: 3,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w3.sm_100.lzma"),
        bytes: 228570,
    },
    Image {
        world: 3,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w3.sm_120.lzma"),
        bytes: 229670,
    },
    Image {
        world: 4,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w4.ptx.lzma"),
        bytes: 187237,
    },
    Image {
        world: 4,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w4.sm_80.lzma"),
        bytes: 150600,
    },
    Image {
        world: 4,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w4.sm_89.lzma"),
        bytes: 150600,
    },
    Image {
        world: 4,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w4.sm_90.lzma"),
        bytes: 166104,
    },
    Image {
        world: 4,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w4.sm_100.lzma"),
        bytes: 240906,
    },
    Image {
        world: 4,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w4.sm_120.lzma"),
        bytes: 236966,
    },
    Image {
        world: 5,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w5.ptx.lzma"),
        bytes: 203976,
    },
    Image {
        world: 5,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w5.sm_80.lzma"),
        bytes: 158920,
    },
    Image {
        world: 5,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w5.sm_89.lzma"),
        bytes: 159176,
    },
    Image {
        world: 5,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w5.sm_90.lzma"),
        bytes: 172888,
    },
    Image {
        world: 5,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w5.sm_100.lzma"),
        bytes: 247034,
    },
    Image {
        world: 5,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w5.sm_120.lzma"),
        bytes: 245654,
    },
    Image {
        world: 6,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w6.ptx.lzma"),
        bytes: 223398,
    },
    Image {
        world: 6,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w6.sm_80.lzma"),
        bytes: 171976,
    },
    Image {
        world: 6,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w6.sm_89.lzma"),
        bytes: 172104,
    },
    Image {
        world: 6,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w6.sm_90.lzma"),
        bytes: 184408,
    },
    Image {
        world: 6,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w6.sm_100.lzma"),
        bytes: 260346,
    },
    Image {
        world: 6,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w6.sm_120.lzma"),
        bytes: 258246,
    },
    Image {
        world: 7,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w7.ptx.lzma"),
        bytes: 235777,
    },
    Image {
        world: 7,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w7.sm_80.lzma"),
        bytes: 182088,
    },
    Image {
        world: 7,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w7.sm_89.lzma"),
        bytes: 182088,
    },
    Image {
        world: 7,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w7.sm_90.lzma"),
        bytes: 198872,
    },
    Image {
        world: 7,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w7.sm_100.lzma"),
        bytes: 280474,
    },
    Image {
        world: 7,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w7.sm_120.lzma"),
        bytes: 274262,
    },
    Image {
        world: 8,
        target: Target::Ptx,
        compressed: include_bytes!("../kernels/bench_w8.ptx.lzma"),
        bytes: 252035,
    },
    Image {
        world: 8,
        target: Target::Cubin(80),
        compressed: include_bytes!("../kernels/bench_w8.sm_80.lzma"),
        bytes: 192840,
    },
    Image {
        world: 8,
        target: Target::Cubin(89),
        compressed: include_bytes!("../kernels/bench_w8.sm_89.lzma"),
        bytes: 192712,
    },
    Image {
        world: 8,
        target: Target::Cubin(90),
        compressed: include_bytes!("../kernels/bench_w8.sm_90.lzma"),
        bytes: 208088,
    },
    Image {
        world: 8,
        target: Target::Cubin(100),
        compressed: include_bytes!("../kernels/bench_w8.sm_100.lzma"),
        bytes: 286810,
    },
    Image {
        world: 8,
        target: Target::Cubin(120),
        compressed: include_bytes!("../kernels/bench_w8.sm_120.lzma"),
        bytes: 282854,
    },
];
