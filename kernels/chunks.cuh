// Long messages across the bus: raw bytes in chunks, and for each chunk a count that says it is there.
//
// Tags in every packet cost a third more bytes, and a poll across the bus reads as much as it hopes to find. So where that counts, a
// lane's threads have roles, by warps, and go their own pace: no barrier but the one that ends the exchange.
//
//   one exchange of a lane (lane.cuh); the message is cut into quads of 16 bytes, those of a shard into chunks of `launch.chunk`. In two
//   shots leaf s owns the shard of `ceil(count / W)` quads that starts at s times as many, cut at the end. In one shot the only shard is
//   the message, and each rank owns it.
//     header    thread 0: sends this rank's, awaits those of the peers (meet)
//     writers   chunk k of the shards of all peers: from the input to their owners' inboxes; at most `launch.window` chunks ahead of what
//               this lane has finished, which keeps both directions of the link going
//     poster    one thread: as soon as chunk k is written, fences and tells each owner: k + 1 chunks of epoch e are there
//     watchers  one warp, a thread for each word that peers tell: polls the line of them, one read across the bus, and publishes them in
//               the block
//     summers   chunk k of the own shard, when it has come from all peers: add in the order of the tree, round once, write to the output;
//               in two shots to the results in the own inbox as well, once for all peers
//   and in two shots
//     poster    one thread: tells all peers how many chunks are summed
//     takers    chunk k of the shards of all peers, when its result is there: from the owner's inbox to the output
//
// Bytes, of S each rank: one shot of two ranks S out and S in; two shots (W - 1) / W S of inputs and S / W of results out, 2 (W - 1) / W S
// in. One hop, or two.
// Who writes what: as the pushes; an owner writes its results into its own inbox, and its peers read them there.
// Scopes: bytes and counts are stored and loaded past the caches of a multiprocessor. Bytes come before their count by a fence at system
// scope of the poster, who has seen the writers' tallies, and are read after an acquire of the watcher, whose word the readers have seen.
// Reuse: as the pushes: half e mod 2 was last touched in e - 2, and all had read that before they told their counts of e - 1, or the kernel of
// e - 2 had ended. A count names its epoch.
// In place: summers of one shot and takers write over what writers have read: they look at the tally of the written.
#pragma once
#include "lane.cuh"

// Chunks of a lane's shard in one exchange, at most.
#define LANESUM_CHUNKS_MAX 32
// What peers tell a lane in an exchange: a word for the chunks of each leaf, and one for its results, in one line.
#define LANESUM_LINE_BYTES 128
#define LANESUM_RESULTS LANESUM_WORLD_MAX  // from the one to the other
#define LANESUM_TOLD (2 * LANESUM_WORLD_MAX)
static_assert(LANESUM_TOLD * 8 == LANESUM_LINE_BYTES, "one line");

// 16 bytes of a message.
struct alignas(16) Quad {
    u32 words[4];
};

LANESUM_DEVICE Pair pair_of(const Quad& quad) {
    return {static_cast<u64>(quad.words[1]) << 32 | quad.words[0], static_cast<u64>(quad.words[3]) << 32 | quad.words[2]};
}
LANESUM_DEVICE Quad quad_of(Pair pair) {
    return {{static_cast<u32>(pair.first), static_cast<u32>(pair.first >> 32), static_cast<u32>(pair.second),
             static_cast<u32>(pair.second >> 32)}};
}

// How many threads have finished each chunk, and how many chunks have come: of one exchange, in memory of the block.
struct Tallies {
    u32 written[LANESUM_CHUNKS_MAX];
    u32 summed[LANESUM_CHUNKS_MAX];
    u32 taken[LANESUM_CHUNKS_MAX];
    u32 told[LANESUM_TOLD];  // by leaf: chunks of the own shard; and results
    u32 stop;                // not 0: something has ended the exchange
};
static_assert(2 * sizeof(Tallies) <= LANESUM_BLOCK_WORDS * 4, "two sets, in turn");
LANESUM_DEVICE Tallies& tallies_of(u64 epoch) { return reinterpret_cast<Tallies*>(block_words())[epoch & 1]; }

