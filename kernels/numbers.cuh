// Elements, the words that hold them, and how two values become one.
//
// A word is 4 bytes: one f32, or two 16-bit elements, the first in the low half. 16-bit values are combined as f32 and
// rounded once. Every NaN is stored as the canonical quiet NaN; subnormals are kept; maximum and minimum are those of
// IEEE 754-2019. To be compiled without contraction and without flushing.
#pragma once
#include "platform.cuh"
#include "layout.cuh"

LANESUM_DEVICE bool is_nan(float value) { return value != value; }

template <int D>
struct Element;

template <>
struct Element<F32> {
    static const u32 SIZE = 4;
    LANESUM_DEVICE static float widen(u32 bits) { return float_of(bits); }
    LANESUM_DEVICE static u32 round(float value) { return is_nan(value) ? 0x7FC00000u : bits_of(value); }
    static const u32 NOT_A_NUMBER = 0x7FC00000u;
};

template <>
struct Element<F16> {
    static const u32 SIZE = 2;
    LANESUM_DEVICE static float widen(u32 bits) { return widen_half(static_cast<u16>(bits)); }
    LANESUM_DEVICE static u32 round(float value) { return is_nan(value) ? 0x7E00u : round_half(value); }
    static const u32 NOT_A_NUMBER = 0x7E00u;
};

template <>
struct Element<BF16> {
    static const u32 SIZE = 2;
    LANESUM_DEVICE static float widen(u32 bits) { return float_of(bits << 16); }
    // To nearest, ties to even, in integers: a carry runs into the exponent and up to infinity by itself.
    LANESUM_DEVICE static u32 round(float value) {
        const u32 bits = bits_of(value);
        return is_nan(value) ? 0x7FC0u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    }
    static const u32 NOT_A_NUMBER = 0x7FC0u;
};

template <int O>
LANESUM_DEVICE float combine(float left, float right);

template <>
LANESUM_DEVICE float combine<SUM>(float left, float right) {
    return left + right;
}

// A NaN wins over everything; +0 is above -0.
template <>
LANESUM_DEVICE float combine<MAX>(float left, float right) {
    if (is_nan(left) || is_nan(right)) return float_of(0x7FC00000u);
    if (left == right) return float_of(bits_of(left) & bits_of(right));  // differ at most in the sign of zero
    return left > right ? left : right;
}

template <>
LANESUM_DEVICE float combine<MIN>(float left, float right) {
    if (is_nan(left) || is_nan(right)) return float_of(0x7FC00000u);
    if (left == right) return float_of(bits_of(left) | bits_of(right));
    return left < right ? left : right;
}

// The words of so many elements.
template <int D>
LANESUM_DEVICE u64 words_of(u64 elements) {
    return Element<D>::SIZE == 4 ? elements : (elements + 1) / 2;
}

LANESUM_DEVICE u32 misalignment(const u8* buffer) { return static_cast<u32>(reinterpret_cast<u64>(buffer)) & 3u; }

// Word `index` of a buffer of any alignment. Where the last element has no neighbour, zero stands beside it.
template <int D>
LANESUM_DEVICE u32 load_word(const u8* buffer, u64 elements, u64 index) {
    const u8* from = buffer + index * 4;
    const bool whole = Element<D>::SIZE == 4 || index * 2 + 1 < elements;
    const u32 offset = misalignment(buffer);
    if (whole && offset == 0) return read<u32>(from);
    if ((offset & 1u) == 0) {
        const u32 low = read<u16>(from);
        return whole ? low | static_cast<u32>(read<u16>(from + 2)) << 16 : low;
    }
    const u32 low = read<u8>(from) | static_cast<u32>(read<u8>(from + 1)) << 8;
    return whole ? low | static_cast<u32>(read<u8>(from + 2)) << 16 | static_cast<u32>(read<u8>(from + 3)) << 24 : low;
}

template <int D>
LANESUM_DEVICE void store_word(u8* buffer, u64 elements, u64 index, u32 word) {
    u8* to = buffer + index * 4;
    const bool whole = Element<D>::SIZE == 4 || index * 2 + 1 < elements;
    const u32 offset = misalignment(buffer);
    if (whole && offset == 0) {
        write<u32>(to, word);
    } else if ((offset & 1u) == 0) {
        write<u16>(to, static_cast<u16>(word));
        if (whole) write<u16>(to + 2, static_cast<u16>(word >> 16));
    } else {
        for (u32 byte = 0; byte < (whole ? 4u : 2u); ++byte) write<u8>(to + byte, static_cast<u8>(word >> 8 * byte));
    }
}

// A word of NaN.
template <int D>
LANESUM_DEVICE u32 spoilt_word() {
    return Element<D>::SIZE == 4 ? Element<D>::NOT_A_NUMBER : Element<D>::NOT_A_NUMBER * 0x10001u;
}
