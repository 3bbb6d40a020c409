// Runs the real kernels on the stand-in: `smoke CASE IMAGE [ARGUMENT]`, where the image is of the world size that the case wants.
#include <chrono>
#include <cmath>
#include <dlfcn.h>
#include <sstream>
#include <thread>

#include "graphs.hpp"
#include "processes.hpp"
#include "registered.hpp"
#include "stalled.hpp"

namespace {

// One f32 sum of `count` elements at an offset of so many bytes, with all ranks here.
void sum_here(std::vector<Rank>& ranks, u64 count, u64 offset) {
    const u64 bytes = count * 4 + offset;
    std::vector<CUdeviceptr> buffers(ranks.size());
    for (Rank& rank : ranks) {
        OK(cuCtxSetCurrent(rank.context));
        OK(cuMemAlloc_v2(&buffers[rank.rank], bytes));
        std::vector<u8> input(bytes);
        for (u64 index = 0; index < count; ++index) {
            const float element = value(rank.rank, index);
            std::memcpy(&input[offset + index * 4], &element, 4);
        }
        OK(cuMemcpyHtoD_v2(buffers[rank.rank], input.data(), bytes));
        OK(rank.start(rank.sum("f32_sum"), buffers[rank.rank] + offset, buffers[rank.rank] + offset, count, count));
        // The others have not begun.
        if (rank.rank == 0 && ranks.size() > 1) EXPECT_CODE(cuStreamQuery(rank.stream), 600);
    }
    for (Rank& rank : ranks) {
        OK(cuCtxSetCurrent(rank.context));
        OK(cuStreamSynchronize(rank.stream));
        std::vector<u8> output(bytes);
        OK(cuMemcpyDtoH_v2(output.data(), buffers[rank.rank], bytes));
        for (u64 index = 0; index < count; ++index) {
            float got, wanted = 0;
            std::memcpy(&got, &output[offset + index * 4], 4);
            for (u32 peer = 0; peer < ranks.size(); ++peer) wanted += value(peer, index);
            EXPECT(got == wanted);
        }
        EXPECT(rank.mapped->record.state == EMPTY);
        EXPECT(static_cast<u32>(rank.mapped->echo) == rank.ticket);
        OK(cuMemFree_v2(buffers[rank.rank]));
    }
}

void sums(const std::vector<char>& image, u32 world) {
    u64 before[4], after[4];
    std::vector<Rank> ranks = ranks_here(world, image);
    lanesumStandInLeaks(before);
    for (const u64 count : {1, 2, 31, 129, 1000, 4097}) {
        for (const u64 offset : {0, 1, 2}) sum_here(ranks, count, offset);
    }
    lanesumStandInLeaks(after);
    EXPECT(std::memcmp(before, after, sizeof before) == 0);
    EXPECT(before[0] != 0 && before[1] != 0 && before[2] == world && before[3] == world);
    for (Rank& rank : ranks) rank.close();
    lanesumStandInLeaks(after);
    for (const u64 left : after) EXPECT(left == 0);
}

// 16-bit elements: 1 + 2^-11 is a tie in f16, and goes to even.
void halves(const std::vector<char>& image) {
    std::vector<Rank> ranks = ranks_here(2, image);
    const u16 inputs[2][3] = {{0x3C00, 0x3C00, 0x8001}, {0x1000, 0x7C01, 0x0003}};
    const u16 wanted[3] = {0x3C00, 0x7E00, 0x0002};
    CUdeviceptr buffers[2];
    for (Rank& rank : ranks) {
        OK(cuCtxSetCurrent(rank.context));
        OK(cuMemAlloc_v2(&buffers[rank.rank], 6));
        OK(cuMemcpyHtoD_v2(buffers[rank.rank], inputs[rank.rank], 6));
        OK(rank.start(rank.sum("f16_sum"), buffers[rank.rank], buffers[rank.rank], 3, 2));
    }
    for (Rank& rank : ranks) {
        u16 output[3];
        OK(cuCtxSetCurrent(rank.context));
        OK(cuStreamSynchronize(rank.stream));
        OK(cuMemcpyDtoH_v2(output, buffers[rank.rank], 6));
        EXPECT(std::memcmp(output, wanted, 6) == 0);
    }
}

void bounds(const std::vector<char>& image) {
    std::vector<Rank> ranks = ranks_here(1, image);
    Rank& rank = ranks[0];
    CUdeviceptr input, output;
    OK(cuMemAlloc_v2(&input, 400));
    OK(cuMemAlloc_v2(&output, 396));
    EXPECT_CODE(cuMemcpyHtoD_v2(output, image.data(), 397), 1);
    OK(rank.start(rank.sum("f32_sum"), input, output, 100, 100));
    EXPECT_CODE(cuStreamSynchronize(rank.stream), 700);
    EXPECT_CODE(cuStreamQuery(rank.stream), 700);
    EXPECT_CODE(cuMemAlloc_v2(&input, 4), 700);
    EXPECT_CODE(cuCtxSynchronize(), 700);
}

u64 proof_word(u64 nonce, u32 from, u32 to, u32 index) {
    u64 word = nonce + (static_cast<u64>(from) << 40 | static_cast<u64>(to) << 32 | index) * 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    return word ^ word >> 27;
}

// How many words of a rank's proof have reached the other's inbox, which the owner's device or the host reads: whole ones, and
// low halves alone.
void arrived(Rank& owner, u64 nonce, u32* whole, u32* torn) {
    OK(cuCtxSetCurrent(owner.context));
    const u32 from = 1 - owner.rank;
    std::vector<u64> words(LANESUM_PROOF_WORDS);
    const CUdeviceptr at = owner.inboxes[owner.rank] + offsetof(Inbox, proof) + from * LANESUM_PROOF_WORDS * 8;
    OK(cuMemcpyDtoH_v2(words.data(), at, words.size() * 8));
    *whole = *torn = 0;
    for (u32 index = 0; index < LANESUM_PROOF_WORDS; ++index) {
        const u64 wanted = proof_word(nonce, from, owner.rank, index);
        *whole += words[index] == wanted;
        *torn += words[index] == static_cast<u32>(wanted);
    }
}

// Rank 0 lies to rank 1.
void prove_both(std::vector<Rank>& ranks, const std::string& kind) {
    u32 whole, torn;
    ranks[0].prove(99);
    arrived(ranks[1], 99, &whole, &torn);
    const u32 all = LANESUM_PROOF_WORDS;
    EXPECT(whole == (kind == "none" ? all : 0));
    EXPECT(torn == (kind == "tear" ? all : 0));
    // What is delayed comes after all; nothing else changes in that time.
    for (int tries = 0; tries < (kind == "delay" ? 2000 : 70) && whole != all; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        arrived(ranks[1], 99, &whole, &torn);
    }
    EXPECT(whole == (kind == "none" || kind == "delay" ? all : 0));
    // The other direction tells the truth.
    ranks[1].prove(5);
    arrived(ranks[0], 5, &whole, &torn);
    EXPECT(whole == all);
}

void lies(const std::vector<char>& image, const std::string& kind) {
    std::vector<Rank> ranks = ranks_here(2, image);
    prove_both(ranks, kind);
}

// The same through memory of the host, which each rank has mapped and registered for itself.
void registered(const std::vector<char>& image, const std::string& kind) {
    std::vector<Rank> ranks = ranks_here(2, image);
    Pages pages(inbox_bytes(2), 2);
    for (Rank& rank : ranks) pages.let_in(rank);
    prove_both(ranks, kind);
    if (kind == "none") sum_here(ranks, 1000, 1);
    u64 before[4], after[4];
    lanesumStandInLeaks(before);
    for (Rank& rank : ranks) pages.put_out(rank);
    lanesumStandInLeaks(after);
    EXPECT(before[3] == after[3] + 2 && std::memcmp(before, after, 3 * sizeof(u64)) == 0);
    // What is not registered any more is no place for a device.
    EXPECT_CODE(ranks[1].try_to_prove(1), 700);
}

// Nothing of rank 0 reaches rank 1, which gives up; and tells rank 0 truthfully.
void unheard(const std::vector<char>& image) {
    std::vector<Rank> ranks = ranks_here(2, image);
    for (Rank& rank : ranks) rank.mapped->deadline_ns = 300000000;
    CUdeviceptr buffers[2];
    for (Rank& rank : ranks) {
        OK(cuCtxSetCurrent(rank.context));
        OK(cuMemAlloc_v2(&buffers[rank.rank], 64));
        OK(rank.start(rank.sum("f32_sum"), buffers[rank.rank], buffers[rank.rank], 16, 16));
    }
    for (Rank& rank : ranks) {
        OK(cuCtxSetCurrent(rank.context));
        OK(cuStreamSynchronize(rank.stream));
    }
    EXPECT(ranks[1].mapped->record.state == FILLED && ranks[1].mapped->record.kind == KIND_LATE);
}

void codes(const std::vector<char>& image, const std::string& call) {
    if (call == "cuInit 100") {
        EXPECT_CODE(cuInit(0), 100);
        return;
    }
    int count;
    EXPECT_CODE(cuDeviceGetCount(&count), 3);
    OK(cuInit(0));
    Context* context;
    Module* module;
    CUdeviceptr memory;
    if (call == "retain 46") {
        EXPECT_CODE(cuDevicePrimaryCtxRetain(&context, 0), 46);
        return;
    }
    EXPECT_CODE(cuMemAlloc_v2(&memory, 1), 201);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    if (call == "module 0") {
        Function* function;
        OK(cuModuleLoadData(&module, image.data()));
        OK(cuModuleGetFunction(&function, module, "one_shot_push_w2_bf16_max"));
        // Compiled in, but not in this image.
        EXPECT_CODE(cuModuleGetFunction(&function, module, "one_shot_push_w3_bf16_max"), 500);
        EXPECT_CODE(cuModuleGetFunction(&function, module, "one_shot_push_w2"), 500);
    }
    if (call == "module 209") EXPECT_CODE(cuModuleLoadData(&module, image.data()), 209);
    if (call == "module 222") EXPECT_CODE(cuModuleLoadData(&module, image.data()), 222);
    if (call == "memory 2") {
        EXPECT_CODE(cuMemAlloc_v2(&memory, (1 << 20) + 1), 2);
        OK(cuMemAlloc_v2(&memory, 1 << 20));
        EXPECT_CODE(cuMemAlloc_v2(&memory, 1), 2);
    }
    if (call == "third alloc 999") {
        OK(cuMemAlloc_v2(&memory, 1));
        EXPECT_CODE(cuMemAlloc_v2(&memory, 1), 2);
        OK(cuMemAlloc_v2(&memory, 1));
        EXPECT_CODE(cuMemAlloc_v2(&memory, 1), 999);
    }
    if (call == "vmm 801") {
        int has;
        OK(cuDeviceGetAttribute(&has, 102, 0));
        EXPECT(has == 0);
        EXPECT_CODE(cuMemAddressReserve(&memory, 65536, 0, 0, 0), 801);
    }
    if (call == "ipc 801") {
        IpcHandle handle;
        OK(cuMemAlloc_v2(&memory, 1));
        EXPECT_CODE(cuIpcGetMemHandle(&handle, memory), 801);
    }
    if (call == "refused 101") {
        int can;
        OK(cuDeviceCanAccessPeer(&can, 1, 0));
        EXPECT(can == 0);
        OK(cuDeviceCanAccessPeer(&can, 0, 1));
        EXPECT(can == 1);
        Shared shared;
        shared.make(0, 1);
        shared.map(0);
        const Access access = {{1, 1}, 3};
        EXPECT_CODE(cuMemSetAccess(shared.at, shared.bytes, &access, 1), 101);
    }
}

void launch_error(const std::vector<char>& image) {
    std::vector<Rank> ranks = ranks_here(1, image);
    CUdeviceptr buffer;
    OK(cuMemAlloc_v2(&buffer, 4));
    OK(ranks[0].start(ranks[0].sum("f32_sum"), buffer, buffer, 1, 1));
    OK(cuStreamSynchronize(ranks[0].stream));
    OK(ranks[0].start(ranks[0].sum("f32_sum"), buffer, buffer, 1, 1));
    EXPECT_CODE(cuStreamSynchronize(ranks[0].stream), 719);
    EXPECT_CODE(cuMemFree_v2(buffer), 719);
}

// A sum that may start early: whether it does in a stream, in a capture, and with what no kernel may be asked for.
void early(const std::vector<char>& image, const std::string& codes) {
    std::istringstream words(codes);
    int in_stream, in_capture;
    EXPECT(words >> in_stream >> in_capture);
    std::vector<Rank> ranks = ranks_here(1, image);
    Rank& rank = ranks[0];
    const auto start = [&rank](const Attributes& attributes) {
        CUdeviceptr at;
        OK(cuMemAlloc_v2(&at, 400));
        rank.attributes = attributes;
        return rank.start(rank.sum("f32_sum"), at, at, 100, 100);
    };
    const LaunchAttribute not_early = {6, 0, {0}}, is_early = {6, 0, {1}}, unknown = {60, 0, {0}};
    OK(start({not_early}));
    EXPECT_CODE(start({is_early}), in_stream);
    EXPECT_CODE(start({not_early, unknown}), 1);
    LaunchConfig config = {{1, 1, 1}, {8, 1, 1}, 0, rank.stream, nullptr, 1};
    void* parameters[] = {&config};
    EXPECT_CODE(cuLaunchKernelEx(&config, rank.sum("f32_sum"), parameters, nullptr), 1);
    EXPECT_CODE(cuLaunchKernelEx(nullptr, rank.sum("f32_sum"), parameters, nullptr), 1);
    OK(cuStreamSynchronize(rank.stream));
    rank.attributes = {in_stream == 0 ? is_early : not_early};
    sum_here(ranks, 1000, 0);

    Graph* graph;
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, 400));
    OK(cuStreamBeginCapture_v2(rank.stream, 1));
    rank.attributes = {is_early};
    EXPECT_CODE(rank.start(rank.sum("f32_sum"), at, at, 100, 100), in_capture);
    OK(cuStreamEndCapture(rank.stream, &graph));
}

