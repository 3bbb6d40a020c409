// What kernels/platform.cuh defines for GPUs and no CPU needs to do in two ways: types, macros without meaning, numbers.
// Whoever compiles kernels for the CPU has a `cpu.hpp` that includes this and adds threads, barriers, memory and a clock.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Pair {
    u64 first, second;
};

#define LANESUM_BLOCK_WORDS 256
#define LANESUM_DEVICE inline
#define LANESUM_COLD static __attribute__((noinline))
#define LANESUM_OFFSET(structure, field) __builtin_offsetof(structure, field)
#define LANESUM_UNROLL
#define LANESUM_ROLLED
#define LANESUM_RARE(...) (__VA_ARGS__)
#define LANESUM_USUAL(...) (__VA_ARGS__)
// Polls are dear where a fiber hands over between them.
#define LANESUM_POLL_BUDGET 8

inline float float_of(u32 bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
inline u32 bits_of(float value) {
    u32 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

// In integers, so that nothing depends on the compiler's 16-bit type. A subnormal's leading one is shifted to its place.
inline float widen_half(u16 bits) {
    const u32 sign = (bits & 0x8000u) << 16;
    u32 exponent = bits >> 10 & 31u, fraction = bits & 0x3FFu;
    if (exponent == 31) return float_of(sign | 0x7F800000u | fraction << 13);
    if (exponent == 0) {
        if (fraction == 0) return float_of(sign);
        exponent = 1;
        while ((fraction & 0x400u) == 0) {
            fraction <<= 1;
            --exponent;
        }
        fraction &= 0x3FFu;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

// To nearest, ties to even; not for NaN.
inline u16 round_half(float value) {
    const u32 bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude >= 0x47800000u) return static_cast<u16>(sign | 0x7C00u);  // 2^16 and more
    if (magnitude < 0x33000000u) return static_cast<u16>(sign);             // less than half of the smallest
    // Bits of the fraction, its leading one written out, that a half has no place for.
    const u32 exponent = magnitude >> 23, drop = exponent >= 113 ? 13 : 126 - exponent;
    const u32 fraction = exponent >= 113 ? magnitude - (112u << 23) : (magnitude & 0x7FFFFFu) | 0x800000u;
    const u32 half = fraction >> drop, rest = fraction & ((1u << drop) - 1), tie = 1u << (drop - 1);
    // A carry runs into the exponent and up to infinity by itself.
    return static_cast<u16>(sign | (half + (rest > tie || (rest == tie && (half & 1u)) ? 1 : 0)));
}