// A count that is read in another epoch is none.
LANESUM_DEVICE u64 count_word(u64 epoch, u32 chunks) { return epoch << 8 | chunks; }
LANESUM_DEVICE u32 count_of(u64 word, u64 epoch) { return (word ^ epoch << 8) < 256 ? static_cast<u32>(word & 255) : 0; }

// Quads of any dtype and operation: across the bus a comparison for each costs nothing.
template <int D, int O, int W>
LANESUM_DEVICE Quad reduce_quads(const Launch& launch, const Quad (&quads)[W]) {
    Quad result;
    LANESUM_UNROLL
    for (int word = 0; word < 4; ++word) {
        u32 words[W];
        LANESUM_UNROLL
        for (int leaf = 0; leaf < W; ++leaf) words[leaf] = quads[leaf].words[word];
        if (W <= 2 || launch.canonical != 0) {
            result.words[word] = reduce_words<D, O, W>(words);
        } else {
            result.words[word] = reduce_words_by<D, O, W>(launch.program, words);
        }
    }
    return result;
}

template <int D, int W>
LANESUM_DEVICE Quad reduce_quads_by(const Launch& launch, u32 operation, const Quad (&quads)[W]) {
    if (operation == MAX) return reduce_quads<D, MAX, W>(launch, quads);
    if (operation == MIN) return reduce_quads<D, MIN, W>(launch, quads);
    return reduce_quads<D, SUM, W>(launch, quads);
}

template <int W>
LANESUM_DEVICE Quad reduce_quads_of(const Launch& launch, const Quad (&quads)[W]) {
    const u32 operation = launch.kind & 15;
    if (launch.kind >> 4 == F16) return reduce_quads_by<F16, W>(launch, operation, quads);
    if (launch.kind >> 4 == BF16) return reduce_quads_by<BF16, W>(launch, operation, quads);
    return reduce_quads_by<F32, W>(launch, operation, quads);
}

// Word `index` of a buffer of any alignment; beyond the end zeros.
LANESUM_COLD u32 load_word_of(const Launch& launch, u64 index) {
    if (launch.kind >> 4 == F32) return index < launch.elements ? load_word<F32>(launch.input, launch.elements, index) : 0;
    return index < words_of<F16>(launch.elements) ? load_word<F16>(launch.input, launch.elements, index) : 0;
}
LANESUM_COLD void store_word_of(const Launch& launch, u64 index, u32 word) {
    if (launch.kind >> 4 == F32) {
        if (index < launch.elements) store_word<F32>(launch.output, launch.elements, index, word);
    } else if (index < words_of<F16>(launch.elements)) {
        store_word<F16>(launch.output, launch.elements, index, word);
    }
}

// The threads that do the same.
struct Crew {
    u32 index, count;
};

template <int W, bool ONE_SHOT>
struct Chunks {
    static const u32 UNIT_WORDS = 4;
    static const u32 TELLERS = ONE_SHOT ? 3 : 4;  // groups of threads that send headers, post and watch
    static const u32 DEPTH = W <= 2 ? 4 : W <= 4 ? 2 : 1;  // quads that a thread has under way from each leaf

    LANESUM_DEVICE static u32 most_units(const Launch& launch) { return ONE_SHOT ? launch.bulk_quads : launch.bulk_quads * W; }

    // Before the first exchange of a launch, ahead of a barrier.
    LANESUM_DEVICE static void prepare() {
        u32* const words = block_words();
        for (u32 index = thread_index(); index < LANESUM_BLOCK_WORDS; index += thread_count()) words[index] = 0;
    }

    // An exchange, as the threads of all roles see it.
    struct Work {
        const Launch& launch;
        const Exchange& exchange;
        Tallies& tallies;
        u32 shard;   // quads
        u32 chunks;  // of each shard

        // Where a leaf is told something, in this lane.
        LANESUM_DEVICE u64* word_at(u32 owner, u32 slot) const {
            const u32 line = half_of(exchange.epoch) * launch.bulk_lanes + block_index();
            u8* const lines = reinterpret_cast<u8*>(launch.inboxes[owner]) + launch.bulk;
            return reinterpret_cast<u64*>(lines + line * LANESUM_LINE_BYTES) + slot;
        }

