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
    static const u32 UNIT_WORDS = FRAME_WORDS;
    LANESUM_DEVICE static u32 most_units(const Launch& launch) { return launch.capacity / 2 * W; }

    // Where a frame of the exchange belongs.
    struct Place {
        u32 owner;  // leaf
        u32 index;  // in the shard
    };
    LANESUM_DEVICE static Place place_of(u32 at, u32 shard) {
        const u32 owner = at / shard;
        return {owner, at - owner * shard};
    }

    // Results fill the second half of a lane's slots.
    LANESUM_DEVICE static u32 result_offset(const Launch& launch, const Exchange& exchange, u32 index) {
        return frame_offset(exchange.offset, launch.capacity / 2 + index);
    }

    // Waits for the result of one frame of a peer's shard.
    LANESUM_DEVICE static u32 await_result(const Launch& launch, const Exchange& exchange, Place place, Pair& pair) {
        const u32 offset = result_offset(launch, exchange, place.index);
        const u64* const slot = slot_of(launch.sources[place.owner], offset);
        u32 polls = LANESUM_POLL_BUDGET;
        LANESUM_ROLLED
        for (;;) {
            pair = load_pair(slot);
#ifndef LANESUM_MUTANT_NO_WAIT
            if LANESUM_USUAL (tag_difference(pair, exchange.tag) == 0)
#endif
                return 0;
            spin_hint();
            if ((G & GUARD_DEADLINE) == 0 || --polls != 0) continue;
            const Pending<W> owner = {launch, exchange.tag, offset, 1u << place.owner};
            const u32 trouble = outwait<W, G>(launch, exchange.epoch, PHASE_RESULT, owner);
            if LANESUM_RARE (trouble != 0) return trouble;
            polls = LANESUM_POLL_BUDGET;
        }
    }

    // Sums frame `index` of the own shard, which is frame `at` of the exchange, and sends the result.
    LANESUM_DEVICE static u32 sum(const Launch& launch, const Exchange& exchange, u32 index, u32 at) {
        Pair pairs[W];
        const u32 input_offset = frame_offset(exchange.offset, index);
        const u32 trouble = gather<W, G>(launch, exchange.epoch, input_offset, pairs, all_of<W>(), PHASE_DATA);
        if LANESUM_RARE (trouble != 0) return trouble;
        const Frame result = combine_by_tree<D, O, W>(launch, pairs);
        const Pair pair = pack(result, exchange.tag);
        const u32 offset = result_offset(launch, exchange, index);
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if (leaf != launch.position) push(slot_of(launch.targets[leaf], offset), pair);
        }
        store_frame<D>(launch, exchange, at, result);
        return trouble;
    }

    // What a mover does. As `outwait`.
    LANESUM_DEVICE static u32 move(const Launch& launch, const Exchange& exchange) {
        const u32 shard = exchange.count > W ? (exchange.count + W - 1) / W : 1;
        const u32 from = launch.position * shard;
        const u32 end = from + shard < exchange.count ? from + shard : exchange.count;
        LANESUM_ROLLED
        for (u32 at = mover_index(); at < exchange.count; at += mover_count()) {
            const Place place = place_of(at, shard);
            if (place.owner == launch.position) continue;
            const Pair pair = pack(load_frame<D>(launch, exchange, at), exchange.tag);
            push(slot_of(launch.targets[place.owner], frame_offset(exchange.offset, place.index)), pair);
        }
        // By the thread that sums it, and so may overwrite it.
        LANESUM_ROLLED
        for (u32 at = from + mover_index(); at < end; at += mover_count()) {
            const Pair pair = pack(load_frame<D>(launch, exchange, at), exchange.tag);
            push(slot_of(launch.targets[launch.position], frame_offset(exchange.offset, at - from)), pair);
        }
        if LANESUM_RARE (launch.pause_ns != 0) pause(launch.pause_ns);
        LANESUM_ROLLED
        for (u32 at = from + mover_index(); at < end; at += mover_count()) {
            const u32 trouble = sum(launch, exchange, at - from, at);
            if LANESUM_RARE (trouble != 0) return trouble;
        }
        if LANESUM_RARE (launch.pause_ns != 0) pause(launch.pause_ns);
        LANESUM_ROLLED
        for (u32 at = mover_index(); at < exchange.count; at += mover_count()) {
            const Place place = place_of(at, shard);
            if (place.owner == launch.position) continue;
            Pair pair;
            const u32 trouble = await_result(launch, exchange, place, pair);
            if LANESUM_RARE (trouble != 0) return trouble;
            store_frame<D>(launch, exchange, at, unpack(pair));
        }
        return 0;
    }

    // A call of one exchange, as that of one shot: each thread but the first has at most one frame of each shard. So it writes only where
    // it has itself read, and what it takes up is at one place in the regions of all leaves.
    LANESUM_DEVICE static void once(const Launch& launch, u64 word) {
        const u32 first = launch.share * block_index();
        const u32 count = block_index() + 1 == block_count() ? launch.tail : launch.share;
        const u32 shard = count > W ? (count + W - 1) / W : 1;
        const bool moves = mover_index() < shard;
        // Words of this thread's frame of the shard of a leaf.
        const auto words = [&](u32 leaf) {
            const u32 at = leaf * shard + mover_index();
            return moves && at < count ? static_cast<int>(launch.words - 3 * (first + at)) : 0;
        };
        const auto place = [&](u32 leaf) { return static_cast<u64>(first + leaf * shard + mover_index()) * 12; };
        Frame frames[W];
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) frames[leaf] = load_words(launch.input + place(leaf), words(leaf));
        if constexpr ((G & GUARD_STATE) != 0) word = broadcast(word);
        if LANESUM_RARE (is_rare(word)) return stay<TwoShotPush, W, D, G>(launch, word);
        const u32 tag = tag_of(word);
        const u32 offset = lane_offset(launch, word) + thread_index() * FRAME_BYTES;
        Pair ours = pack(header_of(launch, word), tag);
        u32 trouble = 0;
        if (moves || !is_mover()) {
            // Where a shard has fewer frames, nobody looks at what is sent here.
            LANESUM_UNROLL
            for (int leaf = 0; leaf < W; ++leaf) {
                push(slot_of(launch.targets[leaf], offset), is_mover() ? pack(frames[leaf], tag) : ours);
            }
            if LANESUM_RARE (launch.pause_ns != 0) pause(launch.pause_ns);
            Pair pairs[W];
            const int own = words(launch.position);
            if (own > 0 || !is_mover()) {
                trouble = gather<W, G>(launch, word, offset, pairs, all_of<W>(), is_mover() ? PHASE_DATA : PHASE_HEADER);
                if (!is_mover()) {
                    if (trouble == 0 && !agree<W>(ours, pairs)) trouble = KIND_MISMATCH;
                } else if LANESUM_USUAL (trouble == 0) {
                    const Frame result = combine<D, O, W>(pairs);
                    ours = pack(result, tag);
                    LANESUM_UNROLL
                    for (int leaf = 0; leaf < W; ++leaf) {
                        if (leaf != launch.position) {
                            push(slot_of(launch.targets[leaf], offset + launch.capacity / 2 * FRAME_BYTES), ours);
                        }
                    }
                    store_words(launch.output + place(launch.position), result, own);
                }
            }
            u32 owed = 0;
            LANESUM_UNROLL
            for (int leaf = 0; leaf < W; ++leaf) {
                if (words(leaf) > 0 && leaf != launch.position) owed |= 1u << leaf;
            }
            if LANESUM_USUAL (owed != 0 && trouble == 0) {
                if LANESUM_RARE (launch.pause_ns != 0) pause(launch.pause_ns);
                const u32 results = offset + launch.capacity / 2 * FRAME_BYTES;
                trouble = gather<W, G>(launch, word, results, pairs, owed, PHASE_RESULT);
                LANESUM_UNROLL
                for (int leaf = 0; leaf < W; ++leaf) {
                    if ((owed >> leaf & 1) != 0) store_words(launch.output + place(leaf), unpack(pairs[leaf]), words(leaf));
                }
            }
        }
        settle<W, D, G>(launch, word, trouble);
    }
};
