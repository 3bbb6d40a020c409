// Notices that a rank gives its peers outside of calls.
#pragma once
#include "wait.cuh"

// farewell: closes the lanes, waits until no block is in a call, and tells every peer that this rank makes no more calls, or that
// its thread panicked. One block of any size. Runs after all eager calls; a replay that is under way gives up, and a later one only
// writes NaN.
LANESUM_DEVICE void farewell(const Notice& notice) {
    for (u32 lane = thread_index(); lane < LANESUM_LANES_MAX; lane += thread_count()) {
        u64* const word = &notice.local->lanes[lane].word;
        fetch_or(word, LANE_ENDED);
        const u64 start = clock_ns();
        // Bounded, should a block never get to run.
        while ((load_relaxed(word) & LANE_RUNNING) != 0) {
            spin_hint();
            const u64 now = clock_ns();
            if (now > start && now - start > 1000000000ull) break;
        }
    }
    barrier();
    Record record = {};
    record.kind = notice.kind;
    record.by = notice.rank;
    record.ranks = 1ull << notice.rank;
    for (u32 peer = thread_index(); peer < notice.world; peer += thread_count()) {
        if (peer != notice.rank) write_record(&notice.inboxes[peer]->alerts[notice.rank], record);
    }
}

// The word that `from` writes at `index` of `to`'s proof. The owner computes it too, on the host.
LANESUM_DEVICE u64 proof_word(u64 nonce, u32 from, u32 to, u32 index) {
    u64 word = nonce + (static_cast<u64>(from) << 40 | static_cast<u64>(to) << 32 | index) * 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    return word ^ word >> 27;
}

// What this rank's device reads of its peers' proofs, with the loads that frames get.
LANESUM_DEVICE void read_proofs(const Notice& notice) {
    const Inbox* const own = notice.inboxes[notice.rank];
    for (u32 peer = 0; peer < notice.world; ++peer) {
        for (u32 index = 2 * thread_index(); index < LANESUM_PROOF_WORDS; index += 2 * thread_count()) {
            store_pair(notice.seen + peer * LANESUM_PROOF_WORDS + index, load_pair(&own->proof[peer][index]));
        }
    }
}

// prove: writes this rank's proof into every peer's inbox, with the stores that frames get; or, given a place for what is seen, reads
// those of its peers. One block of any size.
LANESUM_DEVICE void prove(const Notice& notice) {
    if (notice.seen != nullptr) return read_proofs(notice);
    for (u32 peer = 0; peer < notice.world; ++peer) {
        if (peer == notice.rank) continue;
        for (u32 index = 2 * thread_index(); index < LANESUM_PROOF_WORDS; index += 2 * thread_count()) {
            const Pair pair = {proof_word(notice.nonce, notice.rank, peer, index),
                               proof_word(notice.nonce, notice.rank, peer, index + 1)};
            store_pair(&notice.inboxes[peer]->proof[notice.rank][index], pair);
        }
    }
}
