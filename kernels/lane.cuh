// A call as one block sees it: entering its lane, exchange after exchange, and leaving.
//
//   run<Algorithm>:
//     1  enter: mark the lane as running and take its epoch, in one atomic of the block's first thread
//     2  meanwhile load each mover's first frame of the input
//     3  while there is something left: one exchange of the algorithm, which ends with a barrier of the block; then e becomes e + 1
//     4  after a failure: NaN to the lane's share; and, by the lane that tells of it, to the whole output when the others have left
//     5  leave: the new epoch, and no longer running
//
// Launch shape: `ceil(frames / share)` blocks, at least one, at most `lanes`; 64 to LANESUM_THREADS threads, the first 32 of which
// watch headers; the number need not be the same on all ranks. All blocks of all ranks on a device must be resident together.
// Alignment: input and output have any; they are the same or do not overlap.
// Two launches of one communicator at once (two replays of graphs): a block that finds its lane running fails the call. Lanes that
// do not meet in time take the calls in some order, which the peers' headers compare.
// At the deadline, or when a peer fails or ends: one thread tells host and peers why (wait.cuh).
// Most calls make one exchange in which each thread has one frame. What they execute is kept short, since kernels in a graph
// fetch their instructions anew: what is rare is out of line, what the host can compute comes with the launch, and what calls use
// is ordered by leaf.
// Scopes: the lane's word is changed by atomics at device scope only.
#pragma once
#include "tree.cuh"
#include "wait.cuh"

// What makes calls safe, as bits of a template parameter: only the bench leaves any out, to measure what they cost.
#define GUARD_HEADER 1    // headers are posted and compared
#define GUARD_DEADLINE 2  // waits look around
#define GUARD_STATE 4     // the lane is entered and left by atomics; echo, counters
#define GUARD_ALL 7

// One exchange of a lane, as all its threads see it.
struct Exchange {
    const u8* input;  // of its first frame
    u8* output;
    u64 first;        // frame of the message
    u64 epoch;
    u64 offset;       // of the lane's slots in each region, in words
    u32 count;        // frames
    u32 plain;        // of these, whole ones in aligned memory, before the others
    u32 tag;
};

// Frame `index` of an exchange.
template <int D>
LANESUM_DEVICE Frame load_frame(const Launch& launch, const Exchange& exchange, u32 index) {
    if LANESUM_RARE (index >= exchange.plain) return load_odd_frame<D>(launch.input, launch.elements, exchange.first + index);
    const u8* const from = exchange.input + static_cast<u64>(index) * 12;
    return {{read<u32>(from), read<u32>(from + 4), read<u32>(from + 8)}};
}

template <int D>
LANESUM_DEVICE void store_frame(const Launch& launch, const Exchange& exchange, u32 index, const Frame& frame) {
    if LANESUM_RARE (index >= exchange.plain) {
        return store_odd_frame<D>(launch.output, launch.elements, exchange.first + index, frame);
    }
    u8* const to = exchange.output + static_cast<u64>(index) * 12;
    write<u32>(to, frame.words[0]);
    write<u32>(to + 4, frame.words[1]);
    write<u32>(to + 8, frame.words[2]);
}

// After so many fruitless polls: what could end the wait? Sets `trouble`, and the start of the wait.
template <int W, int G>
LANESUM_DEVICE void be_patient(const Launch& launch, Wait& wait, Trouble& trouble, u32 pending) {
    if constexpr ((G & GUARD_DEADLINE) != 0) {
        trouble = look_around<W>(launch, wait, pending);
        if (trouble.kind == 0) wait.start = trouble.time;
    }
}

// The first threads of a block post and watch headers, each that of some leaves; the others move frames. So neither waits for
// the other's instructions.
#ifndef LANESUM_WATCHERS
#define LANESUM_WATCHERS 32
#endif
LANESUM_DEVICE bool is_watcher() { return thread_index() < LANESUM_WATCHERS; }
LANESUM_DEVICE u32 mover_index() { return thread_index() - LANESUM_WATCHERS; }
LANESUM_DEVICE u32 mover_count() { return thread_count() - LANESUM_WATCHERS; }

// Notes how long lane 0 has waited for a peer.
LANESUM_COLD void note_wait(const Launch& launch, u32 leaf, u64 since) {
    const u64 now = clock_ns();
    if (now > since) add(&launch.local->waited_ns[rank_of(launch, leaf)], now - since);
}

