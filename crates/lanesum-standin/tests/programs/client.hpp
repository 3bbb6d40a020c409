// What the test programs ask of the driver, and a small engine of their own: ranks of one or of several processes.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "layout.cuh"

typedef int CUresult;
typedef u64 CUdeviceptr;
struct Context;
struct Stream;
struct Event;
struct Module;
struct Function;
struct Graph;
struct Node;
struct Executable;
struct UserObject;
struct Location { int type, id; };
struct Properties { int type, handles; Location location; void* unused; u8 flags[8]; };
struct Access { Location location; int flags; };
struct IpcHandle { u8 bytes[64]; };
struct LaunchAttribute { unsigned id, padding; alignas(8) int value[16]; };
struct LaunchConfig { unsigned grid[3], block[3], shared_bytes; Stream* stream; const LaunchAttribute* attributes; unsigned count; };

#define API extern "C" CUresult
API cuInit(unsigned);
API cuDeviceGetCount(int*);
API cuDeviceGetUuid_v2(u8*, int);
API cuDeviceGetAttribute(int*, int, int);
API cuDeviceCanAccessPeer(int*, int, int);
API cuDevicePrimaryCtxRetain(Context**, int);
API cuDevicePrimaryCtxRelease_v2(int);
API cuCtxSetCurrent(Context*);
API cuCtxSynchronize();
API cuModuleLoadData(Module**, const void*);
API cuModuleUnload(Module*);
API cuModuleGetFunction(Function**, Module*, const char*);
API cuMemAlloc_v2(CUdeviceptr*, size_t);
API cuMemFree_v2(CUdeviceptr);
API cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t);
API cuMemcpyDtoH_v2(void*, CUdeviceptr, size_t);
API cuMemcpyHtoDAsync_v2(CUdeviceptr, const void*, size_t, Stream*);
API cuMemcpyDtoHAsync_v2(void*, CUdeviceptr, size_t, Stream*);
API cuMemsetD32Async(CUdeviceptr, unsigned, size_t, Stream*);
API cuMemHostAlloc(void**, size_t, unsigned);
API cuMemFreeHost(void*);
API cuMemHostRegister_v2(void*, size_t, unsigned);
API cuMemHostUnregister(void*);
API cuMemHostGetDevicePointer_v2(CUdeviceptr*, void*, unsigned);
API cuStreamCreate(Stream**, unsigned);
API cuStreamDestroy_v2(Stream*);
API cuStreamSynchronize(Stream*);
API cuStreamQuery(Stream*);
API cuStreamIsCapturing(Stream*, int*);
API cuStreamBeginCapture_v2(Stream*, int);
API cuStreamEndCapture(Stream*, Graph**);
API cuStreamGetCaptureInfo_v2(Stream*, int*, unsigned long long*, Graph**, const Node* const**, size_t*);
API cuThreadExchangeStreamCaptureMode(int*);
API cuStreamWaitEvent(Stream*, Event*, unsigned);
API cuEventCreate(Event**, unsigned);
API cuEventDestroy_v2(Event*);
API cuEventRecord(Event*, Stream*);
API cuEventQuery(Event*);
API cuEventSynchronize(Event*);
API cuEventElapsedTime(float*, Event*, Event*);
API cuGraphGetNodes(Graph*, Node**, size_t*);
API cuGraphDestroy(Graph*);
API cuGraphInstantiateWithFlags(Executable**, Graph*, unsigned long long);
API cuGraphLaunch(Executable*, Stream*);
API cuGraphExecDestroy(Executable*);
API cuUserObjectCreate(UserObject**, void*, void (*)(void*), unsigned, unsigned);
API cuUserObjectRelease(UserObject*, unsigned);
API cuGraphRetainUserObject(Graph*, UserObject*, unsigned, unsigned);
API cuLaunchKernelEx(const LaunchConfig*, Function*, void**, void**);
API cuMemGetAllocationGranularity(size_t*, const Properties*, int);
API cuMemCreate(u64*, size_t, const Properties*, u64);
API cuMemRelease(u64);
API cuMemAddressReserve(CUdeviceptr*, size_t, size_t, CUdeviceptr, u64);
API cuMemAddressFree(CUdeviceptr, size_t);
API cuMemMap(CUdeviceptr, size_t, size_t, u64, u64);
API cuMemUnmap(CUdeviceptr, size_t);
API cuMemSetAccess(CUdeviceptr, size_t, const Access*, size_t);
API cuMemExportToShareableHandle(void*, u64, int, u64);
API cuMemImportFromShareableHandle(u64*, void*, int);
API cuIpcGetMemHandle(IpcHandle*, CUdeviceptr);
API cuIpcOpenMemHandle_v2(CUdeviceptr*, IpcHandle, unsigned);
API cuIpcCloseMemHandle(CUdeviceptr);
API cuPointerGetAttribute(void*, int, CUdeviceptr);
API lanesumStandInLeaks(u64*);
#undef API

