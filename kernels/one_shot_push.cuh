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
    static const u32 UNIT_WORDS = FRAME_WORDS;
    LANESUM_DEVICE static u32 most_units(const Launch& launch) { return launch.capacity; }

    // What a mover does. As `outwait`.
    LANESUM_DEVICE static u32 move(const Launch& launch, const Exchange& exchange) {
        LANESUM_ROLLED
        for (u32 index = mover_index(); index < exchange.count; index += mover_count()) {
            const Pair pair = pack(load_frame<D>(launch, exchange, index), exchange.tag);
            const u32 offset = frame_offset(exchange.offset, index);
            LANESUM_UNROLL
            for (int leaf = 0; leaf < W; ++leaf) push(slot_of(launch.targets[leaf], offset), pair);
        }
        if LANESUM_RARE (launch.pause_ns != 0) pause(launch.pause_ns);
        LANESUM_ROLLED
        for (u32 index = mover_index(); index < exchange.count; index += mover_count()) {
            Pair pairs[W];
            const u32 offset = frame_offset(exchange.offset, index);
            const u32 trouble = gather<W, G>(launch, exchange.epoch, offset, pairs, all_of<W>(), PHASE_DATA);
            if LANESUM_RARE (trouble != 0) return trouble;
            store_frame<D>(launch, exchange, index, combine_by_tree<D, O, W>(launch, pairs));
        }
        return 0;
    }

    // A call of one exchange: each thread but the first has at most one frame, of whole words in aligned memory, and the tree is
    // canonical. `word` is what stood in the lane, and is known to the first thread; the others get it here. The header goes the way
    // of the frames, through its own slot.
    LANESUM_DEVICE static void once(const Launch& launch, u64 word) {
        const u32 index = launch.share * block_index() + mover_index();
        const u64 place = static_cast<u64>(index) * 12;
        // Of this thread's frame; none or fewer than three beyond the end. The first thread's index is the largest number.
        int words = static_cast<int>(launch.words - 3 * index);
        if (mover_index() >= launch.share) words = 0;
        Frame frame = load_words(launch.input + place, words);
        if constexpr ((G & GUARD_STATE) != 0) word = broadcast(word);
        if LANESUM_RARE (is_rare(word)) return stay<OneShotPush, W, D, G>(launch, word);
        if (!is_mover()) frame = header_of(launch, word);
        u32 trouble = 0;
        if LANESUM_USUAL (words > 0 || ((G & GUARD_HEADER) != 0 && !is_mover())) {
            const u32 offset = lane_offset(launch, word) + thread_index() * FRAME_BYTES;
            const Pair pair = pack(frame, tag_of(word));
            LANESUM_UNROLL
            for (int leaf = 0; leaf < W; ++leaf) push(slot_of(launch.targets[leaf], offset), pair);
            if LANESUM_RARE (launch.pause_ns != 0) pause(launch.pause_ns);
            Pair pairs[W];
#ifdef LANESUM_MUTANT_MISSING_HEADER
            if (is_mover())
#endif
            trouble = gather<W, G>(launch, word, offset, pairs, all_of<W>(), is_mover() ? PHASE_DATA : PHASE_HEADER);
            if (is_mover()) {
                store_words(launch.output + place, combine<D, O, W>(pairs), words);
            } else {
#ifndef LANESUM_MUTANT_MISSING_HEADER
                if (trouble == 0 && !agree<W>(pair, pairs)) trouble = KIND_MISMATCH;
#endif
            }
        }
        settle<W, D, G>(launch, word, trouble);
    }
};
