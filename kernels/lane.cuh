// A call as one block sees it: entering its lane, exchange after exchange, and leaving.
//
//   run<Algorithm>:
//     1  enter: mark the lane as running and take its epoch, in one atomic of the block's first thread
//     2  a call of one exchange in which each thread has one frame, or one of each shard (the algorithm's `once`): load meanwhile,
//        push, poll, combine
//        any other call (`stay`): as long as there is something left, one exchange of the algorithm; then e becomes e + 1
//     3  after a failure: NaN to the lane's share; and, by the lane that tells of it, to the whole output when the others have left
//     4  leave: the new epoch, and no longer running
//   An exchange ends with a barrier of the block.
//
// Launch shape: `ceil(frames / share)` blocks, at least one, at most `lanes`; 32 to LANESUM_THREADS threads, of which the first sends
// and awaits the header and the others move frames (chunks have five roles or seven, each of a warp at least); the number need not be
// the same on all ranks. All blocks of all ranks on a device must be resident together, and where calls are launched early those of
// the next call too (platform.cuh, `await_previous`).
// Alignment: input and output have any; they are the same or do not overlap.
// Two launches of one communicator at once (two replays of graphs): a block that finds its lane running fails the call. Lanes that
// do not meet in time take the calls in some order, which the peers' headers compare.
// At the deadline, or when a peer fails or ends: one thread tells host and peers why (wait.cuh).
// What most calls execute is kept short, since kernels in a graph fetch their instructions anew: the header travels as a frame, by
// the same instructions as all frames; what is rare is out of line; what the host can compute comes with the launch; and what calls
// use is ordered by leaf.
// Scopes: the lane's word is changed by atomics at device scope only.
#pragma once
#include "tree.cuh"
#include "wait.cuh"

// What makes calls safe, as bits of a template parameter: only the bench leaves any out, to measure what they cost.
#define GUARD_HEADER 1    // headers are sent and compared
#define GUARD_DEADLINE 2  // waits look around
#define GUARD_STATE 4     // the lane is entered and left by atomics; echo, counters
#define GUARD_ALL 7

// One exchange in so many is timed, by lane 0, and counts for all. Sweeps are among them, so that one comparison tells both.
#define LANESUM_SAMPLE (1u << LANESUM_SAMPLE_BITS)
#ifndef LANESUM_SAMPLE_BITS
#define LANESUM_SAMPLE_BITS 10
#endif
static_assert(LANESUM_SAMPLE_BITS <= LANESUM_SWEEP_BITS, "sweeps are special");

// One exchange of a lane, as all its threads see it.
struct Exchange {
    const u8* input;  // of its first frame
    u8* output;
    u64 first;        // frame of the message
    u64 epoch;
    u32 offset;       // of the lane's slots in each region, in bytes
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

// The first thread of a block sends and awaits the header, the others move frames.
LANESUM_DEVICE bool is_mover() { return thread_index() != 0; }
LANESUM_DEVICE u32 mover_index() { return thread_index() - 1; }
LANESUM_DEVICE u32 mover_count() { return thread_count() - 1; }

// Time that lane 0 has waited for the ranks of these leaves.
template <int W>
LANESUM_COLD void note_wait(const Launch& launch, u32 leaves, u64 time) {
    for (u32 leaf = 0; leaf < W; ++leaf) {
        if ((leaves >> leaf & 1) != 0) add(&launch.local->waited_ns[rank_of(launch, leaf)], time);
    }
}

// Across the bus a poll in vain costs as much as the read: none is made before what peers send can be there.
LANESUM_COLD void pause(u64 time) {
    const u64 start = clock_ns();
    for (u64 now = start; now - start < time; now = clock_ns()) spin_hint();
}

template <int W>
LANESUM_DEVICE constexpr u32 all_of() {
    return (1u << W) - 1;
}

// Those of some leaves whose frame at `offset` of their regions is not there.
template <int W>
struct Pending {
    const Launch& launch;
    u32 tag, offset, leaves;

