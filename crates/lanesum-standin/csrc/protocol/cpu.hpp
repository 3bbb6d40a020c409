// The machine on which ThreadSanitizer watches the protocol: every thread of every block is an OS thread, so that nothing
// orders two accesses but what the kernel says. Memory is this process's own.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include "../words.hpp"

// The meeting of a block's threads.
struct Block {
    pthread_barrier_t barrier;
    // Of three barriers in turn: a flag is cleared when all have passed the barrier after the one that it served.
    u32 brought[3] = {};
    u64 shared = 0;
    alignas(16) u32 words[LANESUM_BLOCK_WORDS] = {};
};

struct Place {
    u32 thread, threads, block, blocks;
    Block* meeting;
    u32 turn;
    u32 chance;  // a generator's state, different for each thread
    // ThreadSanitizer knows no fences. Here a fence takes up what the words hold that were loaded last, and lets the stores up to the next
    // load release.
    const u64* loaded[16];
    u32 loads;
    bool fenced;
};
inline thread_local Place here;

// Before a store: now and then others go first, so that few calls meet many orders.
inline void stumble() {
    here.chance = here.chance * 1664525u + 1013904223u;
    if (here.chance >> 28 == 0) sched_yield();
}

inline u32 thread_index() { return here.thread; }
inline u32 thread_count() { return here.threads; }
inline u32 block_index() { return here.block; }
inline u32 block_count() { return here.blocks; }

inline bool barrier_any(bool mine) {
    Block& block = *here.meeting;
    const u32 turn = here.turn;
    here.turn = (turn + 1) % 3;
    if (mine) __atomic_store_n(&block.brought[turn], 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&block.barrier);
    const bool any = __atomic_load_n(&block.brought[turn], __ATOMIC_RELAXED) != 0;
    __atomic_store_n(&block.brought[(turn + 2) % 3], 0, __ATOMIC_RELAXED);
    return any;
}
inline void barrier() { pthread_barrier_wait(&here.meeting->barrier); }
inline u64 broadcast(u64 word) {
    if (here.thread == 0) here.meeting->shared = word;
    barrier();
    return here.meeting->shared;
}
#define LANESUM_ROLE 1
inline u32* block_words() { return here.meeting->words; }
inline void raise(u32* word, u32 more) {
    stumble();
    __atomic_fetch_add(word, more, __ATOMIC_RELEASE);
}
inline u32 seen(const u32* word) {
    here.fenced = false;
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
inline void spin_hint() { sched_yield(); }

inline u64 clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<u64>(now.tv_sec) * 1000000000ull + static_cast<u64>(now.tv_nsec);
}

inline u64 load_relaxed(const u64* from) {
    here.loaded[here.loads++ % 16] = from;
    here.fenced = false;
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}
inline u64 load_acquire(const u64* from) {
    here.fenced = false;
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
inline void store_relaxed(u64* to, u64 word) {
    stumble();
    __atomic_store_n(to, word, here.fenced ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
}
inline void store_release(u64* to, u64 word) {
    stumble();
    __atomic_store_n(to, word, __ATOMIC_RELEASE);
}
inline void fence_system() {
    for (const u64* word : here.loaded) {
        if (word != nullptr) static_cast<void>(__atomic_load_n(word, __ATOMIC_ACQUIRE));
    }
    here.fenced = true;
}
inline Pair load_pair(const u64* from) { return {load_relaxed(from), load_relaxed(from + 1)}; }
inline void store_pair(u64* to, Pair pair) {
    store_relaxed(to, pair.first);
    store_relaxed(to + 1, pair.second);
}
// Plain: whatever orders them is for ThreadSanitizer to see.
inline Pair load_bulk(const u64* from) { return {from[0], from[1]}; }
inline void store_bulk(u64* to, Pair pair) {
    to[0] = pair.first;
    to[1] = pair.second;
}
inline u64 fetch_or(u64* word, u64 bits) { return __atomic_fetch_or(word, bits, __ATOMIC_RELAXED); }
inline void add(u64* word, u64 more) { __atomic_fetch_add(word, more, __ATOMIC_RELAXED); }

template <typename Word>
inline Word read(const void* from) {
    return *static_cast<const Word*>(from);
}
template <typename Word>
inline void write(void* to, Word word) {
    *static_cast<Word*>(to) = word;
}
