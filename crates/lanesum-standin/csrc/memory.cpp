#include "memory.hpp"

#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "lies.hpp"

namespace standin {
namespace {

struct Trailer {
    char magic[16];
    u64 bytes, identity;
    int device, unused;
};
const char MAGIC[16] = "lanesum standin";

struct Ranges {
    std::shared_mutex mutex;
    std::map<u64, Range> all;  // by start
};
Ranges& ranges() {
    static Ranges* const all = new Ranges;
    return *all;
}

std::atomic<u64>& used(int device) {
    static std::atomic<u64>* const all = new std::atomic<u64>[DEVICES_MAX]();
    return all[device];
}

// With the mutex held.
Range* at(u64 address) {
    auto& all = ranges().all;
    auto next = all.upper_bound(address);
    if (next == all.begin()) return nullptr;
    Range& range = (--next)->second;
    return address - range.start < range.bytes ? &range : nullptr;
}

bool permits(const Range& range, int device, bool stores) {
    return ((stores ? range.writers : range.readers) >> device & 1) != 0;
}

// Of the 64 KiB around an address, in the view.
u32 place_of(u64 address) { return static_cast<u32>((address >> 16) * 0x9E3779B97F4A7C15ull >> 55) % View::SIGHTS; }

// Remembers what every access of this block may do from now on, until any range changes.
void remember(View& view, const Range& range, u64 address, u64 seen) {
    View::Sight& sight = view.sights[place_of(address)];
    sight.low = range.start;
    sight.high = range.start + range.bytes;
    sight.seen = seen;
    sight.stores = permits(range, view.device, true);
}

bool hit(const View& view, u64 address, u32 size, bool stores) {
    const View::Sight& sight = view.sights[place_of(address)];
    return address >= sight.low && address + size <= sight.high && (!stores || sight.stores) &&
           sight.seen == generation.load(std::memory_order_acquire);
}

// With the mutex held: the range of all the bytes, if this device may touch it.
Range* permitted(int device, u64 address, u64 size, bool stores) {
    Range* range = at(address);
    if (range == nullptr || size > range->start + range->bytes - address) return nullptr;
    return permits(*range, device, stores) ? range : nullptr;
}

// With the mutex held.
void add(const Range& range) {
    Range& added = ranges().all[range.start] = range;
    if (lies_mirror(range.owner)) {
        added.mirror.reset(new u8[range.bytes](), [](u8* bytes) { delete[] bytes; });
        // Of memory that the caller has had before, a copy.
        if (range.owner == REGISTERED) std::memcpy(added.mirror.get(), reinterpret_cast<void*>(range.start), range.bytes);
    }
    ++generation;
}

// GPUs give out memory as they got it back. What stands in it here are words that communicators leave there: counts of all chunks, of
// the first epochs. Of large memory only the beginning.
bool litter(int descriptor, off_t bytes) {
    std::vector<u64> words(8192);
    for (size_t index = 0; index < words.size(); ++index) words[index] = (1 + index % 2) << 8 | 32;
    const off_t most = bytes < (64 << 20) ? bytes : 64 << 20;
    for (off_t at = 0; at < most;) {
        const size_t rest = static_cast<size_t>(most - at), size = words.size() * 8;
        const ssize_t written = pwrite(descriptor, words.data(), rest < size ? rest : size, at);
        if (written <= 0) return false;
        at += written;
    }
    return true;
}

}  // namespace

std::atomic<u64> generation{1};

CUresult Backing::create(int device, u64 bytes, std::shared_ptr<Backing>* out) {
    std::shared_ptr<Backing> made(new Backing);
    made->device_ = device;
    made->bytes_ = bytes;
    // What the driver keeps for itself is not modelled; neither is what other processes have taken.
    if (bytes > config().memory || used(device).fetch_add(bytes) > config().memory - bytes) {
        if (bytes <= config().memory) used(device) -= bytes;
        return OUT_OF_MEMORY;
    }
    made->counted_ = true;
    counters().bytes += bytes;
    Trailer trailer = {};
    std::memcpy(trailer.magic, MAGIC, sizeof trailer.magic);
    if (getrandom(&trailer.identity, sizeof trailer.identity, 0) != sizeof trailer.identity) return OPERATING_SYSTEM;
    trailer.bytes = bytes;
    trailer.device = device;
    made->identity_ = trailer.identity;
    made->descriptor_ = memfd_create("lanesum-standin", MFD_CLOEXEC);
    if (made->descriptor_ < 0) return OPERATING_SYSTEM;
    const off_t end = static_cast<off_t>(made->pages());
    if (ftruncate(made->descriptor_, end + 4096) != 0) return OUT_OF_MEMORY;
    if (pwrite(made->descriptor_, &trailer, sizeof trailer, end) != sizeof trailer) return OPERATING_SYSTEM;
    if (!litter(made->descriptor_, end)) return OUT_OF_MEMORY;
    *out = std::move(made);
    return SUCCESS;
}

CUresult Backing::import(int descriptor, std::shared_ptr<Backing>* out) {
    struct stat status;
    Trailer trailer;
    if (fstat(descriptor, &status) != 0 || status.st_size < 4096) return INVALID_VALUE;
    if (pread(descriptor, &trailer, sizeof trailer, status.st_size - 4096) != sizeof trailer) return INVALID_VALUE;
    if (std::memcmp(trailer.magic, MAGIC, sizeof MAGIC) != 0) return INVALID_VALUE;
    if (trailer.device < 0 || trailer.device >= config().devices) return INVALID_DEVICE;
    std::shared_ptr<Backing> made(new Backing);
    made->device_ = trailer.device;
    made->bytes_ = trailer.bytes;
    made->identity_ = trailer.identity;
    made->descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (made->descriptor_ < 0) return OPERATING_SYSTEM;
    *out = std::move(made);
    return SUCCESS;
}

Backing::~Backing() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!counted_) return;
    used(device_) -= bytes_;
    counters().bytes -= bytes_;
}