    LANESUM_DEVICE u32 operator()() const {
        u32 pending = 0;
        LANESUM_ROLLED
        for (u32 leaf = 0; leaf < W; ++leaf) {
            if ((leaves >> leaf & 1) == 0) continue;
            if (tag_difference(load_pair(slot_of(launch.sources[leaf], offset)), tag) != 0) pending |= 1u << leaf;
        }
        return pending;
    }
    LANESUM_DEVICE u32 anew() const { return (*this)(); }
    // Those of the pending ones that are to blame if time runs out.
    LANESUM_DEVICE u32 late(u32 pending) const { return pending; }
};

// After so many fruitless polls: waits until no leaf is pending, or something has ended the wait; then tells of it.
// Returns 0, or POISONED or TOLD. Lane 0 notes who keeps it waiting, from the second look around on.
template <int W, int G, class Leaves>
LANESUM_COLD u32 outwait(const Launch& launch, u64 epoch, u32 phase, Leaves leaves) {
    const bool notes = (G & GUARD_STATE) != 0 && thread_index() == 0 && block_index() == 0;
    Wait wait = {epoch, 0};
    Trouble trouble = {0, 0, 0, phase};
    u64 noted = 0;
    u32 looked = 0;
    for (;;) {
        // Trouble is believed only after one more poll, and only if it was found in a wait for the same leaves.
        u32 pending = 0;
        for (u32 polls = trouble.kind != 0 ? 1 : LANESUM_POLL_BUDGET; polls != 0; --polls) {
            pending = trouble.kind != 0 ? leaves.anew() : leaves();
            if (pending == 0) return 0;
            spin_hint();
        }
        if (trouble.kind != 0 && pending == looked) {
            if (trouble.kind == KIND_LATE) trouble.ranks = ranks_of<W>(launch, leaves.late(pending));
            return tell<W>(launch, trouble, epoch);
        }
        looked = pending;
        trouble = look_around<W>(launch, wait, pending, phase);
        if (trouble.kind != 0) continue;
        wait.start = trouble.time;
        const u64 now = clock_ns();
        if (notes && noted != 0 && now > noted) note_wait<W>(launch, pending, now - noted);
        noted = now;
    }
}

// The frames at `offset` of the regions of these leaves as soon as all are there; this rank's own comes through memory too. As `outwait`.
template <int W, int G>
LANESUM_DEVICE u32 gather(const Launch& launch, u64 epoch, u32 offset, Pair (&pairs)[W], u32 leaves, u32 phase) {
    const u32 tag = tag_of(epoch);
    u32 polls = LANESUM_POLL_BUDGET;
    LANESUM_ROLLED
    for (;;) {
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if ((leaves >> leaf & 1) != 0) pairs[leaf] = load_pair(slot_of(launch.sources[leaf], offset));
        }
        u32 difference = 0;
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) {
            if ((leaves >> leaf & 1) != 0) difference |= tag_difference(pairs[leaf], tag);
        }
#ifdef LANESUM_MUTANT_NO_WAIT
        difference = 0;
#endif
        if LANESUM_USUAL (difference == 0) return 0;
        spin_hint();
        if constexpr ((G & GUARD_DEADLINE) != 0) {
            if LANESUM_USUAL (--polls != 0) continue;
            const u32 trouble = outwait<W, G>(launch, epoch, phase, Pending<W>{launch, tag, offset, leaves});
            if LANESUM_RARE (trouble != 0) return trouble;
            polls = LANESUM_POLL_BUDGET;
        }
    }
}

// Whether all leaves have sent the header that this rank has sent. What a header says is in the low half of its first packet and in
// both halves of the second's high one; the rest are tags, which were compared.
template <int W>
LANESUM_DEVICE bool agree(const Pair& ours, const Pair (&pairs)[W]) {
    u32 difference = 0;
#ifdef LANESUM_MUTANT_UNCOMPARED_HEADER
    return true;
#endif
    LANESUM_UNROLL
    for (int leaf = 0; leaf < W; ++leaf) {
        difference |= static_cast<u32>(pairs[leaf].first) ^ static_cast<u32>(ours.first);
        difference |= static_cast<u32>(pairs[leaf].second >> 32) ^ static_cast<u32>(ours.second >> 32);
    }
    return difference == 0;
}

