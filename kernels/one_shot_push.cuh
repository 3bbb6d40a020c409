// one_shot_push: every rank writes its input to every rank, itself too, and sums what comes.
//
//   one exchange of a lane (lane.cuh), of at most `capacity` frames; the header of epoch e is posted:
//     1  push: frame i of the input, tagged with e, to slot (e mod 2, lane, i) of the targets of all leaves, the own one too, so
//        that all leaves are alike in what follows
//     2  frame i: poll its slots of all leaves together until all carry e's tag; combine in the order of the tree, round once,
//        write to the output
//
// Bytes: 16 (W - 1) for each 12 of the message out of each rank, and as many in; one hop.
// Who writes what: a rank writes its output, its `Local`, its `Mapped`, the place of its own frames, and in each peer's inbox only
// what is marked with its own rank or leaf.
// Scopes: packets and headers are relaxed, at system scope. Each is judged by the value that was read, so no order among them
// is needed (docs/memory-model.md).
// Reuse: step 1 of e overwrites what step 1 of e - 2 wrote. A rank has seen the peer's header of e - 1, which that peer's lane
// posted after it had read everything of e - 2 (the barrier that ends an exchange).
#pragma once
#include "lane.cuh"

template <int W, int D, int O, int G>
struct OneShotPush {
    LANESUM_DEVICE static u32 most_frames(const Launch& launch) { return launch.capacity; }

    // What a mover does, with its first frame. Returns whether all went well; sets `told` if this thread is the one that tells
    // otherwise.
    LANESUM_DEVICE static bool move(const Launch& launch, const Exchange& exchange, Frame own, bool& told) {
        u32 index = mover_index();
        if (index >= exchange.count) return true;
        LANESUM_ROLLED
        for (;;) {
            const Pair pair = pack(own, exchange.tag);
            const u64 place = exchange.offset + 2 * index;
            LANESUM_UNROLL
            for (int leaf = 0; leaf < W; ++leaf) push(launch.targets[leaf] + place, pair);
            index += mover_count();
            if LANESUM_USUAL (index >= exchange.count) break;
            own = load_frame<D>(launch, exchange, index);
        }
        LANESUM_ROLLED
        for (index = mover_index(); index < exchange.count; index += mover_count()) {
            Pair pairs[W];
            Trouble trouble = {0, 0, 0};
            if LANESUM_RARE (!gather<W, G>(launch, exchange, index, pairs, trouble)) {
                told |= fail<W>(launch, trouble, exchange.epoch, PHASE_DATA);
                return false;
            }
            store_frame<D>(launch, exchange, index, combine<D, O, W>(launch, pairs));
        }
        return true;
    }
};
