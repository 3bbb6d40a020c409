// Bounded waits, and how a rank fails.
//
// A poll that found nothing costs a comparison. Every POLL_BUDGET of them a thread looks, out of line, at what could end its
// wait: the poison of its own device, alerts of peers, ranks whose process has ended, the clock. What it finds is believed
// only after one more poll of what it waits for: whoever ended or failed posted its words first.
//
//   fail(trouble):  claim the record (one thread of the device wins)
//                   poison, so that every other wait of this rank ends too
//                   alert all peers: the record, and this rank's call in words
//                   a mismatch waits, within the deadline, for the peer's own alert: it holds that rank's call
//                   write the record to mapped memory, `state` last, for the host
#pragma once
#include "layout.cuh"

#ifndef LANESUM_POLL_BUDGET
#define LANESUM_POLL_BUDGET 256
#endif

// What ended a wait. `kind` 0: nothing has.
struct Trouble {
    u32 kind;       // KIND_*, or PASSED_ON
    u32 ranks;      // concerned; for PASSED_ON the peer whose alert it was
    u64 waited_ns;
};

#define PASSED_ON 100  // a peer has failed: its record holds for this rank too
#define POISONED 101   // this rank has failed already

struct Wait {
    u64 start;  // 0 until the first look at the clock
    u32 polls;
};

// What could end the wait for the ranks in `pending`. Called once in POLL_BUDGET polls.
template <int W>
LANESUM_COLD Trouble look_around(const Launch& launch, Wait& wait, u32 pending) {
    Trouble trouble = {0, 0, 0};
    if (load_relaxed(&launch.local->poison) != 0) {
        trouble.kind = POISONED;
        return trouble;
    }
    const Inbox* own = launch.inboxes[launch.rank];
    for (u32 peer = 0; peer < W; ++peer) {
        // Pairs with the release in `alert`.
        if (peer == launch.rank || load_acquire(&own->alerts[peer].state) != FILLED) continue;
        // Who has all it needs may leave while others still wait for third ranks.
        const u64 kind = load_relaxed(&own->alerts[peer].kind);
        if ((kind == KIND_DEPARTED || kind == KIND_PANICKED) && (pending >> peer & 1) == 0) continue;
        trouble.kind = PASSED_ON;
        trouble.ranks = peer;
        return trouble;
    }
    const u32 lost = static_cast<u32>(load_relaxed(&launch.mapped->lost)) & pending;
    if (lost != 0) {
        trouble.kind = KIND_DIED;
        trouble.ranks = lost;
        return trouble;
    }
    const u64 now = clock_ns();
    if (wait.start == 0) wait.start = now | 1;
    // The clocks of two multiprocessors may differ by a tick.
    const u64 waited = now > wait.start ? now - wait.start : 0;
    if (waited > load_relaxed(&launch.mapped->deadline_ns)) {
        trouble.kind = KIND_LATE;
        trouble.ranks = pending;
        trouble.waited_ns = waited;
    }
    return trouble;
}

// One fruitless poll.
template <int W>
LANESUM_DEVICE void be_patient(const Launch& launch, Wait& wait, Trouble& trouble, u32 pending) {
    spin_hint();
    if (++wait.polls % LANESUM_POLL_BUDGET == 0) trouble = look_around<W>(launch, wait, pending);
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
    const Record* alert = &launch.inboxes[launch.rank]->alerts[peer];
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
    for (u32 peer = 0; peer < W; ++peer) {
        if (peer == launch.rank) continue;
        const u64 header = load_relaxed(&launch.inboxes[launch.rank]->headers[epoch & 1][block_index()][peer]);
        if (static_cast<u32>(header) != static_cast<u32>(epoch)) missing |= 1u << peer;
    }
    return missing;
}

// Fails this rank's call. Returns whether this thread is the one that tells it.
template <int W>
LANESUM_COLD bool fail(const Launch& launch, const Trouble& trouble, u64 epoch, u32 phase) {
    if (trouble.kind == POISONED || claim(&launch.local->claimed, 1) != 0) return false;
    Record record = {};
    record.kind = trouble.kind;
    record.by = launch.rank;
    record.ranks = trouble.ranks;
    record.epoch = epoch;
    record.waited_us = trouble.waited_ns / 1000;
    record.phase = phase;
    if (trouble.kind == KIND_LATE || trouble.kind == KIND_DIED) {
        const u32 missing = absent<W>(launch, epoch);
        if (missing != 0) record.phase = PHASE_HEADER;
        record.ranks |= trouble.kind == KIND_LATE ? missing : missing & static_cast<u32>(load_relaxed(&launch.mapped->lost));
    }
    for (int word = 0; word < 4; ++word) record.ours[word] = launch.call[word];
    if (trouble.kind == PASSED_ON) read_record(&launch.inboxes[launch.rank]->alerts[trouble.ranks], record);
    for (int word = 0; word < 4; ++word) record.call[word] = launch.call[word];
    store_relaxed(&launch.local->poison, 1);
    for (u32 peer = 0; peer < W; ++peer) {
        if (peer != launch.rank) write_record(&launch.inboxes[peer]->alerts[launch.rank], record);
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
        }
    }
    record.ticket = launch.ticket;
    write_record(&launch.mapped->record, record);
    return true;
}
