// Bounded waits, and how a rank fails.
//
// A poll that found nothing costs a comparison. Every POLL_BUDGET of them a thread looks, out of line, at what could end its
// wait: the state of its own rank, alerts of peers, ranks whose process has ended, the clock. What it finds is believed
// only after one more poll of what it waits for: whoever ended or failed posted its words first.
//
//   fail(trouble):  poison, so that every other wait of this rank ends too; the one thread that finds no poison goes on:
//                   alert all peers: the record, and this rank's call in words
//                   a mismatch waits, within the deadline, for the peer's own alert: it holds that rank's call
//                   write the record to mapped memory, `state` last, for the host
#pragma once
#include "frames.cuh"

#ifndef LANESUM_POLL_BUDGET
#define LANESUM_POLL_BUDGET 256
#endif
// By which a wait for a result may outlast the deadline, at most.
#define LANESUM_GRACE_NS 500000000ull

// What ended a wait. `kind` 0: nothing has.
struct Trouble {
    u32 kind;   // KIND_*, or one of the following
    u32 ranks;  // concerned; for PASSED_ON the peer whose alert it was
    u64 time;   // waited in ns for KIND_LATE; as long as nothing has happened, the start of the wait
    u32 phase;  // PHASE_*: what was waited for
};

#define PASSED_ON 100  // a peer has failed: its record holds for this rank too
#define POISONED 101   // this rank has failed already, or has ended
#define TOLD 102       // this thread has told of what it found

struct Wait {
    u64 epoch;
    u64 start;  // 0 until the first look at the clock
};

LANESUM_DEVICE bool is_closed(u64 lane_word) { return (lane_word & (LANE_POISONED | LANE_ENDED)) != 0; }

LANESUM_DEVICE Inbox* own_inbox(const Launch& launch) { return launch.inboxes[launch.position]; }
LANESUM_DEVICE u32 rank_of(const Launch& launch, u32 leaf) { return static_cast<u32>(launch.order >> (8 * leaf)) & 15; }

// The ranks of a set of leaves.
template <int W>
LANESUM_COLD u32 ranks_of(const Launch& launch, u32 leaves) {
    u32 ranks = 0;
    for (u32 leaf = 0; leaf < W; ++leaf) {
        if ((leaves >> leaf & 1) != 0) ranks |= 1u << rank_of(launch, leaf);
    }
    return ranks;
}

// What could end the wait for the leaves in `pending`. Called once in POLL_BUDGET polls.
template <int W>
LANESUM_COLD Trouble look_around(const Launch& launch, Wait wait, u32 pending, u32 phase) {
    Trouble trouble = {0, 0, wait.start, phase};
    if (is_closed(load_relaxed(&launch.local->lanes[block_index()].word))) {
        trouble.kind = POISONED;
        return trouble;
    }
#ifndef LANESUM_MUTANT_UNCOMPARED_HEADER
    // A peer in another call spoils this one, whoever is waited for.
    for (u32 leaf = 0; leaf < W; ++leaf) {
        const Header header = load_header(launch, wait.epoch, leaf);
        if (header.here && header.digest != launch.digest) {
            trouble.kind = KIND_MISMATCH;
            trouble.ranks = 1u << rank_of(launch, leaf);
            return trouble;
        }
    }
#endif
    const u32 ranks = ranks_of<W>(launch, pending);
    for (u32 peer = 0; peer < W; ++peer) {
        const Record* const alert = &own_inbox(launch)->alerts[peer];
        // Pairs with the release in `write_record`.
        if (peer == launch.rank || load_acquire(&alert->state) != FILLED) continue;
        // Who has all it needs may leave while others still wait for third ranks.
        const u64 kind = load_relaxed(&alert->kind);
        if ((kind == KIND_DEPARTED || kind == KIND_PANICKED) && (ranks >> peer & 1) == 0) continue;
        trouble.kind = PASSED_ON;
        trouble.ranks = peer;
        return trouble;
    }
    const u32 lost = static_cast<u32>(load_relaxed(&launch.mapped->lost)) & ranks;
    if (lost != 0) {
        trouble.kind = KIND_DIED;
        trouble.ranks = lost;
        return trouble;
    }
    const u64 now = clock_ns();
    if (wait.start == 0) trouble.time = now | 1;
    // The clocks of two multiprocessors may differ by a tick.
    const u64 waited = now > trouble.time ? now - trouble.time : 0;
    const u64 deadline = load_relaxed(&launch.mapped->deadline_ns);
    // Who owes a result may itself wait for one who does not come, and gets the time to tell of it.
    const u64 grace = phase != PHASE_RESULT ? 0 : deadline / 8 < LANESUM_GRACE_NS ? deadline / 8 : LANESUM_GRACE_NS;
    if (waited > deadline && waited - deadline > grace) {
        trouble.kind = KIND_LATE;
        trouble.ranks = ranks;
        trouble.time = waited;
    }
    return trouble;
}

LANESUM_COLD void write_record(Record* to, const Record& record) {
    store_relaxed(&to->kind, record.kind);
    store_relaxed(&to->by, record.by);
    store_relaxed(&to->ranks, record.ranks);
    store_relaxed(&to->epoch, record.epoch);
    store_relaxed(&to->waited_us, record.waited_us);
    store_relaxed(&to->phase, record.phase);
    store_relaxed(&to->ticket, record.ticket);
    for (int word = 0; word < 4; ++word) {
        store_relaxed(&to->ours[word], record.ours[word]);
        store_relaxed(&to->theirs[word], record.theirs[word]);
        store_relaxed(&to->call[word], record.call[word]);
    }
    // Pairs with the acquire of `look_around`, or of the host.
    store_release(&to->state, FILLED);
}

