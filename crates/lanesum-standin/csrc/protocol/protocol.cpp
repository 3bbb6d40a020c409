// The protocol of the pushes under ThreadSanitizer: `protocol SCENE CALLS THREADS DEADLINE_MS`.
//
// Ranks are groups of OS threads that make the same calls one after the other, as a stream does: all threads of a rank meet
// between two calls, and ranks meet nowhere but in the kernel. Tags have few bits and sweeps are frequent, so both wrap many
// times. Ends with 0 if every sum was right; 2 if one was wrong; 3 if a rank gave up waiting; 4 if the headers of ranks differed; a
// data race ends the process as ThreadSanitizer is told to.
//
//   mixed       eager calls of many lengths, by all algorithms
//   replays     a graph of one call, replayed many times in a row, and then another: nothing but the input differs between two replays
//   reordered   four such graphs in turn; in the second half rank 0 replays the two of each algorithm the other way round
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "chunks.cuh"
#include "two_shot_push.cuh"

namespace {

const int W = LANESUM_WORLD;
const u32 LANES = 2, CAPACITY = 8;
// Bytes of a lane in a half of a region, with its header; words of a region.
const u32 LANE_BYTES = (1 + CAPACITY) * FRAME_BYTES;
const u64 REGION = 2 * LANES * LANE_BYTES / 8;

// Of the areas for chunks, in quads: of a lane's shard, and of a chunk.
const u32 BULK_QUADS = 6, CHUNK = 2;
const u32 BULK_LANE_BYTES = BULK_QUADS * 16;
// Words of all areas of an inbox.
const u64 BULK = 2 * LANES * (LANESUM_LINE_BYTES + W * BULK_LANE_BYTES) / 8;

// Elements of a call, some exchanges for each lane; a frame has three.
const u32 MOST = 160;

const int WRONG = 2, LATE = 3, DIFFERENT = 4;

enum class Scene { MIXED, REPLAYS, REORDERED };

// So few that a block of two threads does with one exchange, and both lanes have some.
const u64 REPLAYED = 6;

// Elements of a call that is mixed with others, the same on all ranks. In turn: a full exchange and then calls of one or no element until tags have
// come round, so that an unswept word would be taken for new; and sizes that need several exchanges and leave lanes empty.
u64 mixed_elements(u64 call) {
    const u64 period = 1ull << LANESUM_TAG_BITS;
    if (call / (4 * period) % 2 == 0) return call % period == 0 ? LANES * CAPACITY * 3 : call % 3 == 0;
    return call * 2654435761ull % MOST;
}

// Small integers, so that sums are exact; different in calls whose tags are equal.
float value(u64 call, u32 rank, u64 index) { return static_cast<float>((call * 31 + rank * 17 + index * 5) % 1009); }

struct Rank {
    std::unique_ptr<Local> local{new Local()};
    std::unique_ptr<Mapped> mapped{new Mapped()};
    std::vector<u64> inbox;
    std::vector<u64> apart;  // its own frames, unless they stand in its inbox
    std::vector<u8> buffer;
    std::vector<Block> blocks{LANES};
    pthread_barrier_t between;  // calls
    u32 offset = 0;             // of the buffer's alignment

    Inbox* shared() { return reinterpret_cast<Inbox*>(inbox.data()); }
    u8* region(u32 leaf) { return reinterpret_cast<u8*>(shared()->data + leaf * REGION); }
};

struct Job {
    Scene scene;
    u64 calls;
    u32 threads;
    std::vector<Rank> ranks{W};

    u64 elements_of(u64 call) const { return scene == Scene::MIXED ? mixed_elements(call) : REPLAYED; }

    // The call that a rank makes in the place of one.
    u64 made_by(u32 number, u64 call) const {
        return scene == Scene::REORDERED && number == 0 && call >= calls / 2 ? call ^ 1 : call;
    }

