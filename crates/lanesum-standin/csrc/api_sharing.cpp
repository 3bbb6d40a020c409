// Virtual memory management and inter-process handles: the two ways by which memory of one rank reaches another.
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.hpp"

namespace standin {
namespace {

struct Location {
    int type, id;  // type 1: a device
};
struct Properties {
    int type;     // 1: pinned
    int handles;  // bits of kinds of shareable handles; 1: file descriptors
    Location location;
    void* unused;
    u8 flags[8];
};
struct Access {
    Location location;
    int flags;  // 0, 1 (read), 3 (read and write)
};
static_assert(sizeof(Properties) == 32 && sizeof(Access) == 12, "as in the driver's header");

struct Handle {
    std::shared_ptr<Backing> backing;
    bool shareable;
};

struct Books {
    std::mutex mutex;
    std::set<Handle*> handles;
    std::map<u64, u64> reservations;  // start -> bytes
};
Books& books() {
    static Books* const all = new Books;
    return *all;
}

bool whole(u64 bytes) { return bytes != 0 && bytes % config().granularity == 0; }

bool sound(const Properties* properties) {
    return properties != nullptr && properties->type == 1 && properties->location.type == 1 &&
           properties->location.id >= 0 && properties->location.id < config().devices;
}

u64 enter_handle(std::shared_ptr<Backing> backing, bool shareable) {
    Handle* const made = new Handle{std::move(backing), shareable};
    std::lock_guard<std::mutex> guard(books().mutex);
    books().handles.insert(made);
    ++counters().allocations;
    return reinterpret_cast<u64>(made);
}

bool handle_of(u64 word, Handle* out) {
    std::lock_guard<std::mutex> guard(books().mutex);
    Handle* const handle = reinterpret_cast<Handle*>(word);
    if (books().handles.count(handle) == 0) return false;
    *out = *handle;
    return true;
}

bool reserved(u64 start, u64 bytes) {
    std::lock_guard<std::mutex> guard(books().mutex);
    auto next = books().reservations.upper_bound(start);
    if (next == books().reservations.begin()) return false;
    --next;
    return start >= next->first && start + bytes <= next->first + next->second;
}

// What a rank hands to another process: which descriptor of which process, and whose memory it must be.
struct IpcHandle {
    char magic[16];
    u64 identity;
    int process, descriptor;
    u8 unused[32];
};
static_assert(sizeof(IpcHandle) == 64, "as in the driver's header");
const char IPC_MAGIC[16] = "lanesum ipc";

// Opens the memory behind a handle.
CUresult open_backing(const IpcHandle& handle, std::shared_ptr<Backing>* out) {
    const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
    const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return INVALID_VALUE;
    const CUresult imported = Backing::import(descriptor, out);
    close(descriptor);
    if (imported != SUCCESS) return imported;
    return (*out)->identity() == handle.identity ? SUCCESS : INVALID_VALUE;
}

}  // namespace
}  // namespace standin

using namespace standin;

#define LANESUM_VMM(name)  \
    LANESUM_ENTER(name);   \
    if (!config().vmm) return NOT_SUPPORTED

#define LANESUM_IPC(name)  \
    LANESUM_ENTER(name);   \
    if (!config().ipc) return NOT_SUPPORTED

LANESUM_API cuMemGetAllocationGranularity(size_t* granularity, const Properties* properties, int option) {
    LANESUM_VMM(cuMemGetAllocationGranularity);
    if (granularity == nullptr || !sound(properties) || option < 0 || option > 1) return INVALID_VALUE;
    *granularity = config().granularity;
    return SUCCESS;
}

LANESUM_API cuMemCreate(u64* handle, size_t bytes, const Properties* properties, u64 flags) {
    LANESUM_VMM(cuMemCreate);
    if (handle == nullptr || flags != 0 || !sound(properties) || !whole(bytes)) return INVALID_VALUE;
    const int device = properties->location.id;
    if (const int dead = context_of(device).dead.load()) return dead;
    std::shared_ptr<Backing> backing;
    if (const CUresult failed = Backing::create(device, bytes, &backing)) return failed;
    *handle = enter_handle(std::move(backing), (properties->handles & 1) != 0);
    return SUCCESS;
}

