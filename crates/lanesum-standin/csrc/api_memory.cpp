// Memory of devices and of the host, copies and fills.
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

#include "captures.hpp"
#include "memory.hpp"

namespace standin {
namespace {

void* place(u64 address) { return reinterpret_cast<void*>(address); }

u64 pages(u64 bytes) { return (bytes + 4095) / 4096 * 4096; }

// What is enqueued finds its memory gone if the caller has freed it meanwhile.
bool still(Context* context, u64 address, u64 bytes, bool stores) {
    if (accessible(context->device, address, bytes, stores)) return true;
    std::fprintf(stderr, "stand-in: a copy or fill outside every allocation: %p\n", place(address));
    int healthy = 0;
    context->dead.compare_exchange_strong(healthy, ILLEGAL_ADDRESS);
    return false;
}

bool of_host(const Range& range) { return range.origin == Origin::Host || range.origin == Origin::Registered; }

// Whether host memory is the driver's own or registered; everything else is staged by the calling thread.
bool pinned(const void* host) {
    Range range;
    return find_range(reinterpret_cast<u64>(host), &range) && of_host(range);
}

// Whether all the pages are mapped: for them `msync` does nothing else on Linux.
bool mapped(u64 start, u64 bytes) {
    const u64 page = start / 4096 * 4096;
    return msync(place(page), start + bytes - page, MS_ASYNC) == 0;
}

CUresult copy_in(Context* context, Stream* stream, u64 to, const void* from, u64 bytes) {
    if (!accessible(context->device, to, bytes, true)) return INVALID_VALUE;
    if (pinned(from)) {
        return submit(stream, [=](bool alive) {
            if (alive && still(context, to, bytes, true)) std::memcpy(place(to), from, bytes);
        });
    }
    // A replay would not find what was staged: nothing but pinned memory is captured.
    if (const CUresult refused = refuse_in_capture(stream)) return refused;
    const u8* const first = static_cast<const u8*>(from);
    auto staged = std::make_shared<std::vector<u8>>(first, first + bytes);
    return submit(stream, [=](bool alive) {
        if (alive && still(context, to, bytes, true)) std::memcpy(place(to), staged->data(), bytes);
    });
}

CUresult copy_out(Context* context, Stream* stream, void* to, u64 from, u64 bytes) {
    if (!accessible(context->device, from, bytes, false)) return INVALID_VALUE;
    const bool waits = !pinned(to);
    if (waits) {
        if (const CUresult refused = refuse_in_capture(stream)) return refused;
    }
    const CUresult enqueued = submit(stream, [=](bool alive) {
        if (alive && still(context, from, bytes, false)) std::memcpy(to, place(from), bytes);
    });
    if (enqueued != SUCCESS || !waits) return enqueued;
    stream->drain();
    return context->dead.load();
}

template <typename Word>
CUresult fill(Context* context, Stream* stream, u64 to, Word word, u64 count) {
    const u64 bytes = count * sizeof(Word);
    if (to % sizeof(Word) != 0 || !accessible(context->device, to, bytes, true)) return INVALID_VALUE;
    return submit(stream, [=](bool alive) {
        if (!alive || !still(context, to, bytes, true)) return;
        Word* const words = static_cast<Word*>(place(to));
        for (u64 index = 0; index < count; ++index) words[index] = word;
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

LANESUM_API cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
    LANESUM_ENTER(cuMemAlloc_v2);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (out == nullptr || bytes == 0) return INVALID_VALUE;
    Range range;
    if (const CUresult failed = Backing::create(context->device, bytes, &range.backing)) return failed;
    const u64 mapped = range.backing->pages();
    range.start = reserve(mapped, 4096);
    if (range.start == 0) return OUT_OF_MEMORY;
    void* memory = mmap(place(range.start), mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        range.backing->descriptor(), 0);
    if (memory == MAP_FAILED) {
        unreserve(range.start, mapped);
        return OUT_OF_MEMORY;
    }
    range.bytes = bytes;
    range.origin = Origin::Allocation;
    range.owner = range.opener = context->device;
    range.readers = range.writers = 1ull << context->device;
    add_range(range);
    ++counters().allocations;
    *out = range.start;
    return SUCCESS;
}

LANESUM_API cuMemFree_v2(CUdeviceptr address) {
    LANESUM_ENTER(cuMemFree_v2);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (address == 0) return SUCCESS;
    Range range;
    if (!find_range(address, &range) || range.start != address) return INVALID_VALUE;
    if (range.origin != Origin::Allocation) return INVALID_VALUE;
    // As the real driver: what runs on the device ends first.
    if (const CUresult failed = settle(context)) return failed;
    if (!remove_range(address, Origin::Allocation, &range)) return INVALID_VALUE;
    unreserve(address, range.backing->pages());
    --counters().allocations;
    return SUCCESS;
}

LANESUM_API cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
    LANESUM_ENTER(cuMemHostAlloc);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (out == nullptr || bytes == 0 || flags > 7) return INVALID_VALUE;
    Range range;
    range.start = reserve(pages(bytes), 4096);
    if (range.start == 0) return OUT_OF_MEMORY;
    if (mprotect(place(range.start), pages(bytes), PROT_READ | PROT_WRITE) != 0) {
        unreserve(range.start, pages(bytes));
        return OUT_OF_MEMORY;
    }
    range.bytes = bytes;
    range.opener = context->device;
    range.readers = range.writers = ~0ull;
    add_range(range);
    ++counters().host_allocations;
    *out = place(range.start);
    return SUCCESS;
}

LANESUM_API cuMemFreeHost(void* address) {
    LANESUM_ENTER(cuMemFreeHost);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_unsafe()) return refused;
    const u64 start = reinterpret_cast<u64>(address);
    Range range;
    if (!find_range(start, &range) || range.start != start || range.origin != Origin::Host) return INVALID_VALUE;
    if (const CUresult failed = settle(context)) return failed;
    if (!remove_range(start, Origin::Host, &range)) return INVALID_VALUE;
    unreserve(start, pages(range.bytes));
    --counters().host_allocations;
    return SUCCESS;
}

// Memory of the caller, who unregisters it before it is unmapped. Of the flags, PORTABLE (1) lets other devices in, too, and
// DEVICEMAP (2) lets kernels in; the others are of memory that is not modelled.
LANESUM_API cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
    LANESUM_ENTER(cuMemHostRegister_v2);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_unsafe()) return refused;
    const u64 start = reinterpret_cast<u64>(address);
    if (start == 0 || bytes == 0 || start + bytes < start || flags > 15) return INVALID_VALUE;
    if (flags > 3) return NOT_SUPPORTED;
    if (!mapped(start, bytes)) return INVALID_VALUE;
    Range range, other;
    range.start = start;
    range.bytes = bytes;
    range.origin = Origin::Registered;
    range.owner = REGISTERED;
    range.opener = context->device;
    if ((flags & 2) != 0) range.readers = range.writers = (flags & 1) != 0 ? ~0ull : 1ull << context->device;
    if (!add_apart(range, &other)) return of_host(other) ? ALREADY_REGISTERED : INVALID_VALUE;
    ++counters().host_allocations;
    return SUCCESS;
}

