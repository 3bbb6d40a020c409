// The order in which ranks' values are combined.
//
// Values come by leaf. The canonical tree (left subtree: the largest power of two below the size) is unrolled; any other is a
// program of world - 1 steps over groups of leaves, where registers are chosen by comparison so that nothing is indexed at
// run time and nothing spills.
#pragma once
#include "numbers.cuh"

LANESUM_DEVICE constexpr int left_of(int leaves) {
    int left = 1;
    while (left * 2 < leaves) left *= 2;
    return left;
}

template <int O, int LEAVES>
struct Canonical {
    LANESUM_DEVICE static float reduce(const float* values) {
        constexpr int LEFT = left_of(LEAVES);
        return combine<O>(Canonical<O, LEFT>::reduce(values), Canonical<O, LEAVES - LEFT>::reduce(values + LEFT));
    }
};

template <int O>
struct Canonical<O, 1> {
    LANESUM_DEVICE static float reduce(const float* values) { return values[0]; }
};

template <int O, int W>
LANESUM_DEVICE float reduce_by(u64 program, float (&values)[W]) {
    for (int step = 0; step < W - 1; ++step) {
        const int from = static_cast<int>(program >> (8 * step) & 15);
        const int into = static_cast<int>(program >> (8 * step + 4) & 15);
        float left = values[0], right = values[0];
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if (leaf == into) left = values[leaf];
            if (leaf == from) right = values[leaf];
        }
        const float both = combine<O>(left, right);
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if (leaf == into) values[leaf] = both;
        }
    }
    return values[0];
}

template <int O, int W>
LANESUM_DEVICE float reduce(const Launch& launch, float (&values)[W]) {
    // Two leaves make one tree only. Without the branch, too, NVRTC writes the same PTX each time.
    if constexpr (W > 2) {
        if ((launch.flags & FLAG_CANONICAL) == 0) return reduce_by<O, W>(launch.program, values);
    }
    return Canonical<O, W>::reduce(values);
}

// The result of one packet from the payloads of all leaves.
template <int D, int O, int W>
LANESUM_DEVICE u32 reduce_payloads(const Launch& launch, const u32 (&payloads)[W]) {
    float values[W];
    if constexpr (Element<D>::SIZE == 4) {
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) values[leaf] = Element<D>::widen(payloads[leaf]);
        return Element<D>::round(reduce<O, W>(launch, values));
    } else {
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) values[leaf] = Element<D>::widen(payloads[leaf] & 0xFFFFu);
        const u32 low = Element<D>::round(reduce<O, W>(launch, values));
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) values[leaf] = Element<D>::widen(payloads[leaf] >> 16);
        return low | Element<D>::round(reduce<O, W>(launch, values)) << 16;
    }
}