LANESUM_API cuMemRelease(u64 word) {
    LANESUM_VMM(cuMemRelease);
    Handle* const handle = reinterpret_cast<Handle*>(word);
    std::lock_guard<std::mutex> guard(books().mutex);
    if (books().handles.erase(handle) == 0) return INVALID_VALUE;
    --counters().allocations;
    delete handle;
    return SUCCESS;
}

LANESUM_API cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr, u64 flags) {
    LANESUM_VMM(cuMemAddressReserve);
    if (out == nullptr || flags != 0 || !whole(bytes)) return INVALID_VALUE;
    if ((alignment & (alignment - 1)) != 0) return INVALID_VALUE;
    const u64 start = reserve(bytes, alignment > config().granularity ? alignment : config().granularity);
    if (start == 0) return OUT_OF_MEMORY;
    std::lock_guard<std::mutex> guard(books().mutex);
    books().reservations[start] = bytes;
    ++counters().allocations;
    *out = start;
    return SUCCESS;
}

LANESUM_API cuMemAddressFree(CUdeviceptr start, size_t bytes) {
    LANESUM_VMM(cuMemAddressFree);
    std::lock_guard<std::mutex> guard(books().mutex);
    const auto found = books().reservations.find(start);
    if (found == books().reservations.end() || found->second != bytes) return INVALID_VALUE;
    Range range;
    for (u64 address = start; address < start + bytes; address += config().granularity) {
        if (find_range(address, &range)) return INVALID_VALUE;
    }
    books().reservations.erase(found);
    unreserve(start, bytes);
    --counters().allocations;
    return SUCCESS;
}

LANESUM_API cuMemMap(CUdeviceptr start, size_t bytes, size_t offset, u64 word, u64 flags) {
    LANESUM_VMM(cuMemMap);
    Handle handle;
    if (!handle_of(word, &handle) || offset != 0 || flags != 0) return INVALID_VALUE;
    if (bytes != handle.backing->bytes() || start % config().granularity != 0) return INVALID_VALUE;
    if (!reserved(start, bytes)) return INVALID_VALUE;
    Range range;
    for (u64 address = start; address < start + bytes; address += config().granularity) {
        if (find_range(address, &range)) return INVALID_VALUE;
    }
    void* memory = mmap(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        handle.backing->descriptor(), 0);
    if (memory == MAP_FAILED) return OUT_OF_MEMORY;
    range = Range();
    range.start = start;
    range.bytes = bytes;
    range.origin = Origin::Mapping;
    range.backing = handle.backing;
    range.owner = range.opener = handle.backing->device();
    // Nobody may touch it before cuMemSetAccess.
    add_range(range);
    ++counters().allocations;
    return SUCCESS;
}

LANESUM_API cuMemUnmap(CUdeviceptr start, size_t bytes) {
    LANESUM_VMM(cuMemUnmap);
    Range range;
    if (!find_range(start, &range) || range.start != start || range.bytes != bytes) return INVALID_VALUE;
    if (!remove_range(start, Origin::Mapping, &range)) return INVALID_VALUE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(reinterpret_cast<void*>(start), bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) return OPERATING_SYSTEM;
    --counters().allocations;
    return SUCCESS;
}

LANESUM_API cuMemSetAccess(CUdeviceptr start, size_t bytes, const Access* access, size_t count) {
    LANESUM_VMM(cuMemSetAccess);
    Range range;
    if (access == nullptr || count == 0) return INVALID_VALUE;
    if (!find_range(start, &range) || range.origin != Origin::Mapping) return INVALID_VALUE;
    for (size_t index = 0; index < count; ++index) {
        const Access& one = access[index];
        if (one.location.type != 1 || one.location.id < 0 || one.location.id >= config().devices) return INVALID_DEVICE;
        if (one.flags != 0 && one.flags != 1 && one.flags != 3) return INVALID_VALUE;
        if (config().refused[one.location.id][range.owner]) return INVALID_DEVICE;
        if (grant(start, bytes, one.location.id, one.flags != 0, one.flags == 3) == 0) return INVALID_VALUE;
    }
    return SUCCESS;
}

