// one_shot_push: every rank writes its input into every peer's inbox and sums what comes into its own.
//
//   each lane (block), on its share of the message, in exchanges of at most `capacity` packets:
//     1  [once in 2^SWEEP_BITS epochs] mark every word of the other half stale
//     2  post the header of epoch e to every peer                                     8 bytes each
//     3  push: packet i of the input, tagged with e, to slot (e mod 2, lane, own rank, i) of every peer
//     4  wait for the header of e from every peer, and compare digests
//     5  packet i: poll the slots of all peers together until all carry e's tag; combine in the order of the tree, round
//        once, write to the output
//     6  e becomes e + 1
//
// Launch shape: `ceil(packets / share)` blocks, at least one, at most `lanes`; 32 to LANESUM_THREADS threads, which need not
// be the same on all ranks. All blocks of all ranks on a device must be resident together. No shared memory of its own.
// Alignment: input and output have any; they are the same or do not overlap.
// Who writes what: a rank writes its output, its `Local`, its `Mapped`, and in each peer's inbox only what is marked with its
// own rank. A word of 8 bytes is single-copy atomic, and carries payload and tag: no flag, no fence.
// Scopes: packets and headers are relaxed, at system scope. Each is judged by the value that was read, so no order among them
// is needed (docs/memory-model.md).
// Reuse: step 3 of e overwrites what step 3 of e - 2 wrote. A rank has seen the peer's header of e - 1 (step 4 of e - 1), which
// that peer's lane posted after it had read everything of e - 2 (the barrier of step 6).
// Tags are the low 32 bits of the epoch. Half e mod 2 is swept 2^SWEEP_BITS epochs apart, so no word outlives its tag.
// At the deadline, or when a peer fails or ends: one thread tells host and peers why (wait.cuh), the lanes write NaN to their
// shares, and the lane that told writes NaN to the whole output after the others have left.
#pragma once
#include "tree.cuh"
#include "wait.cuh"

#ifndef LANESUM_TAG_BITS
#define LANESUM_TAG_BITS 32
#endif
#ifndef LANESUM_SWEEP_BITS
#define LANESUM_SWEEP_BITS 30
#endif
#define LANESUM_TAG_MASK (0xFFFFFFFFu >> (32 - LANESUM_TAG_BITS))

// Where `from`'s packets for this rank's lane stand.
template <int W>
LANESUM_DEVICE u64* slot_of(const Launch& launch, u32 owner, u32 half, u32 from) {
    const u64 lane = static_cast<u64>(half) * launch.lanes + block_index();
    return launch.inboxes[owner]->data + (lane * W + from) * launch.capacity;
}

LANESUM_DEVICE u32 tag_of(u64 epoch) { return static_cast<u32>(epoch) & LANESUM_TAG_MASK; }

// LANESUM_MUTANT_*: faults that the tests of the protocol must notice; nothing else defines them.
LANESUM_DEVICE u32 half_of(u64 epoch) {
#ifdef LANESUM_MUTANT_SINGLE_BUFFER
    return 0;
#else
    return static_cast<u32>(epoch) & 1;
#endif
}

// Payload and tag in one word.
LANESUM_DEVICE void push(u64* slot, u64 packet) {
#ifdef LANESUM_MUTANT_RELAXED_TAG
    write<u32>(reinterpret_cast<u32*>(slot) + 1, static_cast<u32>(packet >> 32));
    write<u32>(slot, static_cast<u32>(packet));
#else
    store_relaxed(slot, packet);
#endif
}

// Half `epoch - 1` was read completely, and nobody writes there before it has seen this lane's header of `epoch`.
template <int W>
LANESUM_COLD void sweep(const Launch& launch, u64 epoch) {
    const u32 half = half_of(epoch - 1);
    for (u32 from = 0; from < W; ++from) {
        u64* slot = slot_of<W>(launch, launch.rank, half, from);
        for (u32 index = thread_index(); index < launch.capacity; index += thread_count()) {
            store_relaxed(slot + index, static_cast<u64>(tag_of(epoch - 1)) << 32);
        }
    }
    // Before the header, which the peers' next writes follow; they fence after they have seen it.
    fence_system();
    barrier();
}

