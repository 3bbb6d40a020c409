// What the link between a GPU and the host's memory carries: one way and both at once, by copy engines and by kernels. For decision 17.
//
//   nvcc -O3 -std=c++17 -arch=native -o link_rates benches/gpu/link_rates.cu && ./link_rates COMMIT > benches/records/gpu-link-rates-h200.json
//
// Each row: 32 MiB up (to host memory) and as much down, or one of them; the median of some turns, from the start of both to the end of the
// slower. `pieces` is what a copy, or a step of the pipeline, moves; kernels are blocks x threads, with so many loads of 16 bytes in flight each.
//
// The pipeline is a sum of one rank, or of two that share the link, with copy engines for one way: a kernel pushes pieces up and tells of each by
// a word; for each piece a kernel waits for the word, a copy takes the piece down, and a kernel adds it and tells that its place is free. All of
// it is one CUDA graph, as the copies of a captured call would be. Nothing is checked, there are no headers and no deadlines: it is the least
// that such a call takes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <string>
#include <sys/mman.h>
#include <vector>

#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        const cudaError_t error = (call);                                                                  \
        if (error != cudaSuccess) {                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error));              \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

typedef unsigned long long u64;
constexpr size_t MIB = 1 << 20, ALL = 32 * MIB;

__device__ uint4 load_past_l1(const uint4* from) {
    uint4 quad;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w) : "l"(from));
    return quad;
}
__device__ void store_past_l1(uint4* to, uint4 quad) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(quad.x), "r"(quad.y), "r"(quad.z), "r"(quad.w) : "memory");
}
__device__ void tell(u64* word, u64 value) { asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory"); }
__device__ u64 told(const u64* word) {
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

// ---- One way

template <int DEPTH>
__global__ void load(const uint4* host, uint4* to, size_t count) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x; at < count; at += step * DEPTH) {
        uint4 quads[DEPTH];
#pragma unroll
        for (int deep = 0; deep < DEPTH; ++deep)
            if (at + deep * step < count) quads[deep] = load_past_l1(host + at + deep * step);
#pragma unroll
        for (int deep = 0; deep < DEPTH; ++deep)
            if (at + deep * step < count) to[at + deep * step] = quads[deep];
    }
}
__global__ void store(uint4* host, const uint4* from, size_t count) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x; at < count; at += step) store_past_l1(host + at, from[at]);
}

// ---- The pipeline

constexpr int PIECES = 512;
struct Pieces {
    int count;
    uint32_t start[PIECES + 1];  // in units of 16 bytes
};
struct Rank {
    const uint4* input;
    uint4 *output, *arrived, *target;  // `arrived`: two places of a piece; `target`: `places` of them in the peer's part of host memory
    u64 *line, *peer_line;             // what the peers tell: [0] pieces pushed, [8 + place] pieces taken from there
    u64* call;
    uint32_t* pushed;  // by piece: blocks that have finished it; [PIECES]: whole pieces
    int places;
    size_t place;  // in units of 16 bytes
};

