// The machine that the stand-in driver runs kernels on: a block is an OS thread, its threads are fibers of that thread, and
// every access is looked up in the memory that the running device may touch.
#pragma once
#include <time.h>
#include "../words.hpp"

namespace standin {

// Where the running fiber stands. Fibers never change their OS thread.
struct Place {
    u32 thread, threads, block, blocks;
    // Counted so that the scheduler can tell work from waiting.
    u64 stores;
};
extern thread_local Place* here __attribute__((tls_model("initial-exec")));

// Hands over to the next fiber.
void spin();
// Returns when all fibers of the block have come; whether any brought true.
bool meet(bool mine);
// Where to load from. Does not return if the device may not: the kernel ends there.
const void* source(const void* from, u32 size);
// Where to store to; null if the store is not to happen, or was taken over (a lie of the configuration).
void* target(void* to, u32 size, u64 word);

typedef void (*Body)(const void* parameters);
// Registers a kernel for cuModuleGetFunction.
struct Entry {
    Entry(const char* name, u32 parameters, Body body);
};

}  // namespace standin

#define LANESUM_KERNEL(name, parameters, threads) LANESUM_KERNEL_(name, parameters)
#define LANESUM_KERNEL_(name, parameters)                                                                                \
    static void name(const parameters& launch);                                                                         \
    static const standin::Entry name##_entry(                                                                           \
        #name, sizeof(parameters), [](const void* launch) { name(*static_cast<const parameters*>(launch)); });          \
    static void name(const parameters& launch)

inline u32 thread_index() { return standin::here->thread; }
inline u32 thread_count() { return standin::here->threads; }
inline u32 block_index() { return standin::here->block; }
inline u32 block_count() { return standin::here->blocks; }
inline void barrier() { standin::meet(false); }
inline bool barrier_any(bool mine) { return standin::meet(mine); }
// A block's fibers share their thread, and nothing but a block runs on it.
inline u64 broadcast(u64 word) {
    static thread_local u64 shared;
    if (thread_index() == 0) shared = word;
    barrier();
    return shared;
}
// A block of 64 fibers has eight roles.
#define LANESUM_ROLE 8
inline u32* block_words() {
    alignas(16) static thread_local u32 words[LANESUM_BLOCK_WORDS];
    return words;
}
inline void raise(u32* word, u32 more) {
    *word += more;
    ++standin::here->stores;
}
inline u32 seen(const u32* word) { return *word; }
inline void spin_hint() { standin::spin(); }

inline u64 clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<u64>(now.tv_sec) * 1000000000ull + static_cast<u64>(now.tv_nsec);
}

inline u64 load_relaxed(const u64* from) {
    return __atomic_load_n(static_cast<const u64*>(standin::source(from, 8)), __ATOMIC_RELAXED);
}
inline u64 load_acquire(const u64* from) {
    return __atomic_load_n(static_cast<const u64*>(standin::source(from, 8)), __ATOMIC_ACQUIRE);
}
inline void store_relaxed(u64* to, u64 word) {
    if (void* place = standin::target(to, 8, word)) __atomic_store_n(static_cast<u64*>(place), word, __ATOMIC_RELAXED);
}
inline void store_release(u64* to, u64 word) {
    if (void* place = standin::target(to, 8, word)) __atomic_store_n(static_cast<u64*>(place), word, __ATOMIC_RELEASE);
}
inline void fence_system() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
inline Pair load_pair(const u64* from) { return {load_relaxed(from), load_relaxed(from + 1)}; }
inline void store_pair(u64* to, Pair pair) {
    store_relaxed(to, pair.first);
    store_relaxed(to + 1, pair.second);
}
inline Pair load_bulk(const u64* from) { return load_pair(from); }
inline void store_bulk(u64* to, Pair pair) { store_pair(to, pair); }
inline u64 fetch_or(u64* word, u64 bits) {
    void* place = standin::target(word, 8, bits);
    return place ? __atomic_fetch_or(static_cast<u64*>(place), bits, __ATOMIC_RELAXED) : 0;
}
inline void add(u64* word, u64 more) {
    if (void* place = standin::target(word, 8, more)) __atomic_fetch_add(static_cast<u64*>(place), more, __ATOMIC_RELAXED);
}

template <typename Word>
inline Word read(const void* from) {
    return *static_cast<const Word*>(standin::source(from, sizeof(Word)));
}
template <typename Word>
inline void write(void* to, Word word) {
    u64 start = 0;
    __builtin_memcpy(&start, &word, sizeof word < 8 ? sizeof word : 8);
    if (void* place = standin::target(to, sizeof(Word), start)) *static_cast<Word*>(place) = word;
}
