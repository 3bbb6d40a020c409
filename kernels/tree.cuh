// The order in which ranks' values are combined.
//
// Values come by leaf. The canonical tree (left subtree: the largest power of two below the size) is unrolled; any other is a
// program of world - 1 steps over groups of leaves, out of line, where registers are chosen by comparison so that nothing is
// indexed at run time.
#pragma once
#include "frames.cuh"

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

// One element of each leaf: the low (0) or high (1) half of its word, or all of it.
template <int D, int W>
LANESUM_DEVICE void widen_all(const u32 (&words)[W], int half, float (&values)[W]) {
    LANESUM_UNROLL
    for (int leaf = 0; leaf < W; ++leaf) {
        const u32 word = words[leaf];
        values[leaf] = Element<D>::widen(Element<D>::SIZE == 4 ? word : half == 0 ? word & 0xFFFFu : word >> 16);
    }
}

// The result of one word from the words of all leaves.
template <int D, int O, int W>
LANESUM_DEVICE u32 reduce_words(const u32 (&words)[W]) {
    float values[W];
    widen_all<D, W>(words, 0, values);
    const u32 low = Element<D>::round(Canonical<O, W>::reduce(values));
    if constexpr (Element<D>::SIZE == 4) return low;
    widen_all<D, W>(words, 1, values);
    return low | Element<D>::round(Canonical<O, W>::reduce(values)) << 16;
}

template <int D, int O, int W>
LANESUM_COLD u32 reduce_words_by(u64 program, u32 (&words)[W]) {
    float values[W];
    widen_all<D, W>(words, 0, values);
    const u32 low = Element<D>::round(reduce_by<O, W>(program, values));
    if constexpr (Element<D>::SIZE == 4) return low;
    widen_all<D, W>(words, 1, values);
    return low | Element<D>::round(reduce_by<O, W>(program, values)) << 16;
}

// The payloads of all leaves' frames, by word.
template <int W>
LANESUM_DEVICE void unpack_all(const Pair (&pairs)[W], u32 (&words)[3][W]) {
    LANESUM_UNROLL
    for (int leaf = 0; leaf < W; ++leaf) {
        const Frame frame = unpack(pairs[leaf]);
        LANESUM_UNROLL
        for (int word = 0; word < 3; ++word) words[word][leaf] = frame.words[word];
    }
}

// The result of one frame from those of all leaves, by the canonical tree.
template <int D, int O, int W>
LANESUM_DEVICE Frame combine(const Pair (&pairs)[W]) {
    u32 words[3][W];
    unpack_all(pairs, words);
    Frame result;
    LANESUM_UNROLL
    for (int word = 0; word < 3; ++word) result.words[word] = reduce_words<D, O, W>(words[word]);
    return result;
}

// By the tree of the launch.
template <int D, int O, int W>
LANESUM_DEVICE Frame combine_by_tree(const Launch& launch, const Pair (&pairs)[W]) {
    // Two leaves make one tree only.
    if constexpr (W <= 2) return combine<D, O, W>(pairs);
    if LANESUM_USUAL (launch.canonical != 0) return combine<D, O, W>(pairs);
    u32 words[3][W];
    unpack_all(pairs, words);
    Frame result;
    LANESUM_UNROLL
    for (int word = 0; word < 3; ++word) result.words[word] = reduce_words_by<D, O, W>(launch.program, words[word]);
    return result;
}