LANESUM_API cuMemExportToShareableHandle(void* out, u64 word, int type, u64 flags) {
    LANESUM_VMM(cuMemExportToShareableHandle);
    Handle handle;
    if (out == nullptr || type != 1 || flags != 0) return INVALID_VALUE;
    if (!handle_of(word, &handle) || !handle.shareable) return INVALID_VALUE;
    const int descriptor = fcntl(handle.backing->descriptor(), F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) return OPERATING_SYSTEM;
    *static_cast<int*>(out) = descriptor;
    return SUCCESS;
}

LANESUM_API cuMemImportFromShareableHandle(u64* out, void* word, int type) {
    LANESUM_VMM(cuMemImportFromShareableHandle);
    if (out == nullptr || type != 1) return INVALID_VALUE;
    std::shared_ptr<Backing> backing;
    const int descriptor = static_cast<int>(reinterpret_cast<u64>(word));
    if (const CUresult failed = Backing::import(descriptor, &backing)) return failed;
    *out = enter_handle(std::move(backing), true);
    return SUCCESS;
}

LANESUM_API cuIpcGetMemHandle(IpcHandle* handle, CUdeviceptr address) {
    LANESUM_IPC(cuIpcGetMemHandle);
    LANESUM_CONTEXT;
    Range range;
    if (handle == nullptr || !find_range(address, &range) || range.origin != Origin::Allocation) return INVALID_VALUE;
    *handle = IpcHandle();
    std::memcpy(handle->magic, IPC_MAGIC, sizeof IPC_MAGIC);
    handle->identity = range.backing->identity();
    handle->process = getpid();
    handle->descriptor = range.backing->descriptor();
    return SUCCESS;
}

LANESUM_API cuIpcOpenMemHandle_v2(CUdeviceptr* out, IpcHandle handle, unsigned flags) {
    LANESUM_IPC(cuIpcOpenMemHandle_v2);
    LANESUM_CONTEXT;
    if (out == nullptr || flags != 1) return INVALID_VALUE;
    if (std::memcmp(handle.magic, IPC_MAGIC, sizeof IPC_MAGIC) != 0) return INVALID_VALUE;
    if (handle.process == getpid()) return INVALID_CONTEXT;
    Range range;
    if (const CUresult failed = open_backing(handle, &range.backing)) return failed;
    range.owner = range.backing->device();
    if (config().refused[context->device][range.owner]) return PEER_ACCESS_UNSUPPORTED;
    const u64 mapped = range.backing->pages();
    range.start = reserve(mapped, 4096);
    if (range.start == 0) return OUT_OF_MEMORY;
    void* memory = mmap(reinterpret_cast<void*>(range.start), mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        range.backing->descriptor(), 0);
    if (memory == MAP_FAILED) {
        unreserve(range.start, mapped);
        return OUT_OF_MEMORY;
    }
    range.bytes = range.backing->bytes();
    range.origin = Origin::Ipc;
    range.opener = context->device;
    range.readers = range.writers = 1ull << context->device;
    add_range(range);
    ++counters().allocations;
    *out = range.start;
    return SUCCESS;
}

LANESUM_API cuIpcCloseMemHandle(CUdeviceptr address) {
    LANESUM_IPC(cuIpcCloseMemHandle);
    LANESUM_CONTEXT;
    Range range;
    if (!remove_range(address, Origin::Ipc, &range)) return INVALID_VALUE;
    unreserve(address, range.backing->pages());
    --counters().allocations;
    return SUCCESS;
}