// Events order two streams of two devices, and have times.
void events(const std::vector<char>& image) {
    std::vector<Rank> ranks = ranks_here(2, image);
    CUdeviceptr buffers[2];
    Event *done, *later;
    Stream* follower;
    float milliseconds;
    for (Rank& rank : ranks) {
        OK(cuCtxSetCurrent(rank.context));
        OK(cuMemAlloc_v2(&buffers[rank.rank], 64));
    }
    OK(cuCtxSetCurrent(ranks[0].context));
    OK(cuEventCreate(&done, 0));
    OK(cuEventCreate(&later, 0));
    OK(cuStreamCreate(&follower, 1));
    EXPECT_CODE(cuEventElapsedTime(&milliseconds, done, later), 400);
    OK(ranks[0].start(ranks[0].sum("f32_sum"), buffers[0], buffers[0], 16, 16));
    OK(cuEventRecord(done, ranks[0].stream));
    OK(cuStreamWaitEvent(follower, done, 0));
    OK(cuMemsetD32Async(buffers[0], 9, 16, follower));
    OK(cuEventRecord(later, follower));
    EXPECT_CODE(cuEventQuery(done), 600);
    EXPECT_CODE(cuStreamQuery(follower), 600);
    OK(ranks[1].start(ranks[1].sum("f32_sum"), buffers[1], buffers[1], 16, 16));
    OK(cuCtxSetCurrent(ranks[0].context));
    OK(cuStreamSynchronize(follower));
    OK(cuEventQuery(done));
    u32 words[16];
    OK(cuMemcpyDtoH_v2(words, buffers[0], 64));
    for (const u32 word : words) EXPECT(word == 9);
    OK(cuEventElapsedTime(&milliseconds, done, later));
    EXPECT(milliseconds >= 0);
    // Whoever has seen the end of the last operation, or of all, finds the stream idle.
    for (int round = 0; round < 500; ++round) {
        OK(cuEventRecord(done, follower));
        OK(cuEventSynchronize(done));
        OK(cuStreamQuery(follower));
        OK(cuMemsetD32Async(buffers[0], 9, 16, follower));
        OK(cuCtxSynchronize());
        OK(cuStreamQuery(follower));
    }
    OK(cuEventDestroy_v2(done));
    OK(cuEventDestroy_v2(later));
    OK(cuStreamDestroy_v2(follower));
}