        // This lane's part of an area of an inbox. Areas are those of the other ranks' bytes, in the order of leaves, and of results. Before
        // them are the lines.
        LANESUM_DEVICE u8* area(u32 owner, u32 place) const {
            u8* const areas = reinterpret_cast<u8*>(launch.inboxes[owner]) + launch.bulk + 2 * launch.bulk_lanes * LANESUM_LINE_BYTES;
            return areas + static_cast<u64>(2 * place + half_of(exchange.epoch)) * launch.bulk_half_bytes +
                   static_cast<u64>(block_index()) * launch.bulk_lane_bytes;
        }
        LANESUM_DEVICE u8* input_area(u32 owner, u32 from) const { return area(owner, from < owner ? from : from - 1); }
        LANESUM_DEVICE u8* result_area(u32 owner) const { return area(owner, W - 1); }
        LANESUM_DEVICE static u64* quad_at(u8* area, u32 quad) { return reinterpret_cast<u64*>(area) + 2 * quad; }

        // The leaf that comes so many after this one: nobody begins with the same.
        LANESUM_DEVICE u32 after(u32 steps) const {
            const u32 leaf = launch.position + steps;
            return leaf < W ? leaf : leaf - W;
        }

        // Quads of the exchange that are chunk k of a leaf's shard; `from` may lie beyond the end.
        LANESUM_DEVICE u32 start(u32 leaf) const { return ONE_SHOT ? 0 : leaf * shard; }
        LANESUM_DEVICE u32 end(u32 leaf, u32 chunk) const {
            const u32 within = (chunk + 1) * launch.chunk < shard ? (chunk + 1) * launch.chunk : shard;
            return start(leaf) + within < exchange.count ? start(leaf) + within : exchange.count;
        }

        LANESUM_DEVICE Quad load(u32 index) const {
            if LANESUM_USUAL (index < exchange.plain) return read<Quad>(exchange.input + static_cast<u64>(index) * 16);
            Quad quad;
            LANESUM_ROLLED
            for (u32 word = 0; word < 4; ++word) quad.words[word] = load_word_of(launch, (exchange.first + index) * 4 + word);
            return quad;
        }
        LANESUM_DEVICE void store(u32 index, const Quad& quad) const {
            if LANESUM_USUAL (index < exchange.plain) return write<Quad>(exchange.output + static_cast<u64>(index) * 16, quad);
            LANESUM_ROLLED
            for (u32 word = 0; word < 4; ++word) store_word_of(launch, (exchange.first + index) * 4 + word, quad.words[word]);
        }

        // Until a tally is full; false if something has ended the exchange.
        LANESUM_DEVICE bool await(const u32& tally, u32 full) const {
            while (seen(&tally) < full) {
                if (seen(&tallies.stop) != 0) return false;
                spin_hint();
            }
            return true;
        }

        LANESUM_DEVICE void write_all(Crew crew, Crew last) const {
            const u32* const finished = ONE_SHOT ? tallies.summed : tallies.taken;
            for (u32 chunk = 0; chunk < chunks; ++chunk) {
                if (chunk >= launch.window && !await(finished[chunk - launch.window], last.count)) return;
                for (u32 step = 1; step < W; ++step) {
                    const u32 leaf = after(step), from = start(leaf), until = end(leaf, chunk);
                    u8* const to = input_area(leaf, launch.position);
                    for (u32 at = from + chunk * launch.chunk + crew.index; at < until; at += DEPTH * crew.count) {
                        Quad quads[DEPTH];
                        LANESUM_UNROLL
                        for (u32 deep = 0; deep < DEPTH; ++deep) {
                            if (at + deep * crew.count < until) quads[deep] = load(at + deep * crew.count);
                        }
                        LANESUM_UNROLL
                        for (u32 deep = 0; deep < DEPTH; ++deep) {
                            const u32 index = at + deep * crew.count;
                            if (index < until) store_bulk(quad_at(to, index - from), pair_of(quads[deep]));
                        }
                    }
                }
                raise(&tallies.written[chunk], 1);
            }
        }