LANESUM_DEVICE bool sweeps(u64 epoch) {
#ifdef LANESUM_MUTANT_WRAPPED_TAG
    return false;
#else
    return (epoch & ((1ull << LANESUM_SWEEP_BITS) - 1)) < 2;
#endif
}

template <int W>
LANESUM_DEVICE void post_headers(const Launch& launch, u64 epoch) {
    const u32 half = half_of(epoch);
    const u64 header = static_cast<u64>(launch.digest) << 32 | static_cast<u32>(epoch);
    for (u32 peer = thread_index(); peer < W; peer += thread_count()) {
        if (peer != launch.rank) {
            store_relaxed(&launch.inboxes[peer]->headers[half][block_index()][launch.rank], header);
        }
    }
}

// Whether every peer has entered `epoch` with the same call. Sets `told` if this thread is the one that tells otherwise.
template <int W>
LANESUM_DEVICE bool await_headers(const Launch& launch, u64 epoch, bool& told) {
#ifdef LANESUM_MUTANT_MISSING_HEADER
    return true;
#endif
    const u32 half = half_of(epoch);
    for (u32 peer = thread_index(); peer < W; peer += thread_count()) {
        if (peer == launch.rank) continue;
        const u64* header = &launch.inboxes[launch.rank]->headers[half][block_index()][peer];
        Wait wait = {0, 0};
        Trouble trouble = {0, 0, 0};
        for (;;) {
            const u64 word = load_relaxed(header);
            if (static_cast<u32>(word) == static_cast<u32>(epoch)) {
                if (static_cast<u32>(word >> 32) == launch.digest) break;
                trouble.kind = KIND_MISMATCH;
                trouble.ranks = 1u << peer;
            }
            if (trouble.kind != 0) {
                told |= fail<W>(launch, trouble, epoch, PHASE_HEADER);
                return false;
            }
            be_patient<W>(launch, wait, trouble, 1u << peer);
        }
    }
    return true;
}

// The payloads of packet `index` by leaf; `own` is this rank's.
template <int W>
LANESUM_DEVICE bool receive(const Launch& launch, u64* const (&slots)[W], u32 index, u32 tag, u32 own, u32 (&payloads)[W],
                            Trouble& trouble) {
    Wait wait = {0, 0};
    for (;;) {
        u64 words[W];
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            words[leaf] = leaf == launch.position ? static_cast<u64>(tag) << 32 | own : load_relaxed(slots[leaf] + index);
        }
        u32 pending = 0;
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            payloads[leaf] = static_cast<u32>(words[leaf]);
            if (static_cast<u32>(words[leaf] >> 32) != tag) pending |= 1u << (launch.order >> (8 * leaf) & 15);
        }
#ifdef LANESUM_MUTANT_NO_WAIT
        pending = 0;
#endif
        if (pending == 0) return true;
        if (trouble.kind != 0) return false;
        be_patient<W>(launch, wait, trouble, pending);
    }
}