// 16-bit numbers against their definition: the value of each, and what stands between two neighbours.
void numbers() {
    for (u32 bits = 0; bits < 0x7C00; ++bits) {
        const u32 exponent = bits >> 10, fraction = bits & 0x3FF;
        const double wanted = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, static_cast<int>(exponent) - 25);
        const float low = widen_half(static_cast<u16>(bits));
        EXPECT(low == wanted && widen_half(static_cast<u16>(bits | 0x8000)) == -wanted && round_half(low) == bits);
        EXPECT(round_half(-low) == (bits | 0x8000));
        // Above the largest stands what would be 2^16.
        const float high = bits == 0x7BFF ? 65536.0f : widen_half(static_cast<u16>(bits + 1));
        const float middle = (low + high) / 2;
        EXPECT(round_half(middle) == ((bits & 1) ? bits + 1 : bits));
        EXPECT(round_half(std::nextafter(middle, low)) == bits && round_half(std::nextafter(middle, high)) == bits + 1);
    }
    EXPECT(std::isinf(widen_half(0x7C00)) && std::isnan(widen_half(0x7C01)) && round_half(1e30f) == 0x7C00);
    EXPECT(round_half(-INFINITY) == 0xFC00);
}

// Returns once all lanes of rank 0 have told the owner of the inbox that they run.
void await_headers(Rank& owner) {
    std::vector<u8> region(REGION_BYTES);
    for (u32 lane = 0; lane < LANES;) {
        OK(cuMemcpyDtoH_v2(region.data(), owner.inbox.at + offsetof(Inbox, data), region.size()));
        u64 headers[2];
        for (u32 half = 0; half < 2; ++half) std::memcpy(&headers[half], &region[(half * LANES + lane) * LANE_BYTES], 8);
        if ((headers[0] | headers[1]) != 0) ++lane;
    }
}

