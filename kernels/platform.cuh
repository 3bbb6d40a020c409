// What a kernel may ask of the machine it runs on, and nothing else.
//
// The same sources are compiled three times: by NVRTC for GPUs, by a C++ compiler for the stand-in driver, where a block is
// an OS thread and its threads are fibers, and by a C++ compiler under ThreadSanitizer. So kernels touch memory, barriers and
// clocks through these functions only. Scopes and orders are in the names:
//
//   function                      PTX                        C++
//   load_relaxed / store_relaxed  ld / st .relaxed.sys       __ATOMIC_RELAXED
//   load_acquire / store_release  ld.acquire / st.release    __ATOMIC_ACQUIRE / __ATOMIC_RELEASE
//   load_pair / store_pair        ld / st .relaxed.sys.v2    two __ATOMIC_RELAXED accesses, each of 8 bytes for itself
//   fence_system                  fence.acq_rel.sys          __ATOMIC_ACQ_REL fence
//   fetch_or / add                atom / red .relaxed.gpu    memory of this device
//   load_bulk / store_bulk        as pairs                   plain access: ordered by counts alone
//   raise / seen                  red.release / ld.acquire   __ATOMIC_RELEASE / __ATOMIC_ACQUIRE; block scope, memory of the block
//   broadcast                     a word of shared memory    what the block's first thread has
//   read / write                  ld / st (weak)             plain access: nobody else touches these bytes
#pragma once

#ifdef LANESUM_CPU
#include "cpu.hpp"  // on the include path of whoever compiles for the CPU
#else

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define LANESUM_DEVICE __device__ __forceinline__
#define LANESUM_COLD __device__ __noinline__
// An entry: whatever its body does, it does after what is before the kernel in its stream. Two macros, as names are made by others.
#define LANESUM_KERNEL(name, parameters, threads) LANESUM_KERNEL_(name, parameters, threads)
#define LANESUM_KERNEL_(name, parameters, threads)                                                                      \
    LANESUM_DEVICE void name##_body(const parameters& launch);                                                          \
    extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ parameters launch) {          \
        await_previous();                                                                                               \
        name##_body(launch);                                                                                            \
    }                                                                                                                   \
    LANESUM_DEVICE void name##_body(const parameters& launch)

// Bytes from the start of a structure to a field: what `offsetof` is in this compiler, which has no such name.
#define LANESUM_OFFSET(structure, field) __INTADDR__(&static_cast<structure*>(nullptr)->field)

#define LANESUM_UNROLL _Pragma("unroll")
#define LANESUM_ROLLED _Pragma("unroll 1")

// What to expect of a condition, so that rare code lies beside the path that all calls take. The C++ compilers have it too.
#define LANESUM_RARE(...) (__builtin_expect(!!(__VA_ARGS__), 0))
#define LANESUM_USUAL(...) (__builtin_expect(!!(__VA_ARGS__), 1))

// Waits until the kernel before in the stream has completed and what it wrote is visible; then lets the kernel behind be launched, so
// that its launch, but nothing that it does, falls into the time of this one. In this order: of one stream, at most one grid waits
// here beside the one that runs. By all threads, before anything but parameters is read. A kernel that was launched in the usual way
// finds the one before completed. GPUs before compute capability 9.0 know no other. (docs/decisions/0016)
LANESUM_DEVICE void await_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

LANESUM_DEVICE u32 thread_index() { return threadIdx.x; }
LANESUM_DEVICE u32 thread_count() { return blockDim.x; }
LANESUM_DEVICE u32 block_index() { return blockIdx.x; }
LANESUM_DEVICE u32 block_count() { return gridDim.x; }

// All threads of the block have come here; what they wrote before is visible to the block.
LANESUM_DEVICE void barrier() { __syncthreads(); }
// As `barrier`; tells whether any thread brought true.
LANESUM_DEVICE bool barrier_any(bool mine) { return __syncthreads_or(mine ? 1 : 0) != 0; }

// The word that the block's first thread brings, for all its threads; a barrier. Once a kernel.
LANESUM_DEVICE u64 broadcast(u64 word) {
    __shared__ u64 shared;
    if (threadIdx.x == 0) shared = word;
    __syncthreads();
    return shared;
}

// The threads that run in step: the unit of roles.
#define LANESUM_ROLE 32

// Words of memory that a block has for itself, in kernels that ask for it.
#define LANESUM_BLOCK_WORDS 256
LANESUM_DEVICE u32* block_words() {
    __shared__ __align__(16) u32 words[LANESUM_BLOCK_WORDS];
    return words;
}
// What this thread did before is visible to who sees the sum.
LANESUM_DEVICE void raise(u32* word, u32 more) {
    const u32 place = static_cast<u32>(__cvta_generic_to_shared(word));
    asm volatile("red.release.cta.shared.add.u32 [%0], %1;" ::"r"(place), "r"(more) : "memory");
}
LANESUM_DEVICE u32 seen(const u32* word) {
    const u32 place = static_cast<u32>(__cvta_generic_to_shared(word));
    u32 value;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(place) : "memory");
    return value;
}

// Nanoseconds of a clock that all blocks of the device share.
LANESUM_DEVICE u64 clock_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Between two polls: nothing here; a fiber hands over.
LANESUM_DEVICE void spin_hint() {}

LANESUM_DEVICE u64 load_relaxed(const u64* from) {
    u64 word;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    return word;
}
LANESUM_DEVICE u64 load_acquire(const u64* from) {
    u64 word;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    return word;
}
LANESUM_DEVICE void store_relaxed(u64* to, u64 word) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
LANESUM_DEVICE void store_release(u64* to, u64 word) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
LANESUM_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// Two words of 8 bytes, side by side and aligned to 16. Each is single-copy atomic; the two together are not.
struct Pair {
    u64 first, second;
};
LANESUM_DEVICE Pair load_pair(const u64* from) {
    Pair pair;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(pair.first), "=l"(pair.second) : "l"(from) : "memory");
    return pair;
}
LANESUM_DEVICE void store_pair(u64* to, Pair pair) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(pair.first), "l"(pair.second) : "memory");
}

// 16 bytes that other words speak for. Never from a cache of this multiprocessor, which may hold what stood there before.
LANESUM_DEVICE Pair load_bulk(const u64* from) { return load_pair(from); }
LANESUM_DEVICE void store_bulk(u64* to, Pair pair) { store_pair(to, pair); }

// What stood there.
LANESUM_DEVICE u64 fetch_or(u64* word, u64 bits) {
    u64 before;
    asm volatile("atom.relaxed.gpu.global.or.b64 %0, [%1], %2;" : "=l"(before) : "l"(word), "l"(bits) : "memory");
    return before;
}
LANESUM_DEVICE void add(u64* word, u64 more) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(more) : "memory");
}
template <typename Word>
LANESUM_DEVICE Word read(const void* from) {
    return *static_cast<const Word*>(from);
}
template <typename Word>
LANESUM_DEVICE void write(void* to, Word word) {
    *static_cast<Word*>(to) = word;
}

LANESUM_DEVICE float float_of(u32 bits) { return __uint_as_float(bits); }
LANESUM_DEVICE u32 bits_of(float value) { return __float_as_uint(value); }

LANESUM_DEVICE float widen_half(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
// To nearest, ties to even; not for NaN.
LANESUM_DEVICE u16 round_half(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

#endif