#define EXPECT(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)
#define EXPECT_CODE(call, code)                                                    \
    do {                                                                           \
        const CUresult got_ = (call);                                              \
        if (got_ != (code)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, got_); \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)
#define OK(call) EXPECT_CODE(call, 0)

// A whole file and a zero byte.
inline std::vector<char> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT(!bytes.empty());
    bytes.push_back(0);
    return bytes;
}

// Memory that others can map.
struct Shared {
    u64 handle = 0;
    CUdeviceptr at = 0;
    size_t bytes = 0;

    // Memory of `device`.
    void make(int device, size_t wanted) {
        const Properties properties = {1, 1, {1, device}, nullptr, {}};
        size_t granularity;
        OK(cuMemGetAllocationGranularity(&granularity, &properties, 0));
        bytes = (wanted + granularity - 1) / granularity * granularity;
        OK(cuMemCreate(&handle, bytes, &properties, 0));
    }
    // Where `device` may touch it.
    void map(int device) {
        OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
        OK(cuMemMap(at, bytes, 0, handle, 0));
        allow(device);
    }
    void allow(int device) {
        const Access access = {{1, device}, 3};
        OK(cuMemSetAccess(at, bytes, &access, 1));
    }
    void drop() {
        OK(cuMemUnmap(at, bytes));
        OK(cuMemAddressFree(at, bytes));
        OK(cuMemRelease(handle));
    }
};

using Attributes = std::vector<LaunchAttribute>;

// `parameter` may be null.
inline CUresult launch(Function* function, unsigned blocks, unsigned threads, Stream* stream, void* parameter,
                       const Attributes& attributes = {}) {
    const LaunchConfig config = {
        {blocks, 1, 1}, {threads, 1, 1}, 0, stream, attributes.data(), static_cast<unsigned>(attributes.size())};
    void* parameters[] = {parameter};
    return cuLaunchKernelEx(&config, function, parameter != nullptr ? parameters : nullptr, nullptr);
}

const u32 LANES = 2, CAPACITY = 64, DIGEST = 7;
// Bytes of a lane in a half of a region, with its header; of a region.
const u32 LANE_BYTES = (1 + CAPACITY) * 16;
const size_t REGION_BYTES = 2 * LANES * LANE_BYTES;

// For lines and areas of chunks, after the regions.
const size_t BULK_BYTES = 16384;

// An element of a rank's input.
inline float value(u32 rank, u64 index) { return static_cast<float>((index * 7 + rank * 3) % 101); }

inline size_t inbox_bytes(u32 world) { return sizeof(Inbox) + world * REGION_BYTES + BULK_BYTES; }

// One rank: everything of it but the peers' inboxes.
struct Rank {
    u32 rank = 0, world = 0;
    int device = 0;
    Context* context = nullptr;
    Module* module = nullptr;
    Stream* stream = nullptr;
    CUdeviceptr local = 0;
    Mapped* mapped = nullptr;
    Shared inbox;
    CUdeviceptr inboxes[LANESUM_WORLD_MAX] = {};
    u64 ticket = 0;
    Attributes attributes;  // of the sums' launches

