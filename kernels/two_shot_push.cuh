// two_shot_push: every rank sums one shard of what all have sent it, and sends the result to all.
//
//   one exchange of a lane (lane.cuh), of at most W * capacity / 2 frames; leaf s owns the shard of `ceil(count / W)` frames that
//   starts at s times as many, cut at the end; the header of epoch e is posted:
//     1  push: frame j of each shard, tagged with e, to slot (e mod 2, lane, j) of the target of its owner
//     2  frame j of the own shard: poll its slots of all leaves together until all carry e's tag; combine in the order of the
//        tree, round once, write to the output, and push the result to slot (e mod 2, lane, capacity / 2 + j) of the
//        target of every peer
//     3  every other frame: poll its owner's result until it carries e's tag; write to the output
//
// Bytes: 2 * 16 (W - 1) / W for each 12 of the message out of each rank, and as many in; two hops. The same bits as one_shot_push:
// every element is combined once, by the same tree, and a rounded result travels unchanged.
// No rank waits in a circle: step 1 waits for nobody, step 2 for step 1 of the peers, step 3 for their step 2.
// Who writes what, scopes, reuse: as one_shot_push. Both fill the same slots with tagged packets, and a slot of half e mod 2 was
// last read in e - 2 whatever the algorithm was, so calls of both mix freely.
// In place: a thread writes only frames that it has pushed itself.
#pragma once
#include "one_shot_push.cuh"

template <int W, int D, int O, int G>
struct TwoShotPush {
    LANESUM_DEVICE static u32 most_frames(const Launch& launch) { return launch.capacity / 2 * W; }

    // Where a frame of the exchange belongs.
    struct Place {
        u32 owner;  // leaf
        u32 index;  // in the shard
    };
    LANESUM_DEVICE static Place place_of(u32 at, u32 shard) {
        const u32 owner = at / shard;
        return {owner, at - owner * shard};
    }

    // Waits for the result of one frame of a peer's shard.
    LANESUM_DEVICE static bool await_result(const Launch& launch, const Exchange& exchange, Place place, Pair& pair,
                                            Trouble& trouble) {
        trouble = Trouble{0, 0, 0};
        const u64* const slot = launch.sources[place.owner] + exchange.offset + launch.capacity + 2 * place.index;
        Wait wait = {exchange.epoch, 0};
        u32 polls = LANESUM_POLL_BUDGET;
        LANESUM_ROLLED
        for (;;) {
            pair = load_pair(slot);
#ifndef LANESUM_MUTANT_NO_WAIT
            if LANESUM_USUAL (tag_difference(pair, exchange.tag) == 0)
#endif
                return true;
            spin_hint();
            if ((G & GUARD_DEADLINE) == 0 || --polls != 0) continue;
            if (trouble.kind != 0) return false;
            be_patient<W, G>(launch, wait, trouble, 1u << place.owner);
            polls = trouble.kind == 0 ? LANESUM_POLL_BUDGET : 1;
        }
    }

    // Sums frame `index` of the own shard, which is frame `at` of the exchange, and sends the result.
    LANESUM_DEVICE static bool sum(const Launch& launch, const Exchange& exchange, u32 index, u32 at, Trouble& trouble) {
        Pair pairs[W];
        if LANESUM_RARE (!gather<W, G>(launch, exchange, index, pairs, trouble)) return false;
        const Frame result = combine<D, O, W>(launch, pairs);
        const Pair pair = pack(result, exchange.tag);
        const u64 place = exchange.offset + launch.capacity + 2 * index;
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if (leaf != launch.position) push(launch.targets[leaf] + place, pair);
        }
        store_frame<D>(launch, exchange, at, result);
        return true;
    }

    // What a mover does, with its first frame. Returns whether all went well; sets `told` if this thread is the one that tells
    // otherwise.
    LANESUM_DEVICE static bool move(const Launch& launch, const Exchange& exchange, Frame own, bool& told) {
        const u32 shard = exchange.count > W ? (exchange.count + W - 1) / W : 1;
        const u32 from = launch.position * shard;
        const u32 end = from + shard < exchange.count ? from + shard : exchange.count;
        LANESUM_ROLLED
        for (u32 at = mover_index(); at < exchange.count; at += mover_count()) {
            const Place place = place_of(at, shard);
            if (place.owner == launch.position) continue;
            if (at != mover_index()) own = load_frame<D>(launch, exchange, at);
            push(launch.targets[place.owner] + exchange.offset + 2 * place.index, pack(own, exchange.tag));
        }
        // By the thread that sums it, and so may overwrite it.
        LANESUM_ROLLED
        for (u32 at = from + mover_index(); at < end; at += mover_count()) {
            u64* const slots = launch.targets[launch.position] + exchange.offset;
            push(slots + 2 * (at - from), pack(load_frame<D>(launch, exchange, at), exchange.tag));
        }
        Trouble trouble = {0, 0, 0};
        LANESUM_ROLLED
        for (u32 at = from + mover_index(); at < end; at += mover_count()) {
            if LANESUM_RARE (!sum(launch, exchange, at - from, at, trouble)) {
                told |= fail<W>(launch, trouble, exchange.epoch, PHASE_DATA);
                return false;
            }
        }
        LANESUM_ROLLED
        for (u32 at = mover_index(); at < exchange.count; at += mover_count()) {
            const Place place = place_of(at, shard);
            if (place.owner == launch.position) continue;
            Pair pair;
            if LANESUM_RARE (!await_result(launch, exchange, place, pair, trouble)) {
                told |= fail<W>(launch, trouble, exchange.epoch, PHASE_RESULT);
                return false;
            }
            store_frame<D>(launch, exchange, at, unpack(pair));
        }
        return true;
    }
};