        LANESUM_DEVICE void sum_all(Crew crew, Crew writers) const {
            const u32 from = start(launch.position);
            for (u32 chunk = 0; chunk < chunks; ++chunk) {
                for (u32 step = 1; step < W; ++step) {
                    if (!await(tallies.told[after(step)], chunk + 1)) return;
                }
#ifndef LANESUM_MUTANT_EARLY_OUTPUT
                if (ONE_SHOT && !await(tallies.written[chunk], writers.count)) return;
#endif
                const u32 until = end(launch.position, chunk);
                for (u32 at = from + chunk * launch.chunk + crew.index; at < until; at += DEPTH * crew.count) {
                    Quad quads[DEPTH][W];
                    LANESUM_UNROLL
                    for (u32 deep = 0; deep < DEPTH; ++deep) {
                        const u32 index = at + deep * crew.count;
                        if (index >= until) continue;
                        LANESUM_UNROLL
                        for (u32 leaf = 0; leaf < W; ++leaf) {
                            if (leaf != launch.position) {
                                quads[deep][leaf] = quad_of(load_bulk(quad_at(input_area(launch.position, leaf), index - from)));
                            } else {
                                quads[deep][leaf] = load(index);
                            }
                        }
                    }
                    LANESUM_UNROLL
                    for (u32 deep = 0; deep < DEPTH; ++deep) {
                        const u32 index = at + deep * crew.count;
                        if (index >= until) continue;
                        const Quad result = reduce_quads_of<W>(launch, quads[deep]);
                        store(index, result);
                        if (!ONE_SHOT) store_bulk(quad_at(result_area(launch.position), index - from), pair_of(result));
                    }
                }
                raise(&tallies.summed[chunk], 1);
            }
        }

        LANESUM_DEVICE void take_all(Crew crew, Crew writers) const {
            for (u32 chunk = 0; chunk < chunks; ++chunk) {
#ifndef LANESUM_MUTANT_EARLY_OUTPUT
                if (!await(tallies.written[chunk], writers.count)) return;
#endif
                for (u32 step = 1; step < W; ++step) {
                    const u32 leaf = after(step), from = start(leaf), until = end(leaf, chunk);
                    u8* const results = result_area(leaf);
                    if (!await(tallies.told[LANESUM_RESULTS + leaf], chunk + 1)) return;
                    for (u32 at = from + chunk * launch.chunk + crew.index; at < until; at += 4 * crew.count) {
                        Quad quads[4];
                        LANESUM_UNROLL
                        for (u32 deep = 0; deep < 4; ++deep) {
                            const u32 index = at + deep * crew.count;
                            if (index < until) quads[deep] = quad_of(load_bulk(quad_at(results, index - from)));
                        }
                        LANESUM_UNROLL
                        for (u32 deep = 0; deep < 4; ++deep) {
                            const u32 index = at + deep * crew.count;
                            if (index < until) store(index, quads[deep]);
                        }
                    }
                }
                raise(&tallies.taken[chunk], 1);
            }
        }

        // How many chunks from `done` on have a full tally.
        LANESUM_DEVICE u32 full(const u32 (&tally)[LANESUM_CHUNKS_MAX], u32 done, u32 count) const {
            while (done < chunks && seen(&tally[done]) == count) ++done;
            return done;
        }

        // Tells the peers how many chunks have a full tally, until all have: of what is written for them, or of what is summed.
        LANESUM_DEVICE void post_all(const u32 (&tally)[LANESUM_CHUNKS_MAX], Crew crew, u32 slots) const {
            u32 posted = 0;
            while (posted < chunks) {
                const u32 done = full(tally, posted, crew.count);
                if (done == posted) {
                    if (seen(&tallies.stop) != 0) return;
                    spin_hint();
                    continue;
                }
#ifndef LANESUM_MUTANT_UNFENCED_COUNT
                fence_system();
#endif
                const u64 word = count_word(exchange.epoch, done);
                for (u32 step = 1; step < W; ++step) store_relaxed(word_at(after(step), slots + launch.position), word);
                posted = done;
            }
        }

        // What this lane was told.
        LANESUM_DEVICE u32 count(u32 slot) const {
#ifdef LANESUM_MUTANT_UNAWAITED_COUNT
            return chunks;
#else
            return count_of(load_acquire(word_at(launch.position, slot)), exchange.epoch);
#endif
        }