LANESUM_DEVICE bool is_sampled(u64 epoch) { return static_cast<u32>(epoch) % LANESUM_SAMPLE == 0; }
// Whether an epoch may sweep or is sampled.
LANESUM_DEVICE bool is_special(u64 epoch) { return static_cast<u32>(epoch) % LANESUM_SAMPLE < 2; }

// Waits for headers, as long as looking around is not due, and notes for how long for each peer.
template <int W>
LANESUM_COLD void time_arrivals(const Launch& launch, u64 epoch, u32 offset) {
    const u64 since = clock_ns();
    u32 pending = (1u << W) - 1;
    for (u32 polls = LANESUM_POLL_BUDGET; polls != 0 && pending != 0; --polls) {
        for (u32 leaf = 0; leaf < W; ++leaf) {
            if ((pending >> leaf & 1) == 0) continue;
            if (tag_difference(load_pair(slot_of(launch.sources[leaf], offset)), tag_of(epoch)) != 0) continue;
            pending &= ~(1u << leaf);
            const u64 now = clock_ns();
            if (polls != LANESUM_POLL_BUDGET && now > since) note_wait<W>(launch, 1u << leaf, (now - since) * LANESUM_SAMPLE);
        }
        spin_hint();
    }
}

// Sends this rank's header to all peers, and waits for theirs: what the first thread of a block does in an exchange. As `outwait`.
template <int W, int G>
LANESUM_COLD u32 meet(const Launch& launch, u64 epoch, u32 offset) {
    if constexpr ((G & GUARD_HEADER) == 0) return 0;
    const Pair ours = pack(header_of(launch, epoch), tag_of(epoch));
    LANESUM_ROLLED
    for (u32 leaf = 0; leaf < W; ++leaf) push(slot_of(launch.targets[leaf], offset), ours);
#ifdef LANESUM_MUTANT_MISSING_HEADER
    return 0;
#endif
    if ((G & GUARD_STATE) != 0 && block_index() == 0 && is_sampled(epoch)) time_arrivals<W>(launch, epoch, offset);
    if (launch.pause_ns != 0) pause(launch.pause_ns);
    Pair pairs[W];
    const u32 trouble = gather<W, G>(launch, epoch, offset, pairs, all_of<W>(), PHASE_HEADER);
    if LANESUM_USUAL (trouble != 0 || agree<W>(ours, pairs)) return trouble;
    return tell<W>(launch, Trouble{KIND_MISMATCH, 0, 0, PHASE_HEADER}, epoch);
}

