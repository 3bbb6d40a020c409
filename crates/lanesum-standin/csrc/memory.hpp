// Memory of devices: files without a name, so that other processes can map them, and the ranges that this process may touch.
#pragma once
#include <memory>

#include "driver.hpp"

namespace standin {

// One piece of device memory: the file's content, and a last page that tells any process whose it is.
class Backing {
  public:
    // Null with a code if the device has no more, or the system no more descriptors.
    static CUresult create(int device, u64 bytes, std::shared_ptr<Backing>* out);
    // Takes a descriptor from elsewhere, and keeps a duplicate.
    static CUresult import(int descriptor, std::shared_ptr<Backing>* out);
    ~Backing();
    Backing(const Backing&) = delete;
    Backing& operator=(const Backing&) = delete;

    int device() const { return device_; }
    u64 bytes() const { return bytes_; }
    u64 pages() const { return (bytes_ + 4095) / 4096 * 4096; }
    u64 identity() const { return identity_; }
    int descriptor() const { return descriptor_; }

  private:
    Backing() = default;
    int descriptor_ = -1, device_ = -1;
    u64 bytes_ = 0, identity_ = 0;
    bool counted_ = false;  // made here, so that it counts for the device's memory
};

enum class Origin : u8 { Allocation, Mapping, Ipc, Host, Registered };

// What a live range of addresses is.
struct Range {
    u64 start = 0, bytes = 0;
    Origin origin = Origin::Host;
    std::shared_ptr<Backing> backing;  // null for host memory
    int owner = HOST;                  // device, HOST or REGISTERED
    int opener = -1;                   // device that mapped it
    u64 readers = 0, writers = 0;      // bits of devices
    std::shared_ptr<u8> mirror;        // where stores go that lie, see Lie::Mirror
};

// All ranges of this process.
void add_range(const Range& range);
// The same, unless it overlaps one: that is `other` then.
bool add_apart(const Range& range, Range* other);
// Whether a range of this origin started there; it is gone then.
bool remove_range(u64 start, Origin origin, Range* removed);
bool find_range(u64 address, Range* found);
// Lets `device` into the ranges that lie within; how many there were.
int grant(u64 start, u64 bytes, int device, bool readers, bool writers);
// Whether device memory or mapped host memory lies at all these bytes, and `device` may touch it.
bool accessible(int device, u64 address, u64 bytes, bool stores);
// Ends when the process does; changes whenever a range does.
extern std::atomic<u64> generation;

// Reserves addresses with an unmapped page on both sides; 0 if there are none.
u64 reserve(u64 bytes, u64 alignment);
void unreserve(u64 start, u64 bytes);

// A block's last hits: most accesses of a kernel go to few ranges, though to all parts of them.
struct View {
    static const u32 SIGHTS = 512;
    struct Sight {
        u64 low = 1, high = 0;
        u64 seen = 0;  // generation
        bool stores = false;
    };
    int device = 0;
    Sight sights[SIGHTS];
};

// As standin::source and standin::target; `kernel` is named if the access is refused. False: it is.
bool look_up(View& view, const void* from, u32 size, const void** place);
bool look_up_store(View& view, void* to, u32 size, u64 word, void** place);

}  // namespace standin
