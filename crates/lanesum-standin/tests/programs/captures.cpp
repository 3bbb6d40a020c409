// What the driver permits and refuses while streams capture. Needs no kernel, so that it runs with the real driver as well and
// tells there where the stand-in is another: `captures`, on the first device.
#include <thread>

#include "client.hpp"

namespace {

enum Mode : int { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };
const unsigned BLOCKING = 0, NON_BLOCKING = 1;

int others = 0;

// Goes on after what is not so: every difference is wanted.
#define RULE(call, code)                                                                                \
    do {                                                                                                \
        const CUresult got_ = (call);                                                                   \
        if (got_ != (code)) {                                                                           \
            std::fprintf(stderr, "%s:%d: %s gave %d, not %d\n", __FILE__, __LINE__, #call, got_, code); \
            ++others;                                                                                   \
        }                                                                                               \
    } while (0)
#define SO(condition)                                                                       \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
            ++others;                                                                       \
        }                                                                                   \
    } while (0)

CUdeviceptr memory;

// Two streams, the first of which captures, and two events.
struct Scene {
    Stream *first, *second;
    Event *early, *late;

    explicit Scene(int mode = THREAD_LOCAL, unsigned flags = NON_BLOCKING) {
        OK(cuStreamCreate(&first, flags));
        OK(cuStreamCreate(&second, flags));
        OK(cuEventCreate(&early, 2));
        OK(cuEventCreate(&late, 2));
        OK(cuStreamBeginCapture_v2(first, mode));
    }
    ~Scene() {
        OK(cuEventDestroy_v2(early));
        OK(cuEventDestroy_v2(late));
        OK(cuStreamDestroy_v2(first));
        OK(cuStreamDestroy_v2(second));
    }
    CUresult fill(Stream* stream) { return cuMemsetD32Async(memory, 1, 16, stream); }
    int status(Stream* stream) {
        int got = -1;
        RULE(cuStreamIsCapturing(stream, &got), 0);
        return got;
    }
    // The capture ends with this code, and has a graph only with 0.
    void ends(CUresult code) {
        Graph* graph = reinterpret_cast<Graph*>(8);
        RULE(cuStreamEndCapture(first, &graph), code);
        SO((graph == nullptr) == (code != 0));
        if (code == 0 && graph != nullptr) RULE(cuGraphDestroy(graph), 0);
        SO(status(first) == 0 && status(second) == 0);
    }
    void invalid() {
        SO(status(first) == 2);
        RULE(fill(first), 901);
        RULE(cuEventRecord(early, first), 901);
        ends(901);
    }
    // The second stream takes part.
    void fork() {
        RULE(fill(first), 0);
        RULE(cuEventRecord(early, first), 0);
        RULE(cuStreamWaitEvent(second, early, 0), 0);
        RULE(fill(second), 0);
    }
};

void information() {
    Scene scene;
    int status;
    unsigned long long id = 0, again = 0;
    Graph* graph = nullptr;
    const Node* const* nodes;
    size_t count = 9;
    RULE(cuStreamGetCaptureInfo_v2(scene.second, &status, &id, nullptr, nullptr, nullptr), 0);
    SO(status == 0);
    RULE(cuStreamGetCaptureInfo_v2(scene.first, &status, &id, &graph, &nodes, &count), 0);
    SO(status == 1 && id != 0 && graph != nullptr && count == 0);
    scene.fork();
    RULE(cuStreamGetCaptureInfo_v2(scene.second, &status, &again, nullptr, &nodes, &count), 0);
    SO(status == 1 && again == id && count == 1);
    RULE(cuEventRecord(scene.late, scene.second), 0);
    RULE(cuStreamWaitEvent(scene.first, scene.late, 0), 0);
    RULE(cuStreamGetCaptureInfo_v2(scene.first, &status, nullptr, nullptr, &nodes, &count), 0);
    SO(count == 2);
    scene.ends(0);
    RULE(cuStreamBeginCapture_v2(scene.first, THREAD_LOCAL), 0);
    RULE(cuStreamGetCaptureInfo_v2(scene.first, &status, &again, nullptr, nullptr, nullptr), 0);
    SO(again != id);
    scene.ends(0);
}