__global__ void push_all(Rank rank, const Pieces* pieces) {
    const u64 call = *rank.call << 16;
    for (int piece = 0; piece < pieces->count; ++piece) {
        if (piece >= rank.places) {
            if (threadIdx.x == 0)
                while (told(rank.line + 8 + piece % rank.places) < (call | (piece - rank.places + 1))) __nanosleep(200);
            __syncthreads();
        }
        const uint32_t from = pieces->start[piece], until = pieces->start[piece + 1], step = gridDim.x * blockDim.x;
        uint4* const to = rank.target + (piece % rank.places) * rank.place;
        for (uint32_t at = from + blockIdx.x * blockDim.x + threadIdx.x; at < until; at += step) store_past_l1(to + (at - from), rank.input[at]);
        __syncthreads();
        if (threadIdx.x != 0) continue;
        __threadfence_system();
        if (atomicAdd(rank.pushed + piece, 1) != gridDim.x - 1) continue;
        __threadfence_system();
        tell(rank.peer_line, call | (piece + 1));
        rank.pushed[piece] = 0;
        *(volatile uint32_t*)(rank.pushed + PIECES) = piece + 1;
    }
}
__global__ void await_piece(Rank rank, int piece) {
    if (threadIdx.x != 0) return;
    while (told(rank.line) < (*rank.call << 16 | (piece + 1))) __nanosleep(100);
    while (*(volatile uint32_t*)(rank.pushed + PIECES) < uint32_t(piece + 1)) {}
}
__global__ void add_piece(Rank rank, int piece, const Pieces* pieces) {
    if (blockIdx.x == 0 && threadIdx.x == 0) tell(rank.peer_line + 8 + piece % rank.places, *rank.call << 16 | (piece + 1));
    const uint32_t from = pieces->start[piece], until = pieces->start[piece + 1];
    const uint4* const arrived = rank.arrived + (piece % 2) * rank.place;
    for (uint32_t at = from + blockIdx.x * blockDim.x + threadIdx.x; at < until; at += gridDim.x * blockDim.x) {
        const uint4 ours = rank.input[at], theirs = arrived[at - from];
        rank.output[at] = {ours.x + theirs.x, ours.y + theirs.y, ours.z + theirs.z, ours.w + theirs.w};
    }
}
__global__ void end_call(Rank rank) {
    rank.pushed[PIECES] = 0;
    *rank.call += 1;
}

// ---- The run

char *host, *mapped, *device;
cudaStream_t streams[2];
bool first_row = true;

float median(std::vector<float> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void row(const std::string& way, const std::string& shape, size_t bytes, int ranks, float us) {
    printf("%s\n    {\"way\": \"%s\", \"shape\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"us\": %.1f, \"gb_per_s_each_way\": %.1f}", first_row ? "" : ",",
           way.c_str(), shape.c_str(), ranks, bytes, us, ranks * bytes / us / 1e3);
    fflush(stdout);
    first_row = false;
}

// Both streams at once; `work` enqueues on them.
template <class Work>
float timed(Work work) {
    std::vector<float> all;
    cudaEvent_t start, end, other;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventCreate(&other));
    for (int turn = 0; turn < 9; ++turn) {
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaEventRecord(start, streams[0]));
        CHECK(cudaStreamWaitEvent(streams[1], start));
        work();
        CHECK(cudaEventRecord(other, streams[1]));
        CHECK(cudaStreamWaitEvent(streams[0], other));
        CHECK(cudaEventRecord(end, streams[0]));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, end));
        if (turn >= 2) all.push_back(ms * 1000);
    }
    return median(all);
}