void add_range(const Range& range) {
    std::lock_guard<std::shared_mutex> guard(ranges().mutex);
    add(range);
}

bool add_apart(const Range& range, Range* other) {
    std::lock_guard<std::shared_mutex> guard(ranges().mutex);
    const auto next = ranges().all.lower_bound(range.start + range.bytes);
    if (next != ranges().all.begin()) {
        const Range& before = std::prev(next)->second;
        if (before.start + before.bytes > range.start) {
            *other = before;
            return false;
        }
    }
    add(range);
    return true;
}

bool remove_range(u64 start, Origin origin, Range* removed) {
    std::lock_guard<std::shared_mutex> guard(ranges().mutex);
    const auto found = ranges().all.find(start);
    if (found == ranges().all.end() || found->second.origin != origin) return false;
    *removed = found->second;
    ranges().all.erase(found);
    ++generation;
    return true;
}

bool find_range(u64 address, Range* found) {
    std::shared_lock<std::shared_mutex> guard(ranges().mutex);
    const Range* range = at(address);
    if (range != nullptr) *found = *range;
    return range != nullptr;
}

int grant(u64 start, u64 bytes, int device, bool readers, bool writers) {
    std::lock_guard<std::shared_mutex> guard(ranges().mutex);
    int count = 0;
    const u64 bit = 1ull << device;
    for (auto next = ranges().all.lower_bound(start); next != ranges().all.end() && next->first < start + bytes; ++next) {
        Range& range = next->second;
        range.readers = readers ? range.readers | bit : range.readers & ~bit;
        range.writers = writers ? range.writers | bit : range.writers & ~bit;
        ++count;
    }
    ++generation;
    return count;
}

bool accessible(int device, u64 address, u64 bytes, bool stores) {
    std::shared_lock<std::shared_mutex> guard(ranges().mutex);
    return bytes == 0 || permitted(device, address, bytes, stores) != nullptr;
}

u64 reserve(u64 bytes, u64 alignment) {
    const u64 all = bytes + alignment + 2 * 4096;
    void* memory = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 0;
    const u64 base = reinterpret_cast<u64>(memory);
    const u64 start = (base + 4096 + alignment - 1) / alignment * alignment;
    const u64 low = start - 4096, high = start + bytes + 4096;
    if (low > base) munmap(memory, low - base);
    if (base + all > high) munmap(reinterpret_cast<void*>(high), base + all - high);
    return start;
}

void unreserve(u64 start, u64 bytes) { munmap(reinterpret_cast<void*>(start - 4096), bytes + 2 * 4096); }

bool look_up(View& view, const void* from, u32 size, const void** place) {
    const u64 address = reinterpret_cast<u64>(from);
    *place = from;
    if (hit(view, address, size, false)) return true;
    std::shared_lock<std::shared_mutex> guard(ranges().mutex);
    const u64 seen = generation.load(std::memory_order_relaxed);
    const Range* range = permitted(view.device, address, size, false);
    if (range == nullptr) return false;
    const Lie lie = lie_of(view.device, range->owner);
    if (lie == Lie::None) remember(view, *range, address, seen);
    if (lie == Lie::Mirror) *place = range->mirror.get() + (address - range->start);
    return true;
}

bool look_up_store(View& view, void* to, u32 size, u64 word, void** place) {
    const u64 address = reinterpret_cast<u64>(to);
    *place = to;
    if (hit(view, address, size, true)) return true;
    std::shared_lock<std::shared_mutex> guard(ranges().mutex);
    const u64 seen = generation.load(std::memory_order_relaxed);
    const Range* range = permitted(view.device, address, size, true);
    if (range == nullptr) return false;
    switch (lie_of(view.device, range->owner)) {
        case Lie::None:
            remember(view, *range, address, seen);
            break;
        case Lie::Drop:
            *place = nullptr;
            break;
        case Lie::Mirror:
            *place = range->mirror.get() + (address - range->start);
            break;
        case Lie::Delay:
            store_late(view.device, to, size, word);
            *place = nullptr;
            break;
        case Lie::Tear:
            std::memcpy(to, &word, (size + 1) / 2);
            *place = nullptr;
            break;
    }
    return true;
}

}  // namespace standin
