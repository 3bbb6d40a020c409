//! What the cases reduce: awkward numbers, and trees of many forms.

use lanesum_plan::{Dtype, Rank, ReductionTree, WorldSize};

/// The canonical tree of a world.
pub fn canonical(world: usize) -> ReductionTree {
    ReductionTree::canonical(WorldSize::new(world).unwrap())
}

/// Trees of many forms for one world: the canonical one, islands of every size, islands in reverse, combs both ways.
pub fn trees(world: usize) -> Vec<ReductionTree> {
    let ranks: Vec<Rank> = WorldSize::new(world).unwrap().ranks().collect();
    let mut trees = vec![canonical(world)];
    for island in 2..world {
        let mut groups: Vec<Vec<Rank>> = ranks.chunks(island).map(<[Rank]>::to_vec).collect();
        trees.push(ReductionTree::islands(&groups).unwrap());
        groups.reverse();
        trees.push(ReductionTree::islands(&groups).unwrap());
    }
    if world > 2 {
        let comb = |start: String, join: fn(String, usize) -> String| {
            (1..world).fold(start, |tree, rank| {
                if tree.contains('+') {
                    join(format!("({tree})"), rank)
                } else {
                    join(tree, rank)
                }
            })
        };
        trees.push(comb("0".into(), |tree, rank| format!("{tree}+{rank}")).parse().unwrap());
        trees.push(comb("0".into(), |tree, rank| format!("{rank}+{tree}")).parse().unwrap());
    }
    trees
}

/// A small generator; the numbers of one seed are the same everywhere.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 ^ (self.0 >> 60) as u32
    }
}

/// Bits of a dtype that implementations get wrong, for both signs: zeros, subnormals, the edges of the normal range,
/// ties, infinities, quiet and signalling NaNs with payloads.
pub fn awkward(dtype: Dtype) -> Vec<u32> {
    let positive: &[u32] = match dtype {
        Dtype::F32 => &[
            0,
            1,
            0x0000_8000,
            0x007F_FFFF,
            0x0080_0000,
            0x0080_0001,
            0x3300_0000,
            0x3380_0000,
            0x3F80_0000,
            0x3F80_0001,
            0x3F80_8000,
            0x3F81_8000,
            0x4B80_0000,
            0x477F_E000,
            0x477F_F000,
            0x7F00_0000,
            0x7F7F_FFFF,
            0x7F80_0000,
            0x7F80_0001,
            0x7FA0_1234,
            0x7FC0_0000,
            0x7FFF_FFFF,
        ],
        Dtype::F16 => &[
            0, 1, 0x0200, 0x03FF, 0x0400, 0x0401, 0x3BFF, 0x3C00, 0x3C01, 0x6800, 0x7800, 0x7BFE, 0x7BFF, 0x7C00,
            0x7C01, 0x7D55, 0x7E00, 0x7FFF,
        ],
        Dtype::Bf16 => &[
            0, 1, 0x0040, 0x007F, 0x0080, 0x0081, 0x3F7F, 0x3F80, 0x3F81, 0x4380, 0x7F00, 0x7F7E, 0x7F7F, 0x7F80,
            0x7F81, 0x7FA5, 0x7FC0, 0x7FFF,
        ],
    };
    let sign = 1 << (dtype.size() * 8 - 1);
    positive.iter().flat_map(|bits| [*bits, bits | sign]).collect()
}

/// One rank's input. A third awkward, a third of any bits, a third near one, where sums are ordinary and round.
pub fn input(dtype: Dtype, seed: u64, elements: usize) -> Vec<u8> {
    let mut noise = Noise(seed);
    let awkward = awkward(dtype);
    (0..elements)
        .flat_map(|_| {
            let (kind, any) = (noise.next() % 3, noise.next() ^ noise.next().rotate_left(16));
            let bits = match (kind, dtype) {
                (0, _) => awkward[any as usize % awkward.len()],
                (1, _) => any,
                (_, Dtype::F32) => (any & 0x81FF_FFFF) | 0x3E00_0000,
                (_, Dtype::F16) => (any & 0x8FFF) | 0x3000,
                (_, Dtype::Bf16) => (any & 0x81FF) | 0x3E00,
            };
            bits.to_le_bytes().into_iter().take(dtype.size())
        })
        .collect()
}