        // The leaves of which not all chunks are published: of their inputs, or of their results.
        LANESUM_DEVICE u32 behind(u32 slots) const {
            u32 leaves = 0;
            LANESUM_ROLLED
            for (u32 leaf = 0; leaf < W; ++leaf) {
                if (leaf != launch.position && seen(&tallies.told[slots + leaf]) < chunks) leaves |= 1u << leaf;
            }
            return leaves;
        }

        // How many chunks of inputs, and of results, each leaf has told.
        struct Told {
            u32 counts[2][W];

            // The least that others than this leaf have told.
            LANESUM_DEVICE u32 least(u32 kind, u32 but) const {
                u32 found = ~0u;
                LANESUM_ROLLED
                for (u32 leaf = 0; leaf < W; ++leaf) {
                    if (leaf != but && counts[kind][leaf] < found) found = counts[kind][leaf];
                }
                return found;
            }
        };

        // The leaves that have done less than the others let them. A result wants the inputs of all others, and inputs run ahead of their
        // results by a window only; so where one leaf has stopped, all have soon done all that they may, but for that one. This rank's
        // own part counts as done.
        LANESUM_DEVICE u32 slowest() const {
            if constexpr (ONE_SHOT) {
                return behind(0);
            } else {
                Told told;
                LANESUM_ROLLED
                for (u32 leaf = 0; leaf < W; ++leaf) {
                    told.counts[0][leaf] = seen(&tallies.told[leaf]);
                    told.counts[1][leaf] = seen(&tallies.told[LANESUM_RESULTS + leaf]);
                }
                const auto may_send = [&](u32 leaf) {
                    const u32 most = told.least(1, leaf) + launch.window;
                    return most < chunks ? most : chunks;
                };
                const u32 sent = may_send(launch.position), summed = told.least(0, launch.position);
                told.counts[0][launch.position] = sent;
                told.counts[1][launch.position] = summed;
                u32 leaves = 0;
                LANESUM_ROLLED
                for (u32 leaf = 0; leaf < W; ++leaf) {
                    if (leaf == launch.position) continue;
                    if (told.counts[0][leaf] < may_send(leaf) || told.counts[1][leaf] < told.least(0, leaf)) leaves |= 1u << leaf;
                }
                // It may have stopped between telling one rank and the next.
                return leaves != 0 ? leaves : behind(0) | behind(LANESUM_RESULTS);
            }
        }

        // The leaves that owe something, as long as none of the thread's words tells more than is published. In the wait for inputs those
        // that owe results count, too: who has sent all its inputs may die or leave.
        struct Behind {
            const Work& work;
            u32 mine;
            bool inputs;

            LANESUM_DEVICE bool goes_on() const {
                LANESUM_ROLLED
                for (u32 slot = 0; slot < LANESUM_TOLD; ++slot) {
                    if ((mine >> slot & 1) != 0 && work.count(slot) > seen(&work.tallies.told[slot])) return true;
                }
                return inputs && work.behind(0) == 0;
            }
            LANESUM_DEVICE u32 operator()() const {
                if (goes_on()) return 0;
                return ONE_SHOT ? work.behind(0) : work.behind(0) | work.behind(LANESUM_RESULTS);
            }
            // By what stands in memory: other threads may not have published it yet.
            LANESUM_DEVICE u32 anew() const {
                if (goes_on()) return 0;
                u32 leaves = 0;
                LANESUM_ROLLED
                for (u32 leaf = 0; leaf < W; ++leaf) {
                    if (leaf == work.launch.position) continue;
                    const bool sums = !ONE_SHOT && work.count(LANESUM_RESULTS + leaf) < work.chunks;
                    if (work.count(leaf) < work.chunks || sums) leaves |= 1u << leaf;
                }
                return leaves;
            }
            LANESUM_DEVICE u32 late(u32) const { return work.slowest(); }
        };

