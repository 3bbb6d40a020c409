// Cases with graphs. What is captured when, and what is refused, stands in captures.cpp beside this.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

#include "client.hpp"

namespace {

const int THREAD_LOCAL = 1;
const size_t WORDS = 64;

Executable* instance(Graph* graph) {
    Executable* made;
    OK(cuGraphInstantiateWithFlags(&made, graph, 0));
    return made;
}

// The graph, in exchange for an executable.
Executable* executable(Graph* graph) {
    Executable* const made = instance(graph);
    OK(cuGraphDestroy(graph));
    return made;
}

size_t nodes(Graph* graph) {
    size_t count = 0;
    OK(cuGraphGetNodes(graph, nullptr, &count));
    std::vector<Node*> all(count + 1);
    size_t filled = all.size();
    OK(cuGraphGetNodes(graph, all.data(), &filled));
    EXPECT(filled == count && all[count] == nullptr);
    return count;
}

CUdeviceptr words() {
    CUdeviceptr made;
    OK(cuMemAlloc_v2(&made, WORDS * 4));
    return made;
}

void expect_words(CUdeviceptr at, u32 wanted) {
    u32 all[WORDS];
    OK(cuMemcpyDtoH_v2(all, at, sizeof all));
    for (const u32 word : all) EXPECT(word == wanted);
}

Graph* fills(Stream* stream, CUdeviceptr at, u32 word) {
    Graph* graph;
    OK(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    OK(cuMemsetD32Async(at, word, WORDS, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

Stream* non_blocking() {
    Stream* made;
    OK(cuStreamCreate(&made, 1));
    return made;
}

Event* event() {
    Event* made;
    OK(cuEventCreate(&made, 2));
    return made;
}

// A stream that stands still until somebody says so: rank 0 of two waits there for the other.
struct Gate {
    std::vector<Rank>& ranks;
    CUdeviceptr buffers[2];
    Event* passed;

    explicit Gate(std::vector<Rank>& of) : ranks(of) {
        for (Rank& rank : ranks) {
            OK(cuCtxSetCurrent(rank.context));
            buffers[rank.rank] = words();
        }
        start(0);
        passed = event();
        OK(cuEventRecord(passed, ranks[0].stream));
    }
    void start(u32 rank) { OK(ranks[rank].start(ranks[rank].sum("f32_sum"), buffers[rank], buffers[rank], 64, 64)); }
    void open() {
        start(1);
        OK(cuCtxSetCurrent(ranks[0].context));
    }
};

std::atomic<int> destroyed{0};
std::atomic<CUresult> inside{0};

void destroy(void* pointer) {
    inside = cuStreamQuery(nullptr);
    destroyed += *static_cast<int*>(pointer);
}

// Once, and from a thread of the driver's that may not call it.
void expect_destroyed(int wanted) {
    for (int tries = 0; destroyed != wanted && tries < 500; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT(destroyed == wanted && inside == 800);
}

int one = 1;

UserObject* object(unsigned count) {
    UserObject* made;
    OK(cuUserObjectCreate(&made, &one, destroy, count, 1));
    return made;
}

// Kernels of all ranks and copies of their results, over again with other inputs.
void replays(std::vector<Rank>& ranks) {
    const u64 count = 1000;
    struct Own {
        CUdeviceptr input, output;
        float* result;
        Executable* graph;
    } own[2];
    for (Rank& rank : ranks) {
        Own& mine = own[rank.rank];
        Graph* graph;
        OK(cuCtxSetCurrent(rank.context));
        OK(cuMemAlloc_v2(&mine.input, count * 4));
        OK(cuMemAlloc_v2(&mine.output, count * 4));
        OK(cuMemHostAlloc(reinterpret_cast<void**>(&mine.result), count * 4, 0));
        OK(cuStreamBeginCapture_v2(rank.stream, THREAD_LOCAL));
        OK(rank.start(rank.sum("f32_sum"), mine.input, mine.output, count, count));
        OK(cuMemcpyDtoHAsync_v2(mine.result, mine.output, count * 4, rank.stream));
        OK(cuStreamEndCapture(rank.stream, &graph));
        EXPECT(nodes(graph) == 2);
        mine.graph = executable(graph);
    }
    std::vector<float> input(count);
    for (u64 round = 0; round < 5; ++round) {
        for (Rank& rank : ranks) {
            for (u64 index = 0; index < count; ++index) input[index] = value(rank.rank, index + round);
            OK(cuCtxSetCurrent(rank.context));
            OK(cuMemcpyHtoD_v2(own[rank.rank].input, input.data(), count * 4));
            OK(cuGraphLaunch(own[rank.rank].graph, rank.stream));
        }
        for (Rank& rank : ranks) {
            OK(cuCtxSetCurrent(rank.context));
            OK(cuStreamSynchronize(rank.stream));
            for (u64 index = 0; index < count; ++index) {
                EXPECT(own[rank.rank].result[index] == value(0, index + round) + value(1, index + round));
            }
        }
    }
    for (Own& mine : own) {
        OK(cuGraphExecDestroy(mine.graph));
        OK(cuMemFree_v2(mine.input));
        OK(cuMemFree_v2(mine.output));
        OK(cuMemFreeHost(mine.result));
    }
}

// A second stream takes part between two events; each fill lies over the one before.
void forks(Rank& rank) {
    Stream* const side = non_blocking();
    Event *const forked = event(), *const joined = event();
    const CUdeviceptr main = words(), other = words();
    Graph* graph;
    int status;
    OK(cuStreamBeginCapture_v2(rank.stream, THREAD_LOCAL));
    OK(cuMemsetD32Async(main, 1, WORDS, rank.stream));
    OK(cuEventRecord(forked, rank.stream));
    OK(cuStreamWaitEvent(side, forked, 0));
    OK(cuStreamIsCapturing(side, &status));
    EXPECT(status == 1);
    OK(cuMemsetD32Async(main, 2, WORDS, side));
    OK(cuMemsetD32Async(other, 3, WORDS, side));
    OK(cuEventRecord(joined, side));
    OK(cuStreamWaitEvent(rank.stream, joined, 0));
    OK(cuMemsetD32Async(other, 4, WORDS, rank.stream));
    OK(cuStreamEndCapture(rank.stream, &graph));
    OK(cuStreamIsCapturing(side, &status));
    EXPECT(status == 0 && nodes(graph) == 4);
    Executable* const run = executable(graph);
    OK(cuMemsetD32Async(main, 9, WORDS, rank.stream));
    OK(cuStreamSynchronize(rank.stream));
    expect_words(main, 9);
    OK(cuGraphLaunch(run, rank.stream));
    OK(cuStreamSynchronize(rank.stream));
    expect_words(main, 2);
    expect_words(other, 4);
    OK(cuGraphExecDestroy(run));
    OK(cuEventDestroy_v2(forked));
    OK(cuEventDestroy_v2(joined));
    OK(cuStreamDestroy_v2(side));
    OK(cuMemFree_v2(main));
    OK(cuMemFree_v2(other));
}

// One executable waits for its own last launch on another stream; another one of the same graph does not.
void at_once(std::vector<Rank>& ranks) {
    Gate gate(ranks);
    Stream *const behind = non_blocking(), *const free = non_blocking(), *const second = non_blocking();
    const CUdeviceptr at = words();
    Graph* const graph = fills(free, at, 5);
    Executable *const one = instance(graph), *const two = executable(graph);
    OK(cuStreamWaitEvent(behind, gate.passed, 0));
    OK(cuGraphLaunch(one, behind));
    OK(cuGraphLaunch(two, free));
    OK(cuStreamSynchronize(free));
    OK(cuGraphLaunch(one, second));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_CODE(cuStreamQuery(second), 600);
    gate.open();
    OK(cuStreamSynchronize(second));
    // What `second` waited for has completed.
    OK(cuStreamQuery(behind));
    expect_words(at, 5);
}

// Everything is destroyed while the launch has not begun; it runs all the same.
void in_flight(std::vector<Rank>& ranks) {
    u64 before[4], after[4];
    Gate gate(ranks);
    Stream* const stream = non_blocking();
    const CUdeviceptr at = words();
    lanesumStandInLeaks(before);
    Graph* const graph = fills(stream, at, 6);
    OK(cuGraphRetainUserObject(graph, object(1), 1, 1));
    Executable* const run = executable(graph);
    OK(cuStreamWaitEvent(stream, gate.passed, 0));
    OK(cuGraphLaunch(run, stream));
    OK(cuGraphExecDestroy(run));
    EXPECT_CODE(cuGraphLaunch(run, stream), 1);
    lanesumStandInLeaks(after);
    EXPECT(after[2] == before[2] + 1 && destroyed == 0);
    gate.open();
    OK(cuStreamSynchronize(stream));
    expect_words(at, 6);
    expect_destroyed(1);
    lanesumStandInLeaks(after);
    EXPECT(after[2] == before[2]);
}

// References of the caller, of a graph, of an executable, and of captures that come to nothing.
void objects(Rank& rank) {
    u64 before[4], after[4];
    const CUdeviceptr at = words();
    lanesumStandInLeaks(before);
    UserObject* unused;
    EXPECT_CODE(cuUserObjectCreate(&unused, &one, destroy, 1, 0), 1);
    UserObject* const kept = object(2);
    Graph* graph = fills(rank.stream, at, 1);
    OK(cuGraphRetainUserObject(graph, kept, 1, 1));
    OK(cuGraphRetainUserObject(graph, kept, 1, 0));
    Executable* const run = executable(graph);
    EXPECT_CODE(cuUserObjectRelease(kept, 2), 1);
    OK(cuUserObjectRelease(kept, 1));
    OK(cuGraphLaunch(run, rank.stream));
    OK(cuStreamSynchronize(rank.stream));
    EXPECT(destroyed == 0);
    OK(cuGraphExecDestroy(run));
    expect_destroyed(1);
    EXPECT_CODE(cuUserObjectRelease(kept, 1), 1);

    Stream* stream = non_blocking();
    int status;
    OK(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    OK(cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr));
    OK(cuGraphRetainUserObject(graph, object(1), 1, 1));
    EXPECT_CODE(cuGraphDestroy(graph), 1);
    EXPECT_CODE(cuStreamSynchronize(stream), 900);
    EXPECT(destroyed == 1);
    EXPECT_CODE(cuStreamEndCapture(stream, &graph), 901);
    EXPECT(graph == nullptr);
    expect_destroyed(2);

    OK(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    OK(cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr));
    OK(cuGraphRetainUserObject(graph, object(1), 1, 1));
    OK(cuStreamDestroy_v2(stream));
    expect_destroyed(3);
    OK(cuMemFree_v2(at));
    lanesumStandInLeaks(after);
    EXPECT(after[2] == before[2]);
}

Executable* captured_sum(Rank& rank, CUdeviceptr at) {
    Graph* graph;
    Function* const sum = rank.sum("f32_sum");
    OK(cuStreamBeginCapture_v2(rank.stream, THREAD_LOCAL));
    // Refused as in a stream that does not capture, and nothing of the capture is lost.
    EXPECT_CODE(launch(sum, 0, 8, rank.stream, nullptr), 1);
    OK(rank.start(sum, at, at, 64, 64));
    OK(cuStreamEndCapture(rank.stream, &graph));
    return executable(graph);
}

// Replays count as executions of their kernels.
void fails(Rank& rank) {
    Executable* const run = captured_sum(rank, words());
    OK(cuGraphLaunch(run, rank.stream));
    OK(cuStreamSynchronize(rank.stream));
    OK(cuGraphLaunch(run, rank.stream));
    EXPECT_CODE(cuStreamSynchronize(rank.stream), 719);
    EXPECT_CODE(cuGraphLaunch(run, rank.stream), 719);
}

void unloaded(Rank& rank) {
    Executable* const run = captured_sum(rank, words());
    OK(cuModuleUnload(rank.module));
    OK(cuGraphLaunch(run, rank.stream));
    EXPECT_CODE(cuStreamSynchronize(rank.stream), 700);
}

void graphs(const std::vector<char>& image, const std::string& what) {
    const bool two = what == "replays" || what == "at_once" || what == "in_flight";
    std::vector<Rank> ranks = ranks_here(two ? 2 : 1, image);
    OK(cuCtxSetCurrent(ranks[0].context));
    if (what == "replays") replays(ranks);
    else if (what == "forks") forks(ranks[0]);
    else if (what == "at_once") at_once(ranks);
    else if (what == "in_flight") in_flight(ranks);
    else if (what == "objects") objects(ranks[0]);
    else if (what == "fails") fails(ranks[0]);
    else if (what == "unloaded") unloaded(ranks[0]);
    else EXPECT(!"a case");
    if (what != "replays" && what != "forks") return;
    for (Rank& rank : ranks) rank.close();
    u64 left[4];
    lanesumStandInLeaks(left);
    for (const u64 one_kind : left) EXPECT(one_kind == 0);
}

}  // namespace