void pipeline(int ranks, size_t bytes, size_t piece, int blocks, int threads, int places) {
    Pieces pieces = {};
    for (size_t at = 0; at < bytes; at += piece) pieces.start[++pieces.count] = std::min(at + piece, bytes) / 16;
    Pieces* shared;
    CHECK(cudaMalloc(&shared, sizeof(Pieces)));
    CHECK(cudaMemcpy(shared, &pieces, sizeof(Pieces), cudaMemcpyHostToDevice));
    memset(host + 2 * ALL, 0, MIB);
    CHECK(cudaMemset(device, 0, MIB));
    cudaGraphExec_t graphs[2];
    cudaEvent_t starts[2], ends[2];
    for (int r = 0; r < ranks; ++r) {
        const int peer = ranks - 1 - r;
        Rank rank = {};
        rank.input = (uint4*)(device + (1 + 64 * r) * MIB);
        rank.output = (uint4*)(device + (129 + 64 * r) * MIB);
        rank.arrived = (uint4*)(device + (257 + 16 * r) * MIB);
        rank.target = (uint4*)(mapped + ALL * peer);
        rank.line = (u64*)(mapped + 2 * ALL + 4096 * r);
        rank.peer_line = (u64*)(mapped + 2 * ALL + 4096 * peer);
        rank.call = (u64*)(device + 4096 * r);
        rank.pushed = (uint32_t*)(device + 65536 * (r + 1));
        rank.places = places;
        rank.place = piece / 16;
        const u64 one = 1;
        CHECK(cudaMemcpy(rank.call, &one, 8, cudaMemcpyHostToDevice));
        // Pieces in turn on two streams: the wait for the next goes on beside the copy of this.
        cudaStream_t turns[2];
        cudaEvent_t fork, join;
        for (auto& turn : turns) CHECK(cudaStreamCreateWithFlags(&turn, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
        CHECK(cudaEventCreate(&starts[r]));
        CHECK(cudaEventCreate(&ends[r]));
        CHECK(cudaStreamBeginCapture(streams[r], cudaStreamCaptureModeThreadLocal));
        CHECK(cudaEventRecord(fork, streams[r]));
        for (auto& turn : turns) CHECK(cudaStreamWaitEvent(turn, fork));
        push_all<<<blocks, threads, 0, streams[r]>>>(rank, shared);
        for (int at = 0; at < pieces.count; ++at) {
            const cudaStream_t turn = turns[at % 2];
            await_piece<<<1, 32, 0, turn>>>(rank, at);
            CHECK(cudaMemcpyAsync(rank.arrived + (at % 2) * rank.place, host + ALL * r + (at % places) * piece,
                                  size_t(pieces.start[at + 1] - pieces.start[at]) * 16, cudaMemcpyHostToDevice, turn));
            add_piece<<<16, 512, 0, turn>>>(rank, at, shared);
        }
        for (auto& turn : turns) {
            CHECK(cudaEventRecord(join, turn));
            CHECK(cudaStreamWaitEvent(streams[r], join));
        }
        end_call<<<1, 1, 0, streams[r]>>>(rank);
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(streams[r], &graph));
        CHECK(cudaGraphInstantiate(&graphs[r], graph, 0));
    }
    std::vector<float> all;
    const int calls = 8;
    for (int turn = 0; turn < 6; ++turn) {
        for (int r = 0; r < ranks; ++r) CHECK(cudaEventRecord(starts[r], streams[r]));
        for (int call = 0; call < calls; ++call)
            for (int r = 0; r < ranks; ++r) CHECK(cudaGraphLaunch(graphs[r], streams[r]));
        for (int r = 0; r < ranks; ++r) CHECK(cudaEventRecord(ends[r], streams[r]));
        float slowest = 0;
        for (int r = 0; r < ranks; ++r) {
            float ms;
            CHECK(cudaEventSynchronize(ends[r]));
            CHECK(cudaEventElapsedTime(&ms, starts[r], ends[r]));
            slowest = std::max(slowest, ms * 1000 / calls);
        }
        if (turn > 0) all.push_back(slowest);
    }
    row("pipeline: kernel up, copy engine down",
        "pieces of " + std::to_string(piece >> 10) + " KiB, " + std::to_string(blocks) + " x " + std::to_string(threads) + ", " + std::to_string(places) + " places",
        bytes, ranks, median(all));
}

int main(int count, char** words) {
    if (count != 2) {
        fprintf(stderr, "usage: link_rates COMMIT > RECORD.json\n");
        return 2;
    }
    cudaDeviceProp gpu;
    CHECK(cudaGetDeviceProperties(&gpu, 0));
    const size_t size = 2 * ALL + MIB;
    // As lanesum's inboxes: shared pages, registered.
    host = (char*)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    memset(host, 0, size);
    CHECK(cudaHostRegister(host, size, cudaHostRegisterMapped | cudaHostRegisterPortable));
    CHECK(cudaHostGetDevicePointer((void**)&mapped, host, 0));
    CHECK(cudaMalloc(&device, 300 * MIB));
    CHECK(cudaMemset(device, 0, 300 * MIB));
    for (auto& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    time_t now = time(nullptr);
    char date[16];
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    printf("{\n  \"command\": \"link_rates %s\",\n  \"commit\": \"%s\",\n  \"date\": \"%s\",\n  \"machine\": {\"gpus\": [\"%s\"]},\n  \"rows\": [", words[1], words[1],
           date, gpu.name);

    const auto copy_up = [](size_t piece) {
        for (size_t at = 0; at < ALL; at += piece) CHECK(cudaMemcpyAsync(host + at, device + at, piece, cudaMemcpyDeviceToHost, streams[0]));
    };
    const auto copy_down = [](size_t piece) {
        for (size_t at = 0; at < ALL; at += piece) CHECK(cudaMemcpyAsync(device + ALL + at, host + ALL + at, piece, cudaMemcpyHostToDevice, streams[1]));
    };
    const auto store_up = [](int blocks) { store<<<blocks, 512, 0, streams[0]>>>((uint4*)mapped, (uint4*)device, ALL / 16); };
    const auto load_down = [](int blocks, int depth) {
        const auto from = (const uint4*)(mapped + ALL);
        const auto to = (uint4*)(device + ALL);
        if (depth == 1) load<1><<<blocks, 512, 0, streams[1]>>>(from, to, ALL / 16);
        if (depth == 4) load<4><<<blocks, 512, 0, streams[1]>>>(from, to, ALL / 16);
    };
    const auto copies = [](size_t piece) { return "copies of " + std::to_string(piece >> 10) + " KiB"; };
    const auto stores = [](int blocks) { return "stores " + std::to_string(blocks) + " x 512"; };
    const auto loads = [](int blocks, int depth) { return "loads " + std::to_string(blocks) + " x 512 x " + std::to_string(depth); };

    for (size_t piece : {ALL, 4 * MIB, 2 * MIB, MIB, MIB / 2, MIB / 4}) {
        row("copy engine up", copies(piece), ALL, 1, timed([&] { copy_up(piece); }));
        row("copy engine down", copies(piece), ALL, 1, timed([&] { copy_down(piece); }));
        row("copy engines both ways", copies(piece), ALL, 1, timed([&] { copy_up(piece), copy_down(piece); }));
    }
    for (int blocks : {2, 4, 16, 32}) row("kernel up", stores(blocks), ALL, 1, timed([&] { store_up(blocks); }));
    for (int blocks : {8, 16, 32})
        for (int depth : {1, 4}) row("kernel down", loads(blocks, depth), ALL, 1, timed([&] { load_down(blocks, depth); }));
    for (int up : {2, 4, 16, 32})
        for (int down : {16, 32})
            for (int depth : {1, 4})
                row("kernels both ways", stores(up) + ", " + loads(down, depth), ALL, 1, timed([&] { store_up(up), load_down(down, depth); }));
    for (int blocks : {2, 4, 16, 32}) row("kernel up, copy engine down", stores(blocks) + ", one copy", ALL, 1, timed([&] { store_up(blocks), copy_down(ALL); }));
    for (int blocks : {8, 16, 32})
        for (int depth : {1, 4})
            row("copy engine up, kernel down", "one copy, " + loads(blocks, depth), ALL, 1, timed([&] { copy_up(ALL), load_down(blocks, depth); }));
    for (int ranks : {1, 2})
        for (size_t bytes : {4 * MIB, 16 * MIB, 64 * MIB})
            for (size_t piece : {MIB / 2, MIB, 2 * MIB, 4 * MIB}) {
                pipeline(ranks, bytes, piece, 4, 256, 4);
                if (bytes == 16 * MIB) pipeline(ranks, bytes, piece, 8, 256, 4), pipeline(ranks, bytes, piece, 4, 256, 8);
            }
    printf("\n  ]\n}\n");
    return 0;
}