// A peer's alert, once its state was acquired.
LANESUM_COLD void read_record(const Record* from, Record& record) {
    record.kind = load_relaxed(&from->kind);
    record.by = load_relaxed(&from->by);
    record.ranks = load_relaxed(&from->ranks);
    record.epoch = load_relaxed(&from->epoch);
    record.waited_us = load_relaxed(&from->waited_us);
    record.phase = load_relaxed(&from->phase);
    for (int word = 0; word < 4; ++word) {
        record.ours[word] = load_relaxed(&from->ours[word]);
        record.theirs[word] = load_relaxed(&from->theirs[word]);
        record.call[word] = load_relaxed(&from->call[word]);
    }
}

// A peer's own call, from its alert; it may take until that rank has noticed the mismatch too.
template <int W>
LANESUM_COLD bool await_call(const Launch& launch, u32 peer, u64 (&call)[4]) {
    const Record* alert = &own_inbox(launch)->alerts[peer];
    const u64 start = clock_ns();
    const u64 deadline = load_relaxed(&launch.mapped->deadline_ns);
    // Pairs with the release in `write_record`.
    while (load_acquire(&alert->state) != FILLED) {
        spin_hint();
        const u64 now = clock_ns();
        if (now > start && now - start > deadline) return false;
        if (load_relaxed(&launch.mapped->lost) >> peer & 1) return false;
    }
    for (int word = 0; word < 4; ++word) call[word] = load_relaxed(&alert->call[word]);
    return true;
}

// The ranks whose header of `epoch` is not here: a thread waits for some of the ranks, and its verdict must name all.
template <int W>
LANESUM_COLD u32 absent(const Launch& launch, u64 epoch) {
    u32 missing = 0;
    for (u32 leaf = 0; leaf < W; ++leaf) {
        if (leaf == launch.position) continue;
        if (!load_header(launch, epoch, leaf).here) missing |= 1u << rank_of(launch, leaf);
    }
    return missing;
}

// The first rank whose header is not this rank's.
template <int W>
LANESUM_COLD u32 odd_one(const Launch& launch, u64 epoch) {
    u32 leaf = 0;
    for (; leaf + 1 < W; ++leaf) {
        const Header header = load_header(launch, epoch, leaf);
        if (!header.here || header.digest != launch.digest) break;
    }
    return rank_of(launch, leaf);
}

// Fails this rank's call. Returns whether this thread is the one that tells it.
template <int W>
LANESUM_COLD bool fail(const Launch& launch, Trouble trouble, u64 epoch) {
    if (trouble.kind == POISONED || is_closed(fetch_or(&launch.local->lanes[0].word, LANE_POISONED))) return false;
    for (u32 lane = 1; lane < launch.lanes; ++lane) fetch_or(&launch.local->lanes[lane].word, LANE_POISONED);
    Record record = {};
    record.kind = trouble.kind;
    record.by = launch.rank;
    record.ranks = trouble.ranks != 0 || trouble.kind != KIND_MISMATCH ? trouble.ranks : 1u << odd_one<W>(launch, epoch);
    record.epoch = epoch;
    record.waited_us = trouble.kind == KIND_LATE ? trouble.time / 1000 : 0;
    record.phase = trouble.phase;
    if (trouble.kind == KIND_LATE || trouble.kind == KIND_DIED) {
        const u32 missing = absent<W>(launch, epoch);
        if (missing != 0) record.phase = PHASE_HEADER;
        // Who is here and owes a result waits for the missing, too.
        if (missing != 0 && trouble.kind == KIND_LATE && trouble.phase == PHASE_RESULT) record.ranks = 0;
        record.ranks |= trouble.kind == KIND_LATE ? missing : missing & static_cast<u32>(load_relaxed(&launch.mapped->lost));
    }
    for (int word = 0; word < 4; ++word) record.ours[word] = launch.call[word];
    if (trouble.kind == PASSED_ON) read_record(&own_inbox(launch)->alerts[trouble.ranks], record);
    for (int word = 0; word < 4; ++word) record.call[word] = launch.call[word];
    for (u32 leaf = 0; leaf < W; ++leaf) {
        if (leaf != launch.position) write_record(&launch.inboxes[leaf]->alerts[launch.rank], record);
    }
    // Whoever notices a mismatch first tells it before it knows what the other called; so does whoever passes it on.
    if (record.kind == KIND_MISMATCH && record.theirs[0] == 0) {
        u32 other = 0;
        while (other + 1 < W && (record.ranks >> other & 1) == 0) ++other;
        if (other == launch.rank) {
            for (int word = 0; word < 4; ++word) record.theirs[word] = launch.call[word];
        } else {
            // Without the peer's words the host tells the mismatch as what it then is: a peer that announced nonsense.
            await_call<W>(launch, other, record.theirs);
            // It had two calls under way, and its alert is of the other one.
            const Record* const alert = &own_inbox(launch)->alerts[other];
            if (load_acquire(&alert->state) == FILLED && load_relaxed(&alert->kind) == KIND_OVERLAP) {
                read_record(alert, record);
                for (int word = 0; word < 4; ++word) record.call[word] = launch.call[word];
            }
        }
    }
    // Eager calls that are enqueued behind a replay have higher tickets than those before it.
    record.ticket = launch.ticket != 0 ? launch.ticket : load_relaxed(&launch.local->lanes[0].ticket) + 1;
    write_record(&launch.mapped->record, record);
    return true;
}

// The same, as early as it is known: so all other waits of this rank end, some of which are for ranks that wait for this one. Returns
// TOLD or POISONED.
template <int W>
LANESUM_COLD u32 tell(const Launch& launch, Trouble trouble, u64 epoch) {
    return fail<W>(launch, trouble, epoch) ? TOLD : POISONED;
}