// With two places on the device, two lanes of one rank take them; the other rank can't start while the first waits for it.
void resident(const std::vector<char>& image) {
    OK(cuInit(0));
    std::vector<Rank> ranks(2);
    for (u32 rank = 0; rank < 2; ++rank) ranks[rank].open(rank, 2, 0, image);
    ranks[0].inboxes[1] = ranks[1].inbox.at;
    ranks[1].inboxes[0] = ranks[0].inbox.at;
    ranks[0].mapped->deadline_ns = 200000000;
    CUdeviceptr buffers[2];
    for (Rank& rank : ranks) OK(cuMemAlloc_v2(&buffers[rank.rank], 400));
    // Memory comes with what was in it, which is no header that rank 0 wrote.
    const std::vector<u8> clear(REGION_BYTES);
    OK(cuMemcpyHtoD_v2(ranks[1].inbox.at + offsetof(Inbox, data), clear.data(), clear.size()));
    OK(ranks[0].start(ranks[0].sum("f32_sum"), buffers[0], buffers[0], 100, 100));
    await_headers(ranks[1]);
    OK(ranks[1].start(ranks[1].sum("f32_sum"), buffers[1], buffers[1], 100, 100));
    OK(cuStreamSynchronize(ranks[0].stream));
    OK(cuStreamSynchronize(ranks[1].stream));
    EXPECT(ranks[0].mapped->record.state == FILLED && ranks[0].mapped->record.kind == KIND_LATE);
}

