// Frames: how elements travel, and where they lie in a region.
//
// A frame is two packets of 8 bytes, side by side: 12 bytes of payload (three words) and the tag of its exchange twice.
//
//   packet 0   word 0 (32)   low half of word 1 (16)    tag (16)
//   packet 1   word 2 (32)   high half of word 1 (16)   tag (16)
//
// A packet is single-copy atomic, so who reads its tag has its payload: no flag, no fence. The two packets of a frame may come
// one after the other, so both tags are compared. 6 bytes in 8 carry a quarter less over the link than 4 in 8 would; the price is
// a tag that comes round every 2^16 exchanges of a lane, and a sweep every 2^14.
//
// Tags are the low bits of the epoch. Half e mod 2 of a region is swept 2^LANESUM_SWEEP_BITS epochs apart, so no packet outlives
// its tag (docs/memory-model.md).
#pragma once
#include "numbers.cuh"

#ifndef LANESUM_TAG_BITS
#define LANESUM_TAG_BITS 16
#endif
#ifndef LANESUM_SWEEP_BITS
#define LANESUM_SWEEP_BITS 14
#endif
#define LANESUM_TAG_MASK (0xFFFFu >> (16 - LANESUM_TAG_BITS))

#define FRAME_BYTES 16
#define FRAME_WORDS 3  // of payload

// The payload of a frame.
struct Frame {
    u32 words[3];
};

LANESUM_DEVICE u32 tag_of(u64 epoch) { return static_cast<u32>(epoch) & LANESUM_TAG_MASK; }

// LANESUM_MUTANT_*: faults that the tests of the protocol must notice; nothing else defines them.
LANESUM_DEVICE u32 half_of(u64 epoch) {
#ifdef LANESUM_MUTANT_SINGLE_BUFFER
    return 0;
#else
    return static_cast<u32>(epoch) & 1;
#endif
}

// A frame of a buffer of any alignment; beyond the end stand zeros. Out of line, as it is rare: kernels that are short are
// fetched fast.
template <int D>
LANESUM_COLD Frame load_odd_frame(const u8* buffer, u64 elements, u64 index) {
    Frame frame = {{0, 0, 0}};
    const u64 words = words_of<D>(elements);
    for (int word = 0; word < 3; ++word) {
        if (index * 3 + word < words) frame.words[word] = load_word<D>(buffer, elements, index * 3 + word);
    }
    return frame;
}

template <int D>
LANESUM_COLD void store_odd_frame(u8* buffer, u64 elements, u64 index, Frame frame) {
    const u64 words = words_of<D>(elements);
    for (int word = 0; word < 3; ++word) {
        if (index * 3 + word < words) store_word<D>(buffer, elements, index * 3 + word, frame.words[word]);
    }
}

LANESUM_DEVICE Pair pack(const Frame& frame, u32 tag) {
    const u32 high = tag << 16;
    Pair pair;
    pair.first = static_cast<u64>(high | (frame.words[1] & 0xFFFFu)) << 32 | frame.words[0];
    pair.second = static_cast<u64>(high | frame.words[1] >> 16) << 32 | frame.words[2];
    return pair;
}

LANESUM_DEVICE Frame unpack(Pair pair) {
    Frame frame;
    frame.words[0] = static_cast<u32>(pair.first);
    frame.words[1] = (static_cast<u32>(pair.first >> 32) & 0xFFFFu) | static_cast<u32>(pair.second >> 32) << 16;
    frame.words[2] = static_cast<u32>(pair.second);
    return frame;
}

// Zero if both packets carry the tag.
LANESUM_DEVICE u32 tag_difference(Pair pair, u32 tag) {
    const u32 wanted = tag << 16;
#ifdef LANESUM_MUTANT_ONE_TAG
    return (static_cast<u32>(pair.first >> 32) ^ wanted) & 0xFFFF0000u;
#else
    return ((static_cast<u32>(pair.first >> 32) ^ wanted) | (static_cast<u32>(pair.second >> 32) ^ wanted)) & 0xFFFF0000u;
#endif
}

// The slot that is so many bytes into a region.
LANESUM_DEVICE u64* slot_of(u8* region, u32 offset) { return reinterpret_cast<u64*>(region + offset); }

// Into a region.
LANESUM_DEVICE void push(u64* slot, Pair pair) {
#ifdef LANESUM_MUTANT_RELAXED_TAG
    write<u32>(reinterpret_cast<u32*>(slot) + 1, static_cast<u32>(pair.first >> 32));
    write<u32>(slot, static_cast<u32>(pair.first));
    store_relaxed(slot + 1, pair.second);
#else
    store_pair(slot, pair);
#endif
}

LANESUM_DEVICE bool sweeps(u64 epoch) {
#ifdef LANESUM_MUTANT_WRAPPED_TAG
    return false;
#else
    return (static_cast<u32>(epoch) & ((1u << LANESUM_SWEEP_BITS) - 1)) < 2;
#endif
}

// Where the slots of this block's lane start in every region, in bytes, in the half of an epoch. The first is the header's; the
// frames' follow.
LANESUM_DEVICE u32 lane_offset(const Launch& launch, u64 epoch) {
    return half_of(epoch) * launch.half_bytes + block_index() * launch.lane_bytes;
}
LANESUM_DEVICE u32 frame_offset(u32 lane_offset, u32 index) { return lane_offset + (index + 1) * FRAME_BYTES; }

// What a rank says of its call, in the header's slot: a frame like any other, with the digest and 32 bits of the epoch.
LANESUM_DEVICE Frame header_of(const Launch& launch, u64 epoch) { return {{launch.digest, static_cast<u32>(epoch), 0}}; }

// What the rank of a leaf says in this block's lane.
struct Header {
    bool here;  // it is of that epoch
    u32 digest;
};
LANESUM_COLD Header load_header(const Launch& launch, u64 epoch, u32 leaf) {
    const Pair pair = load_pair(slot_of(launch.sources[leaf], lane_offset(launch, epoch)));
    const Frame frame = unpack(pair);
    const bool here = tag_difference(pair, tag_of(epoch)) == 0 && frame.words[1] == static_cast<u32>(epoch);
    return {here, frame.words[0]};
}

// Half `epoch - 1` was read completely, and nobody writes there before it has seen this lane's header of `epoch`.
template <int W>
LANESUM_COLD void sweep(const Launch& launch, u64 epoch) {
    const Pair stale = pack(Frame{{0, 0, 0}}, tag_of(epoch - 1));
    LANESUM_ROLLED
    for (u32 leaf = 0; leaf < W; ++leaf) {
        const u32 offset = lane_offset(launch, epoch - 1);
        LANESUM_ROLLED
        for (u32 index = thread_index(); index < launch.capacity; index += thread_count()) {
            store_pair(slot_of(launch.sources[leaf], frame_offset(offset, index)), stale);
        }
    }
    // Before the header, which the peers' next writes follow; they fence after they have seen it. Behind the barrier: the thread
    // that posts the header fences what all have stored.
    barrier();
    fence_system();
}