        // Publishes what peers tell, each thread of a warp one word, which are so read together. As `outwait`.
        LANESUM_DEVICE u32 watch(u32 thread) const {
            u32 pending = chunks == 0 ? 0 : all_of<W>() & ~(1u << launch.position);
            if (!ONE_SHOT) pending |= pending << LANESUM_RESULTS;
            u32 mine = 0;
            for (u32 slot = thread; slot < LANESUM_TOLD; slot += LANESUM_ROLE) mine |= 1u << slot;
            pending &= mine;
            u32 polls = LANESUM_POLL_BUDGET;
            while (pending != 0) {
                --polls;
                for (u32 slot = thread; slot < LANESUM_TOLD; slot += LANESUM_ROLE) {
                    if ((pending >> slot & 1) == 0) continue;
                    const u32 now = count(slot), before = seen(&tallies.told[slot]);
                    if (now <= before) continue;
                    raise(&tallies.told[slot], now - before);
                    if (now >= chunks) pending &= ~(1u << slot);
                    polls = LANESUM_POLL_BUDGET;
                }
                spin_hint();
                if (launch.pause_ns != 0) pause(launch.pause_ns);
                if LANESUM_USUAL (polls != 0) continue;
                polls = LANESUM_POLL_BUDGET;
                const bool data = behind(0) != 0;
                // As long as inputs are missing, results are: who waits for the former sees to what could end the wait.
                if (data && (pending & all_of<W>()) == 0 && seen(&tallies.stop) == 0) continue;
                const Behind leaves = {*this, pending, data};
                const u32 trouble = outwait<W, GUARD_ALL>(launch, exchange.epoch, data ? PHASE_DATA : PHASE_RESULT, leaves);
                if (trouble != 0) {
                    raise(&tallies.stop, 1);
                    return trouble;
                }
            }
            return 0;
        }
    };

    // What all threads but the first do. As `outwait`.
    LANESUM_DEVICE static u32 move(const Launch& launch, const Exchange& exchange) {
        // Those of the next exchange, which nobody looks at before the barrier that ends this one.
        u32* const next = reinterpret_cast<u32*>(&tallies_of(exchange.epoch + 1));
        for (u32 word = mover_index(); word < sizeof(Tallies) / 4; word += mover_count()) next[word] = 0;
        Work work = {launch, exchange, tallies_of(exchange.epoch), exchange.count, 0};
        if (!ONE_SHOT) work.shard = (exchange.count + W - 1) / W;
        work.chunks = (work.shard + launch.chunk - 1) / launch.chunk;

        const u32 group = thread_index() / LANESUM_ROLE, groups = thread_count() / LANESUM_ROLE;
        const u32 thread = thread_index() % LANESUM_ROLE;
        if (group == 1 && thread == 0) work.post_all(work.tallies.written, crew(groups, 0), 0);
        if (group == 2) return work.watch(thread);
        if (group == 3 && !ONE_SHOT && thread == 0) work.post_all(work.tallies.summed, crew(groups, 1), LANESUM_RESULTS);
        if (group < TELLERS) return 0;
        u32 index = thread_index() - TELLERS * LANESUM_ROLE;
        for (u32 role = 0; role < (ONE_SHOT ? 2 : 3); ++role) {
            const Crew whole = crew(groups, role);
            if (index >= whole.count) {
                index -= whole.count;
                continue;
            }
            const Crew own = {index, whole.count};
            if (role == 0) work.write_all(own, crew(groups, ONE_SHOT ? 1 : 2));
            if (role == 1) work.sum_all(own, crew(groups, 0));
            if (role == 2) work.take_all(own, crew(groups, 0));
            break;
        }
        return 0;
    }

    // Writers, summers, takers: what so many groups are divided into. Fewer write, since a load across the bus takes longer than a store.
    LANESUM_DEVICE static Crew crew(u32 groups, u32 role) {
        const u32 rest = groups - TELLERS, third = rest / 3 != 0 ? rest / 3 : 1;
        const u32 summers = ONE_SHOT ? rest - third : (rest - third) / 2;
        const u32 sizes[3] = {third, summers, rest - third - summers};
        return {0, sizes[role] * LANESUM_ROLE};
    }
};

// A call that moves chunks, whatever its dtype and operation.
template <class Algorithm, int W>
LANESUM_DEVICE void run_chunks(const Launch& launch) {
    u64 word = 0;
    if (thread_index() == 0) word = fetch_or(&launch.local->lanes[block_index()].word, LANE_RUNNING);
    Algorithm::prepare();
    stay<Algorithm, W, ANY_DTYPE, GUARD_ALL>(launch, broadcast(word));
}
