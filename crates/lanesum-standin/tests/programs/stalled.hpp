// Chunks of ranks that stop in the midst of a message: one rank runs the kernel, the test plays the others.
#pragma once
#include <chrono>
#include <thread>

#include "client.hpp"

namespace {

const u32 WORLD = 3, EPOCH = 2, CHUNKS = 4, CHUNK_QUADS = 4, SHARD = CHUNKS * CHUNK_QUADS, WINDOW = 2;
const u64 SHORT_MS = 400, LONG_MS = 4000;

// Rank 1 among ranks that tell it what the test says.
struct Stalled {
    std::vector<Rank> ranks;
    CUdeviceptr buffer;

    Stalled(const std::vector<char>& image, u64 deadline_ms) : ranks(ranks_here(WORLD, image)) {
        const u64 quads = WORLD * SHARD;
        OK(cuCtxSetCurrent(real().context));
        OK(cuMemAlloc_v2(&buffer, quads * 16));
        real().mapped->deadline_ns = deadline_ms * 1000000;
        Launch launch = real().call(buffer, buffer, quads * 4, quads, 1);
        launch.plain_tail = launch.tail;
        launch.bulk = bulk();
        launch.bulk_lanes = 1;
        launch.bulk_quads = SHARD;
        launch.bulk_half_bytes = launch.bulk_lane_bytes = SHARD * 16;
        launch.chunk = CHUNK_QUADS;
        launch.window = WINDOW;
        for (u32 peer : {0u, 2u}) {
            const u64 high = static_cast<u64>(EPOCH) << 48;
            const u64 header[2] = {high | static_cast<u64>(EPOCH) << 32 | DIGEST, high};
            put(offsetof(Inbox, data) + REGION_BYTES * peer, header, sizeof header);
        }
        OK(::launch(real().function("chunks_w3"), 1, 64, real().stream, &launch));
    }

    Rank& real() { return ranks[1]; }
    static u64 bulk() { return inbox_bytes(WORLD) - BULK_BYTES; }

    // Into the inbox of rank 1.
    void put(u64 offset, const void* bytes, size_t size) { OK(cuMemcpyHtoD_v2(real().inbox.at + offset, bytes, size)); }

    // How many chunks of its input, or results, a peer has sent.
    void tell(u32 peer, u32 inputs, u32 results) {
        const u64 told[2] = {static_cast<u64>(EPOCH) << 8 | inputs, static_cast<u64>(EPOCH) << 8 | results};
        for (u32 slot : {0u, 1u}) put(bulk() + (slot * LANESUM_WORLD_MAX + peer) * 8, &told[slot], 8);
    }

    // A peer's record in the alerts.
    void alert(u32 peer, u64 kind, u64 about) {
        Record record = {};
        record.kind = kind;
        record.by = peer;
        record.ranks = about;
        const u64 at = offsetof(Inbox, alerts) + peer * sizeof record;
        put(at, &record, sizeof record);
        record.state = FILLED;
        put(at, &record, 8);
    }

    // What the kernel tells of its failure.
    const Record& end() {
        OK(cuStreamSynchronize(real().stream));
        EXPECT(real().mapped->record.state == FILLED);
        return real().mapped->record;
    }

    // That it names these ranks, as seen by itself.
    void names(u64 ranks, u64 phase) {
        const Record& record = end();
        EXPECT(record.kind == KIND_LATE && record.by == 1 && record.ranks == ranks && record.phase == phase);
    }

    // That it tells, well before the deadline, of rank 0, which has sent all its inputs and not its results. Rank 2 waits for these.
    void notices(u64 kind) {
        const auto start = std::chrono::steady_clock::now();
        const Record& record = end();
        EXPECT(record.kind == kind && record.ranks == 1);
        EXPECT(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(LONG_MS / 2));
    }
};

void sleep_ms(u64 time) { std::this_thread::sleep_for(std::chrono::milliseconds(time)); }

void stalled(const std::vector<char>& image, const std::string& how) {
    if (how == "inputs") {
        // Rank 2 goes on as far as it can without rank 0, which sends a chunk more and then stops. When that was, nothing of rank 2 had
        // come for most of the deadline.
        Stalled scene(image, SHORT_MS);
        scene.tell(0, 1, 0);
        scene.tell(2, WINDOW, WINDOW);
        sleep_ms(SHORT_MS * 3 / 4);
        scene.tell(0, WINDOW, 0);
        scene.names(1, PHASE_DATA);
    } else if (how == "slow_writer") {
        // Who stops has told as much as the other, and that has done all that it may.
        Stalled scene(image, SHORT_MS);
        scene.tell(0, 1, 3);
        scene.tell(2, 3, 1);
        scene.names(1, PHASE_DATA);
    } else if (how == "results") {
        // All inputs have come here, but not to rank 2, which tells so a little after the deadline.
        Stalled scene(image, LONG_MS);
        scene.tell(0, CHUNKS, 0);
        scene.tell(2, CHUNKS, 0);
        sleep_ms(LONG_MS + 50);
        scene.alert(2, KIND_LATE, 1);
        const Record& record = scene.end();
        EXPECT(record.kind == KIND_LATE && record.by == 2 && record.ranks == 1);
    } else if (how == "both") {
        Stalled scene(image, SHORT_MS);
        scene.tell(0, CHUNKS, 1);
        scene.tell(2, CHUNKS, 1);
        scene.names(5, PHASE_RESULT);
    } else if (how == "dies" || how == "leaves") {
        Stalled scene(image, LONG_MS);
        scene.tell(0, CHUNKS, 1);
        scene.tell(2, 3, 3);
        sleep_ms(50);
        if (how == "dies") __atomic_store_n(&scene.real().mapped->lost, 1, __ATOMIC_RELEASE);
        if (how == "leaves") scene.alert(0, KIND_DEPARTED, 1);
        scene.notices(how == "dies" ? KIND_DIED : KIND_DEPARTED);
    } else {
        EXPECT(!"a way");
    }
}

}  // namespace