// Without `symbol` in the library, others are still found.
void missing(const std::string& symbol) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(library != nullptr && dlsym(library, symbol.c_str()) == nullptr && dlsym(library, "cuInit") != nullptr);
}

}  // namespace

int main(int count, char** arguments) {
    EXPECT(count >= 3);
    const std::string what = arguments[1], argument = count > 3 ? arguments[3] : "";
    const std::vector<char> image = read_file(arguments[2]);
    if (what == "sums") sums(image, static_cast<u32>(std::atoi(argument.c_str())));
    else if (what == "halves") halves(image);
    else if (what == "descriptors") processes(image, false);
    else if (what == "handles") processes(image, true);
    else if (what == "bounds") bounds(image);
    else if (what == "lie") lies(image, argument);
    else if (what == "unheard") unheard(image);
    else if (what == "registered") registered(image, argument);
    else if (what == "registering") registering(argument);
    else if (what == "code") codes(image, argument);
    else if (what == "exclusive") exclusive();
    else if (what == "launch_error") launch_error(image);
    else if (what == "events") events(image);
    else if (what == "early") early(image, argument);
    else if (what == "numbers") numbers();
    else if (what == "resident") resident(image);
    else if (what == "stalled") stalled(image, argument);
    else if (what == "missing") missing(argument);
    else if (what == "forked") forked();
    else if (what == "graph") graphs(image, argument);
    else EXPECT(!"a case");
    std::puts("well");
    return 0;
}