// One exchange of `count` packets from packet `first` on. Returns whether it went well.
template <int W, int D, int O>
LANESUM_DEVICE bool exchange(const Launch& launch, u64 epoch, u64 first, u32 count, bool& told) {
    const u32 half = half_of(epoch);
    const u32 tag = tag_of(epoch);
    if (sweeps(epoch)) sweep<W>(launch, epoch);
    post_headers<W>(launch, epoch);
    u64* slots[W];
    LANESUM_UNROLL
    for (int leaf = 0; leaf < W; ++leaf) {
        slots[leaf] = slot_of<W>(launch, static_cast<u32>(launch.order >> (8 * leaf) & 15), half, launch.rank);
    }
    for (u32 index = thread_index(); index < count; index += thread_count()) {
        const u64 packet = static_cast<u64>(tag) << 32 | load_payload<D>(launch.input, launch.elements, first + index);
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if (leaf != launch.position) push(slots[leaf] + index, packet);
        }
    }
    bool well = await_headers<W>(launch, epoch, told);
    if (sweeps(epoch)) fence_system();
    LANESUM_UNROLL
    for (int leaf = 0; leaf < W; ++leaf) {
        slots[leaf] = slot_of<W>(launch, launch.rank, half, static_cast<u32>(launch.order >> (8 * leaf) & 15));
    }
    for (u32 index = thread_index(); well && index < count; index += thread_count()) {
        const u32 own = load_payload<D>(launch.input, launch.elements, first + index);
        u32 payloads[W];
        Trouble trouble = {0, 0, 0};
        well = receive<W>(launch, slots, index, tag, own, payloads, trouble);
        if (well) {
            const u32 payload = reduce_payloads<D, O, W>(launch, payloads);
            store_payload<D>(launch.output, launch.elements, first + index, payload);
        } else {
            told |= fail<W>(launch, trouble, epoch, PHASE_DATA);
        }
    }
    // All threads have read all that they wait for: the next header may be posted.
    return !barrier_any(!well);
}

template <int D>
LANESUM_COLD void spoil(const Launch& launch, u64 first, u64 end) {
    for (u64 index = first + thread_index(); index < end; index += thread_count()) {
        store_payload<D>(launch.output, launch.elements, index, spoilt_payload<D>());
    }
}

// After this lane has told of a failure: waits until the other lanes have finished the call, so that nothing of theirs lands
// after the NaN that the caller writes next. They end soon, as the rank is poisoned.
LANESUM_COLD void outlast_others(const Launch& launch) {
    for (u32 lane = thread_index(); lane < block_count(); lane += thread_count()) {
        if (lane == block_index()) continue;
        const u64 start = clock_ns();
        // Pairs with the release in `one_shot_push`. Bounded, should a block never have become resident.
        while (load_acquire(&launch.local->lanes[lane].ticket) != launch.ticket) {
            spin_hint();
            const u64 now = clock_ns();
            if (now > start && now - start > 1000000000ull) break;
        }
    }
    barrier();
}

template <int W, int D, int O>
LANESUM_DEVICE void one_shot_push(const Launch& launch) {
    Lane* lane = &launch.local->lanes[block_index()];
    const u64 packets = packets_of<D>(launch.elements);
    u64 first = launch.share * block_index();
    const u64 end = first + launch.share < packets ? first + launch.share : packets;
    u64 epoch = load_relaxed(&lane->epoch);
    bool told = false;
    bool well = load_relaxed(&launch.local->poison) == 0 && (launch.flags & FLAG_SPOIL) == 0;
    // What all threads have read may be changed by the first that is through.
    well = !barrier_any(!well);
    const u64 begin = first;
    while (well) {
        const u64 rest = end > first ? end - first : 0;
        const u32 count = static_cast<u32>(rest < launch.capacity ? rest : launch.capacity);
        well = exchange<W, D, O>(launch, epoch, first, count, told);
        ++epoch;
        first += count;
        if (first >= end) break;
    }
    if (!well) {
        spoil<D>(launch, begin, end);
        if (barrier_any(told)) {
            outlast_others(launch);
            spoil<D>(launch, 0, packets);
        }
    }
    if (thread_index() == 0) {
        store_relaxed(&lane->epoch, epoch);
        if (block_index() == 0 && well) {
            store_relaxed(&launch.mapped->echo, (epoch - 1) << 32 | static_cast<u32>(launch.ticket));
        }
    }
    barrier();
    // The outputs of this lane, before its ticket: see `outlast_others`.
    if (thread_index() == 0) store_release(&lane->ticket, launch.ticket);
}