void beginnings_and_ends() {
    Graph* graph;
    RULE(cuStreamBeginCapture_v2(nullptr, THREAD_LOCAL), 900);
    Scene scene;
    RULE(cuStreamBeginCapture_v2(scene.first, THREAD_LOCAL), 401);
    RULE(cuStreamEndCapture(scene.second, &graph), 401);
    RULE(scene.fill(scene.first), 0);
    scene.ends(0);

    Scene unmatched;
    unmatched.fork();
    RULE(cuStreamEndCapture(unmatched.second, &graph), 903);
    unmatched.invalid();

    Scene unjoined;
    unjoined.fork();
    unjoined.ends(904);

    Scene elsewhere;
    Context* context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    std::thread([&] {
        OK(cuCtxSetCurrent(context));
        RULE(cuStreamEndCapture(elsewhere.first, &graph), 908);
    }).join();
    elsewhere.ends(0);

    Scene relaxed(RELAXED);
    std::thread([&] {
        OK(cuCtxSetCurrent(context));
        relaxed.ends(0);
    }).join();
    OK(cuDevicePrimaryCtxRelease_v2(0));
}

void waits() {
    Scene synchronized;
    RULE(cuStreamSynchronize(synchronized.first), 900);
    synchronized.invalid();
    Scene queried;
    RULE(cuStreamQuery(queried.first), 900);
    queried.invalid();
    Scene context;
    RULE(cuCtxSynchronize(), 900);
    context.invalid();

    Scene events;
    RULE(cuEventRecord(events.early, events.first), 0);
    RULE(cuEventQuery(events.early), 907);
    RULE(cuEventSynchronize(events.early), 907);
    events.ends(0);
    RULE(cuEventQuery(events.early), 907);
    // Recorded outside again, it is like any other.
    RULE(cuEventRecord(events.early, events.first), 0);
    RULE(cuEventSynchronize(events.early), 0);
}

// Dependencies on what is not part of the capture.
void boundaries() {
    Scene inward;
    RULE(cuStreamWaitEvent(inward.first, inward.late, 0), 0);  // never recorded
    RULE(cuEventRecord(inward.early, inward.second), 0);
    RULE(cuStreamWaitEvent(inward.first, inward.early, 0), 905);
    inward.invalid();

    // Its capture has ended.
    Scene outlived;
    outlived.fork();
    RULE(cuEventRecord(outlived.late, outlived.second), 0);
    RULE(cuStreamWaitEvent(outlived.first, outlived.late, 0), 0);
    outlived.ends(0);
    RULE(cuStreamWaitEvent(outlived.second, outlived.late, 0), 1);
    SO(outlived.status(outlived.second) == 0);

    Scene broken;
    RULE(cuEventRecord(broken.early, broken.first), 0);
    RULE(cuStreamQuery(broken.first), 900);
    RULE(cuStreamWaitEvent(broken.second, broken.early, 0), 1);
    broken.invalid();

    Scene one, two;
    RULE(cuEventRecord(one.early, one.first), 0);
    RULE(cuStreamWaitEvent(two.first, one.early, 0), 902);
    one.invalid();
    two.invalid();

    Scene null;
    RULE(cuEventRecord(null.early, null.first), 0);
    RULE(cuStreamWaitEvent(nullptr, null.early, 0), 900);
    null.invalid();
}

// The NULL stream would wait for blocking streams, and only for those.
void null_stream() {
    int status;
    Scene apart;
    RULE(apart.fill(nullptr), 0);
    RULE(cuStreamIsCapturing(nullptr, &status), 0);
    apart.ends(0);
    Scene blocking(THREAD_LOCAL, BLOCKING);
    RULE(cuStreamIsCapturing(nullptr, &status), 906);
    SO(blocking.status(blocking.first) == 1);
    RULE(blocking.fill(nullptr), 906);
    blocking.invalid();
}