// Posts this rank's header to all peers, and waits for theirs. Returns whether all call the same; sets `told` if this thread is
// the one that tells otherwise.
template <int W, int G>
LANESUM_DEVICE bool meet(const Launch& launch, const Exchange& exchange, bool& told) {
    if constexpr ((G & GUARD_HEADER) == 0) return true;
    const u32 tag = static_cast<u32>(exchange.epoch);
    const u64 ours = static_cast<u64>(launch.digest) << 32 | tag;
    LANESUM_ROLLED
    for (u32 leaf = thread_index(); leaf < W; leaf += LANESUM_WATCHERS) {
        store_relaxed(&launch.inboxes[leaf]->headers[tag & 1][block_index()][launch.position], ours);
    }
#ifdef LANESUM_MUTANT_MISSING_HEADER
    return true;
#endif
    LANESUM_ROLLED
    for (u32 leaf = thread_index(); leaf < W; leaf += LANESUM_WATCHERS) {
        u64 since = 0;
        Wait wait = {exchange.epoch, 0};
        Trouble trouble = {0, 0, 0};
        u32 polls = 0;
        LANESUM_ROLLED
        for (;;) {
            const u64 theirs = load_header(launch, tag, leaf);
            if LANESUM_USUAL (theirs == ours) break;
            if LANESUM_RARE (static_cast<u32>(theirs) == tag) {
                trouble.kind = KIND_MISMATCH;
                trouble.ranks = 1u << rank_of(launch, leaf);
            }
            if LANESUM_RARE (trouble.kind != 0) {
                told |= fail<W>(launch, trouble, exchange.epoch, PHASE_HEADER);
                return false;
            }
            if ((G & GUARD_STATE) != 0 && since == 0) since = clock_ns();
            spin_hint();
            if LANESUM_RARE (++polls % LANESUM_POLL_BUDGET == 0) be_patient<W, G>(launch, wait, trouble, 1u << leaf);
        }
        if ((G & GUARD_STATE) != 0 && since != 0 && block_index() == 0) note_wait(launch, leaf, since);
    }
    return true;
}

// Frame `index` of all leaves as soon as all are there; this rank's own comes through memory too.
template <int W, int G>
LANESUM_DEVICE bool gather(const Launch& launch, const Exchange& exchange, u32 index, Pair (&pairs)[W], Trouble& trouble) {
    trouble = Trouble{0, 0, 0};
    const u64* slots[W];
    LANESUM_UNROLL
    for (int leaf = 0; leaf < W; ++leaf) slots[leaf] = launch.sources[leaf] + exchange.offset + 2 * index;
    Wait wait = {exchange.epoch, 0};
    u32 polls = LANESUM_POLL_BUDGET;
    LANESUM_ROLLED
    for (;;) {
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) pairs[leaf] = load_pair(slots[leaf]);
        u32 difference = 0;
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) difference |= tag_difference(pairs[leaf], exchange.tag);
#ifdef LANESUM_MUTANT_NO_WAIT
        difference = 0;
#endif
        if LANESUM_USUAL (difference == 0) return true;
        spin_hint();
        if ((G & GUARD_DEADLINE) == 0 || --polls != 0) continue;
        // Trouble is believed only after one more poll: it leaves a budget of one.
        if (trouble.kind != 0) return false;
        u32 pending = 0;
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if (tag_difference(pairs[leaf], exchange.tag) != 0) pending |= 1u << leaf;
        }
        be_patient<W, G>(launch, wait, trouble, pending);
        polls = trouble.kind == 0 ? LANESUM_POLL_BUDGET : 1;
    }
}

// A block that finds its lane running: two launches of one communicator are under way at once.
template <int W>
LANESUM_COLD bool fail_overlap(const Launch& launch, u64 epoch) {
    const Trouble trouble = {KIND_OVERLAP, 1u << launch.rank, 0};
    return thread_index() == 0 && fail<W>(launch, trouble, epoch, PHASE_HEADER);
}

// NaN to frames of the output.
template <int D>
LANESUM_COLD void spoil(const Launch& launch, u64 first, u64 end) {
    const Frame frame = {{spoilt_word<D>(), spoilt_word<D>(), spoilt_word<D>()}};
    for (u64 index = first + thread_index(); index < end; index += thread_count()) {
        store_odd_frame<D>(launch.output, launch.elements, index, frame);
    }
}

// After this lane has told of a failure: waits until the other lanes have left the call, so that nothing of theirs lands after
// the NaN that the caller writes next. Who enters later finds the poison. A lane is left without a release, which would cost each
// call a tenth of its time: its last stores are on their way to this device's L2 by then, and get a pause to arrive.
LANESUM_COLD void outlast_others(const Launch& launch) {
    for (u32 lane = thread_index(); lane < block_count(); lane += thread_count()) {
        if (lane == block_index()) continue;
        const u64 start = clock_ns();
        // Bounded, should another launch hold the lane.
        while ((load_relaxed(&launch.local->lanes[lane].word) & LANE_RUNNING) != 0) {
            spin_hint();
            const u64 now = clock_ns();
            if (now > start && now - start > 1000000000ull) break;
        }
    }
    const u64 start = clock_ns();
    for (u64 now = start; now - start < 100000 || now < start; now = clock_ns()) spin_hint();
    barrier();
}