    // The graph that a call is a replay of: the first two are of one shot, the others of two.
    u32 graph_of(u64 call) const { return scene == Scene::REORDERED ? call % 4 : call / 64 % 2 * 2; }
};

void fill(const Job& job, Rank& rank, u32 number, u64 call) {
    for (u64 index = 0; index < job.elements_of(call); ++index) {
        const float element = value(call, number, index);
        __builtin_memcpy(&rank.buffer[rank.offset + index * 4], &element, 4);
    }
}

[[noreturn]] void end(int code, const char* why, u32 rank, u64 call) {
    std::fprintf(stderr, "%s: rank %u, call %llu\n", why, rank, call);
    std::_Exit(code);
}

void check(const Job& job, Rank& rank, u32 number, u64 call) {
    if (rank.mapped->record.state != EMPTY) {
        if (rank.mapped->record.kind == KIND_MISMATCH) end(DIFFERENT, "another header", number, call);
        end(LATE, "gave up", number, call);
    }
    for (u64 index = 0; index < job.elements_of(call); ++index) {
        float got, wanted = 0;
        __builtin_memcpy(&got, &rank.buffer[rank.offset + index * 4], 4);
        for (u32 peer = 0; peer < W; ++peer) wanted += value(call, peer, index);
        if (got != wanted) end(WRONG, "wrong sum", number, call);
    }
}

Launch launch_of(Job& job, u32 number, u64 call) {
    Rank& rank = job.ranks[number];
    Launch launch = {};
    launch.input = launch.output = rank.buffer.data() + rank.offset;
    launch.elements = job.elements_of(call);
    launch.frames = (launch.elements + 2) / 3;
    launch.share = static_cast<u32>((launch.frames + LANES - 1) / LANES);
    const u64 before_last = static_cast<u64>(launch.share) * (LANES - 1);
    launch.tail = static_cast<u32>(launch.frames > before_last ? launch.frames - before_last : 0);
    const u64 plain = rank.offset == 0 ? launch.elements / 3 : 0;
    launch.plain_share = static_cast<u32>(plain < launch.share ? plain : launch.share);
    launch.plain_tail = static_cast<u32>(plain > before_last ? plain - before_last : 0);
    // Each thread but the first has at most one frame, of whole words.
    launch.once = rank.offset == 0 && launch.share < job.threads && launch.share <= CAPACITY;
    launch.words = static_cast<u32>(launch.elements);
    launch.half_bytes = LANES * LANE_BYTES;
    launch.lane_bytes = LANE_BYTES;
    launch.pause_ns = call % 5 == 0 ? 100 : 0;
    launch.ticket = call + 1;
    launch.digest = static_cast<u32>(call);
    launch.canonical = 1;
    launch.rank = launch.position = number;
    launch.lanes = LANES;
    launch.capacity = CAPACITY;
    launch.order = 0x0706050403020100ull;
    launch.local = rank.local.get();
    launch.mapped = rank.mapped.get();
    for (u32 peer = 0; peer < W; ++peer) {
        launch.inboxes[peer] = job.ranks[peer].shared();
        launch.targets[peer] = job.ranks[peer].region(number);
        launch.sources[peer] = rank.region(peer);
    }
    if (!rank.apart.empty()) launch.targets[number] = launch.sources[number] = reinterpret_cast<u8*>(rank.apart.data());
    return launch;
}

// The same as a node of a graph: what is in the launch is what every replay says.
Launch replayed(Job& job, u32 number, u64 call) {
    Launch launch = launch_of(job, number, call);
    launch.ticket = 0;
    launch.digest = job.graph_of(call);
    return launch;
}

// The same as chunks.
Launch chunked(Job& job, u32 number, u64 call) {
    Launch launch = launch_of(job, number, call);
    const u32 quads = static_cast<u32>((launch.elements + 3) / 4);
    launch.share = (quads + LANES - 1) / LANES;
    launch.tail = quads > launch.share ? quads - launch.share : 0;
    const u32 plain = job.ranks[number].offset == 0 ? static_cast<u32>(launch.elements / 4) : 0;
    launch.plain_share = plain < launch.share ? plain : launch.share;
    launch.plain_tail = plain > launch.share ? plain - launch.share : 0;
    launch.once = 0;
    launch.kind = F32 << 4 | SUM;
    launch.bulk = sizeof(Inbox) + W * REGION * 8;
    launch.bulk_half_bytes = LANES * BULK_LANE_BYTES;
    launch.bulk_lane_bytes = BULK_LANE_BYTES;
    launch.bulk_lanes = LANES;
    launch.bulk_quads = BULK_QUADS;
    launch.chunk = CHUNK;
    launch.window = 1 + call % 2;
    return launch;
}

void push_frames(const Launch& launch, bool two_shots) {
    if (two_shots) return run<TwoShotPush<W, F32, SUM, GUARD_ALL>, W, F32, GUARD_ALL>(launch);
    run<OneShotPush<W, F32, SUM, GUARD_ALL>, W, F32, GUARD_ALL>(launch);
}

void run_call(Job& job, u32 number, u64 call) {
    if (job.scene != Scene::MIXED) return push_frames(replayed(job, number, call), job.graph_of(call) >= 2);
    const u64 chance = call * 2246822519ull >> 7;
    // Chunks take a thread for each role.
    if (job.threads >= 8 && (chance >> 1 & 1) != 0) {
        if (chance & 1) return run_chunks<Chunks<W, true>, W>(chunked(job, number, call));
        return run_chunks<Chunks<W, false>, W>(chunked(job, number, call));
    }
    push_frames(launch_of(job, number, call), (chance & 1) != 0);
}

// A thread of a block of a rank, for all calls.
void run_thread(Job& job, u32 number, u32 block, u32 thread) {
    Rank& rank = job.ranks[number];
    here = {thread, job.threads, block, LANES, &rank.blocks[block], 0, (number * LANES + block) * job.threads + thread, {}, 0, false};
    const bool first = block == 0 && thread == 0;
    for (u64 turn = 0; turn < job.calls; ++turn) {
        const u64 call = job.made_by(number, turn);
        if (first) fill(job, rank, number, call);
        pthread_barrier_wait(&rank.between);
        run_call(job, number, call);
        // The end of a kernel.
        fence_system();
        pthread_barrier_wait(&rank.between);
        if (first) check(job, rank, number, call);
    }
}

void set_up(Job& job, u64 deadline_ms) {
    for (u32 number = 0; number < W; ++number) {
        Rank& rank = job.ranks[number];
        rank.inbox.resize(sizeof(Inbox) / 8 + W * REGION + BULK);
        if (number % 2 == 1) rank.apart.resize(REGION);
        rank.buffer.resize(MOST * 4 + 4);
        rank.offset = number % 3;
        rank.mapped->deadline_ns = deadline_ms * 1000000;
        // Fresh memory has tag 0.
        for (Lane& lane : rank.local->lanes) lane.word = 2;
        pthread_barrier_init(&rank.between, nullptr, LANES * job.threads);
        for (Block& block : rank.blocks) pthread_barrier_init(&block.barrier, nullptr, job.threads);
    }
}

Scene scene_of(const std::string& word) {
    if (word == "replays") return Scene::REPLAYS;
    if (word == "reordered") return Scene::REORDERED;
    if (word != "mixed") std::_Exit(1);
    return Scene::MIXED;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 5) return 1;
    Job job;
    job.scene = scene_of(arguments[1]);
    job.calls = std::strtoull(arguments[2], nullptr, 10);
    job.threads = static_cast<u32>(std::strtoul(arguments[3], nullptr, 10));
    set_up(job, std::strtoull(arguments[4], nullptr, 10));
    std::vector<std::thread> threads;
    for (u32 number = 0; number < W; ++number) {
        for (u32 block = 0; block < LANES; ++block) {
            for (u32 thread = 0; thread < job.threads; ++thread) {
                threads.emplace_back([&job, number, block, thread] { run_thread(job, number, block, thread); });
            }
        }
    }
    for (std::thread& thread : threads) thread.join();
    std::puts("well");
    return 0;
}