    void open(u32 of_rank, u32 of_world, int of_device, const std::vector<char>& image) {
        rank = of_rank;
        world = of_world;
        device = of_device;
        OK(cuDevicePrimaryCtxRetain(&context, device));
        OK(cuCtxSetCurrent(context));
        OK(cuModuleLoadData(&module, image.data()));
        OK(cuStreamCreate(&stream, 1));
        OK(cuMemAlloc_v2(&local, sizeof(Local)));
        OK(cuMemHostAlloc(reinterpret_cast<void**>(&mapped), sizeof(Mapped), 3));
        std::memset(static_cast<void*>(mapped), 0, sizeof *mapped);
        mapped->deadline_ns = 20000000000ull;
        std::vector<u8> start(sizeof(Local));
        // Tag 0 is what fresh memory has.
        for (Lane& lane : reinterpret_cast<Local*>(start.data())->lanes) lane.word = 2;
        OK(cuMemcpyHtoD_v2(local, start.data(), start.size()));
        inbox.make(device, inbox_bytes(world));
        inbox.map(device);
        inboxes[rank] = inbox.at;
    }

    void close() {
        OK(cuCtxSetCurrent(context));
        inbox.drop();
        OK(cuMemFree_v2(local));
        OK(cuMemFreeHost(mapped));
        OK(cuStreamDestroy_v2(stream));
        OK(cuModuleUnload(module));
        OK(cuDevicePrimaryCtxRelease_v2(device));
    }

    Function* function(const char* name) {
        Function* found;
        OK(cuModuleGetFunction(&found, module, name));
        return found;
    }

    Function* sum(const char* kind) {
        return function(("one_shot_push_w" + std::to_string(world) + "_" + kind).c_str());
    }

    // Of the frames of leaf `from`, in the inbox of `owner`.
    u8* region(u32 owner, u32 from) {
        return reinterpret_cast<u8*>(inboxes[owner] + offsetof(Inbox, data) + REGION_BYTES * from);
    }

    // Of so many units in one lane or two, all of which are taken for ones that lie anywhere.
    Launch call(CUdeviceptr input, CUdeviceptr output, u64 elements, u64 units, u32 lanes) {
        Launch launch = {};
        launch.input = reinterpret_cast<const u8*>(input);
        launch.output = reinterpret_cast<u8*>(output);
        launch.elements = elements;
        launch.frames = units;
        launch.share = static_cast<u32>((units + lanes - 1) / lanes);
        launch.tail = static_cast<u32>(units) - (lanes - 1) * launch.share;
        launch.half_bytes = LANES * LANE_BYTES;
        launch.lane_bytes = LANE_BYTES;
        launch.ticket = ++ticket;
        launch.digest = DIGEST;
        launch.canonical = 1;
        launch.rank = launch.position = rank;
        launch.lanes = LANES;
        launch.capacity = CAPACITY;
        launch.order = 0x0706050403020100ull;
        launch.local = reinterpret_cast<Local*>(local);
        launch.mapped = mapped;
        for (u32 peer = 0; peer < world; ++peer) {
            launch.inboxes[peer] = reinterpret_cast<Inbox*>(inboxes[peer]);
            launch.targets[peer] = region(peer, rank);
            launch.sources[peer] = region(rank, peer);
        }
        return launch;
    }

    CUresult start(Function* kernel, CUdeviceptr input, CUdeviceptr output, u64 elements, u64 frames) {
        Launch launch = call(input, output, elements, frames, LANES);
        OK(cuCtxSetCurrent(context));
        return ::launch(kernel, LANES, 8, stream, &launch, attributes);
    }

    void prove(u64 nonce) {
        OK(try_to_prove(nonce));
    }

    CUresult try_to_prove(u64 nonce) {
        Notice notice = {};
        notice.nonce = nonce;
        notice.rank = rank;
        notice.world = world;
        for (u32 peer = 0; peer < world; ++peer) notice.inboxes[peer] = reinterpret_cast<Inbox*>(inboxes[peer]);
        OK(cuCtxSetCurrent(context));
        OK(launch(function("lanesum_prove"), 1, 32, stream, &notice));
        return cuStreamSynchronize(stream);
    }
};

// Ranks as devices of one process, whose inboxes all of them may touch.
inline std::vector<Rank> ranks_here(u32 world, const std::vector<char>& image) {
    OK(cuInit(0));
    std::vector<Rank> ranks(world);
    for (u32 rank = 0; rank < world; ++rank) ranks[rank].open(rank, world, static_cast<int>(rank), image);
    for (Rank& writer : ranks) {
        for (Rank& owner : ranks) {
            if (writer.rank == owner.rank) continue;
            owner.inbox.allow(writer.device);
            writer.inboxes[owner.rank] = owner.inbox.at;
        }
    }
    return ranks;
}
