// Kernels of the bench alone: what nothing costs, what one flag costs, and the calls with guards left out. One world size, as
// lanesum.cu; loaded only by who measures. All but the empty one advance epochs as calls do, so that they can be mixed with calls.
// What is left out is left out: those without a deadline may wait for ever, in a process that its parent ends.
#include "one_shot_push.cuh"

#define LANESUM_BENCH_NAME__(what, world) bench_##what##_w##world
#define LANESUM_BENCH_NAME_(what, world) LANESUM_BENCH_NAME__(what, world)
#define LANESUM_BENCH(what) LANESUM_KERNEL(LANESUM_BENCH_NAME_(what, LANESUM_WORLD), Launch, LANESUM_THREADS)

// The floor of a node of a graph.
LANESUM_BENCH(empty) {
    if (launch.elements == ~0ull) write<u8>(launch.output, 0);
}

// The floor of an exchange: one header to every peer and one from each, without any guard but a bound. One block.
LANESUM_BENCH(flag_round) {
    Lane* const lane = &launch.local->lanes[0];
    const u64 epoch = load_relaxed(&lane->word);
    const u32 leaf = thread_index();
    if (is_closed(epoch)) return;
    if (sweeps(epoch)) sweep<LANESUM_WORLD>(launch, epoch);
    if (leaf < LANESUM_WORLD && leaf != launch.position) {
        const u32 offset = lane_offset(launch, epoch), tag = tag_of(epoch);
        push(slot_of(launch.targets[leaf], offset), pack(header_of(launch, epoch), tag));
        for (u32 polls = 1u << 24; polls != 0; --polls) {
            if (tag_difference(load_pair(slot_of(launch.sources[leaf], offset)), tag) == 0) break;
            spin_hint();
        }
    }
    barrier();
    if (leaf == 0) add(&lane->word, 1);
}

#define LANESUM_WITHOUT(what, guards)                                              \
    LANESUM_BENCH(what) {                                                          \
        typedef OneShotPush<LANESUM_WORLD, BF16, SUM, (guards)> Unguarded;         \
        run<Unguarded, LANESUM_WORLD, BF16, (guards)>(launch);                     \
    }
LANESUM_WITHOUT(no_header, GUARD_ALL & ~GUARD_HEADER)
LANESUM_WITHOUT(no_deadline, GUARD_ALL & ~GUARD_DEADLINE)
LANESUM_WITHOUT(bare, 0)