// What a failed call leaves: NaN in the lane's share, and in all of the output if it was a thread of this block that told.
template <int D>
LANESUM_COLD void give_up(const Launch& launch, bool told) {
    // Computed anew, so that calls need not keep it.
    const u64 first = static_cast<u64>(launch.share) * block_index();
    spoil<D>(launch, first, block_index() + 1 == block_count() ? launch.frames : first + launch.share);
    if (barrier_any(told)) {
        outlast_others(launch);
        spoil<D>(launch, 0, launch.frames);
    }
    // The NaN of all threads, before the lane is given back.
    barrier();
}

// What an eager call leaves for the host.
LANESUM_COLD void tell_host(const Launch& launch, Lane* lane, u64 epoch, bool well) {
    store_relaxed(&lane->ticket, launch.ticket);
    if (!well) {
        // Another launch may have failed beside this call, and told a later ticket.
        if (load_relaxed(&launch.mapped->spoilt) == 0) store_relaxed(&launch.mapped->spoilt, launch.ticket);
    } else if (block_index() == 0) {
        store_relaxed(&launch.mapped->echo, epoch << 32 | static_cast<u32>(launch.ticket));
    }
}

template <class Algorithm, int W, int D, int G>
LANESUM_DEVICE void run(const Launch& launch) {
    Lane* const lane = &launch.local->lanes[block_index()];
    u64 word = 0;
    if constexpr ((G & GUARD_STATE) == 0) {
        word = load_relaxed(&lane->word);
    } else if (thread_index() == 0) {
        word = fetch_or(&lane->word, LANE_RUNNING);
    }
    const bool last = block_index() + 1 == block_count();
    // Of the share, not yet exchanged.
    u32 left = last ? launch.tail : launch.share;
    u32 plain_left = last ? launch.plain_tail : launch.plain_share;
    const u32 most = Algorithm::most_frames(launch);
    Exchange exchange;
    exchange.first = static_cast<u64>(launch.share) * block_index();
    const auto aim = [&] {
        exchange.count = left < most ? left : most;
        exchange.plain = plain_left < exchange.count ? plain_left : exchange.count;
        exchange.input = launch.input + exchange.first * 12;
        exchange.output = launch.output + exchange.first * 12;
    };
    aim();
    const auto load_first = [&] {
        const bool moves = !is_watcher() && mover_index() < exchange.count;
        return moves ? load_frame<D>(launch, exchange, mover_index()) : Frame{{0, 0, 0}};
    };
    Frame own = load_first();
    if constexpr ((G & GUARD_STATE) != 0) word = broadcast(word);
    exchange.epoch = word & LANE_EPOCH;
    bool told = false;
    bool well = (word & (LANE_RUNNING | LANE_POISONED | LANE_ENDED)) == 0;
    if LANESUM_RARE ((word & LANE_RUNNING) != 0) told = fail_overlap<W>(launch, exchange.epoch);
    LANESUM_ROLLED
    while LANESUM_USUAL (well) {
        const bool sweeping = sweeps(exchange.epoch);
        if LANESUM_RARE (sweeping) sweep<W>(launch, exchange.epoch);
        exchange.tag = tag_of(exchange.epoch);
        exchange.offset = lane_offset(launch, exchange.epoch);
        if (is_watcher()) {
            well = meet<W, G>(launch, exchange, told);
        } else {
            well = Algorithm::move(launch, exchange, own, told);
        }
        if LANESUM_RARE (sweeping) fence_system();
        // All threads have read all that they wait for: the next header may be posted.
        well = !barrier_any(!well);
        ++exchange.epoch;
        left -= exchange.count;
        if LANESUM_USUAL (left == 0) break;
        plain_left -= exchange.plain;
        exchange.first += exchange.count;
        aim();
        own = load_first();
        // In place, what one thread has loaded here may be another's to overwrite.
        barrier();
    }
    if LANESUM_RARE (!well) give_up<D>(launch, told);
    if (thread_index() != 0) return;
    if constexpr ((G & GUARD_STATE) != 0) {
        if LANESUM_RARE (launch.ticket != 0) tell_host(launch, lane, exchange.epoch - 1, well);
        // A lane that another launch holds is that one's to give back.
        if LANESUM_RARE ((word & LANE_RUNNING) != 0) return;
        if (block_index() == 0 && well) add(&launch.local->calls, 1);
        // The new epoch, and no longer running.
        add(&lane->word, exchange.epoch - (word & LANE_EPOCH) - LANE_RUNNING);
    } else {
        add(&lane->word, exchange.epoch - (word & LANE_EPOCH));
    }
}