// NaN to words of the output; beyond its end stands nothing.
template <int D>
LANESUM_COLD void spoil(const Launch& launch, u64 first, u64 end) {
    if constexpr (D == ANY_DTYPE) {
        if (launch.kind >> 4 == F32) return spoil<F32>(launch, first, end);
        if (launch.kind >> 4 == F16) return spoil<F16>(launch, first, end);
        return spoil<BF16>(launch, first, end);
    } else {
        const u64 words = words_of<D>(launch.elements);
        if (end > words) end = words;
        for (u64 index = first + thread_index(); index < end; index += thread_count()) {
            store_word<D>(launch.output, launch.elements, index, spoilt_word<D>());
        }
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

// Ends a failed call, by all threads of the block, of which one may have told why. Leaves NaN in the lane's share, and in all of the
// output if one has.
template <int D>
LANESUM_COLD void give_up(const Launch& launch, u32 unit_words, bool told) {
    // Computed anew, so that calls need not keep it.
    const u64 share = static_cast<u64>(launch.share) * unit_words, first = share * block_index();
    spoil<D>(launch, first, block_index() + 1 == block_count() ? ~0ull : first + share);
    if (barrier_any(told)) {
        outlast_others(launch);
        spoil<D>(launch, 0, ~0ull);
    }
    // The NaN of all threads, before the lane is given back.
    barrier();
}

// What an eager call leaves for the host.
LANESUM_COLD void tell_host(const Launch& launch, u64 epoch, bool well) {
    store_relaxed(&launch.local->lanes[block_index()].ticket, launch.ticket);
    if (!well) {
        // Another launch may have failed beside this call, and told a later ticket.
        if (load_relaxed(&launch.mapped->spoilt) == 0) store_relaxed(&launch.mapped->spoilt, launch.ticket);
    } else if (block_index() == 0) {
        store_relaxed(&launch.mapped->echo, epoch << 32 | static_cast<u32>(launch.ticket));
    }
}

// Gives the lane back, so many epochs later: what the first thread of a block does in the end.
template <int G>
LANESUM_DEVICE void leave(const Launch& launch, u64 word, u64 exchanges, bool well) {
    u64* const lane = &launch.local->lanes[block_index()].word;
    if constexpr ((G & GUARD_STATE) == 0) return add(lane, exchanges);
    if LANESUM_RARE (launch.ticket != 0) tell_host(launch, (word & LANE_EPOCH) + exchanges - 1, well);
#ifdef LANESUM_MUTANT_STALE_EPOCH
    exchanges &= ~1ull;
#endif
    add(lane, exchanges - LANE_RUNNING);
}

// Counts exchanges of lane 0 that ended no call well.
template <int G>
LANESUM_DEVICE void note_barren(const Launch& launch, u64 exchanges) {
    if ((G & GUARD_STATE) != 0 && thread_index() == 0 && block_index() == 0) add(&launch.local->barren, exchanges);
}

// What an entered lane's word says against going on. As `outwait`.
template <int W>
LANESUM_COLD u32 objection(const Launch& launch, u64 word) {
    if ((word & LANE_RUNNING) == 0) return is_closed(word) ? POISONED : 0;
    // Two launches of one communicator are under way at once.
    return tell<W>(launch, Trouble{KIND_OVERLAP, 1u << launch.rank, 0, PHASE_HEADER}, word & LANE_EPOCH);
}

// Any call, after the lane was entered: `word` is what stood there. Out of line, for what calls of one exchange do rarely.
template <class Algorithm, int W, int D, int G>
LANESUM_COLD void stay(const Launch& launch, u64 word) {
    const bool last = block_index() + 1 == block_count();
    // Of the share, not yet exchanged.
    u32 left = last ? launch.tail : launch.share;
    u32 plain_left = last ? launch.plain_tail : launch.plain_share;
    const u32 most = Algorithm::most_units(launch);
    Exchange exchange;
    exchange.first = static_cast<u64>(launch.share) * block_index();
    exchange.epoch = word & LANE_EPOCH;
    u32 trouble = word >> 61 != 0 ? objection<W>(launch, word) : 0;
    bool well = trouble == 0;
    LANESUM_ROLLED
    while LANESUM_USUAL (well) {
        exchange.count = left < most ? left : most;
        exchange.plain = plain_left < exchange.count ? plain_left : exchange.count;
        exchange.input = launch.input + exchange.first * (4 * Algorithm::UNIT_WORDS);
        exchange.output = launch.output + exchange.first * (4 * Algorithm::UNIT_WORDS);
        const bool sweeping = sweeps(exchange.epoch);
        if LANESUM_RARE (sweeping) sweep<W>(launch, exchange.epoch);
        exchange.tag = tag_of(exchange.epoch);
        exchange.offset = lane_offset(launch, exchange.epoch);
        if (is_mover()) {
            trouble = Algorithm::move(launch, exchange);
        } else {
            trouble = meet<W, G>(launch, exchange.epoch, exchange.offset);
        }
        if LANESUM_RARE (sweeping) fence_system();
        // All threads have read all that they wait for: the next header may be sent.
        well = !barrier_any(trouble != 0);
        ++exchange.epoch;
        left -= exchange.count;
        if LANESUM_USUAL (left == 0) break;
        plain_left -= exchange.plain;
        exchange.first += exchange.count;
    }
    const u64 exchanges = exchange.epoch - (word & LANE_EPOCH);
    if LANESUM_RARE (!well) give_up<D>(launch, Algorithm::UNIT_WORDS, trouble == TOLD);
    if LANESUM_RARE (!well || exchanges > 1) note_barren<G>(launch, exchanges - (well ? 1 : 0));
    if (thread_index() != 0) return;
    // A lane that another launch holds is that one's to give back.
    if LANESUM_RARE ((word & LANE_RUNNING) != 0) {
        if (launch.ticket != 0) tell_host(launch, (word & LANE_EPOCH) - 1, false);
        return;
    }
    leave<G>(launch, word, exchanges, well);
}

// The same of a call of one exchange that failed or was eager. A mismatch is told only here, where no thread of the block waits any more:
// none has waited for ranks that wait for this one.
template <int W, int D, int G>
LANESUM_COLD void conclude(const Launch& launch, u64 word, u32 trouble, bool well) {
    if (!well) {
        if (trouble == KIND_MISMATCH) trouble = tell<W>(launch, Trouble{KIND_MISMATCH, 0, 0, PHASE_HEADER}, word);
        give_up<D>(launch, FRAME_WORDS, trouble == TOLD);
        note_barren<G>(launch, 1);
    }
    if (thread_index() == 0) leave<G>(launch, word, 1, well);
}

// Ends a call of one exchange with what its threads have found: 0, or as `outwait`, or KIND_MISMATCH.
template <int W, int D, int G>
LANESUM_DEVICE void settle(const Launch& launch, u64 word, u32 trouble) {
    // All threads have read all that they wait for: the next header may be sent.
    const bool well = !barrier_any(trouble != 0);
    if LANESUM_RARE (!well || launch.ticket != 0) return conclude<W, D, G>(launch, word, trouble, well);
#ifdef LANESUM_MUTANT_STALE_EPOCH
    if (thread_index() == 0) leave<G>(launch, word, 1, true);
    return;
#endif
    if (thread_index() == 0) add(&launch.local->lanes[block_index()].word, (G & GUARD_STATE) != 0 ? 1 - LANE_RUNNING : 1);
}

// The first words of a frame, and zeros.
LANESUM_DEVICE Frame load_words(const u8* from, int words) {
    Frame frame = {{0, 0, 0}};
    if (words > 0) frame.words[0] = read<u32>(from);
    if (words > 1) frame.words[1] = read<u32>(from + 4);
    if (words > 2) frame.words[2] = read<u32>(from + 8);
    return frame;
}

LANESUM_DEVICE void store_words(u8* to, const Frame& frame, int words) {
    if (words > 0) write<u32>(to, frame.words[0]);
    if (words > 1) write<u32>(to + 4, frame.words[1]);
    if (words > 2) write<u32>(to + 8, frame.words[2]);
}

// Whether a lane's word sends the call the general way: closed or running, or an epoch that sweeps or is sampled.
LANESUM_DEVICE bool is_rare(u64 word) { return word >> 61 != 0 || is_special(word); }

template <class Algorithm, int W, int D, int G>
LANESUM_DEVICE void run(const Launch& launch) {
    Lane* const lane = &launch.local->lanes[block_index()];
    u64 word = 0;
    if constexpr ((G & GUARD_STATE) == 0) {
        word = load_relaxed(&lane->word);
    } else if (thread_index() == 0) {
        word = fetch_or(&lane->word, LANE_RUNNING);
    }
    if LANESUM_USUAL (launch.once != 0) return Algorithm::once(launch, word);
    if constexpr ((G & GUARD_STATE) != 0) word = broadcast(word);
    stay<Algorithm, W, D, G>(launch, word);
}
