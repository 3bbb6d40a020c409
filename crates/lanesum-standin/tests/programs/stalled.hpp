// Chunks of ranks that stop in the midst of a message: one rank runs the kernel, the test plays the others.
#pragma once
#include <chrono>
#include <thread>

#include "client.hpp"

namespace {

const u32 WORLD = 3, EPOCH = 2, CHUNKS = 4, CHUNK_QUADS = 4, SHARD = CHUNKS * CHUNK_QUADS, WINDOW = 2;
const u64 DEADLINE_MS = 400;

// Rank 1 among ranks that tell it what the test says.
struct Stalled {
    std::vector<Rank> ranks;
    CUdeviceptr buffer;

    explicit Stalled(const std::vector<char>& image) : ranks(ranks_here(WORLD, image)) {
        const u64 quads = WORLD * SHARD;
        OK(cuCtxSetCurrent(real().context));
        OK(cuMemAlloc_v2(&buffer, quads * 16));
        real().mapped->deadline_ns = DEADLINE_MS * 1000000;
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

    // What the kernel tells of its failure.
    const Record& end() {
        OK(cuStreamSynchronize(real().stream));
        EXPECT(real().mapped->record.state == FILLED && real().mapped->record.kind == KIND_LATE);
        return real().mapped->record;
    }
};

void sleep_ms(u64 time) { std::this_thread::sleep_for(std::chrono::milliseconds(time)); }

void stalled(const std::vector<char>& image, const std::string& how) {
    Stalled scene(image);
    if (how == "inputs") {
        // Rank 2 goes on as far as it can without rank 0, which sends a chunk more and then stops. When that was, no result of rank 2
        // had come for most of the deadline.
        scene.tell(0, 1, 0);
        scene.tell(2, WINDOW, 1);
        sleep_ms(DEADLINE_MS * 3 / 4);
        scene.tell(0, 2, 0);
        const Record& record = scene.end();
        EXPECT(record.by == 1 && record.ranks == 1 && record.phase == PHASE_DATA);
    } else if (how == "results") {
        // All inputs have come here, but not to rank 2, which tells so a little after the deadline.
        scene.tell(0, CHUNKS, 0);
        scene.tell(2, CHUNKS, 0);
        sleep_ms(DEADLINE_MS + DEADLINE_MS / 32);
        Record alert = {};
        alert.kind = KIND_LATE;
        alert.by = 2;
        alert.ranks = 1;
        const u64 at = offsetof(Inbox, alerts) + 2 * sizeof alert;
        scene.put(at, &alert, sizeof alert);
        alert.state = FILLED;
        scene.put(at, &alert, 8);
        const Record& record = scene.end();
        EXPECT(record.by == 2 && record.ranks == 1);
    } else if (how == "both") {
        scene.tell(0, CHUNKS, 1);
        scene.tell(2, CHUNKS, 1);
        const Record& record = scene.end();
        EXPECT(record.by == 1 && record.ranks == 5 && record.phase == PHASE_RESULT);
    } else if (how == "unsteady") {
        // A count that goes back and forth is no progress.
        scene.tell(0, 2, 0);
        for (u64 time = 0; time < 4 * DEADLINE_MS && cuStreamQuery(scene.real().stream) == 600; ++time) {
            scene.tell(0, time % 2, 0);
            sleep_ms(1);
        }
        EXPECT(cuStreamQuery(scene.real().stream) == 0);
        EXPECT(scene.end().phase == PHASE_DATA);
    } else {
        EXPECT(!"a way");
    }
}

}  // namespace