// What may wait for the device is refused to a thread that captures, unless it says that it knows.
void unsafe_calls() {
    CUdeviceptr more = 0;
    int mode = RELAXED;
    Scene own;
    RULE(cuMemAlloc_v2(&more, 64), 900);
    own.invalid();
    Scene queries;
    RULE(cuEventRecord(queries.early, queries.second), 0);
    RULE(cuEventQuery(queries.early), 900);
    queries.invalid();
    Scene streams;
    RULE(cuStreamSynchronize(streams.second), 900);
    streams.invalid();
    Scene copies;
    u32 word = 0;
    RULE(cuMemcpyDtoH_v2(&word, memory, 4), 900);
    copies.invalid();
    Scene pageable;
    RULE(cuMemcpyHtoDAsync_v2(memory, &word, 4, pageable.first), 900);
    pageable.invalid();

    Scene known;
    RULE(cuThreadExchangeStreamCaptureMode(&mode), 0);
    SO(mode == GLOBAL);
    RULE(cuMemAlloc_v2(&more, 64), 0);
    RULE(cuMemFree_v2(more), 0);
    RULE(cuThreadExchangeStreamCaptureMode(&mode), 0);
    known.ends(0);

    // Other threads are held up by a global capture only.
    Context* context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    for (const int captured : {GLOBAL, THREAD_LOCAL}) {
        Scene scene(captured);
        std::thread([&] {
            OK(cuCtxSetCurrent(context));
            RULE(cuMemAlloc_v2(&more, 64), (captured == GLOBAL ? 900 : 0));
        }).join();
        scene.ends(captured == GLOBAL ? 901 : 0);
    }
    OK(cuMemFree_v2(more));
    OK(cuDevicePrimaryCtxRelease_v2(0));
}

// What is permitted anywhere.
void safe_calls() {
    Scene scene;
    Event* event;
    Stream* stream;
    OK(cuEventCreate(&event, 0));
    OK(cuStreamCreate(&stream, 1));
    RULE(cuEventRecord(event, stream), 0);
    RULE(scene.fill(stream), 0);
    RULE(scene.fill(scene.first), 0);
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
    scene.ends(0);
    // A stream that is destroyed takes its capture along; a forked one spoils it.
    OK(cuStreamCreate(&stream, 1));
    RULE(cuStreamBeginCapture_v2(stream, THREAD_LOCAL), 0);
    RULE(scene.fill(stream), 0);
    RULE(cuStreamDestroy_v2(stream), 0);
    RULE(cuStreamSynchronize(scene.first), 0);
}

void launches() {
    Scene scene;
    Graph* graph;
    Executable* run;
    RULE(scene.fill(scene.first), 0);
    RULE(cuStreamEndCapture(scene.first, &graph), 0);
    RULE(cuGraphInstantiateWithFlags(&run, graph, 0), 0);
    RULE(cuGraphInstantiateWithFlags(&run, graph, 1ull << 40), 1);
    RULE(cuGraphLaunch(run, nullptr), 0);
    RULE(cuGraphLaunch(run, scene.first), 0);
    RULE(cuGraphDestroy(graph), 0);
    RULE(cuGraphLaunch(run, scene.first), 0);
    RULE(cuGraphExecDestroy(run), 0);
    RULE(cuCtxSynchronize(), 0);
}

}  // namespace

int main() {
    Context* context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, 64));
    information();
    beginnings_and_ends();
    waits();
    boundaries();
    null_stream();
    unsafe_calls();
    safe_calls();
    launches();
    OK(cuMemFree_v2(memory));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    std::puts(others == 0 ? "well" : "other");
    return others == 0 ? 0 : 1;
}