LANESUM_API cuMemHostUnregister(void* address) {
    LANESUM_ENTER(cuMemHostUnregister);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (address == nullptr) return INVALID_VALUE;
    const u64 start = reinterpret_cast<u64>(address);
    Range range;
    if (!find_range(start, &range) || range.start != start || range.origin != Origin::Registered) return NOT_REGISTERED;
    if (const CUresult failed = settle(context)) return failed;
    if (!remove_range(start, Origin::Registered, &range)) return NOT_REGISTERED;
    --counters().host_allocations;
    return SUCCESS;
}

LANESUM_API cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* address, unsigned flags) {
    LANESUM_ENTER(cuMemHostGetDevicePointer_v2);
    LANESUM_CONTEXT;
    if (out == nullptr || flags != 0 || !pinned(address)) return INVALID_VALUE;
    if (!accessible(context->device, reinterpret_cast<u64>(address), 1, true)) return INVALID_VALUE;
    *out = reinterpret_cast<u64>(address);
    return SUCCESS;
}

LANESUM_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, Stream* handle) {
    LANESUM_ENTER(cuMemcpyHtoDAsync_v2);
    LANESUM_STREAM;
    return copy_in(context, stream, to, from, bytes);
}

LANESUM_API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, Stream* handle) {
    LANESUM_ENTER(cuMemcpyDtoHAsync_v2);
    LANESUM_STREAM;
    return copy_out(context, stream, to, from, bytes);
}

LANESUM_API cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
    LANESUM_ENTER(cuMemcpyHtoD_v2);
    Stream* const handle = nullptr;
    LANESUM_STREAM;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (const CUresult failed = copy_in(context, stream, to, from, bytes)) return failed;
    stream->drain();
    return context->dead.load();
}

LANESUM_API cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
    LANESUM_ENTER(cuMemcpyDtoH_v2);
    Stream* const handle = nullptr;
    LANESUM_STREAM;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (const CUresult failed = copy_out(context, stream, to, from, bytes)) return failed;
    stream->drain();
    return context->dead.load();
}

LANESUM_API cuMemsetD32Async(CUdeviceptr to, unsigned word, size_t count, Stream* handle) {
    LANESUM_ENTER(cuMemsetD32Async);
    LANESUM_STREAM;
    return fill<u32>(context, stream, to, word, count);
}

LANESUM_API cuMemsetD8Async(CUdeviceptr to, unsigned char word, size_t count, Stream* handle) {
    LANESUM_ENTER(cuMemsetD8Async);
    LANESUM_STREAM;
    return fill<u8>(context, stream, to, word, count);
}

namespace standin {
namespace {

// CUpointer_attribute, those that anybody here may want.
CUresult tell(const Range& range, int which, u64 address, void* out) {
    const bool host = of_host(range);
    switch (which) {
        case 1: *static_cast<void**>(out) = &context_of(range.opener); return SUCCESS;  // CONTEXT
        case 2: *static_cast<unsigned*>(out) = host ? 1 : 2; return SUCCESS;            // MEMORY_TYPE
        case 3: *static_cast<u64*>(out) = address; return SUCCESS;                      // DEVICE_POINTER
        case 4:                                                                         // HOST_POINTER
            if (!host) return INVALID_VALUE;
            *static_cast<u64*>(out) = address;
            return SUCCESS;
        case 8: *static_cast<unsigned*>(out) = 0; return SUCCESS;                                    // IS_MANAGED
        case 9: *static_cast<int*>(out) = host ? range.opener : range.owner; return SUCCESS;         // DEVICE_ORDINAL
        case 11: *static_cast<u64*>(out) = range.start; return SUCCESS;                              // RANGE_START_ADDR
        case 12: *static_cast<u64*>(out) = range.bytes; return SUCCESS;                              // RANGE_SIZE
        case 13: *static_cast<int*>(out) = 1; return SUCCESS;                                        // MAPPED
        default: return INVALID_VALUE;
    }
}

}  // namespace
}  // namespace standin

LANESUM_API cuPointerGetAttribute(void* out, int which, CUdeviceptr address) {
    LANESUM_ENTER(cuPointerGetAttribute);
    LANESUM_CONTEXT;
    Range range;
    if (out == nullptr || !find_range(address, &range)) return INVALID_VALUE;
    return tell(range, which, address, out);
}
